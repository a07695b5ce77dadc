"""The tables of keys and limits, in the file of a daemon or in the database of nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that a write changed."""

    def fetchone(self) -> Any:
        """Return the next row; None at the end."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection; its statements keep to what SQLite and PostgreSQL both know."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Rows:
        """Run one statement."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Rows:
        """Run one statement for each row of values."""


class Following(Protocol):
    """The following of changes, until its end."""

    def stop(self) -> None:
        """Stop to follow."""


class SharedTables(Protocol):
    """The tables of all nodes; see `vikingd.store.postgres.access`."""

    def changing(self, *, key: str = "", tenant: str = "") -> AbstractContextManager[Connection]:
        """Run a transaction with the next number of a change, and tell all nodes of it.

        Args:
            key, tenant: the id of the key, or the name of the tenant, that it changes.
        """

    def noting(self) -> AbstractContextManager[Connection]:
        """Run a transaction that changes nothing that callers see."""

    def asking(self) -> AbstractContextManager[Connection]:
        """Run a transaction that reads one state."""

    def timeline(self) -> str:
        """Return another text after the database was replaced by another one or by a standby."""

    def subscribe(self, on_change: Callable[[], object]) -> Following:
        """Call `on_change` now, and after the changes of any node."""
