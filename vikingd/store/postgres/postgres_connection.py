"""A connection to PostgreSQL that shows one tenant, with the shared statements in its dialect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql as names
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8Dumper

from vikingd.domain.errors import StoreMismatch
from vikingd.store.connection import LastIds
from vikingd.store.postgres.postgres_faults import Unconfirmed, is_away, unknown

_STATE = {
    "store.id": "store",
    "store.model": "model",
    "store.dimension": "dimension",
    "store.revision": "revision",
    "store.linked": "linked",
    "store.forgotten": "forgotten",
    "store.epoch": "epoch",
    "history.epochs": "epochs",
    "entries.last": "last_entry",
}
"""The columns of a tenant's row by the key of the state."""

# These replace other settings of the role or the database. The timeouts release the lock of a
# tenant if its node stops within a transaction. A commit waits for the disk, and for the standby if
# there is one. The server must send the warning that a commit may not be on the standby. Idle
# connections and long reads have no timeout.
_SESSION = """
SET search_path = vikingd_tenant; SET lock_timeout = '20s';
SET idle_in_transaction_session_timeout = '30s';
SET client_min_messages = 'warning';
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') <> 'remote_apply';
SET default_transaction_isolation = 'read committed'; SET statement_timeout = 0;
SELECT set_config(name, '0', false)
    FROM unnest(ARRAY['idle_session_timeout', 'transaction_timeout']) AS name
    WHERE current_setting(name, true) IS NOT NULL
"""
# A transaction that changes no table. Its commit waits for the standby like any other commit.
_EMPTY_COMMIT = "SELECT pg_logical_emit_message(true, 'vikingd', '')"
_CLEAN = "store.clean"  # not kept: PostgreSQL recovers by itself after a kill
# What differs in PostgreSQL: ? and ?2, INDEXED BY texts_digest, CAST(x AS BLOB). A quoted string is
# matched, too, so that a ? in it stays.
_PART = re.compile(r"'[^']*'|\?(\d*)|INDEXED BY \w+|CAST\((\w+) AS BLOB\)")

_translations: dict[str, str] = {}  # by shared statement; there are some hundred


def connect(url: str) -> psycopg.Connection[TupleRow]:
    """Return a new connection in autocommit mode to the primary server of a database.

    Raises:
        psycopg.OperationalError: the server cannot be reached.
        StoreMismatch: the encoding of the database is not UTF-8.
    """
    db = psycopg.Connection.connect(**arguments(url))
    try:
        set_up(db)
    except BaseException:
        db.close()
        raise
    return db


def arguments(url: str) -> dict[str, Any]:
    """Return the keyword arguments for a psycopg connection to the primary server at this URL."""
    return {
        "connect_timeout": 3,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
        "application_name": "vikingd",
        **conninfo_to_dict(url),
        "target_session_attrs": "read-write",  # a standby may lag, which would look like lost data
        "client_encoding": "UTF8",
        "autocommit": True,
        "cursor_factory": psycopg.RawCursor[TupleRow],
    }


def set_up(db: psycopg.Connection[TupleRow]) -> None:
    """Check the encoding of a new connection and set its session parameters.

    Raises:
        StoreMismatch: the encoding of the database is not UTF-8.
    """
    encoding = db.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreMismatch(
            f"the database {db.info.dbname} has the encoding {encoding}, and only UTF8 holds all "
            "texts: make another one with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
        )
    db.adapters.register_dumper(int, Int8Dumper)  # one form of each prepared statement
    db.execute(_SESSION)


def commit(db: psycopg.Connection[TupleRow]) -> None:
    """Commit the open transaction.

    Raises:
        Unconfirmed: the commit no longer waits for the standby, since a timeout or an operator has
            ended the wait.
        InFailedSqlTransaction: an earlier statement had failed, so the transaction was rolled back.
    """
    if _confirmed(db, "COMMIT") != "COMMIT":
        raise psycopg.errors.InFailedSqlTransaction("the transaction was rolled back")


def wait_for_standby(db: psycopg.Connection[TupleRow]) -> None:
    """Wait until the standby has all earlier commits, if commits are synchronous.

    Raises:
        Unconfirmed: a timeout or an operator has ended the wait.
    """
    _confirmed(db, _EMPTY_COMMIT)


def _confirmed(db: psycopg.Connection[TupleRow], sql: str) -> str:
    """Run a statement that commits, and return PostgreSQL's command tag, such as "COMMIT".

    Raises:
        Unconfirmed: the server warns that the standby may lack the commit.
    """
    warnings: list[str] = []

    def note(told: Diagnostic) -> None:
        if told.severity_nonlocalized == "WARNING":
            warnings.append(told.message_primary or "")

    db.add_notice_handler(note)
    try:
        done = db.execute(sql)
    finally:
        db.remove_notice_handler(note)
    if warnings:
        raise Unconfirmed("; ".join(warnings))
    return str(done.statusmessage)


