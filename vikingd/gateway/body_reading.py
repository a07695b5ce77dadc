"""The bodies of requests, read within limits of size, time and memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.requests import Request

from vikingd.gateway.http_errors import Fault

LARGE = 64 << 10
"""Bytes from which a body counts as large: it needs a valid key, and MOST_HELD bounds the sum."""

MOST_HELD = 64 << 20
"""Bytes of large bodies in memory; a single one may be larger."""

SECONDS = 60.0
"""The time for a whole body."""

_RETRY_AFTER = 1.0


class Bodies:
    """Reads the bodies of requests.

    Args:
        most: bytes of the largest body.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @asynccontextmanager
    async def read(
        self, request: Request, check: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[bytes]:
        """Yield the body of a request, for a `with` block.

        The bytes of a large body count as held in memory until the end of the block.

        Args:
            request: the request, whose body was not read before.
            check: called before a large body is read; raises if the caller may not send it.

        Raises:
            Fault: the body is too large, too slow, or one of too many.
            starlette.requests.ClientDisconnect: the client went away.
        """
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            others = self._held - held
            if others and others + size > MOST_HELD:
                raise Fault(429, "too many large requests are in work", retry_after=_RETRY_AFTER)
            self._held, held = others + size, size

        async def received() -> bytes:
            declared = _declared(request)
            self._check_size(declared)
            if declared > LARGE:
                await check()
                hold(declared)
            parts: list[bytes] = []
            size = 0
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                self._check_size(size)
                if size > LARGE and size > held:
                    if not held:
                        await check()
                    hold(size)
            return b"".join(parts)

        try:
            try:
                async with asyncio.timeout(SECONDS):
                    body = await received()
            except TimeoutError:
                raise Fault(408, f"the body did not arrive within {SECONDS:g} s") from None
            yield body
        finally:
            self._held -= held

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise too_large(self._most)


def too_large(most: int) -> Fault:
    """Return the fault of a request that is larger than `most` bytes."""
    return Fault(
        413,
        f"the request is larger than {most:,} bytes; send less at once, or raise "
        "limits.max_message_bytes in the configuration",
    )


def _declared(request: Request) -> int:
    """Return the length that the head tells; 0 if it tells none."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() else 0
