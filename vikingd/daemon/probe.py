"""A health check for containers: `python3 -m vikingd.daemon.probe [ADDRESS]`.

ADDRESS is the address of a daemon without TLS (HOST:PORT or unix:PATH), or the URL of a gateway.
The default is $VIKINGCTL_ADDRESS. The exit code is 0 if the daemon or the gateway answers calls,
else 1. The check needs no key.
"""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request
from typing import Any

_SECONDS = 3.0


def fault(address: str) -> str:
    """Return the reason why the daemon or gateway at an address does not serve; "" if it does."""
    return _fault_of_gateway(address) if "://" in address else _fault_of_daemon(address)


def _fault_of_daemon(address: str) -> str:
    import grpc
    from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

    options = (("grpc.enable_http_proxy", 0),)
    with grpc.insecure_channel(address, options) as channel:
        check: Any = channel.unary_unary(
            "/grpc.health.v1.Health/Check", response_deserializer=HealthCheckResponse.FromString
        )
        try:
            request = HealthCheckRequest().SerializeToString()
            status = check(request, timeout=_SECONDS).status
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    name: str = HealthCheckResponse.ServingStatus.Name(status)
    return "" if status == HealthCheckResponse.SERVING else name


def _fault_of_gateway(url: str) -> str:
    # Its certificate names other hosts than loopback, and nothing secret is sent.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=_SECONDS):
            return ""
    except OSError as error:
        return str(error)


def main() -> int:
    """Check the address; return the exit code of the process."""
    address = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("VIKINGCTL_ADDRESS", "")
    if not address:
        print("name an address: python3 -m vikingd.daemon.probe ADDRESS", file=sys.stderr)
        return 2
    if why := fault(address):
        print(f"{address} does not serve: {why}", file=sys.stderr)
    return int(bool(why))


if __name__ == "__main__":
    sys.exit(main())
