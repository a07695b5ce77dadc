"""A daemon with keys, whose log tells all."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from tests.metrics_helpers import Daemon, running
from vikingd.client.method_declarations import Stubs
from vikingd.pb import access_pb2

READ, WRITE, ADMIN = access_pb2.RIGHT_READ, access_pb2.RIGHT_WRITE, access_pb2.RIGHT_ADMIN
ANA, BOB = "anahita", "bobette"


class House:
    """A daemon with an operator.

    Attributes:
        secrets: the texts of all keys.
    """

    def __init__(self, daemon: Daemon, operator: str = "") -> None:
        self.daemon = daemon
        self._channel = grpc.insecure_channel(daemon.address)
        self.stubs = Stubs(self._channel)
        if not operator:
            first = self.stubs.access.CreateKey(access_pb2.CreateKeyRequest(operator=True))
            operator = first.secret
        self.secrets = [operator]

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def operator(self, tenant: str = "") -> tuple[tuple[str, str], ...]:
        """Return the metadata of the operator in a tenant."""
        named = (("vikingd-tenant", tenant),) if tenant else ()
        return (("authorization", f"Bearer {self.secrets[0]}"), *named)

    def tenant(self, name: str) -> None:
        """Create a tenant."""
        request = access_pb2.PutTenantRequest(name=name, create=True)
        self.stubs.access.PutTenant(request, metadata=self.operator())

    def key(self, grants: dict[str, int], user: str = "", tenant: str = "") -> str:
        """Return the text of a new key with a right below each of some URIs."""
        given: Any = [{"right": right, "uri_prefix": uri} for uri, right in grants.items()]
        request = access_pb2.CreateKeyRequest(user=user, grants=given)
        made = self.stubs.access.CreateKey(request, metadata=self.operator(tenant))
        self.secrets.append(made.secret)
        return made.secret

    def metrics(self) -> str:
        """Return all that Prometheus reads."""
        with urllib.request.urlopen(self.daemon.url, timeout=10) as reply:
            return str(reply.read().decode())


@contextmanager
def house(path: Path, provider: str = "none", **environment: str) -> Iterator[House]:
    """Run a daemon whose log tells all."""
    options = ("--provider", provider, "--log-level", "debug")
    with running(path, *options, **environment) as daemon:
        made = House(daemon)
        try:
            yield made
        finally:
            made.close()
