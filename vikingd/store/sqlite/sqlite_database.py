"""The read-only connections to an SQLite database, its size on disk, and its backup."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from vikingd.domain.errors import InvalidField, NotFound, Stopping, StoreDamaged
from vikingd.store.connection import Connection
from vikingd.store.reads import Reads
from vikingd.store.sqlite.backup import Backup, copy_database
from vikingd.store.sqlite.database_rewrite import used
from vikingd.store.sqlite.sqlite_connection import SqliteConnection
from vikingd.store.sqlite.sqlite_faults import domain_errors, integrity_check
from vikingd.store.sqlite.sqlite_schema import connect


class SqliteReads(Reads):
    """The reads of a SQLite database, on a pool of read-only connections; safe for any threads."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._idle: deque[SqliteConnection] = deque()
        self._closed = False

    def _note(self, damage: StoreDamaged) -> None:
        """Receive the error when a read finds damage; subclasses that write override this."""

    @contextmanager
    def _snapshot(self) -> Iterator[SqliteConnection]:
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
                # After any other error, cursors in its traceback still see the old revision. So the
                # connection is not reused. It is closed when the last of these cursors is deleted.
                if is_reusable:
                    self._idle.append(db)
                if self._closed:
                    self._close_idle()

    def _close_idle(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _size(self) -> int:
        paths = (Path(f"{self._database}{suffix}") for suffix in ("", "-wal", "-shm"))
        return sum(map(_file_size, paths))

    def page_faults(self) -> list[str]:
        """Return the first errors that SQLite's integrity check finds; it reads all pages."""
        with self._snapshot() as db:
            return integrity_check(db)

    def backup(self, check: Callable[[], None]) -> Backup:
        """Return a copy of the store at the newest revision; the caller closes it.

        `check` is called now and then during the copy; an error that it raises ends the copy.

        Raises:
            DiskFull: the disk has no room for the copy.
            Stopping: the store is closed.
        """

        def check_both() -> None:
            check()
            if self._closed:
                raise Stopping("the store is closed")

        if self._closed:
            raise Stopping("the store is closed")
        with domain_errors("the store could not be read", self._database, self._note):
            return copy_database(self._database, check_both)

    def _used(self, db: Connection) -> int:
        return used(db)


def contexts_in(database: Path) -> int:
    """Return the number of contexts in a database that no process has open; 0 if it is damaged."""
    try:
        with closing(connect(database, read_only=True)) as db:
            (count,) = db.execute("SELECT count(*) FROM contexts").fetchone()
            return int(count)
    except sqlite3.Error:
        return 0


def _file_size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it does not exist."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
