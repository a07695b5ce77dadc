"""A reader of replies whose size the server chooses."""

from __future__ import annotations

from collections.abc import AsyncIterator


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
