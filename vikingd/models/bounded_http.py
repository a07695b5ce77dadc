"""The HTTP client below that of OpenAI's protocols, for an endpoint that may send anything."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import openai


class TooLarge(openai.OpenAIError):
    """An answer has more bytes than any that makes sense."""


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """Follows no redirect, and bounds each answer, of a refusal too: httpx has no limit for it.

    What is sent is for the address that was named, and for no other.

    Args:
        size: most bytes of an answer, unpacked.
        seconds: for all of an attempt, where httpx bounds only each wait for bytes; None: no limit.
        options: of httpx.
    """

    def __init__(self, size: int, seconds: float | None = None, **options: Any) -> None:
        super().__init__(follow_redirects=False, **options)
        self._size = size
        self._seconds = seconds

    async def send(self, *request: Any, **options: Any) -> Any:
        """As httpx does; a body that was packed is not any more.

        Raises:
            TooLarge: the answer is.
        """
        try:
            async with asyncio.timeout(self._seconds):
                response = await super().send(*request, **{**options, "stream": True})
                try:
                    body = await self._read(response)
                finally:
                    await response.aclose()
        except TimeoutError as error:
            raise httpx.ReadTimeout("the answer took too long") from error  # which is retried
        headers = response.headers.copy()
        headers.pop("Content-Encoding", None)
        # Of httpx or of the client's own copy of it.
        return type(response)(
            response.status_code, headers=headers, content=body, request=response.request
        )

    async def _read(self, response: Any) -> bytes:
        body = bytearray()
        async for part in response.aiter_bytes():
            body += part
            if len(body) > self._size:
                raise TooLarge(f"an answer of more than {self._size:,} bytes")
        return bytes(body)
