"""The limits of calls: their deadlines, and the size of their replies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class Overdue(Exception):
    """A call that did not end before its deadline."""


class Closed(Exception):
    """A call that `close` cancelled."""


class Calls:
    """Calls on one event loop.

    Attributes:
        running: calls that have not ended, those that are cancelled included.
    """

    def __init__(self) -> None:
        self.running: set[asyncio.Task[Any]] = set()

    async def within(self, seconds: float, call: Coroutine[Any, Any, _T]) -> _T:
        """Return the result of a call, or raise its error.

        At the deadline it is cancelled, and nobody waits for its end: closing a connection may
        take long. asyncio.timeout would wait.

        Raises:
            Overdue: the call did not end in time.
            Closed: `close` cancelled it.
        """
        task = asyncio.create_task(call)
        self.running.add(task)
        task.add_done_callback(self._ended)
        try:
            done, _ = await asyncio.wait({task}, timeout=seconds)
        finally:
            task.cancel()
        if not done:
            raise Overdue
        if task.cancelled():
            raise Closed
        return task.result()

    async def close(self) -> None:
        """Cancel the calls and wait for their end."""
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio logs nothing


class TooLarge(Exception):
    """A reply has more bytes than its limit; the message names the limit."""


async def read_bounded(parts: AsyncIterator[bytes], most: int) -> bytes:
    """Return a body of at most `most` bytes.

    Raises:
        TooLarge: the body is larger; the rest of it is not read.
    """
    body = bytearray()
    async for part in parts:
        body += part
        if len(body) > most:
            raise TooLarge(f"more than {most:,} bytes")
    return bytes(body)
