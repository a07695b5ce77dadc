"""Limits for HTTP calls: a deadline, and the size of the reply."""

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
    """Runs calls on one event loop with deadlines.

    Attributes:
        running: calls that have not ended, including those that were cancelled.
    """

    def __init__(self) -> None:
        self.running: set[asyncio.Task[Any]] = set()

    async def within(self, seconds: float, call: Coroutine[Any, Any, _T]) -> _T:
        """Run a call; return its result or raise its error.

        At the deadline the call is cancelled. Unlike asyncio.timeout, this does not wait for the
        end of the cancelled call, because closing a connection may take long.

        Raises:
            Overdue: the call did not end within `seconds`.
            Closed: `close` cancelled the call.
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
    """A reply has more bytes than allowed; the message names the limit."""


async def read_bounded(parts: AsyncIterator[bytes], most: int) -> bytes:
    """Return a body that is read in parts, at most `most` bytes.

    Raises:
        TooLarge: the body is larger; the rest of it is not read.
    """
    body = bytearray()
    async for part in parts:
        body += part
        if len(body) > most:
            raise TooLarge(f"more than {most:,} bytes")
    return bytes(body)
