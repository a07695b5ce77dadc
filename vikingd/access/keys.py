"""The keys of callers and the limits of tenants, in one SQLite file of the data directory.

The text of a key is `vk_ID_SECRET`: the id has 8 hexadecimal digits, the secret 64, from 32 random
bytes. The file has the SHA-256 of the secret: a random secret of 256 bits needs no slow hash.
Several processes of one data directory share the file, and see each other's changes within 10 ms.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from vikingd.access import records
from vikingd.access.key_tables import Connection
from vikingd.access.keys_file import FILE, KeysFile
from vikingd.access.keys_schema import COPY
from vikingd.access.quotas import Limits
from vikingd.domain import errors
from vikingd.domain.rights import DEFAULT_TENANT, Caller

HAD_KEY = "keys-needed"
"""The name of the mark beside the file of keys, which exists from the first key on.

With the mark, vikingd does not start without keys, or with older ones, after a loss of that file.
"""

MAX_KEYS = 5000
"""The most keys of one tenant, revoked ones included; their list fits into one reply."""

_MAX_LIMITS = 10_000  # tenants whose limits are kept in memory; callers may name missing ones
_MAX_CALLERS = 1000  # of an operator's key, one for each tenant that it names

_LOOK = 0.01  # seconds between two looks at the file; a look takes several calls of the system

_TEXT = re.compile(r"vk_([0-9a-f]{8})_([0-9a-f]{64})")
_STATE = """
SELECT (SELECT value FROM state WHERE name = 'changes'),
    (SELECT value FROM state WHERE name = 'had_key'),
    (SELECT value FROM state WHERE name = 'id')
