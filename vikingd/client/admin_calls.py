"""The methods of the services Admin and Access, and their results.

The results have the names of admin.proto and access.proto, which explain each field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from vikingd.client.method_declarations import RetryCondition, method, stream
from vikingd.client.value_conversion import each
from vikingd.domain.rights import Right
from vikingd.pb import access_pb2, admin_pb2


@dataclass(frozen=True, slots=True)
class EmbedderStats:
    """The state of the embedder; `backlog` texts wait for their vector."""

    provider: str
    model: str
    dimension: int
    backlog: int
    embedded: int
    last_error: str
    retry_time: datetime | None
    query_cache_hits: int
    query_cache_misses: int
    backlog_characters: int
    characters_per_second: float
    stalled: str
    reused: int


@dataclass(frozen=True, slots=True)
class DescriberStats:
    """The state of the model that writes abstracts; `backlog` contexts wait for theirs."""

    model: str
    backlog: int
    described: int
    refused: int
    tokens_today: int
    tokens_per_day: int
    last_error: str
    retry_time: datetime | None


@dataclass(frozen=True, slots=True)
class IndexStats:
    """The state of the index."""

    generation: int
    base_revision: int
    base_texts: int
    tail_texts: int
    dead_texts: int
    compacting: bool
    bytes_on_disk: int
    problem: str
    rebuilt: str
    old_bases: int


@dataclass(frozen=True, slots=True)
class QueueStats:
    """The calls of one queue that wait for a thread, and the calls refused since the start."""

    queue: str
    waiting: int
    refused: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The state of the store, the index, the embedder and the queues."""

    version: str
    start_time: datetime | None
    revision: int
    directories: int
    files: int
    texts: int
    vectors: int
    relations: int
    store_bytes: int
    embedder: EmbedderStats
    index: IndexStats
    store_path: str
    reader: bool
    problem: str
    queues: tuple[QueueStats, ...]
    describer: DescriberStats
    processes: int
    answering_processes: int


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The numbers of a comparison of index and store, and the differences."""

    ok: bool
    contexts: int
    texts: int
    vectors: int
    problems: tuple[str, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class OptimizeResult:
    """The large segment of the index in use now (the base), and the disk space that was freed.

    `generation` is the number of the base, and `base_revision` the revision of its contents.
    """

    generation: int
    base_revision: int
    given_back_bytes: int
    removed_directories: int


@dataclass(frozen=True, slots=True)
class BackupPiece:
    """The next bytes of a backup, which has `size` bytes and the store at `revision`."""

    size: int
    revision: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ReembedResult:
    """The number of texts that have no vector from `revision` on, because it was dropped."""

    texts: int
    revision: int


@dataclass(frozen=True, slots=True)
class DescribeResult:
    """The number of contexts that a model describes, and an estimate of the tokens for that."""

    contexts: int
    tokens: int


@method(admin_pb2.StatsResponse, Stats, retried=True)
def stats() -> admin_pb2.StatsRequest:
    """Return the state of the daemon."""
    return admin_pb2.StatsRequest()


@method(admin_pb2.VerifyResponse, VerifyReport, retried=True)
def verify() -> admin_pb2.VerifyRequest:
    """Compare the whole index with the store."""
    return admin_pb2.VerifyRequest()


# Heavy work is not repeated.
@method(admin_pb2.OptimizeResponse, OptimizeResult, retried=False)
def optimize(*, remove_empty_directories: bool = False) -> admin_pb2.OptimizeRequest:
    """Compact the index now, and give the room of deleted contexts back to the disk.

    Args:
        remove_empty_directories: remove the directories without content, fields and links, too.
    """
    return admin_pb2.OptimizeRequest(remove_empty_directories=remove_empty_directories)


@method(admin_pb2.ReembedResponse, ReembedResult, retried=False)
def reembed(target_uri: str = "") -> admin_pb2.ReembedRequest:
    """Drop the vectors below `target_uri`, or all vectors; the present model makes new ones."""
    return admin_pb2.ReembedRequest(target_uri=target_uri)


@method(admin_pb2.DescribeResponse, DescribeResult, retried=False)
def describe(
    target_uri: str = "", *, again: bool = False, dry_run: bool = False
) -> admin_pb2.DescribeRequest:
    """Let the model of the describer write the abstracts and overviews below `target_uri`.

    Args:
        target_uri: the subtree; "": the whole tree.
        again: also describe the contexts that have a description of their present content.
        dry_run: count only, and ask nothing.
    """
    return admin_pb2.DescribeRequest(target_uri=target_uri, again=again, dry_run=dry_run)


@stream(admin_pb2.BackupResponse, BackupPiece)
def backup() -> admin_pb2.BackupRequest:
    """Copy the store while the daemon serves, and yield the bytes of the file in blocks.

    Each BackupPiece has a block and the size of the whole file. With fewer bytes the copy is
    incomplete.
    """
    return admin_pb2.BackupRequest()


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


# A repetition would create a second key.
@method(access_pb2.CreateKeyResponse, CreatedKey, retried=False)
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


@method(access_pb2.ListKeysResponse, KeyList, retried=True)
def list_keys() -> access_pb2.ListKeysRequest:
    """List the keys of the tenant, revoked and expired ones included."""
    return access_pb2.ListKeysRequest()


@method(access_pb2.RevokeKeyResponse, Key, part="key", retried=True)
def revoke_key(id: str) -> access_pb2.RevokeKeyRequest:  # noqa: A002
    """Revoke a key; its next call fails."""
    return access_pb2.RevokeKeyRequest(id=id)


# A repetition would end the secret that the first reply has.
@method(access_pb2.RotateKeyResponse, RotatedKey, retried=False)
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


@method(
    access_pb2.PutTenantResponse,
    Tenant,
    part="tenant",
    retried=RetryCondition("without create", lambda request: not request.create),
)
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


@method(access_pb2.ListTenantsResponse, TenantList, retried=True)
def list_tenants() -> access_pb2.ListTenantsRequest:
    """List the tenants."""
    return access_pb2.ListTenantsRequest()


@method(access_pb2.DeleteTenantResponse, DeletedTenant, retried=False)
def delete_tenant(name: str) -> access_pb2.DeleteTenantRequest:
    """Delete a tenant with its contexts, its index and its keys."""
    return access_pb2.DeleteTenantRequest(name=name)


def _after(time: timedelta) -> Timestamp:
    at = Timestamp()
    at.FromDatetime(datetime.now(UTC) + time)
    return at


def _limits(limits: Mapping[str, int] | None) -> access_pb2.Limits | None:
    return None if limits is None else access_pb2.Limits(**limits)
