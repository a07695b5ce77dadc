"""The tables of keys, tenants and their limits, which all nodes of a database share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg.rows import TupleRow

from vikingd.store.postgres.commit_notifications import CHANNEL, Subscription
from vikingd.store.postgres.postgres_connection import PostgresConnection
from vikingd.store.postgres.postgres_database import Database, timeline_of
from vikingd.store.postgres.postgres_faults import domain_errors

_KEPT = 10_000  # changes that nodes may still have to follow
_WHAT = "the keys in the database do not work"
_NEXT = "UPDATE state SET value = value + 1 WHERE name = 'changes' RETURNING value"


class AccessTables:
    """The tables of keys, tenants and limits, in the schema `vikingd_access`.

    Args:
        database: the database of the node.

    The methods raise StoreAway if the database cannot be reached, else StoreFailed.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def changing(self, *, key: str = "", tenant: str = "") -> Iterator[PostgresConnection]:
        """Open a transaction that changes a key or a tenant; its commit notifies all nodes.

        Args:
            key: the id of the changed key; "" for none.
            tenant: the name of the changed tenant; "" for none.
        """
        with self.changing_silently() as part:
            row = part.execute(_NEXT).fetchone()  # locks the row: changes take turns
            assert row is not None
            yield part
            part.execute("INSERT INTO changes VALUES (?, ?, ?)", (row[0], key, tenant))
            part.execute("DELETE FROM changes WHERE number <= ?", (row[0] - _KEPT,))
            part.execute("SELECT pg_notify(?, ?)", (CHANNEL, f" {row[0]}"))

    @contextmanager
    def changing_silently(self) -> Iterator[PostgresConnection]:
        """Open a transaction without notification of other nodes, such as for times of last use."""
        with domain_errors(_WHAT), self._database.connection() as db:
            part = _AccessConnection(db)
            with part.transaction():
                yield part

    @contextmanager
    def reading(self) -> Iterator[PostgresConnection]:
        """Open a read-only transaction; all reads in the block see one state of the database."""
        with domain_errors(_WHAT), self._database.connection() as db:
            part = _AccessConnection(db)
            part.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield part
            finally:
                part.roll_back()

    def timeline(self) -> str:
        """Return an identifier of the database server and its timeline.

        It changes when a standby is promoted, or when the database is replaced by another one.
        """
        with domain_errors(_WHAT), self._database.connection() as db:
            return timeline_of(db)

    def subscribe(self, on_change: Callable[[], object]) -> Subscription:
        """Call `on_change` soon, and after each change of keys or tenants by any node."""
        return self._database.subscribe("", on_change)


class _AccessConnection(PostgresConnection):
    """A connection to the tables of keys and limits."""

    def __init__(self, db: psycopg.Connection[TupleRow]) -> None:
        self.db = db
        self._begin = "BEGIN {}; SET LOCAL search_path = vikingd_access"
