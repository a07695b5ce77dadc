"""A circuit breaker: who failed repeatedly is left alone for a while."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

FAILURES = 3
"""In a row, after which it opens."""
MIN_PAUSE = 5.0
MAX_PAUSE = 60.0
MAX_ASKED = 600.0
"""Seconds that a server gets at most when it asks for a pause itself."""


class BreakerOpen(Exception):
    """No call may be made now; the message, for a sentence that begins with a name, says why."""


class Breaker:
    """Opens after failures in a row, for 5 s, doubling to 60 s; then one call tries at a time.

    What `admit` returned is given back with how the call ended: True for the one that tries. For
    use on one thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._reason = ""
        self._backoff = 0.0
        self._until: float | None = None  # None: closed
        self._trying = False

    @property
    def failures(self) -> int:
        """In a row."""
        return self._failures

    def admit(self) -> bool:
        """Lets a call through; True: it is the one that tries.

        Raises:
            BreakerOpen: it is open, or another call tries.
        """
        if self._until is None:
            return False
        times = "once" if self._failures == 1 else f"{self._failures} times in a row"
        left = self._until - self._clock()
        if left > 0 or self._trying:
            then = f"asked again in {math.ceil(left)} s" if left > 0 else "being asked again now"
            raise BreakerOpen(f"failed {times} ({self._reason}); {then}")
        self._trying = True
        return True

    def succeeded(self) -> None:
        """Closes it."""
        self._failures = 0
        self._backoff = 0.0
        self._until = None
        self._trying = False

    def failed(self, tried: bool, reason: str, pause: float | None = None) -> float:
        """Counts a failure; `pause` are the seconds that the server asked for.

        Returns:
            Seconds of the pause that begins with this failure; 0 where none does.
        """
        self._failures += 1
        self._reason = reason
        # One that succeeded in between has ended the trial.
        reopens = tried and self._trying
        if reopens:
            self._trying = False
        now = self._clock()
        if pause is not None:
            begun = min(pause, MAX_ASKED)
            self._until = max(self._until or now, now + begun)
            return begun
        # Calls that were in flight together and fail together open it once.
        if reopens or (self._until is None and self._failures >= FAILURES):
            self._backoff = min(max(2 * self._backoff, MIN_PAUSE), MAX_PAUSE)
            self._until = now + self._backoff
            return self._backoff
        return 0.0

    def gave_up(self, tried: bool) -> None:
        """The call says nothing, as it had too little time; the next one may try."""
        if tried:
            self._trying = False
