"""The recent speed of the embedding of documents, to estimate the remaining time."""

from __future__ import annotations

from collections import deque

WINDOW = 60.0
"""The seconds of the measurement; older work does not count."""


class Speed:
    """The work done in each second of the last minute.

    All methods get the time in seconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self._began = 0.0
        self._has_first = True
        self._done: deque[tuple[float, int]] = deque()

    def begin(self, now: float) -> None:
        """Begin a new measurement after a pause in the work."""
        self._began, self._has_first = now, True
        self._done.clear()

    def add(self, now: float, cost: int) -> None:
        """Add work that was just done."""
        self._done.append((now, cost))
        if self._has_first and len(self._done) == 3:
            # The first piece is small, and a model takes longer for it than for the others.
            self._began, _ = self._done.popleft()
            self._has_first = False
        while len(self._done) > 1 and self._done[1][0] < now - WINDOW:
            self._began, _ = self._done.popleft()

    def rate(self, now: float) -> float:
        """Return the work per second; 0 while it is not known.

        The rate falls while the current piece of work takes longer than those before.
        """
        if not self._done:
            return 0.0
        pieces, (last, _) = len(self._done), self._done[-1]
        expected = (now - self._began) * pieces / (pieces + 1)  # with one piece more under way
        seconds = max(last - self._began, expected)
        return sum(cost for _, cost in self._done) / seconds if seconds > 0 else 0.0