"""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Valid:
    """A valid key in memory: its record, the digests of its secrets, and its callers by tenant."""

    key: records.Key
    digest: bytes
    old_digest: bytes
    old_expires_at: int
    callers: dict[str, Caller] = field(default_factory=dict)

    def caller(self, tenant: str) -> Caller:
        """Return the caller with this key in a tenant."""
        caller = self.callers.get(tenant)
        if caller is None:
            key = self.key
            if len(self.callers) >= _MAX_CALLERS:
                self.callers.clear()
            caller = self.callers[tenant] = Caller(
                key.id, tenant, key.user, key.grants, is_operator=key.is_operator
            )
        return caller


class KeyStore:
    """The keys and tenants of a data directory.

    The methods under "Calls" are for one thread, the event loop's. All others are for any thread.

    Args:
        accept_older: accept a file that was replaced by an older one, and log the valid keys.
        follows: see the changes of other processes at once, for a few microseconds of each call.

    Raises:
        StoreDamaged: the file is damaged, was replaced by an older one, or is of a later version of
            vikingd.
        StoreFailed: the file cannot be created.
        StoreInUse: older keys cannot be accepted while another process uses the file.
        StoreMismatch: the file is a node's copy of shared keys and is opened alone, or the reverse.
    """

    _is_copy = False

    def __init__(
        self, directory: Path, *, accept_older: bool = False, follows: bool = False
    ) -> None:
        self._pause = 0.0 if follows else _LOOK
        self._marker = directory / HAD_KEY
        self._id = 0
        self._problem = ""
        self._file_version = self._changes = -1
        self._next_look = 0.0
        self._own_changes = self._known_own_changes = 0  # of this process
        self._had_key = False
        self._valid: dict[str, _Valid] = {}
        self._limits: dict[str, Limits] = {}
        self._used: dict[str, int] = {}
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = KeysFile(
            directory / FILE, self._marker, is_copy=self._is_copy, accept_older=accept_older
        )
        self._reads = self._file.connect()
        self._refresh()
        is_copy = self._read(f"SELECT 1 FROM state WHERE name = '{COPY}'")
        if is_copy and not self._is_copy:
            raise errors.StoreMismatch(
                f"{directory} is of a node, whose keys are in a database: start it with --store, "
                "or take another --path"
            )
        if self._had_key and self._is_copy and not is_copy:
            raise errors.StoreMismatch(
                f"{directory} has keys of its own, and nodes have theirs in the database: take "
                "another --path"
            )
        self._file.start()

    # Calls

    @property
    def had_key(self) -> bool:
        """True if the data directory has or ever had a key; then calls need one."""
        self._refresh()
        return self._had_key

    def caller(self, text: str, tenant: str = "") -> tuple[Caller, Limits]:
        """Return the caller with a key and the key's limits.

        Args:
            text: `vk_ID_SECRET`.
            tenant: the tenant that the call names; "" means the tenant of the key.

        Raises:
            Unauthenticated: the key is unknown, expired or revoked, or is of another tenant.
        """
        return self._caller(self._find(text), tenant)

    def caller_of_subject(
        self, subjects: Iterable[str], tenant: str = ""
    ) -> tuple[Caller, Limits] | None:
        """Return the caller whose key has one of these certificate subjects, with the key's limits.

        Return None if no key has one.
        """
        self._refresh()
        for subject in subjects:
            row = self._read(
                "SELECT id FROM keys WHERE subject = ? AND subject != '' AND revoked_at IS NULL",
                subject,
            )
            if row and (found := self._load(row[0])) is not None:
                self._check_time(found.key)
                return self._caller(found, tenant)
        return None

    async def catch_up(self) -> None:
        """Do nothing: only `SharedKeys`, a subclass, has changes of other nodes to read."""

    def tenant_limits(self, tenant: str) -> Limits:
        """Return the limits of a tenant from a cache, which the next call of `caller` refreshes."""
        limits = self._limits.get(tenant)
        if limits is None:
            row = self._read("SELECT limits FROM tenants WHERE name = ?", tenant)
            if len(self._limits) >= _MAX_LIMITS:
                self._limits.clear()
            limits = self._limits[tenant] = records.limits_of(row[0]) if row else Limits()
        return limits

    def _caller(self, found: _Valid, tenant: str) -> tuple[Caller, Limits]:
        key = found.key
        if tenant and tenant != key.tenant and not key.is_operator:
            raise errors.Unauthenticated(
                f"the key {key.id} is not of the tenant that the call names", key=key.id
            )
        self._used[key.id] = time.time_ns() // 1000
        return found.caller(tenant or key.tenant), key.limits

    def _find(self, text: str) -> _Valid:
        self._refresh()
        parts = _TEXT.fullmatch(text)
        if parts is None:
            raise errors.Unauthenticated(
                "the key is malformed: it must be vk_ID_SECRET, as it was shown"
            )
        id_, secret = parts.groups()
        found = self._load(id_)
        digest = sha256(secret.encode()).digest()
        is_new = hmac.compare_digest(digest, found.digest if found else bytes(32))
        is_old = hmac.compare_digest(digest, found.old_digest if found else bytes(32))
        if found is None or not (is_new or is_old):
            raise errors.Unauthenticated("the key is not valid")
        self._check_time(found.key)
        if not is_new and found.old_expires_at <= time.time_ns() // 1000:
            raise errors.Unauthenticated(
                f"the key {id_} has a newer secret, and this one has expired", key=id_
            )
        return found

    @staticmethod
    def _check_time(key: records.Key) -> None:
        if key.revoked_at is not None:
            raise errors.Unauthenticated(f"the key {key.id} is revoked", key=key.id)
        if key.expires_at is not None and key.expires_at <= time.time_ns() // 1000:
            raise errors.Unauthenticated(f"the key {key.id} has expired", key=key.id)

    def _load(self, id_: str) -> _Valid | None:
        try:
            return self._valid[id_]
        except KeyError:
            pass
        row = self._read(
            f"SELECT digest, old_digest, old_expires_at, {records.COLUMNS} FROM keys WHERE id = ?",
            id_,
        )
        if row is None:
            return None  # not kept, so that unknown ids take no memory
        records.check_seal(self._read(f"{records.SEALED} WHERE id = ?", id_))
        found = _Valid(records.key_of(row[3:]), row[0], row[1] or bytes(32), row[2] or 0)
        self._valid[id_] = found
        return found

    def _refresh(self) -> None:
        """Empty the caches of keys and limits if the file has changed since the last look.

        A change by this process is noticed at once. One by another process is noticed within
        `_LOOK` seconds, or at once by a reader that follows its writer.
        """
        now, own = time.monotonic(), self._own_changes
        if now < self._next_look and own == self._known_own_changes:
            return
        if (problem := self._file.problem()) and not self._problem:
            self._problem = problem
            _log.error("%s: changes of keys are refused until a restart", problem)
        (version,) = self._read("PRAGMA data_version")
        if version != self._file_version:
            changes, had_key, id_ = self._read(_STATE)
            if self._id not in (0, id_) or changes < self._changes:
                raise errors.StoreDamaged(
                    f"{FILE}, the file of the keys, went back while vikingd runs: put the right "
                    "file back and restart vikingd"
                )
            self._file_version, self._id = version, id_
            if changes != self._changes:
                self._changes, self._had_key = changes, self._had_key or bool(had_key)
                self._valid.clear()
                self._limits.clear()
        self._next_look, self._known_own_changes = now + self._pause, own

    def _read(self, sql: str, *values: str) -> Any:
        """Run a query and return its first row.

        Raises:
            StoreDamaged: the file cannot be read. The message, which callers see, has no path.
        """
        try:
            return self._reads.execute(sql, values).fetchone()
        except sqlite3.Error as error:
            raise errors.StoreDamaged(
                f"{FILE}, the file of the keys, cannot be read: {error}"
            ) from None

    # Keys

    def create(self, new: records.NewKey) -> tuple[records.Key, str]:
        """Create a key; return it with its text `vk_ID_SECRET`, which is not stored.

        Raises:
            InvalidField: a field is not allowed, or the first key is not an operator's.
            AlreadyExists: another valid key has the subject.
        """
        records.check(new)
        id_, secret, now = secrets.token_hex(4), secrets.token_hex(32), time.time_ns() // 1000
        with self._changing(key=id_) as db:
            (had_key,) = db.execute("SELECT value FROM state WHERE name = 'had_key'").fetchone()
            if not had_key and not new.is_operator:
                raise errors.InvalidField(
                    "operator",
                    "the first key must be an operator's: from then on each call needs a key, and "
                    "other keys could not be created",
                )
            count = db.execute("SELECT count(*) FROM keys WHERE tenant = ?", (new.tenant,))
            if count.fetchone()[0] >= MAX_KEYS:
                raise errors.InvalidField(
                    "tenant", f"has {MAX_KEYS:,} keys, the most that it may have"
                )
            made = db.execute(
                'INSERT INTO keys (id, digest, tenant, "user", grants, is_operator, created_at, '
                "expires_at, limits, subject, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (
                    id_,
                    sha256(secret.encode()).digest(),
                    new.tenant,
                    new.user,
                    records.grants_as_json(new.grants),
                    int(new.is_operator),
                    now,
                    new.expires_at,
                    records.limits_as_json(new.limits),
                    new.subject,
                    new.note,
                ),
            )
            if not made.rowcount:
                raise errors.AlreadyExists(f"a key for the certificate subject {new.subject}")
            records.seal(db, [id_])
            db.execute("UPDATE state SET value = 1 WHERE name = 'had_key'")
            created = self._one(db, id_)
        return created, f"vk_{id_}_{secret}"

    # Operators' keys are of a tenant, too. For others they do not exist: a new secret would make
    # its holder an operator.

    def keys(self, tenant: str, *, by_operator: bool = False) -> list[records.Key]:
        """Return the keys of a tenant by time of creation.

        Keys of operators are left out, unless an operator asks (`by_operator`).
        """
        self.write_uses()
        with self._reading() as db:
            for row in db.execute(f"{records.SEALED} WHERE tenant = ?", (tenant,)).fetchall():
                records.check_seal(row)
            rows = db.execute(
                f"SELECT {records.COLUMNS} FROM keys WHERE tenant = ? ORDER BY created_at, id",
                (tenant,),
            )
            found = [records.key_of(row) for row in rows]
        return [key for key in found if by_operator or not key.is_operator]

    def revoke(self, id_: str, tenant: str, *, by_operator: bool = False) -> records.Key:
        """Revoke a key of a tenant; a key that is revoked already keeps its time of revocation.

        Raises:
            NotFound: there is no such key.
        """
        with self._changing(key=id_) as db:
            self._one(db, id_, tenant, by_operator=by_operator)
            db.execute(
                "UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL",
                (time.time_ns() // 1000, id_),
            )
            records.seal(db, [id_])
            return self._one(db, id_)

    def rotate(
        self, id_: str, tenant: str, grace: float, *, by_operator: bool = False
    ) -> tuple[records.Key, str, int]:
        """Give a key a new secret; the old one is valid for `grace` seconds.

        Returns:
            The key, its new text, and the time in microseconds at which the old secret ends.

        Raises:
            NotFound: there is no such key, or the key is revoked.
            StoreDamaged: the stored key does not match its checksum.
        """
        secret = secrets.token_hex(32)
        until = time.time_ns() // 1000 + round(grace * 1e6)
        with self._changing(key=id_) as db:
            key = self._one(db, id_, tenant, by_operator=by_operator)
            records.check_seal(db.execute(f"{records.SEALED} WHERE id = ?", (id_,)).fetchone())
            if key.revoked_at is not None:
                raise errors.NotFound(id_, f"the key {id_} is revoked")
            db.execute(
                "UPDATE keys SET old_digest = digest, old_expires_at = ?, digest = ? WHERE id = ?",
                (until, sha256(secret.encode()).digest(), id_),
            )
            records.seal(db, [id_])
            return key, f"vk_{id_}_{secret}", until

    @staticmethod
    def _one(
        db: Connection, id_: str, tenant: str = "", *, by_operator: bool = True
    ) -> records.Key:
        row = db.execute(f"SELECT {records.COLUMNS} FROM keys WHERE id = ?", (id_,)).fetchone()
        key = None if row is None else records.key_of(row)
        if key is None or (tenant and key.tenant != tenant) or key.is_operator > by_operator:
            raise errors.NotFound(id_, f"there is no key {id_}")
        return key

    # Tenants

    def embedding_limit(self, tenant: str) -> int:
        """Return how many texts a tenant may embed in a day; 0: no limit."""
        return self.tenant(tenant).limits.embedded_texts_per_day

    def put_tenant(self, name: str, limits: Limits | None) -> records.TenantRecord:
        """Create or change a tenant.

        If `limits` is None, a known tenant keeps its limits, and a new tenant has no limits.
        """
        with self._changing(tenant=name) as db:
            db.execute(
                "INSERT INTO tenants (name, created_at, limits) VALUES (?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                (name, time.time_ns() // 1000, records.limits_as_json(Limits())),
            )
            if limits is not None:
                db.execute(
                    "UPDATE tenants SET limits = ? WHERE name = ?",
                    (records.limits_as_json(limits), name),
                )
        return self.tenant(name)

    def tenant(self, name: str) -> records.TenantRecord:
        """Return the record of a tenant; a tenant without a record has no limits."""
        with self._file.transaction() as db:
            row = db.execute(
                "SELECT created_at, limits FROM tenants WHERE name = ?", (name,)
            ).fetchone()
        created_at = row[0] if row and name != DEFAULT_TENANT else None
        return records.TenantRecord(
            name, created_at, records.limits_of(row[1]) if row else Limits()
        )

    def forget_tenant(self, name: str) -> int:
        """Delete the record and the keys of a deleted tenant; return the number of keys."""
        with self._changing(tenant=name) as db:
            db.execute("DELETE FROM tenants WHERE name = ?", (name,))
            return db.execute("DELETE FROM keys WHERE tenant = ?", (name,)).rowcount

    # The file

    @contextmanager
    def _changing(self, *, key: str = "", tenant: str = "") -> Iterator[Connection]:
        """A transaction that changes a key or a tenant.

        This process sees the change at its next call, other processes within `_LOOK` seconds.

        Args:
            key: the id of the key that changes; "" for none.
            tenant: the name of the tenant that changes; "" for none.
        """
        del key, tenant  # other nodes would have to know
        with self._file.changing() as db:
            yield db
        self._own_changes += 1

    def _reading(self) -> AbstractContextManager[Connection]:
        """A transaction that only reads; it sees all changes that were committed before."""
        return self._file.transaction()

    def _recording(self) -> AbstractContextManager[Connection]:
        """A transaction that writes values which do not affect calls, such as times of last use.

        Other processes do not empty their caches after it.
        """
        return self._file.transaction("IMMEDIATE")

    def write_uses(self) -> None:
        """Write the times of last use. If the disk is full they are lost."""
        used, self._used = self._used, {}
        if not used:
            return
        with suppress(errors.StoreFailed, errors.StoreAway), self._recording() as db:
            db.executemany(
                "UPDATE keys SET used_at = ?1 WHERE id = ?2 AND coalesce(used_at, 0) < ?1",
                [(at, id_) for id_, at in sorted(used.items())],
            )

    def close(self) -> None:
        """Write the times of last use and close the file."""
        self.write_uses()
        self._file.close()
        self._reads.close()
