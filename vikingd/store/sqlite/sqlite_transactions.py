"""The transactions of the connection that writes an SQLite database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from vikingd.domain.errors import StoreDamaged
from vikingd.store.damage import REMEDY
from vikingd.store.history import History, begin_epoch
from vikingd.store.sqlite.directory import Reserve
from vikingd.store.sqlite.sqlite_connection import SqliteConnection
from vikingd.store.store_meta import CLEAN
from vikingd.store.writer import Begun, Committing
from vikingd.store.writes.transaction import Ids
from vikingd.system.open_files import OpenFiles


class SqliteCommitting(Committing):
    """Transactions that check that the database's files were not truncated, deleted or replaced.

    Args:
        history: the history of the store.
        has_begun: True if the last epoch is this writer's; else the first transaction begins one.
        is_clean: True if the last writer closed the store.

    Attributes:
        history: the history; its revision is not kept up to date.
        has_begun: True once this writer has begun an epoch.
        is_clean: True if this writer has nothing to note when it closes the store.
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
        """True if nothing was written since a clean end of the last writer."""
        return self._was_clean and not self.has_begun

    @contextmanager
    def transaction(self) -> Iterator[Begun]:
        """Run a transaction; the database's files are checked before it and before its commit.

        The second check is needed because a large transaction writes to the log before its end: the
        longer file would hide that something was cut off. The first transaction begins an epoch, so
        that a store that is only read is not changed.

        Raises:
            StoreDamaged: a file is damaged. No more writes are accepted.
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
        """Write the new state of the store within the transaction."""
        self._db.set_meta({**state, CLEAN: 0})

    @property
    def is_full(self) -> bool:
        """True if the disk is full, so that only operations that free room are accepted."""
        return not self._reserve.is_held

    def release(self) -> None:
        """Use the reserve, for operations that free room."""
        self._reserve.release()

    def make_room(self) -> bool:
        """Try to take the reserve again, if need be with the room of the log.

        Returns:
            True if the reserve is held.
        """
        if not self._reserve.take():
            with suppress(sqlite3.Error, StoreDamaged):  # the next transaction finds damage, too
                self.empty_log()
            self._reserve.take()
        return self._reserve.is_held

    def empty_log(self) -> bool:
        """Write the log into the database and empty it; return False if a reader still uses it.

        Raises:
            StoreDamaged: the files are not whole.
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
        """Bytes of a page of the database."""
        return self._number("page_size")

    @property
    def pages(self) -> int:
        """Pages of the database, free ones included."""
        return self._number("page_count")

    def free_pages(self) -> int:
        """Return the free pages that `give_back` can give; 0 if the database is an old one."""
        return self._number("freelist_count") if self._number("auto_vacuum") else 0

    def give_back(self, pages: int) -> int:
        """Give free pages at the end of the file back, in one transaction; return their number.

        Used pages at the end move to free places first.

        Raises:
            StoreDamaged: the files are not whole.
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
