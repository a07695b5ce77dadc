"""A daemon with keys, tenants and users, and what an attacker sends to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tests.metrics_helpers import Daemon, running
from vikingd.client.method_declarations import Stubs
from vikingd.pb import access_pb2, contexts_pb2

Metadata = tuple[tuple[str, str | bytes], ...]

HIDDEN = "viking://users/bob/memories/plans/escape.md"
"""A context of bob's, which ana may not read."""

SHARED = "viking://resources/handbook.md"
"""A context that all users of the tenant may read."""

_TEXTS = {
    HIDDEN: "bob hides the oolong behind the lantern",
    SHARED: "the handbook tells of oolong and of lanterns",
    "viking://users/ana/memories/tea.md": "ana drinks oolong by the lantern",
}


def bearer(secret: str, tenant: str = "") -> Metadata:
    """Return the metadata of a key, and of the tenant that an operator names."""
    named: Metadata = (("vikingd-tenant", tenant),) if tenant else ()
    return (("authorization", f"Bearer {secret}"), *named)


def outcome(call: Any, request: Any, metadata: Metadata = (), **options: Any) -> tuple[str, str]:
    """Return the name of the status and the message of an error, or the reply as text."""
    try:
        return "OK", str(call(request, metadata=metadata or None, **options))
    except grpc.RpcError as error:
        return error.code().name, error.details() or ""


def get(uri: str = SHARED) -> contexts_pb2.GetRequest:
    """Return the request of a Get."""
    return contexts_pb2.GetRequest(uri=uri)


@dataclass
class Fort:
    """A daemon whose tenants acme and globex have users; the names of keys are in `keys`."""

    daemon: Daemon
    stubs: Stubs
    store: Path
    keys: dict[str, str] = field(default_factory=dict)

    def metadata(self, name: str) -> Metadata:
        """Return the metadata of a key by its name."""
        return bearer(self.keys[name])

    def new_key(self, tenant: str, **fields: Any) -> access_pb2.CreateKeyResponse:
        """Create a key as the operator."""
        return self.stubs.access.CreateKey(
            access_pb2.CreateKeyRequest(**fields), metadata=bearer(self.keys["operator"], tenant)
        )

    def tries(self, name: str, service: str, method: str, request: Any) -> tuple[str, str]:
        """Return the outcome of a call with a key by its name."""
        call = getattr(getattr(self.stubs, service), method)
        return outcome(call, request, self.metadata(name))


def grants(**given: str | Sequence[str]) -> list[access_pb2.Grant]:
    """Return rights by name: read=, write= and admin= have one URI or several."""
    return [
        access_pb2.Grant(right=f"RIGHT_{name.upper()}", uri_prefix=uri)
        for name, uris in given.items()
        for uri in ([uris] if isinstance(uris, str) else uris)
    ]


@contextmanager
def fort(directory: Path, *options: str, fresh: bool = False, **environment: str) -> Iterator[Fort]:
    """Run a daemon with an operator, and the tenants acme (ana, bob, an admin) and globex (gus)."""
    store = directory / "store"
    with (
        running(store, "--provider", "none", *options, fresh=fresh, **environment) as daemon,
        grpc.insecure_channel(daemon.address) as channel,
    ):
        made = Fort(daemon, Stubs(channel), store)
        first = made.stubs.access.CreateKey(access_pb2.CreateKeyRequest(operator=True))
        made.keys["operator"] = first.secret
        operator = made.metadata("operator")
        for name in ("acme", "globex"):
            request = access_pb2.PutTenantRequest(name=name, create=True)
            made.stubs.access.PutTenant(request, metadata=operator)
            put = contexts_pb2.PutRequest(
                contexts=[
                    contexts_pb2.ContextInput(uri=uri, content=f"{text} ({name})")
                    for uri, text in _TEXTS.items()
                ]
            )
            made.stubs.contexts.Put(put, metadata=bearer(first.secret, name))
        for tenant, user in (("acme", "ana"), ("acme", "bob"), ("globex", "gus")):
            rights = grants(read="viking://resources", write=f"viking://users/{user}")
            made.keys[user] = made.new_key(tenant, user=user, grants=rights).secret
        made.keys["admin"] = made.new_key("acme", grants=grants(admin="viking://")).secret
        yield made
