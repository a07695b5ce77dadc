"""The transactions of the one connection that writes a SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from vikingd.domain.errors import StoreDamaged
from vikingd.store.damage import REMEDY
from vikingd.store.history import History, begin_epoch
from vikingd.store.sqlite.sqlite_connection import SqliteConnection
from vikingd.store.sqlite.store_directory import Reserve
from vikingd.store.store_meta import CLEAN
from vikingd.store.writer import Begun, Committing
from vikingd.store.writes.transaction import Ids
from vikingd.system.open_files import OpenFiles


class SqliteCommitting(Committing):
    """The transactions of a SQLite store, which check the database's files each time.

    After a file was truncated, deleted or replaced, all writes are refused.

    Args:
        history: the history of the store.
        has_begun: True if this writer has begun the last epoch of the history. If False, its first
            transaction begins a new one.
        is_clean: True if the last writer closed the store.

    Attributes:
        history: the history; its revision is not kept up to date.
        has_begun: True once this writer has begun an epoch.
        is_clean: True if the database is marked as closed: this writer has written nothing.
    """

    failures = (sqlite3.Error,)

    def __init__(
        self,
        db: SqliteConnection,
        files: OpenFiles,
        reserve: Reserve,
        *,
        history: History,
        has_begun: bool,
        is_clean: bool,
        revision: int,
        dimension: int | None,
    ) -> None:
        super().__init__(revision, dimension)
        self._db = db
        self._files = files
        self._reserve = reserve
        self._ids = Ids(db.last_ids())
        self._was_clean = is_clean
        self.history = history
        self.has_begun = has_begun

    @property
    def is_clean(self) -> bool:
        """True if the last writer closed the store, and this one has written nothing."""
        return self._was_clean and not self.has_begun

    @contextmanager
    def transaction(self) -> Iterator[Begun]:
        """Open a transaction; the database's files are checked before it and before its commit.

        The second check is needed because a large transaction writes to the log before its end: the
        longer file would hide that something was cut off. The first transaction begins an epoch, so
        that a store that is only read is not changed.

        Raises:
            StoreDamaged: a file was truncated, deleted or replaced. No more writes are accepted.
        """
        self._check_files()
        with self._db.transaction():
            history = self.history
            if not self.has_begun:
                history = begin_epoch(self._db, history._replace(revision=self.revision))
            yield Begun(self._db, self._ids, self.revision, self.dimension)
            self._check_files()
        self.history, self.has_begun = history, True
        self._files.remember()

    def _check_files(self) -> None:
        if problem := self._files.problem():
            raise StoreDamaged(f"{problem}: {REMEDY}")

    def write_state(self, state: Mapping[str, object]) -> None:
        """Write values of the table `meta`, and that the store is not closed."""
        self._db.set_meta({**state, CLEAN: 0})

    @property
    def is_full(self) -> bool:
        """True if the disk is full, so that only operations that free disk space are accepted."""
        return not self._reserve.is_held

    def release(self) -> None:
        """Delete the reserve, so that operations that free disk space can run."""
        self._reserve.release()

    def make_room(self) -> bool:
        """Try to create the reserve again, after emptying the log if necessary.

        Returns:
            True if the reserve exists, so that all operations can be accepted.
        """
        if not self._reserve.take():
            with suppress(sqlite3.Error, StoreDamaged):  # the next transaction finds damage, too
                self.empty_log()
            self._reserve.take()
        return self._reserve.is_held

    def empty_log(self) -> bool:
        """Copy the write-ahead log into the database, and truncate it to length 0.

        Returns False if a reader still uses the log.

        Raises:
            StoreDamaged: a file was truncated, deleted or replaced.
        """
        self._check_files()
        self._db.execute("PRAGMA busy_timeout = 0")  # do not wait for readers
        try:
            (is_busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            self._db.execute("PRAGMA busy_timeout = 10000")
            self._files.remember()
        if self._reserve.is_held:
            self._reserve.take()  # the database may have grown
        return not is_busy

    @property
    def page_size(self) -> int:
        """The size of a page of the database, in bytes."""
        return self._number("page_size")

    @property
    def pages(self) -> int:
        """The number of pages of the database, free ones included."""
        return self._number("page_count")

    def free_pages(self) -> int:
        """Return the pages that `give_back` can free; 0 before `database_rewrite.convert`."""
        return self._number("freelist_count") if self._number("auto_vacuum") else 0

    def give_back(self, pages: int) -> int:
        """Shorten the database by up to `pages` free pages in one transaction; return the number.

        Used pages at the end of the file move into free ones first.

        Raises:
            StoreDamaged: a file was truncated, deleted or replaced.
        """
        self._check_files()
        before = self.pages
        # A script runs the pragma to its end; `execute` ends it after its first page.
        self._db.executescript(f"PRAGMA incremental_vacuum({pages:d})")
        self._files.remember()
        return before - self.pages

    def _number(self, pragma: str) -> int:
        (number,) = self._db.execute(f"PRAGMA {pragma}").fetchone()
        return int(number)
