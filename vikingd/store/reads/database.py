"""A pool of read-only connections; the size of the database, its metadata, a backup."""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from vikingd.domain.errors import InvalidField, NotFound, Stopping, StoreDamaged
from vikingd.domain.uri import ROOT, ancestors
from vikingd.store.backup import Backup, copy_database
from vikingd.store.faults import domain_errors
from vikingd.store.schema import connect

_KNOWN = """
SELECT count(*) FROM contexts
WHERE tenant = 'default' AND uri IN (SELECT value FROM json_each(?))
"""

_USED = """
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""


class StoreCounts(NamedTuple):
    """The size of a store; `bytes` is its size on disk."""

    directories: int
    files: int
    texts: int
    vectors: int
    relations: int
    bytes: int


class DatabaseReads:
    """Reads on connections that any number of threads reuse; those of the database as a whole."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False

    def _note(self, damage: StoreDamaged) -> None:
        """Hear of damage that a read found."""

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that sees one revision until the block ends."""
        if self._closed:
            raise Stopping("the store is closed")
        with domain_errors("the store could not be read", self._database, self._note):
            try:
                db = self._idle.pop()
            except IndexError:
                db = connect(self._database, read_only=True)
            is_reusable = False
            try:
                db.execute("BEGIN")
                yield db
                is_reusable = True
            except (NotFound, InvalidField):
                is_reusable = True
                raise
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                # After any other error, cursors in its traceback still see the old revision. So no
                # other read gets the connection, and it closes with the last of them.
                if is_reusable:
                    self._idle.append(db)
                if self._closed:
                    self._close_idle()

    def _close_idle(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def counts(self) -> StoreCounts:
        """Return the size of the store."""
        with self._snapshot() as db:
            (row,) = db.execute(
                "SELECT (SELECT count(*) FROM contexts), "
                "(SELECT count(*) FROM contexts INDEXED BY contexts_children WHERE is_directory), "
                "(SELECT count(*) FROM texts), (SELECT count(*) FROM texts WHERE vector IS NULL), "
                "(SELECT count(*) FROM links)"
            )
        contexts, directories, texts, without_vector, links = row
        return StoreCounts(
            directories=directories,
            files=contexts - directories,
            texts=texts,
            vectors=texts - without_vector,
            relations=links,
            bytes=self._size(),
        )

    def stored(self, uris: Iterable[str]) -> tuple[int, int, int]:
        """Return (contexts, bytes) of the store, and how many contexts `uris` would add.

        The bytes are those of the pages in use: deletes free pages, but the file keeps its size.
        The added contexts are the missing URIs with the missing directories above them.
        """
        named = {uri if uri == ROOT else uri.removesuffix("/") for uri in uris}
        named |= {above for uri in named for above in ancestors(uri)}
        with self._snapshot() as db:
            (contexts,) = db.execute("SELECT count(*) FROM contexts").fetchone()
            (known,) = db.execute(_KNOWN, (json.dumps(list(named)),)).fetchone()
            (size,) = db.execute(_USED).fetchone()
        return contexts, size, len(named) - known

    def _size(self) -> int:
        paths = (Path(f"{self._database}{suffix}") for suffix in ("", "-wal", "-shm"))
        return sum(map(_file_size, paths))

    def backup(self, check: Callable[[], None]) -> Backup:
        """Return a copy of the store at the newest revision; the caller closes it.

        `check` is called now and then during the copy; an error of it ends the copy.

        Raises:
            DiskFull: the disk has no room for the copy.
        """

        def check_both() -> None:
            check()
            if self._closed:
                raise Stopping("the store is closed")

        with self._snapshot() as db:
            return copy_database(db, self._database, check_both)

    def get_meta(self, key: str) -> bytes | None:
        """Return the value that `Store.set_meta` stored; None if there is none."""
        with self._snapshot() as db:
            row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            return None if row is None else row[0]


def contexts_in(database: Path) -> int:
    """Return the number of contexts in a database that no process has open; 0 if it is damaged."""
    try:
        with closing(connect(database, read_only=True)) as db:
            (count,) = db.execute("SELECT count(*) FROM contexts").fetchone()
            return int(count)
    except sqlite3.Error:
        return 0


def revision_of(db: sqlite3.Connection) -> int:
    """Return the revision that a connection sees."""
    (revision,) = db.execute("SELECT value FROM meta WHERE key = 'store.revision'").fetchone()
    return int(revision)


def _file_size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
