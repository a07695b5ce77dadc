"""A connection to a database, as the shared reads and writes of all stores use it.

Their statements keep to what SQLite and PostgreSQL both know:

- parameters are `?`, or `?1`, `?2` and so on;
- a list is one JSON text: `IN (SELECT value FROM each_id(?))`, of texts `each_name(?)`; an object
  of numbers is `each_pair(?)`, with a `key` to cast;
- `string_agg(TEXT, ',')` joins texts;
- a flag is 0 or 1, and a condition compares it: `is_directory = 1`;
- `INDEXED BY` names an index for SQLite alone;
- `tenant = 'default'` begins keys of SQLite; a connection shows one tenant, under this name;
- single values of the store, such as its revision, are read and written by `get_meta`, `set_meta`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol


class LastIds(NamedTuple):
    """The largest ids that were ever given to contexts, texts and entries, deleted ones too."""

    contexts: int
    texts: int
    entries: int


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
    """A connection with at most one open transaction; for one thread at a time."""

    @property
    def in_transaction(self) -> bool:
        """True while a transaction is open."""

    def execute(self, sql: str, values: Sequence[object] = (), /) -> Rows:
        """Run one SQL statement and return its result."""

    def executemany(self, sql: str, rows: Iterable[Sequence[object]], /) -> Rows:
        """Run one SQL statement for each row of parameters."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block in a transaction that writes; roll back if it or the commit fails."""

    def get_meta(self, *keys: str) -> dict[str, Any]:
        """Return values of the table `meta` by key, of type int, str, bytes or None.

        Missing keys are left out.
        """

    def get_state(self) -> dict[str, Any]:
        """Return the values of all keys of the table `meta` that begin with "store.", by key."""

    def set_meta(self, values: Mapping[str, object]) -> None:
        """Write values into the table `meta` by key."""

    def last_ids(self) -> LastIds:
        """Return the largest ids of contexts, texts and entries so far, deleted ones too."""
