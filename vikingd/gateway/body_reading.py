"""The reading of request bodies, with limits of size, time and memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request

from vikingd.gateway.http_errors import Fault

LARGE = 64 << 10
"""The least bytes of a large body, which needs a valid key and counts for MOST_HELD."""

MOST_HELD = 64 << 20
"""The most bytes of all large bodies in memory or on disk; a single one may be larger."""

SECONDS = 60.0
"""The most seconds until a body is complete."""

REMEDY = "send less at once, or raise limits.max_message_bytes in the configuration"

_RETRY_AFTER = 1.0

T = TypeVar("T")


class Bodies:
    """Reads the bodies of requests.

    Args:
        most: the most bytes of a body.
        remedy: the end of the error for a larger body, which says what to do.
    """

    def __init__(self, most: int, remedy: str = REMEDY) -> None:
        self._most = most
        self._remedy = remedy
        self._held = 0

    @asynccontextmanager
    async def read(
        self, request: Request, check: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[bytes]:
        """Read a body; return a context manager that yields its bytes.

        The bytes of a large body count as held in memory until the end of the block.

        Args:
            request: the request, whose body was not read before.
            check: called before a large body is read; it raises if the caller may not send one.

        Raises:
            Fault: the body is too large or too slow, or too many large ones are read.
            starlette.requests.ClientDisconnect: the client went away.
        """
        parts: list[bytes] = []

        async def take(part: bytes) -> None:
            parts.append(part)

        async with self._received(request, check, take):
            yield b"".join(parts)

    @asynccontextmanager
    async def save(
        self, request: Request, check: Callable[[], Awaitable[None]], path: Path
    ) -> AsyncIterator[None]:
        """Write a body to a new file, which is complete within the block of this context manager.

        Arguments and errors are those of `read`. The bytes count as held, too.

        Raises:
            Fault: as in `read`, or the file cannot be written.
        """
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(await _on_thread(path.open, "xb"))

            async def take(part: bytes) -> None:
                await _on_thread(file.write, part)

            async with self._received(request, check, take):
                await _on_thread(stack.close)
                yield

    @asynccontextmanager
    async def _received(
        self,
        request: Request,
        check: Callable[[], Awaitable[None]],
        take: Callable[[bytes], Awaitable[None]],
    ) -> AsyncIterator[None]:
        """Pass the parts of a body to `take`, then run the block.

        The bytes of a large body count as held until the end of the block.
        """
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            others = self._held - held
            if others and others + size > MOST_HELD:
                raise Fault(429, "too many large requests are in work", retry_after=_RETRY_AFTER)
            self._held, held = others + size, size

        async def receive() -> None:
            declared = _declared(request)
            self._check_size(declared)
            if declared > LARGE:
                await check()
                hold(declared)
            size = 0
            async for part in request.stream():
                size += len(part)
                self._check_size(size)
                if size > LARGE and size > held:
                    if not held:
                        await check()
                    hold(size)
                await take(part)

        try:
            try:
                async with asyncio.timeout(SECONDS):
                    await receive()
            except TimeoutError:
                raise Fault(408, f"the body did not arrive within {SECONDS:g} s") from None
            yield
        finally:
            self._held -= held

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise too_large(self._most, self._remedy)


def too_large(most: int, remedy: str = REMEDY) -> Fault:
    """Return the error for a request that is larger than `most` bytes."""
    return Fault(413, f"the request is larger than {most:,} bytes; {remedy}")


async def _on_thread(function: Callable[..., T], *given: Any) -> T:
    """Run a function that reads or writes a file on a thread; return its result.

    Raises:
        Fault: the file cannot be read or written (OSError).
    """
    try:
        return await asyncio.to_thread(function, *given)
    except OSError as error:
        raise Fault(507, f"the file cannot be kept while it is read: {error.strerror}") from None


def _declared(request: Request) -> int:
    """Return the value of the header Content-Length; 0 without a valid one."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() else 0
