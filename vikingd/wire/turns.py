"""Turns of threads, first come, first served."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """A bound on the threads that work at the same time. The others wait in order."""

    def __init__(self, at_once: int) -> None:
        self._lock = threading.Lock()
        self._at_once = at_once
        self._working = 0
        self._waiting: deque[threading.Event] = deque()

    def allow(self, at_once: int) -> None:
        """Set the number of threads at work. A thread that has begun keeps its turn."""
        with self._lock:
            self._at_once = at_once
            self._start_next()

    def take(self) -> None:
        """Wait for a turn."""
        with self._lock:
            if self._working < self._at_once and not self._waiting:
                self._working += 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def give(self) -> None:
        """End a turn."""
        with self._lock:
            self._working -= 1
            self._start_next()

    def pass_on(self) -> bool:
        """End this turn and wait for the next one; return False at once if nobody waits."""
        if not self._waiting:
            return False
        self.give()
        self.take()
        return True

    def _start_next(self) -> None:
        while self._waiting and self._working < self._at_once:
            self._working += 1
            self._waiting.popleft().set()
