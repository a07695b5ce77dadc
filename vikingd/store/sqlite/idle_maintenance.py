"""Background work of a store without writes: sync the mark, empty the log, free disk space."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from itertools import count

from vikingd.store.sqlite.sqlite_transactions import SqliteCommitting
from vikingd.store.writer import Writer
from vikingd.system.priorities import lower_writer_priority

IDLE = 1.0
"""Seconds without a commit after which the log is emptied."""
AT_MOST = 10.0
"""Seconds after a commit within which the log is emptied, even if commits go on."""
_RETRY = 0.25  # seconds until the next attempt to empty a log that a reader uses
_PAGES = 64  # given back in one step, which takes 1 to 5 ms
_EMPTY_EVERY = 4  # steps, so that a checkpoint is short
_PAUSE = 0.002  # seconds at least between two steps, for the writes that wait
_KEPT_SHARE = 10  # an idle store keeps a free page for each so many pages, for new texts,
_KEPT_PAGES = 256  # and at least so many

_NOT_GIVEN_BACK = "free pages could not be given back"

_log = logging.getLogger(__name__)


class IdleMaintenance:
    """A thread that syncs the mark, empties the write-ahead log and returns free pages to the disk.

    It works between the writes. SQLite overwrites deleted text in the pages of the database, but
    older copies of the pages stay in the log until it is emptied. A reader with an old snapshot
    delays that.

    Args:
        sync_mark: writes the mark of the last commit to the disk.
        explain: converts an error of SQLite or the disk into a domain error.
    """

    def __init__(
        self,
        committing: SqliteCommitting,
        writer: Writer,
        sync_mark: Callable[[], None],
        explain: Callable[[str, BaseException], BaseException],
    ) -> None:
        self._committing = committing
        self._writer = writer
        self._sync_mark = sync_mark
        self._explain = explain
        self._wake = threading.Event()  # set by a commit whose pages are in the log
        self._stopping = threading.Event()
        self._committed = 0.0  # time of the last commit
        self._thread: threading.Thread | None = None
        self._giving = threading.Lock()  # held while pages are freed

    def note_commit(self) -> None:
        """Schedule the work after a commit; one thread at a time may call this."""
        self._committed = time.monotonic()
        self._wake.set()
        if self._thread is None and not self._stopping.is_set():
            self._thread = threading.Thread(target=self._run, name="store-space", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread after its current step; pages in the log are not lost."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def give_back_all(self) -> int:
        """Return all free pages to the disk, in steps with writes between them. Return their bytes.

        Raises:
            DiskFull: the log has no room for a step; pages of earlier steps stay freed.
            StoreDamaged, StoreFailed: the database cannot be changed.
        """
        try:
            given = self._give_back(self._committing.free_pages, lambda: False)
            self._empty_log()
        except Exception as error:
            raise self._explain(_NOT_GIVEN_BACK, error) from error
        return given * self._committing.page_size

    def _run(self) -> None:
        lower_writer_priority()
        while self._wait():
            try:
                if self._empty_in_time() and self._give_back(self._excess, self._wake.is_set):
                    self._empty_in_time()
            except Exception as error:
                fault = self._explain(_NOT_GIVEN_BACK, error)
                _log.warning("deleted texts keep their room until the next write: %s", fault)

    def _wait(self) -> bool:
        """Wait for a commit, then for a pause in the writes. Return False when the store closes."""
        self._wake.wait()
        latest = time.monotonic() + AT_MOST
        while not self._stopping.is_set():
            now = time.monotonic()
            due = min(self._committed + IDLE, latest)
            if now >= due:
                break
            self._stopping.wait(due - now)
        self._wake.clear()  # a later commit may need another run
        return not self._stopping.is_set()

    def _empty_in_time(self) -> bool:
        """Empty the log once no reader uses it. Return False if the store closes before that."""
        while not self._empty_log():
            if self._stopping.wait(_RETRY):
                return False
        return True

    def _empty_log(self) -> bool:
        self._sync_mark()  # each time: a reader may delay the log for long
        return self._writer.run_between(self._committing.empty_log)

    def _excess(self) -> int:
        """Return the number of free pages above those that a database keeps for new writes."""
        committing = self._committing
        kept = max(_KEPT_PAGES, committing.pages // _KEPT_SHARE)
        return max(0, committing.free_pages() - kept)

    def _give_back(self, left: Callable[[], int], is_over: Callable[[], bool]) -> int:
        """Return free pages to the disk in steps; return their number.

        Args:
            left: returns the number of pages that are still to be freed.
            is_over: after each step, True ends the work.
        """
        given = 0
        with self._giving:
            for step in count(1):
                started = time.monotonic()
                freed = self._writer.run_between(lambda: self._step(left))
                given += freed
                if not freed or is_over():
                    break
                if step % _EMPTY_EVERY == 0:
                    self._empty_log()
                if self._stopping.wait(max(_PAUSE, time.monotonic() - started)):
                    break
        return given

    def _step(self, left: Callable[[], int]) -> int:
        pages = min(_PAGES, left())
        return self._committing.give_back(pages) if pages else 0
