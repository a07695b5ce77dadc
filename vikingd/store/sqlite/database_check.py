"""A check of the database in the background, after its last writer did not close it."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from vikingd.domain.errors import StoreDamaged
from vikingd.store.damage import store_damaged
from vikingd.store.sqlite.sqlite_faults import quick_check, undecodable_rows
from vikingd.store.sqlite.sqlite_schema import connect
from vikingd.system.priorities import lower_writer_priority

_log = logging.getLogger(__name__)


class Check:
    """A thread that searches a database for damage.

    Args:
        database: the file of the database.
        found: called with the error to report, if there is damage.
    """

    def __init__(self, database: Path, found: Callable[[StoreDamaged], None]) -> None:
        self._database = database
        self._found = found
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="store-check", daemon=True)

    def start(self) -> None:
        """Start the check, on its thread."""
        self._thread.start()

    def stop(self) -> None:
        """Cancel the check, and wait until the thread has ended."""
        self._stopping = True
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        lower_writer_priority()
        started = time.monotonic()
        _log.info("the store was not closed cleanly; it is checked in the background")
        try:
            with closing(connect(self._database, read_only=True)) as db:
                db.set_progress_handler(lambda: self._stopping, 10_000)
                findings = quick_check(db)
            if not findings:
                findings = undecodable_rows(self._database, is_over=lambda: self._stopping)
        except sqlite3.Error as error:
            if not self._stopping:
                _log.warning("the check of the store failed: %s", error)
            return
        if findings:
            self._found(store_damaged("; ".join(findings)))
        elif not self._stopping:
            _log.info("the store is sound, checked in %.1f s", time.monotonic() - started)
