"""The thread that compacts the index in the background."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from errno import EDQUOT, ENOSPC

from vikingd.domain.errors import Corrupt, DiskFull
from vikingd.system.priorities import lower_writer_priority

_PAUSE = 60.0  # seconds at least from a failed compaction to the next one

_log = logging.getLogger(__name__)


class CompactionWorker:
    """Starts compactions, each on a thread of its own, one at a time."""

    def __init__(self, compact: Callable[[], None]) -> None:
        self.problem = ""  # why the last compaction failed; "" if it did not
        self._compact = compact
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._disk_was_full = False  # when the last compaction failed
        self._not_before = 0.0  # on the clock of time.monotonic
        self._is_closing = False

    @property
    def is_running(self) -> bool:
        """True while a compaction runs."""
        return self._thread is not None

    @property
    def may_start(self) -> bool:
        """True if the index may start a compaction: none runs, and none failed recently."""
        return not self.is_running and not self._is_closing and time.monotonic() >= self._not_before

    def start(self) -> None:
        """Begin a compaction, unless one is running."""
        with self._lock:
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._run, name="compaction", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the process may have no more threads; commits go on
                self._fail(error)
            else:
                self._thread = thread

    def _run(self) -> None:
        lower_writer_priority()
        try:
            self._compact()
            self.problem = ""
        except BaseException as error:
            self._fail(error)
        finally:
            with self._lock:
                self._thread = None

    def _fail(self, error: BaseException) -> None:
        """Record and log a failure. The old base stays in use; a later compaction tries again."""
        self.problem = f"compaction failed: {error}"
        self._disk_was_full = isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)
        self._not_before = time.monotonic() + _PAUSE
        _log.warning("%s; next try in %g s or later", self.problem, _PAUSE)

    def run(self) -> None:
        """Wait for a running compaction, then compact and wait until that has ended.

        Raises:
            DiskFull: the disk is full.
            Corrupt: the compaction failed otherwise.
        """
        while self._thread is not None:
            self.join()
        self.start()
        self.join()
        if self.problem:
            raise (DiskFull if self._disk_was_full else Corrupt)(self.problem)

    def join(self) -> None:
        """Wait until a running compaction has ended; return at once if none runs."""
        if (thread := self._thread) is not None:
            thread.join()

    def close(self) -> None:
        """Wait until a running compaction has ended; `may_start` is False from now on."""
        self._is_closing = True
        self.join()
