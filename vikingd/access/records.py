"""The records of keys and tenants in the file of keys."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from vikingd.access.key_tables import Connection
from vikingd.access.quotas import Limits
from vikingd.domain.checksums import KEY, checksum
from vikingd.domain.errors import InvalidField, StoreDamaged
from vikingd.domain.rights import DEFAULT_TENANT, Grant, Right
from vikingd.domain.uri import canonical

MAX_GRANTS = 100
MAX_NOTE_BYTES = 1024
MAX_SUBJECT_BYTES = 1024

COLUMNS = (
    'id, tenant, "user", grants, is_operator, created_at, expires_at, used_at, revoked_at, limits, '
    "subject, note"
)
"""The columns of a row for `key_of`."""

SEALED = f"SELECT {KEY}, checksum FROM keys"
"""The query that reads keys with their checksums, for `check_seal`."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret; times in microseconds since the epoch."""

    id: str
    tenant: str
    user: str
    grants: tuple[Grant, ...]
    is_operator: bool
    created_at: int
    expires_at: int | None
    used_at: int | None
    revoked_at: int | None
    limits: Limits
    subject: str
    note: str


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key to create; see `Key`."""

    tenant: str = DEFAULT_TENANT
    user: str = ""
    grants: tuple[Grant, ...] = ()
    is_operator: bool = False
    expires_at: int | None = None
    limits: Limits = field(default_factory=Limits)
    subject: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class TenantRecord:
    """The limits of a tenant and the time of its creation; None for `default`."""

    name: str
    created_at: int | None
    limits: Limits


def check(new: NewKey) -> None:
    """Raise InvalidField if a field of a new key is not allowed."""
    if new.is_operator and (new.grants or new.user):
        raise InvalidField("operator", "a key for an operator has no rights and no user of its own")
    if not new.is_operator and not new.grants:
        raise InvalidField("grants", "is empty: give the key a right, such as READ of viking://")
    if len(new.grants) > MAX_GRANTS:
        raise InvalidField("grants", f"has {len(new.grants)} rights, at most {MAX_GRANTS} may be")
    for name, text, most in (
        ("note", new.note, MAX_NOTE_BYTES),
        ("certificate_subject", new.subject, MAX_SUBJECT_BYTES),
    ):
        if len(text.encode()) > most or not (text.isprintable() or not text):
            raise InvalidField(name, f"must be one line of at most {most:,} bytes")
    if new.expires_at is not None and new.expires_at <= time.time_ns() // 1000:
        raise InvalidField("expire_time", "is in the past")


def key_of(row: Sequence[Any]) -> Key:
    """Return the key in a row that was selected with `COLUMNS`."""
    id_, tenant, user, grants, is_operator, *times, limits, subject, note = row
    created_at, expires_at, used_at, revoked_at = times
    rights = tuple(Grant(Right(right), canonical(prefix)) for right, prefix in json.loads(grants))
    return Key(
        id_,
        tenant,
        user,
        rights,
        bool(is_operator),
        created_at,
        expires_at,
        used_at,
        revoked_at,
        limits_of(limits),
        subject,
        note,
    )


def seal(db: Connection, ids: Iterable[str]) -> None:
    """Compute and write the checksums of the keys with these ids."""
    for id_ in ids:
        row = db.execute(f"SELECT {KEY} FROM keys WHERE id = ?", (id_,)).fetchone()
        if row is not None:
            db.execute("UPDATE keys SET checksum = ? WHERE id = ?", (checksum(*row), id_))


def check_seal(row: Sequence[Any] | None) -> None:
    """Raise StoreDamaged if a key does not match its checksum.

    `row` was selected with the columns SEALED, the checksum last. None, a missing key, is accepted.
    """
    if row is not None and checksum(*row[:-1]) != row[-1]:
        raise StoreDamaged(
            f"the key {row[0]} is damaged: its row is not as it was written; revoke it and create "
            "another one, or restore a copy of the file of the keys"
        )


def grants_as_json(grants: Sequence[Grant]) -> str:
    """Return rights as the JSON that the file stores."""
    return json.dumps([[int(grant.right), grant.prefix] for grant in grants])


def limits_as_json(limits: Limits) -> str:
    """Return limits as the JSON that the file stores."""
    return json.dumps(asdict(limits))


def limits_of(text: str) -> Limits:
    """Parse limits from the file's JSON; limits that this version does not know are ignored."""
    known = {one.name for one in fields(Limits)}
    return Limits(**{name: value for name, value in json.loads(text).items() if name in known})
