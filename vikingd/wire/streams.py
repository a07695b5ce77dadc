"""The sending of streamed replies; a stream that the client does not read is ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from vikingd.domain.errors import DeadlinePassed, Stopping

UNREAD = 20.0
"""Seconds without progress of the caller after which a stream ends."""
_LAST_WORDS = 0.5  # seconds for the status of a stream, as the daemon stops


class Streams:
    """The calls that run, and the streams among them; all methods are for the event loop.

    gRPC sends no status before the bytes that wait for the caller. So a stream that nobody reads
    keeps its call until the caller reads on or disconnects, but holds nothing else.

    Attributes:
        refuses: True if new calls are refused.
    """

    def __init__(self) -> None:
        self._calls: set[asyncio.Task[Any]] = set()
        self._streams: set[asyncio.Task[Any]] = set()
        self._limits: set[asyncio.Timeout] = set()  # of streams that go on
        self._is_stopping = False
        self._last_end = time.monotonic()
        self.refuses = False

    def note(self) -> asyncio.Task[Any]:
        """Count this task as a running call until the task ends; return the task."""
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        self._last_end = time.monotonic()

    def check_begin(self) -> None:
        """Raise Stopping if new calls are refused."""
        if self.refuses:
            raise Stopping("the daemon stops and does not begin this call: repeat it")

    def idle_seconds(self) -> float:
        """Return the time since the last call ended, or since the start; 0 while calls run."""
        return 0.0 if self._calls else time.monotonic() - self._last_end

    async def send(self, parts: AsyncIterator[Any], context: Any) -> None:
        """Send the parts of a stream.

        Raises:
            DeadlinePassed: the caller reads nothing for UNREAD seconds.
            Stopping: the daemon stops.
        """
        task, loop, limit = self.note(), asyncio.get_running_loop(), asyncio.timeout(None)
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)
        try:
            async with limit:
                self._limits.add(limit)
                async for part in parts:
                    self._check()
                    limit.reschedule(loop.time() + UNREAD)
                    await context.write(part)
                    self._check()
                    limit.reschedule(None)
        except TimeoutError:
            self._check()
            raise DeadlinePassed(
                f"the caller read nothing of the stream for {UNREAD:g} s: repeat the call, and "
                "read each piece as it comes"
            ) from None
        finally:
            self._limits.discard(limit)

    def _check(self) -> None:
        if self._is_stopping:
            raise Stopping("the daemon stops before the end of the stream: repeat the call")

    async def stop(self) -> bool:
        """End the streams, and wait for the end of the calls.

        Returns:
            True if streams are left that nobody reads. Only the stop of gRPC can end them.
        """
        self._is_stopping = True
        for limit in self._limits:
            if not limit.expired():
                limit.reschedule(0)
        while waiting := self._calls - self._streams:
            await asyncio.wait(waiting)
        if self._streams:
            await asyncio.wait(self._streams.copy(), timeout=_LAST_WORDS)
        return bool(self._streams)
