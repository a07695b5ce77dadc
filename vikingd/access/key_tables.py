"""Protocols of the tables of keys and limits, which are in a file or in the nodes' database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Rows(Protocol):
    """The result of an SQL statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that a write changed."""

    def fetchone(self) -> Any:
        """Return the next row; None at the end."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection for SQL that both SQLite and PostgreSQL understand."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Rows:
        """Run one statement for each row of values."""


class Subscription(Protocol):
    """A subscription to changes of keys and limits."""

    def stop(self) -> None:
        """End the subscription."""


class SharedTables(Protocol):
    """The tables that all nodes share; `vikingd.store.postgres.postgres_key_tables` has them."""

    def changing(self, *, key: str = "", tenant: str = "") -> AbstractContextManager[Connection]:
        """Run a transaction that changes a key or a tenant, and notify all nodes at its commit.

        Args:
            key: the id of the changed key; "" for none.
            tenant: the name of the changed tenant; "" for none.
        """

    def changing_silently(self) -> AbstractContextManager[Connection]:
        """Run a transaction that other nodes need not notice, such as for times of last use."""

    def reading(self) -> AbstractContextManager[Connection]:
        """Run a transaction that only reads; all its reads see the same state of the database."""

    def timeline(self) -> str:
        """Return an identifier of the database server's history.

        It changes when a standby is promoted, or when the database is replaced by another one.
        """

    def subscribe(self, on_change: Callable[[], object]) -> Subscription:
        """Call `on_change` now, and after each change that any node makes."""
