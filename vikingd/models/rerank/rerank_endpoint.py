"""A reranker behind HTTP, with any of the known request forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import chain

import httpx

from vikingd.domain.text import one_line
from vikingd.models.http.bounded_calls import TooLarge, read_bounded
from vikingd.models.http.endpoint_secrets import is_loopback, key_in, masked, url_secrets
from vikingd.models.http.retry_headers import retry_after
from vikingd.models.rerank.rerank_forms import FORMS
from vikingd.models.rerank.rerank_settings import BackendSettings
from vikingd.models.rerank.reranker_protocol import RerankFailed
from vikingd.models.rerank.volcengine_signing import Signed

_IDLE = 30.0  # seconds that an idle connection is kept
_REPLY_BYTES = 1 << 20
_REPLY_BYTES_A_BYTE = 6  # some servers return the documents, fully escaped
_QUOTED_CHARS = 200  # of an error reply


class Endpoint:
    """A client of one reranking model at one server; it is opened without a call."""

    def __init__(self, settings: BackendSettings) -> None:
        self._settings = settings
        self._form = FORMS[settings.form or settings.kind]
        try:
            url = httpx.URL(settings.url or self._form.url)
        except httpx.InvalidURL as error:
            raise RerankFailed(f"its url can't be used: {error}") from None
        variables = settings.key_env, settings.access_key_env, settings.secret_key_env
        self._secrets = [*url_secrets(str(url)), *map(key_in, variables)]
        auth: httpx.Auth | None = None
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # a packed reply could be huge
            "Content-Type": "application/json",
        }
        if settings.kind == "volcengine":
            keys = key_in(settings.access_key_env), key_in(settings.secret_key_env)
            auth = Signed(*keys, settings.region, "vikingdb")
        elif url.userinfo:
            auth = httpx.BasicAuth(url.username, url.password)
        elif settings.key_env:
            headers["Authorization"] = f"Bearer {key_in(settings.key_env)}"
        if not url.path.endswith("rerank"):
            url = url.copy_with(path=url.path.rstrip("/") + self._form.path)
        self._url = url.copy_with(userinfo=b"")
        here = is_loopback(url.host)
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._client = httpx.AsyncClient(
            auth=auth,
            headers=headers,
            timeout=None,  # the caller bounds the whole call
            limits=httpx.Limits(keepalive_expiry=_IDLE),
            trust_env=not here,  # no proxy for this machine
            verify=url.scheme == "https" or not here,  # loading certificates takes 0.1 s
        )

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """Return the raw score of each document, by concurrent requests of at most `batch` each."""
        size = self._settings.batch or self._form.batch
        requests = [
            asyncio.ensure_future(self._request(query, documents[start : start + size]))
            for start in range(0, len(documents), size)
        ]
        try:
            return list(chain.from_iterable(await asyncio.gather(*requests)))
        finally:
            for request in requests:
                request.cancel()  # one failure makes the others useless

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _request(self, query: str, documents: Sequence[str]) -> list[float]:
        body = self._form.body(self._settings, query, documents)
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        most = _REPLY_BYTES + _REPLY_BYTES_A_BYTE * len(content)
        async with self._slots:
            try:
                async with self._client.stream("POST", self._url, content=content) as response:
                    reply = await read_bounded(response.aiter_raw(), most)
            except TooLarge as error:
                raise RerankFailed(f"answered with {error}") from None
            except httpx.HTTPError as error:
                where = f"{self._url.scheme}://{self._url.netloc.decode()}"
                reason = self._masked(str(error)) or type(error).__name__
                raise RerankFailed(f"could not be asked at {where}: {reason}") from error
        if not response.is_success:
            raise self._refusal(response, reply)
        try:
            parsed = json.loads(reply)
        except (ValueError, RecursionError):
            raise RerankFailed("answered with something else than JSON") from None
        try:
            return self._form.read(parsed, len(documents))
        except RerankFailed as error:
            raise RerankFailed(error.brief, said=self._masked(error.said)) from None

    def _refusal(self, response: httpx.Response, reply: bytes) -> RerankFailed:
        # Mask before the cut, which could leave a part of a key.
        said = one_line(self._masked(reply.decode("utf-8", "replace"))[: 4 * _QUOTED_CHARS])
        is_busy = response.status_code in (429, 503)
        pause = retry_after(response.headers) if is_busy else None
        return RerankFailed(f"answered {response.status_code}", pause, said[:_QUOTED_CHARS])

    def _masked(self, text: str) -> str:
        return masked(text, self._secrets)
