"""The bridge from futures of other threads to the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class FutureBridge:
    """Delivers thread results to the event loop, in batches.

    All results that are done when the loop looks cost one wake-up. A wake-up may make the thread
    wait for the GIL.
    """

    def __init__(self) -> None:
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    async def result(self, future: Future[_T]) -> _T:
        """Return the result of a future. A caller that goes away does not cancel it."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Future[_T]] = loop.create_future()

        def arrive(done: Future[_T]) -> None:
            self._done.append((waiter, done))
            if not self._woken:
                self._woken = True
                loop.call_soon_threadsafe(self._deliver)

        future.add_done_callback(arrive)
        return (await waiter).result()  # asyncio.Future does not take every error

    def _deliver(self) -> None:
        self._woken = False  # first, so that a result that comes now wakes the loop again
        while self._done:
            waiter, done = self._done.popleft()
            if not waiter.cancelled():
                waiter.set_result(done)
