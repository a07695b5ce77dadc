"""The open transaction that the requests of one commit share."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

from vikingd.domain.checksums import CONTENT, CONTEXT, ENTRY, TEXT
from vikingd.domain.errors import InvalidField, NotFound, RevisionDiffers
from vikingd.domain.store_changes import AllLinks, Change, Linked, Unlinked
from vikingd.domain.uri import parent
from vikingd.store.connection import Connection, LastIds

_ROWS_PER_STATEMENT = 64
_OF_LINKS = {Linked, Unlinked, AllLinks}

COLUMNS = {
    "contexts": f"{CONTEXT}, {CONTENT}, checksum, content_checksum",
    "texts": f"{TEXT}, vector_revision, vector, checksum, vector_checksum",
    "entries": f"{ENTRY}, checksum",
}
"""The columns of new rows, by table, in the order of the inserts."""

Row = tuple[Any, ...]
"""A row to insert: the values of COLUMNS."""


class Counter:
    """An endless iterator of ids: `last` + 1, `last` + 2 and so on."""

    __slots__ = ("last",)

    def __init__(self, last: int) -> None:
        self.last = last

    def __next__(self) -> int:
        self.last += 1
        return self.last


class Ids:
    """Sources of new ids for contexts, texts and entries; no id is ever used twice.

    Ids that a failed transaction has taken stay unused.
    """

    def __init__(self, last: LastIds) -> None:
        self.contexts, self.texts, self.entries = map(Counter, last)
        self.last_entry = last.entries


class StoredContext(NamedTuple):
    """The columns of an existing context that writes read."""

    id: int
    is_directory: bool
    content_hash: bytes
    time: int
    revision: int
    parent_id: int | None
    created_at: int


class Transaction:
    """An open transaction, shared by several requests; all its writes get the same revision.

    Attributes:
        now: the time of the commit, in microseconds since the epoch.
        rows: new rows that are not in the tables yet, by table.
        known: the contexts at the URIs looked up so far, also those in `rows`; None for a URI
            without a context.
        changes: the changes of the writes so far, in order, for the index.
        touched: True once a write changed something.
        linked: True once a write made or removed a link.
        dimension: numbers in a vector; None until the first vector is written.
    """

    def __init__(
        self,
        db: Connection,
        ids: Ids,
        *,
        revision: int,
        dimension: int | None,
        now: int | None = None,
    ) -> None:
        self._db = db
        self._has_savepoint = False  # of the request that runs
        self.ids = ids
        self.now = time.time_ns() // 1000 if now is None else now
        self.rows = _no_rows()
        self.known: dict[str, StoredContext | None] = {}
        self.revision = revision
        self.dimension = dimension
        self.changes: list[Change] = []
        self.touched = False
        self.linked = False

    @contextmanager
    def request(self) -> Iterator[None]:
        """Run one request in the block; if it raises, undo its changes alone."""
        before = len(self.changes), self.touched, self.linked, self.dimension
        counts = {table: len(rows) for table, rows in self.rows.items()}
        self._has_savepoint = False
        try:
            yield
        except BaseException:
            if not self._has_savepoint:
                made = self.rows["contexts"][counts["contexts"] :]
                self.known.update((uri, None) for _, uri, *_ in made)
                for table, rows in self.rows.items():
                    del rows[counts[table] :]
            elif self._db.in_transaction:
                self.rows = _no_rows()
                self.known.clear()
                self._db.execute("ROLLBACK TO request")
                self._db.execute("RELEASE request")
            length, self.touched, self.linked, self.dimension = before
            del self.changes[length:]
            raise
        if self._has_savepoint:
            self._db.execute("RELEASE request")

    @property
    def is_open(self) -> bool:
        """True while the transaction is open; after an error the database may have ended it."""
        return self._db.in_transaction

    def use_tables(self) -> Connection:
        """Insert all new rows, so that SQL statements see them, and return the connection.

        A request that only makes contexts does not need this: many such requests share statements.
        """
        if not self._has_savepoint:
            self.insert_rows()
            self._db.execute("SAVEPOINT request")
            self._has_savepoint = True
        return self._db

    def insert_rows(self) -> None:
        """Insert the rows collected in `rows` into the tables."""
        for table, rows in self.rows.items():
            _insert(self._db, table, rows)
        if entries := self.rows["entries"]:
            self.ids.last_entry = max(self.ids.last_entry, *(row[1] for row in entries))
            self._db.set_meta({"entries.last": self.ids.last_entry})
        self.rows = _no_rows()

    def look_up(self, uris: Iterable[str]) -> None:
        """Read the contexts at these URIs and directly above them into `known` in one query."""
        uris = list(uris)
        unknown = {*uris, *map(parent, uris)}.difference(self.known)
        if unknown:
            rows = self._db.execute(
                "SELECT uri, id, is_directory, content_hash, time, revision, parent_id, created_at "
                "FROM contexts "
                "WHERE tenant = 'default' AND uri IN (SELECT value FROM each_name(?))",
                (json.dumps(list(unknown)),),
            )
            self.known.update(dict.fromkeys(unknown))
            self.known.update({uri: StoredContext(*row) for uri, *row in rows})

    def find(self, uri: str) -> StoredContext | None:
        """Return the context at a URI; None if there is none."""
        if uri not in self.known:
            self.look_up([uri])
        return self.known[uri]

    def get(self, uri: str) -> StoredContext:
        """Return the context at a URI.

        Raises:
            NotFound: there is none.
        """
        context = self.find(uri)
        if context is None:
            raise NotFound(uri)
        return context

    def check_revision(self, uri: str, expected: int | None) -> None:
        """Raise RevisionDiffers unless a context has the expected revision.

        A missing context has revision 0; None allows any revision.

        Raises:
            RevisionDiffers: the context has another revision.
        """
        context = self.find(uri)
        revision = context.revision if context else 0
        if expected not in (None, revision):
            raise RevisionDiffers(uri, expected, revision)

    def check_vector(self, vector: bytes, field: str) -> None:
        """Raise InvalidField if a vector has a wrong size.

        The first vector of a store sets the dimension of all others.

        Raises:
            InvalidField: the vector has another size, or none.
        """
        if self.dimension is None:
            self.dimension = len(vector) // 4
        if len(vector) != 4 * self.dimension or not vector:
            raise InvalidField(
                field,
                f"has {len(vector)} bytes; vectors of this store have {self.dimension} float32, "
                f"that is {4 * self.dimension} bytes",
            )

    def emit(self, *changes: Change) -> None:
        """Append changes for the index."""
        self.changes.extend(changes)
        for change in changes:
            self.touched = True
            if type(change) in _OF_LINKS:
                self.linked = True


def _no_rows() -> dict[str, list[Row]]:
    """Return an empty list of rows for each table."""
    return {table: [] for table in COLUMNS}


def _insert(db: Connection, table: str, rows: Sequence[Row]) -> None:
    # Each statement releases and takes the GIL once, so one statement inserts many rows.
    for at in range(0, len(rows), _ROWS_PER_STATEMENT):
        some = rows[at : at + _ROWS_PER_STATEMENT]
        places = ", ".join([f"({', '.join('?' * len(some[0]))})"] * len(some))
        sql = f"INSERT INTO {table} ({COLUMNS[table]}) VALUES {places}"
        db.execute(sql, list(chain.from_iterable(some)))
