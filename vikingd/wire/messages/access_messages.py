"""Conversion of keys and tenants from and to messages."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from vikingd.access.quotas import Limits
from vikingd.access.records import Key, NewKey, TenantRecord
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.rights import Grant, Right
from vikingd.pb import access_pb2
from vikingd.wire.messages import common_messages, decode

_DEFAULT_GRACE = 86_400.0  # seconds
_MAX_GRACE = 30 * 86_400


def new_key(request: access_pb2.CreateKeyRequest, tenant: str) -> NewKey:
    """Return the key to create for a tenant, as a request describes it."""
    user = uris.check_user(request.user, "user") if request.user else ""
    return NewKey(
        tenant=tenant,
        user=user,
        grants=tuple(_grant(one, user, f"grants[{i}]") for i, one in enumerate(request.grants)),
        is_operator=request.operator,
        expires_at=(
            decode.microseconds(request.expire_time, "expire_time")
            if request.HasField("expire_time")
            else None
        ),
        limits=_key_limits(request.limits),
        subject=request.certificate_subject,
        note=request.note,
    )


def _grant(grant: access_pb2.Grant, user: str, field: str) -> Grant:
    try:
        right = Right(grant.right)
    except ValueError:
        raise InvalidField(f"{field}.right", "must be READ, WRITE or ADMIN") from None
    prefix = uris.expand(grant.uri_prefix, user, f"{field}.uri_prefix")
    return Grant(right, decode.target_uri(prefix, f"{field}.uri_prefix"))


def _key_limits(message: access_pb2.Limits) -> Limits:
    given = limits(message)
    try:
        given.check_of_key()
    except InvalidField as error:
        raise error.below("limits") from None
    return given


def limits(message: access_pb2.Limits) -> Limits:
    """Convert a Limits message to limits."""
    return Limits(
        message.calls_in_flight,
        message.calls_per_second,
        message.bytes_per_second,
        message.contexts,
        message.stored_bytes,
        message.embedded_texts_per_day,
    )


def grace(request: access_pb2.RotateKeyRequest) -> float:
    """Return for how many seconds the old secret stays valid after a rotation."""
    if not request.HasField("grace"):
        return _DEFAULT_GRACE
    given: Duration = request.grace
    seconds = given.seconds + given.nanos / 1e9
    if not 0 <= seconds <= _MAX_GRACE:
        raise InvalidField("grace", "must be between 0 and 30 days")
    return seconds


def key(found: Key) -> access_pb2.Key:
    """Convert a key to a message."""

    def time(at: int | None):  # type: ignore[no-untyped-def]  # a Timestamp or None
        return None if at is None else common_messages.timestamp(at)

    return access_pb2.Key(
        id=found.id,
        tenant=found.tenant,
        user=found.user,
        grants=[
            access_pb2.Grant(right=access_pb2.Right.ValueType(one.right), uri_prefix=one.prefix)
            for one in found.grants
        ],
        operator=found.is_operator,
        create_time=time(found.created_at),
        expire_time=time(found.expires_at),
        last_use_time=time(found.used_at),
        revoke_time=time(found.revoked_at),
        limits=_limits(found.limits),
        certificate_subject=found.subject,
        note=found.note,
    )


def tenant(record: TenantRecord, *, is_open: bool) -> access_pb2.Tenant:
    """Convert a tenant to a message."""
    return access_pb2.Tenant(
        name=record.name,
        create_time=None
        if record.created_at is None
        else common_messages.timestamp(record.created_at),
        limits=_limits(record.limits),
        open=is_open,
    )


def _limits(of: Limits) -> access_pb2.Limits:
    return access_pb2.Limits(**common_messages.fields_of(of))
