"""The pace of requests: a few at a time, and for each host a pause between two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

AT_ONCE = 4
"""The requests to one host that run at a time, unless its robots.txt asks for a delay."""


class HostPace:
    """The pace of the requests to one host.

    Args:
        interval: seconds between the starts of two requests.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._places = asyncio.Semaphore(AT_ONCE)
        self._next = 0.0

    def slow_down(self, delay: float) -> None:
        """Allow one request at a time, at least `delay` seconds after the start of the last one."""
        self._interval = max(self._interval, delay)
        self._places = asyncio.Semaphore(1)

    def pause(self, seconds: float) -> None:
        """Start no request within the next `seconds` seconds."""
        self._next = max(self._next, time.monotonic() + seconds)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a request may start; it counts as running until the end of the block."""
        async with self._places:
            while (wait := self._next - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            self._next = time.monotonic() + self._interval
            yield
