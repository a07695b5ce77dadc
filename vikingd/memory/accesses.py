"""Accesses of memories: counted exactly, written behind."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from threading import Condition, Thread

INTERVAL = 0.5
"""Seconds that an access waits for others at most; what a crash loses."""

_log = logging.getLogger(__name__)


class Accesses:
    """Counts accesses by id, and hands them on every INTERVAL while there are any.

    Args:
        write: makes them durable; when it raises, they are tried again with the next ones.
    """

    def __init__(self, write: Callable[[Mapping[int, int]], None]) -> None:
        self._write = write
        self._waiting: Counter[int] = Counter()
        self._changed = Condition()
        self._closed = False
        self._thread = Thread(target=self._run, name="accesses", daemon=True)
        self._thread.start()

    def count(self, ids: Iterable[int]) -> None:
        """One access of each; takes no longer than to count them."""
        with self._changed:
            self._waiting.update(ids)
            self._changed.notify()

    def close(self) -> None:
        """Returns when all that was counted is written."""
        with self._changed:
            self._closed = True
            self._changed.notify()
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
