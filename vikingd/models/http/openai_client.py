"""OpenAI's client with limits, for any endpoint, since an endpoint may send anything."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import openai

from vikingd.models.http.bounded_calls import TooLarge, read_bounded

OPENAI_URL = "https://api.openai.com/v1"


class ReplyTooLarge(TooLarge, openai.OpenAIError):
    """A reply is larger than allowed; OpenAI's client passes this error on without a retry."""


class BoundedClient(openai.DefaultAsyncHttpxClient):
    """An HTTP client that limits the decoded size of replies, and follows no redirect.

    httpx limits neither the size of a reply nor its whole time, only each wait for bytes. A
    redirect would send keys and texts to another server.
    """

    def __init__(self, size: int, seconds: float | None = None, **options: Any) -> None:
        super().__init__(follow_redirects=False, **options)
        self._size = size
        self._seconds = seconds

    async def send(self, *request: Any, **options: Any) -> Any:
        """Send a request; return its response with the body read and decoded.

        Raises:
            ReplyTooLarge: the body has more bytes than allowed.
            httpx.ReadTimeout: the attempt took too long; OpenAI's client retries it.
        """
        try:
            async with asyncio.timeout(self._seconds):
                response = await super().send(*request, **{**options, "stream": True})
                try:
                    body = await read_bounded(response.aiter_bytes(), self._size)
                finally:
                    await response.aclose()
        except TooLarge as error:
            raise ReplyTooLarge(f"a reply of {error}") from None
        except TimeoutError as error:
            raise httpx.ReadTimeout("the reply took too long") from error
        headers = response.headers.copy()
        headers.pop("Content-Encoding", None)
        # The class is that of httpx, or of the client's own copy of httpx.
        return type(response)(
            response.status_code, headers=headers, content=body, request=response.request
        )


def open_client(
    url: httpx.URL,
    key: str,
    *,
    reply_bytes: int,
    retries: int = 0,
    seconds: float | None = None,
    **options: Any,
) -> openai.AsyncOpenAI:
    """Return a client of one endpoint; it makes no call yet.

    Args:
        url: URL of the endpoint; a user and password in it become Basic authentication.
        key: the key; "none" for an endpoint without keys.
        reply_bytes: the most bytes of a reply.
        retries: further attempts, with back-off.
        seconds: the time-out of an attempt; None: the caller limits the time of its calls.
    """
    auth = (url.username, url.password) if url.userinfo else None
    return openai.AsyncOpenAI(
        api_key=key,
        base_url=str(url.copy_with(userinfo=b"")),  # httpx logs the URLs of requests
        timeout=None,
        max_retries=retries,
        http_client=BoundedClient(reply_bytes, seconds, auth=auth, **options),
    )
