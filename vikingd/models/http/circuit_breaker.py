"""A circuit breaker: a backend that fails repeatedly is not called for a while."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

FAILURES = 3
"""The number of consecutive failures that opens a breaker."""
MIN_PAUSE = 5.0
MAX_PAUSE = 60.0
MAX_ASKED = 600.0
"""The longest pause in seconds that a server can ask for."""


class BreakerOpen(Exception):
    """The breaker is open, so a call is not allowed.

    The message continues a sentence that begins with the name of the backend: "failed 5 times in a
    row (timeout); asked again in 30 s".
    """


class Breaker:
    """Opens after consecutive failures, for 5 s, doubling to 60 s; then admits one trial at a time.

    When a caller reports how its call ended, it passes the result of `admit`. All methods are for
    one thread.

    Args:
        clock: returns a monotonic time in seconds.
        most: consecutive failures that open the breaker. None: it opens only if the server asks for
            a pause; for callers with a back-off of their own.

    Attributes:
        failures: the number of consecutive failures.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, most: int | None = FAILURES
    ) -> None:
        self._clock = clock
        self._most = math.inf if most is None else most
        self.failures = 0
        self._reason = ""
        self._backoff = 0.0
        self._until: float | None = None  # None: closed
        self._trying = False

    def admit(self) -> bool:
        """Admit a call; return True if it is the trial of a breaker that was open.

        Raises:
            BreakerOpen: the breaker is open, or another call is its trial.
        """
        if self._until is None:
            return False
        times = "once" if self.failures == 1 else f"{self.failures} times in a row"
        left = self._until - self._clock()
        if left > 0 or self._trying:
            then = f"asked again in {math.ceil(left)} s" if left > 0 else "being asked again now"
            raise BreakerOpen(f"failed {times} ({self._reason}); {then}")
        self._trying = True
        return True

    def succeeded(self) -> None:
        """Record a success, which closes the breaker."""
        self.failures = 0
        self._backoff = 0.0
        self._until = None
        self._trying = False

    def failed(self, tried: bool, reason: str, pause: float | None = None) -> float:
        """Record a failure; `pause` is the time in seconds that the server asked to wait.

        Returns:
            The seconds for which the breaker opens; 0 if it stays closed.
        """
        self.failures += 1
        self._reason = reason
        # A success in between has ended the trial.
        reopens = tried and self._trying
        if reopens:
            self._trying = False
        now = self._clock()
        if pause is not None:
            begun = min(pause, MAX_ASKED)
            self._until = max(self._until or now, now + begun)
            return begun
        # Calls that were in flight together open it once.
        if reopens or (self._until is None and self.failures >= self._most):
            self._backoff = min(max(2 * self._backoff, MIN_PAUSE), MAX_PAUSE)
            self._until = now + self._backoff
            return self._backoff
        return 0.0

    def gave_up(self, tried: bool) -> None:
        """Record that a call ended without a result about the backend, such as for lack of time."""
        if tried:
            self._trying = False
