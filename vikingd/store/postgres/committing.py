"""The transactions that write the part of a tenant; several nodes take turns.

Each transaction locks the row of the tenant first. So the revisions and ids of a tenant have no gap
and no conflict, and two transactions never wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import psycopg
from psycopg.rows import TupleRow

from vikingd.domain.errors import StoreAway, StoreMismatch
from vikingd.store.connection import LastIds
from vikingd.store.history import begin_epoch, history_of
from vikingd.store.postgres.connection import PostgresConnection, connect
from vikingd.store.postgres.faults import away, is_away
from vikingd.store.writer import Begun, Committing
from vikingd.store.writes.transaction import Ids

CHANNEL = "vikingd"
"""The channel that tells of commits: "TENANT REVISION"."""

_LOCKED = """
SELECT revision, dimension, store, epoch, model, timeline, last_context, last_text, last_entry,
    pg_current_xact_id()::text
FROM state FOR UPDATE
"""
# Another cluster has another identifier; a promotion begins another timeline.
_TIMELINE = """
SELECT (SELECT system_identifier FROM pg_control_system()) || '/'
    || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
"""
_PATIENCE = 10.0  # seconds for the outcome of a commit whose connection broke
_REFUSED = 0.5  # seconds in which writes are refused at once after a failed attempt to connect
_PAUSE = 0.1  # seconds between two attempts to ask for it


class PostgresCommitting(Committing):
    """Transactions on one connection, which is made again after it broke.

    Args:
        url: of the database.
        tenant: the name of the tenant.
        model: the name of the model that makes the vectors.

    Attributes:
        origin: the store and the epoch that the last transaction belongs to.
    """

    failures = (psycopg.Error, StoreAway)

    def __init__(
        self, url: str, tenant: str, *, model: str, revision: int, dimension: int | None
    ) -> None:
        super().__init__(revision, dimension)
        self._url = url
        self._tenant = tenant
        self._model = model
        self._db: PostgresConnection | None = None
        self._timeline = ""
        self._refusal: tuple[float, StoreAway] | None = None  # (until when, why)
        self.origin = ("", "")  # store and epoch of the last transaction
        self._ids = Ids(LastIds(0, 0, 0))

    @contextmanager
    def transaction(self) -> Iterator[Begun]:
        """Run a transaction that holds the lock of the tenant.

        Raises:
            StoreAway: the database cannot be reached. Nothing was written, unless the message says
                that it may be there.
            StoreMismatch: another node has begun to use another model.
        """
        db, xid = self._begin()
        try:
            yield Begun(db, self._ids, self.revision, self.dimension)
        except BaseException as error:
            db.roll_back()
            if is_away(error):
                self.close()
                raise away(error) from error
            raise
        try:
            db.db.execute("COMMIT")
        except psycopg.Error as error:
            self.close()
            if not is_away(error):
                raise
            if not self._is_committed(xid):
                raise StoreAway(
                    "the connection to the database broke at the end of a write, which may be "
                    "there; repeat the call later"
                ) from error

    def _begin(self) -> tuple[PostgresConnection, str]:
        """Begin a transaction and lock the tenant; an idle connection may have broken before."""
        if self._refusal and time.monotonic() < self._refusal[0]:
            raise StoreAway(str(self._refusal[1]))
        for attempt in range(2):
            is_new = self._db is None
            try:
                db = self._db = self._db or self._connect()
                db.begin()
                row = db.db.execute(_LOCKED).fetchone()
                break
            except psycopg.Error as error:
                self.close()
                if is_new or attempt:
                    self._refusal = time.monotonic() + _REFUSED, away(error)
                    raise self._refusal[1] from error
        if row is None:
            db.roll_back()
            raise StoreMismatch(f"the tenant {self._tenant} was deleted")
        self.revision, self.dimension, store, epoch, model, timeline, *last, xid = row
        self.origin = (store, epoch)
        if model != self._model:
            db.roll_back()
            raise StoreMismatch(
                f"another node embeds this tenant with {model} now; start this node with it"
            )
        self._ids = Ids(LastIds(*last))
        if timeline != self._timeline:
            self.origin = begin_epoch(db, history_of(db)).point[:2]
            db.execute("UPDATE state SET timeline = ?", (self._timeline,))
        return db, xid

    def _connect(self) -> PostgresConnection:
        connection = connect(self._url)
        self._timeline = timeline_of(connection)
        return PostgresConnection(connection, self._tenant)

    def write_state(self, state: Mapping[str, object]) -> None:
        """Write the new state of the store, and tell the other nodes of the commit."""
        assert self._db is not None
        self._db.set_meta(state)
        self._db.execute(
            "UPDATE state SET last_context = ?, last_text = ?",
            (self._ids.contexts.last, self._ids.texts.last),
        )
        told = f"{self._tenant} {state['store.revision']}"
        self._db.execute("SELECT pg_notify(?, ?)", (CHANNEL, told))

    def _is_committed(self, xid: str) -> bool:
        """Ask the same server for the outcome of a transaction whose connection broke.

        Another server, which took its place, may have given the number to another transaction.
        """
        ends = time.monotonic() + _PATIENCE
        while time.monotonic() < ends:
            with suppress(psycopg.Error), connect(self._url) as db:
                if timeline_of(db) != self._timeline:
                    return False
                status = db.execute("SELECT pg_xact_status($1::xid8)", (xid,)).fetchone()
                if status is not None and status[0] != "in progress":
                    return bool(status[0] == "committed")
            time.sleep(_PAUSE)
        return False

    def close(self) -> None:
        """Close the connection; the next transaction makes a new one."""
        if self._db is not None:
            with suppress(psycopg.Error):
                self._db.db.close()
            self._db = None


def timeline_of(db: psycopg.Connection[TupleRow]) -> str:
    """Return the cluster and the timeline of a server; "" if it does not tell them."""
    try:
        row = db.execute(_TIMELINE).fetchone()
    except psycopg.Error as error:
        if is_away(error):
            raise
        return ""
    return str(row[0]) if row else ""
