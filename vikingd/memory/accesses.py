"""A counter of the accesses of memories, which writes its counts in the background."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from threading import Condition, Thread

INTERVAL = 0.5
"""The seconds between two writes; a crash loses the accesses of this time."""

_log = logging.getLogger(__name__)


class Accesses:
    """Counts accesses by memory id; a thread passes the counts to `write` every INTERVAL.

    The thread starts with the first access. If `write` raises, these counts are written with the
    next ones.
    """

    def __init__(self, write: Callable[[Mapping[int, int]], object]) -> None:
        self._write = write
        self._waiting: Counter[int] = Counter()
        self._changed = Condition()
        self._closed = False
        self._thread: Thread | None = None

    def count(self, ids: Iterable[int]) -> None:
        """Count one access of each id, without waiting for the write."""
        with self._changed:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="accesses", daemon=True)
                self._thread.start()
            self._waiting.update(ids)
            self._changed.notify()

    def add(self, counts: Mapping[int, int]) -> None:
        """Count several accesses of each id, as `count`."""
        self.count(id_ for id_, times in counts.items() for _ in range(times))

    def close(self) -> None:
        """Write all counted accesses and stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                self._changed.wait_for(lambda: self._closed, INTERVAL)
                taken, self._waiting = self._waiting, Counter()
                closed = self._closed
            if taken:
                try:
                    self._write(taken)
                except BaseException as error:
                    _log.warning("accesses are not written yet: %s", error)
                    with self._changed:
                        self._waiting.update(taken)
            if closed:
                return