class PostgresConnection:
    """A `Connection` that reads and writes the rows of one tenant.

    Args:
        db: the connection to the database.
        tenant: the name of the tenant.
    """

    def __init__(self, db: psycopg.Connection[TupleRow], tenant: str) -> None:
        self.db = db
        of_tenant = names.Literal(tenant).as_string(db)
        self._begin = f"BEGIN {{}}; SELECT set_config('vikingd.tenant', {of_tenant}, true)"

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open, also after a failed statement."""
        return self.db.info.transaction_status in (
            TransactionStatus.INTRANS,
            TransactionStatus.INERROR,
        )

    def begin(self, mode: str = "") -> None:
        """Begin a transaction that sees the rows of the tenant only.

        `mode` is the SQL after BEGIN, such as "ISOLATION LEVEL REPEATABLE READ".
        """
        self.db.execute(self._begin.format(mode))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction; roll back if the block or the commit fails.

        If a transaction is open already, the block becomes a part of it.

        Raises:
            StoreAway: the outcome of the commit is unknown.
        """
        if self.in_transaction:
            yield
            return
        self.begin()
        try:
            yield
        except BaseException:
            self.roll_back()
            raise
        try:
            commit(self.db)
        except psycopg.Error as error:
            self.roll_back()
            if is_away(error):
                raise unknown(error) from error
            raise

    def roll_back(self) -> None:
        """Undo an open transaction; do nothing without one."""
        if not self.db.closed and self.db.info.transaction_status != TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                self.db.execute("ROLLBACK")

    def execute(self, sql: str, values: Sequence[object] = (), /) -> psycopg.Cursor[TupleRow]:
        """Run one SQL statement and return its result."""
        cursor = self.db.cursor()
        cursor.execute(_translations.get(sql) or _translated(sql), values or None)
        return cursor

    def executemany(
        self, sql: str, rows: Iterable[Sequence[object]], /
    ) -> psycopg.Cursor[TupleRow]:
        """Run one SQL statement for each row of parameters."""
        cursor = self.db.cursor()
        cursor.executemany(_translations.get(sql) or _translated(sql), list(rows))
        return cursor

    def get_state(self) -> dict[str, Any]:
        """Return the state of the tenant's store by key; {} if the tenant does not exist."""
        columns = ", ".join(_STATE.values())
        row = self.db.execute(f"SELECT {columns} FROM state").fetchone()
        return dict(zip(_STATE, row, strict=True)) | {_CLEAN: 1} if row else {}

    def get_meta(self, *keys: str) -> dict[str, Any]:
        """Return values of the table `meta` by key; missing keys are left out."""
        if any(key in _STATE for key in keys):
            state = self.get_state()
            return {key: state[key] for key in keys if key in state}
        rows = self.execute(
            "SELECT key, value FROM meta WHERE key IN (SELECT value FROM each_name(?))",
            (json.dumps(keys),),
        )
        return {key: decoded(value) for key, value in rows}

    def set_meta(self, values: Mapping[str, object]) -> None:
        """Write values into the table `meta` by key; those of the state are columns of `state`."""
        state = {key: value for key, value in values.items() if key in _STATE}
        if state:
            columns = ", ".join(f"{_STATE[key]} = ?" for key in state)
            self.execute(f"UPDATE state SET {columns}", tuple(state.values()))
        for key, value in values.items():
            if key not in _STATE and key != _CLEAN:
                self.execute("DELETE FROM meta WHERE key = ?", (key,))
                self.execute("INSERT INTO meta (key, value) VALUES (?, ?)", (key, _encoded(value)))

    def last_ids(self) -> LastIds:
        """Return the largest ids of contexts, texts and entries so far, deleted ones too."""
        row = self.db.execute("SELECT last_context, last_text, last_entry FROM state").fetchone()
        assert row is not None
        return LastIds(*row)


def _translated(sql: str) -> str:
    """Translate a shared SQL statement into PostgreSQL's dialect, and cache it for ever.

    `?` becomes `$1`, for example. Only constant statements may be passed.
    """
    count = 0

    def replaced(found: re.Match[str]) -> str:
        nonlocal count
        if found[0].startswith("'"):
            return found[0]
        if found[0].startswith("?"):
            count += 1
            return f"${found[1] or count}"
        return f"convert_to({found[2]}, 'UTF8')" if found[2] else ""

    return _translations.setdefault(sql, _PART.sub(replaced, sql))


def _encoded(value: object) -> bytes:
    """Encode a value for the table `meta`: b"b" before bytes, b"j" before the JSON of others."""
    if isinstance(value, bytes):
        return b"b" + value
    return b"j" + json.dumps(value).encode()


def decoded(stored: bytes) -> Any:
    """Decode a value of the table `meta` that `_encoded` made."""
    return bytes(stored[1:]) if stored[:1] == b"b" else json.loads(stored[1:])
