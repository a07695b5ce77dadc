"""A limit of requests in flight that adapts to the load of an endpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from vikingd.models.http.retry_headers import rate_limit_reset, retry_after

LONGEST = 120.0
"""The longest pause in seconds."""

_OVERLOADED = (429, 503)


class Limiter:
    """A context manager around each request; it waits until the request may be sent.

    An overloaded endpoint halves the number of requests in flight, and each success raises it a
    little, as TCP does. While the endpoint asks for a pause, no request is sent. All methods are
    for one event loop.

    Attributes:
        limit: the present limit of requests in flight; at least 1, at most `most`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._in_flight = 0
        self._resume_at = 0.0
        self._left = asyncio.Event()
        self.limit = float(most)

    async def __aenter__(self) -> None:
        while True:
            pause = self._resume_at - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
            elif self._in_flight >= int(self.limit):
                self._left.clear()
                await self._left.wait()
            else:
                break
        self._in_flight += 1

    async def __aexit__(self, *_: object) -> None:
        self._in_flight -= 1
        self._left.set()

    def adapt(self, status: int, headers: Mapping[str, str]) -> None:
        """Adapt the limit and the pause to a response."""
        now = time.monotonic()
        if status in _OVERLOADED:
            if now >= self._resume_at:  # requests that were refused together count once
                self.limit = max(1.0, self.limit / 2)
            self._pause(now, retry_after(headers) or 0.0)
        elif status < 300:
            self.limit = min(float(self._most), self.limit + 1 / self.limit)
            self._pause(now, rate_limit_reset(headers))

    def _pause(self, now: float, seconds: float) -> None:
        self._resume_at = max(self._resume_at, now + min(seconds, LONGEST))
