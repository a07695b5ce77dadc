"""The provider openai: an endpoint with OpenAI's embeddings protocol."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Any

import httpx
import numpy as np
import openai
from numpy.typing import NDArray

from vikingd.domain.errors import EmbedderFailed, EmbedderRefused
from vikingd.domain.text import one_line
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.limiter import Limiter
from vikingd.models.embed.provider import (
    MAX_DOCUMENT_CHARS,
    MAX_QUERY_CHARS,
    EmbedderBroke,
    EmbedderDenied,
    EmbedderUnreachable,
    Vectors,
    clean,
    unit_rows,
)
from vikingd.models.http.endpoint_secrets import masked, url_secrets
from vikingd.models.http.openai_client import OPENAI_URL, open_client

_QUOTED_CHARS = 500  # characters of an error reply in a message
_REPLY_BYTES = 1 << 20
_REPLY_BYTES_A_TEXT = 512 << 10  # 32 for each number of the longest vector

_DENIED = {401, 403, 404}  # failures of all texts: a wrong key, model or path
_LATER = {408, 429}  # failures of all texts for some time


class OpenAIEndpoint:
    """A client of one model at one endpoint, which retries with back-off.

    It is opened without a call, so that a daemon can start while the endpoint is down.
    """

    name = "openai"

    def __init__(self, settings: EmbedSettings) -> None:
        try:
            settings.check()
        except ValueError as error:
            raise EmbedderFailed(f"embedding: {error}") from None
        key = settings.key()
        self.model = f"openai/{settings.openai_model}"
        self._settings = settings
        self._dimension = settings.dimension or None
        try:
            url = httpx.URL(settings.openai_base_url or OPENAI_URL)
        except httpx.InvalidURL:  # its message may quote a password
            raise EmbedderFailed("the base URL of the embedder openai is no URL") from None
        self._secrets = [key, *url_secrets(str(url))]
        self._where = f"the embeddings endpoint {url.copy_with(userinfo=b'', query=None)}"
        self._client = open_client(
            url,
            key or "none",
            reply_bytes=_REPLY_BYTES + settings.batch_size * _REPLY_BYTES_A_TEXT,
            retries=settings.retries,
            seconds=settings.timeout,
            event_hooks={"response": [self._heard]},
        )
        # asyncio can cancel a request at any point.
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._limiter = Limiter(settings.openai_requests)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="embeddings", daemon=True
        )
        self._thread.start()
        self._lock = threading.Lock()
        self._closed = False

    @property
    def dimension(self) -> int:
        """The dimension in the settings, else that of the endpoint's first reply."""
        if self._dimension is None:
            self._embed(["dimension"])
        assert self._dimension is not None
        return self._dimension

    def embed_query(self, text: str) -> Vectors:
        """Return a unit vector (dimension,)."""
        return self._embed([clean(text, MAX_QUERY_CHARS)]).reshape(-1)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (n, dimension), by requests of at most `batch_size` texts.

        All calls together have at most `openai_requests` requests in flight.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        size = self._settings.batch_size
        cleaned = [clean(text, MAX_DOCUMENT_CHARS) for text in texts]
        parts = [cleaned[i : i + size] for i in range(0, len(cleaned), size)]
        answers = self._run(lambda: self._in_turn(parts))
        return np.concatenate(list(map(self._rows, answers, parts)))

    def close(self) -> None:
        """Close the connections and end the thread; running calls fail."""
        with self._lock:
            self._closed = True  # the loop would never run later calls
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._runner.run(self._client.close())
        self._runner.close()

    def _embed(self, texts: list[str]) -> Vectors:
        return self._rows(self._run(lambda: self._request(texts)), texts)

    def _rows(self, answer: Any, texts: list[str]) -> Vectors:
        vectors = _vectors(answer, len(texts))
        rows = unit_rows(vectors, len(texts), self._dimension or vectors.shape[-1])
        self._dimension = rows.shape[1]
        return rows

    def _run(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Run a coroutine on the thread that has the connections; return its result."""
        with self._lock:
            if self._closed:
                raise EmbedderUnreachable("the embedder openai is closed")
            answer = asyncio.run_coroutine_threadsafe(ask(), self._loop)
        try:
            return answer.result()
        except CancelledError:
            raise EmbedderUnreachable("the embedder openai was closed") from None

    async def _heard(self, response: httpx.Response) -> None:
        self._limiter.adapt(response.status_code, response.headers)

    async def _in_turn(self, parts: list[list[str]]) -> list[Any]:
        """Send a request for each part; return the responses in the order of the parts.

        If a request fails, the error is raised after all requests have ended.
        """

        async def ask(part: list[str]) -> Any:
            async with self._limiter:
                return await self._request(part)

        answers = await asyncio.gather(*map(ask, parts), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    async def _request(self, texts: list[str]) -> Any:
        dimension = self._settings.dimension
        asked: dict[str, Any] = {"dimensions": dimension} if dimension else {}
        try:
            return await self._client.embeddings.create(
                model=self._settings.openai_model, input=texts, encoding_format="float", **asked
            )
        except openai.APITimeoutError as error:
            raise EmbedderBroke(
                f"{self._where} did not answer within {self._settings.timeout:g} s"
            ) from error
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            reason = self._quoted(str(cause) or type(cause).__name__)
            raise EmbedderBroke(f"{self._where} can't be reached: {reason}") from None
        except openai.APIStatusError as error:
            status = error.status_code
            said = self._quoted(error.response.text)
            failed = _failure_of_status(status)
            raise failed(f"{self._where} answered {status}", said) from None
        except Exception as error:  # some replies raise other errors in the client
            reason = self._quoted(str(error) or type(error).__name__)
            raise EmbedderBroke(f"{self._where} speaks another protocol", reason) from None

    def _quoted(self, text: str) -> str:
        # Mask before the cut, which could leave a part of a key.
        return one_line(masked(text, self._secrets))[:_QUOTED_CHARS]


def _failure_of_status(status: int) -> type[EmbedderFailed]:
    if status in _DENIED:
        return EmbedderDenied
    if status < 400 or status in _LATER:
        return EmbedderUnreachable
    return EmbedderBroke if status >= 500 else EmbedderRefused


def _vectors(response: Any, count: int) -> NDArray[np.float64]:
    """Return the vectors (count, n) in a response, in the order of the request.

    They are checked here, because OpenAI's client does not check the fields of a reply.
    """
    data = getattr(response, "data", None)
    if not isinstance(data, list):
        raise EmbedderBroke("the embeddings endpoint's answer has no list of embeddings")
    if len(data) != count:
        raise EmbedderFailed(f"the endpoint returned {len(data)} embeddings for {count} texts")
    try:
        by_index = {getattr(item, "index", None): item for item in data}
        rows = [by_index[i].embedding for i in range(count)]
        vectors = np.array(rows, dtype=np.float64)
    except (KeyError, AttributeError, TypeError, ValueError, OverflowError) as error:
        raise EmbedderFailed("the endpoint returned embeddings that can't be read") from error
    if vectors.ndim != 2:
        raise EmbedderFailed("the endpoint returned embeddings that are not lists of numbers")
    return vectors
