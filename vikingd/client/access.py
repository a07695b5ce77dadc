"""Keys and tenants of the clients: requests, and results with the names of access.proto."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from vikingd.client.choices import each
from vikingd.domain.rights import Right
from vikingd.pb import access_pb2


@dataclass(frozen=True, slots=True)
class Grant:
    """A right on a URI and on all below it; "" is viking://."""

    right: Right
    uri_prefix: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a key or a tenant; 0: no limit. The last three are for tenants only."""

    calls_in_flight: int = 0
    calls_per_second: int = 0
    bytes_per_second: int = 0
    contexts: int = 0
    stored_bytes: int = 0
    embedded_texts_per_day: int = 0


@dataclass(frozen=True, slots=True)
class Key:
    """A key, without its secret."""

    id: str
    tenant: str
    user: str
    grants: tuple[Grant, ...]
    operator: bool
    create_time: datetime | None
    expire_time: datetime | None
    last_use_time: datetime | None
    revoke_time: datetime | None
    limits: Limits
    certificate_subject: str
    note: str


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key with its secret, which is shown once."""

    key: Key
    secret: str


@dataclass(frozen=True, slots=True)
class KeyList:
    """The keys of a tenant."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """A key with its new secret, and the end of the old one."""

    key: Key
    secret: str
    old_expire_time: datetime | None


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant; `open` if its store is open now."""

    name: str
    create_time: datetime | None
    limits: Limits
    open: bool


@dataclass(frozen=True, slots=True)
class TenantList:
    """The tenants."""

    tenants: tuple[Tenant, ...]


@dataclass(frozen=True, slots=True)
class DeletedTenant:
    """The contexts, bytes and keys that a deletion removed."""

    contexts: int
    bytes: int
    keys: int


def create_key(
    *,
    user: str = "",
    read: str | Iterable[str] = (),
    write: str | Iterable[str] = (),
    admin: str | Iterable[str] = (),
    operator: bool = False,
    expires_in: timedelta | None = None,
    limits: Mapping[str, int] | None = None,
    certificate_subject: str = "",
    note: str = "",
) -> access_pb2.CreateKeyRequest:
    """Create a key of the client's tenant; its secret is in the result alone.

    Args:
        user: the user, whose root is viking://~; "": none.
        read: URIs below which the key may read.
        write: URIs below which it may write, too.
        admin: URIs below which it may administer, too.
        operator: a key that manages tenants and keys, without rights of its own.
        expires_in: the time of validity; None: for ever.
        limits: the limits by name, such as {"calls_per_second": 10}.
        certificate_subject: the subject of client certificates that count as this key.
        note: a note for people.
    """
    granted = [
        access_pb2.Grant(right=access_pb2.Right.ValueType(right), uri_prefix=prefix)
        for right, prefixes in ((Right.READ, read), (Right.WRITE, write), (Right.ADMIN, admin))
        for prefix in each(prefixes, str, "read, write and admin", "URIs")
    ]
    return access_pb2.CreateKeyRequest(
        user=user,
        grants=granted,
        operator=operator,
        expire_time=None if expires_in is None else _after(expires_in),
        limits=_limits(limits),
        certificate_subject=certificate_subject,
        note=note,
    )


def list_keys() -> access_pb2.ListKeysRequest:
    """List the keys of the tenant, revoked and expired ones included."""
    return access_pb2.ListKeysRequest()


def revoke_key(id: str) -> access_pb2.RevokeKeyRequest:  # noqa: A002
    """Revoke a key; its next call fails."""
    return access_pb2.RevokeKeyRequest(id=id)


def rotate_key(
    id: str,  # noqa: A002
    *,
    grace: timedelta | None = None,
) -> access_pb2.RotateKeyRequest:
    """Give a key a new secret; the old one stays valid for `grace`, one day unless given."""
    duration: Any = None
    if grace is not None:
        duration = Duration()
        duration.FromTimedelta(grace)
    return access_pb2.RotateKeyRequest(id=id, grace=duration)


def put_tenant(
    name: str, *, limits: Mapping[str, int] | None = None, create: bool = False
) -> access_pb2.PutTenantRequest:
    """Create a tenant, or change its limits.

    Args:
        name: the tenant.
        limits: the limits by name; None: they stay.
        create: True: the tenant must be new; False: it must exist.
    """
    return access_pb2.PutTenantRequest(name=name, limits=_limits(limits), create=create)


def list_tenants() -> access_pb2.ListTenantsRequest:
    """List the tenants."""
    return access_pb2.ListTenantsRequest()


def delete_tenant(name: str) -> access_pb2.DeleteTenantRequest:
    """Delete a tenant with its contexts, its index and its keys."""
    return access_pb2.DeleteTenantRequest(name=name)


def _after(time: timedelta) -> Timestamp:
    at = Timestamp()
    at.FromDatetime(datetime.now(UTC) + time)
    return at


def _limits(limits: Mapping[str, int] | None) -> access_pb2.Limits | None:
    return None if limits is None else access_pb2.Limits(**limits)
