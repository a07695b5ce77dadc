"""A pool of read-only connections."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vikingd.domain.errors import Stopping, StoreDamaged
from vikingd.store.faults import domain_errors
from vikingd.store.schema import connect


class Connections:
    """Read-only connections to one database, reused by any number of threads."""

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
            try:
                db.execute("BEGIN")
                yield db
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                self._idle.append(db)
                if self._closed:
                    self._close_idle()

    def _close_idle(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def revision_of(db: sqlite3.Connection) -> int:
    """Return the revision that a connection sees."""
    (revision,) = db.execute("SELECT value FROM meta WHERE key = 'store.revision'").fetchone()
    return int(revision)
