"""The address at which the gateway listens, and the address of its daemon."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Iterable

from vikingd.config import ConfigError
from vikingd.config_sections import HTTPS
from vikingd.domain.daemon_addresses import Address

_BACKLOG = 1024


def listener(address: Address) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        OSError: the address is taken.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        made = socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        shown = url(address) if address.tls else address
        raise OSError(f"cannot listen on {shown}: {error.strerror}") from None
    # Connections inherit it. asyncio sets it only if the socket was made with the protocol TCP.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def with_bound_port(address: Address, bound: socket.socket) -> Address:
    """Return the address with the port that a socket has, in place of port 0."""
    return dataclasses.replace(address, port=bound.getsockname()[1])


def url(address: Address) -> str:
    """Return the URL of the gateway at an address."""
    return f"{HTTPS if address.tls else 'http://'}{dataclasses.replace(address, tls=False)}"


def plain(addresses: Iterable[Address]) -> Address:
    """Return the first of the daemon's addresses without TLS, as this machine reaches it.

    For 0.0.0.0 this is 127.0.0.1.

    Raises:
        ConfigError: all addresses of the daemon use TLS.
    """
    for address in addresses:
        if address.tls:
            continue
        if address.ip is None or not address.ip.is_unspecified:
            return address
        return dataclasses.replace(address, host="::1" if ":" in address.host else "127.0.0.1")
    raise ConfigError(
        "gateway.daemon: name the address of the daemon, or let it listen on a loopback address or "
        "a unix socket, too"
    )
