"""The transactions that write the rows of one tenant in PostgreSQL; several nodes take turns.

Each transaction locks the row of the tenant first. So the revisions and ids of a tenant have no gap
and no conflict, and two transactions never wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import psycopg

from vikingd.domain.errors import StoreAway, StoreMismatch
from vikingd.domain.tenants import missing
from vikingd.store.connection import LastIds
from vikingd.store.history import begin_epoch, history_of
from vikingd.store.postgres.commit_notifications import CHANNEL
from vikingd.store.postgres.postgres_connection import PostgresConnection, commit, wait_for_standby
from vikingd.store.postgres.postgres_database import Database, WriteConnection, timeline_of
from vikingd.store.postgres.postgres_faults import Unconfirmed, away, is_away, unknown
from vikingd.store.writer import Begun, Committing
from vikingd.store.writes.transaction import Ids

_LOCKED = """
SELECT revision, dimension, store, epoch, model, timeline, last_context, last_text, last_entry,
    pg_current_xact_id()::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM state FOR UPDATE
"""
_PATIENCE = 10.0  # seconds for the outcome of a commit whose connection broke
_PAUSE = 0.1  # seconds between two attempts to ask for it


class PostgresCommitting(Committing):
    """The transactions of one tenant, on connections that the database lends.

    Args:
        database: the database, which lends the connections.
        tenant: the name of the tenant.
        model: the name of the model that makes the vectors.

    Attributes:
        origin: the store and the epoch that the last transaction belongs to.
    """

    failures = (psycopg.Error, StoreAway)

    def __init__(
        self, database: Database, tenant: str, *, model: str, revision: int, dimension: int | None
    ) -> None:
        super().__init__(revision, dimension)
        self._database = database
        self._tenant = tenant
        self._model = model
        self._part: PostgresConnection | None = None  # within a transaction
        self.origin = ("", "")
        self._ids = Ids(LastIds(0, 0, 0))

    @contextmanager
    def transaction(self) -> Iterator[Begun]:
        """Open a transaction that holds the tenant's lock; commit it at the end of the block.

        Raises:
            StoreAway: the database cannot be reached. Nothing was written, unless the message says
                that the outcome is unknown.
            StoreMismatch: another node has begun to use another model.
            NotFound: the tenant was deleted.
        """
        database = self._database
        taken, part, xid, now = self._begin()
        broke = False
        try:
            try:
                yield Begun(part, self._ids, self.revision, self.dimension, now)
            except BaseException as error:
                part.roll_back()
                if is_away(error):
                    broke = True
                    raise away(error) from error
                raise
            try:
                commit(part.db)
            except psycopg.Error as error:
                broke = True
                if not is_away(error):
                    raise
                if not self._is_committed(xid, taken.timeline):
                    raise unknown(error) from error
        finally:
            self._part = None
            (database.drop if broke else database.give)(taken)

    def _begin(self) -> tuple[WriteConnection, PostgresConnection, str, int]:
        """Begin a transaction and lock the tenant; if an idle connection is broken, try a new one.

        Returns:
            (the lent connection, a PostgresConnection for the tenant on it, the transaction's id,
            the database's time in microseconds since 1970-01-01 UTC).
        """
        for attempt in range(2):
            taken = self._database.take()
            part = PostgresConnection(taken.db, self._tenant)
            try:
                part.begin()
                row = part.db.execute(_LOCKED).fetchone()
                break
            except psycopg.Error as error:
                self._database.drop(taken)
                if taken.is_new or attempt:
                    raise away(error) from error
        try:
            if row is None:
                raise missing(self._tenant)
            self.revision, self.dimension, store, epoch, model, timeline, *last, xid, now = row
            self.origin = (store, epoch)
            if model != self._model:
                raise StoreMismatch(
                    f"another node embeds this tenant with {model} now; start this node with it"
                )
            self._ids = Ids(LastIds(*last))
            if timeline != taken.timeline:
                self.origin = begin_epoch(part, history_of(part)).point[:2]
                part.execute("UPDATE state SET timeline = ?", (taken.timeline,))
        except BaseException:
            part.roll_back()
            self._database.give(taken)
            raise
        self._part = part
        return taken, part, xid, now

    def write_state(self, state: Mapping[str, object]) -> None:
        """Write the new state of the tenant, and notify the other nodes at the commit."""
        assert self._part is not None
        self._part.set_meta(state)
        self._part.execute(
            "UPDATE state SET last_context = ?, last_text = ?",
            (self._ids.contexts.last, self._ids.texts.last),
        )
        told = f"{self._tenant} {state['store.revision']}"
        self._part.execute("SELECT pg_notify(?, ?)", (CHANNEL, told))

    def _is_committed(self, xid: str, timeline: str) -> bool:
        """Return True if a commit without confirmation took place and is on the standby.

        The server is asked for the transaction's id for up to 10 seconds. If another server has
        taken its place, the answer is False, because there the id may belong to another
        transaction.
        """
        ends = time.monotonic() + _PATIENCE
        while time.monotonic() < ends:
            with suppress(psycopg.Error), self._database.connected() as db:
                if timeline_of(db) != timeline:
                    return False
                status = db.execute("SELECT pg_xact_status($1::xid8)", (xid,)).fetchone()
                if status is not None and status[0] != "in progress":
                    if status[0] != "committed":
                        return False
                    try:
                        wait_for_standby(db)
                    except Unconfirmed:
                        return False
                    return True
            time.sleep(_PAUSE)
        return False
