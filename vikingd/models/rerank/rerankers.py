"""The configured rerankers, with a cache of scores, circuit breakers and time-outs."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vikingd.domain.rights import CALLER
from vikingd.domain.text import SCRIPTS, script_of
from vikingd.models.http.bounded_calls import Calls, Closed, Overdue
from vikingd.models.http.circuit_breaker import Breaker, BreakerOpen
from vikingd.models.rerank.rerank_settings import BackendSettings
from vikingd.models.rerank.reranker_protocol import DOUBAO, Reranker, RerankFailed, probability
from vikingd.system.install_command import install_command

CACHE_SIZE = 20_000
MAX_QUERY_CHARS = 2000
"""The most characters of a query; the rest would cost time, and tokens that documents need."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reranked:
    """Scores of documents.

    Attributes:
        scores: in [0, 1], in the order of the documents.
        asked: distinct documents that were sent to the backend.
        cached: distinct documents whose scores were cached.
    """

    scores: tuple[float, ...]
    asked: int
    cached: int


class Rerankers:
    """Passes each query to the reranker for its script (writing system); for one event loop.

    Args:
        record_call: a callback for metrics. It gets the reranker's name, the outcome ("DONE" or
            "FAILED") and the duration in seconds of each call.

    Raises:
        RerankFailed: a reranker cannot work here; the message names the remedy.
    """

    def __init__(
        self,
        settings: Sequence[BackendSettings],
        record_call: Callable[[str, str, float], None] = lambda *_: None,
    ) -> None:
        self._calls = Calls()
        self._backends = [
            _Backend(place, one, self._calls, record_call) for place, one in enumerate(settings)
        ]
        # "" is for all other scripts; the first backend of a script is asked.
        self._by_script = {
            script: backend
            for backend in reversed(self._backends)
            for script in backend.settings.scripts or ("",)
        }
        self._cache: OrderedDict[bytes, float] = OrderedDict()

    def named(self, query: str) -> str:
        """Return the name "kind/model" of the reranker for a query; "" if there is none."""
        backend = self._chosen(query)
        return backend.name if backend else ""

    async def rerank(
        self, query: str, documents: Sequence[str], seconds: float | None, *, chosen_by: str = ""
    ) -> Reranked:
        """Return scores in [0, 1] of documents for a query.

        Args:
            documents: the texts, none of them empty.
            seconds: the time-out of the call; None: that of the reranker's settings.
            chosen_by: the text whose script chooses the reranker; "": `query`.

        Raises:
            RerankFailed: there are no scores, at the latest soon after `seconds`.
        """
        backend = self._chosen(chosen_by or query)
        if backend is None:
            raise RerankFailed(f"there is no reranker for a query in {SCRIPTS[script_of(query)]}")
        query = query[:MAX_QUERY_CHARS]
        texts = [document[: backend.settings.max_chars] for document in documents]
        keys = backend.keys(query, texts)
        known = self._known(keys)
        unknown = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        new: dict[bytes, float] = {}
        if unknown:
            fresh = await backend.ask(query, list(unknown.values()), seconds)
            new = dict(zip(unknown, fresh, strict=True))
            self._remember(new)
        scores = known | new
        return Reranked(tuple(scores[key] for key in keys), len(unknown), len(known))

    async def close(self) -> None:
        """Cancel running calls, close connections and end threads."""
        await self._calls.close()
        for backend in self._backends:
            await backend.reranker.close()

    def _chosen(self, query: str) -> _Backend | None:
        return self._by_script.get(SCRIPTS[script_of(query)]) or self._by_script.get("")

    def _known(self, keys: Sequence[bytes]) -> dict[bytes, float]:
        known = {key: self._cache[key] for key in keys if key in self._cache}
        for key in known:
            self._cache.move_to_end(key)
        return known

    def _remember(self, scores: dict[bytes, float]) -> None:
        self._cache.update(scores)
        while len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)


class _Backend:
    """A reranker with its circuit breaker, its time-out and the cache keys of its scores."""

    def __init__(
        self,
        place: int,
        settings: BackendSettings,
        calls: Calls,
        record_call: Callable[[str, str, float], None],
    ) -> None:
        self.settings = settings
        self.name = _name(settings)
        self._place = place
        self._calls = calls
        self._record_call = record_call
        self._breaker = Breaker()
        self._scores = settings.scores or ("logit" if settings.kind == "onnx" else "probability")
        try:
            self.reranker = _open(settings)
        except RerankFailed as error:
            raise RerankFailed(f"the reranker {self.name}: {error}") from error

    def keys(self, query: str, documents: Sequence[str]) -> list[bytes]:
        """Return the cache key of each document; callers of different names have different keys."""
        caller = CALLER.get()
        asked = f"{self._place}\0{caller.tenant}\0{caller.name}\0{query}"
        head = hashlib.sha256(asked.encode("utf-8", "replace")).digest()
        return [
            hashlib.sha256(head + document.encode("utf-8", "replace")).digest()
            for document in documents
        ]

    async def ask(self, query: str, documents: Sequence[str], seconds: float | None) -> list[float]:
        """Return the scores of documents in [0, 1].

        Raises:
            RerankFailed: there are no scores; the message has the name of the reranker.
        """
        own = self.settings.timeout
        limit = own if seconds is None else min(seconds, own)
        if limit <= 0:
            raise RerankFailed(f"{self.name} was not asked: no time is left")
        try:
            tried = self._breaker.admit()
        except BreakerOpen as error:
            raise RerankFailed(f"{self.name} {error}") from None
        started = time.monotonic()
        try:
            scores = await self._calls.within(limit, self._probabilities(query, documents))
        except asyncio.CancelledError:
            self._breaker.gave_up(tried)
            raise
        except Exception as error:
            failure = _failure(error, limit)
            self._record_call(self.name, "FAILED", time.monotonic() - started)
            if isinstance(error, Overdue) and limit < own:  # the caller gave it too little time
                self._breaker.gave_up(tried)
            else:
                self._failed(tried, failure)
            raise RerankFailed(f"{self.name} {failure}") from failure
        self._record_call(self.name, "DONE", time.monotonic() - started)
        if self._breaker.failures:
            _log.info("the reranker %s works again", self.name)
        self._breaker.succeeded()
        return scores

    async def _probabilities(self, query: str, documents: Sequence[str]) -> list[float]:
        raw = await self.reranker.rerank(query, documents)
        return [probability(number, self._scores) for number in raw]

    def _failed(self, tried: bool, failure: RerankFailed) -> None:
        """Record a failure in the circuit breaker; log it if it is the first in a row."""
        if not self._breaker.failures:
            _log.warning("the reranker %s fails: it %s", self.name, failure)
        self._breaker.failed(tried, failure.brief, failure.pause)


def _failure(error: Exception, limit: float) -> RerankFailed:
    if isinstance(error, RerankFailed):
        return error
    if isinstance(error, Overdue):
        return RerankFailed(f"did not answer within {limit:g} s")
    if isinstance(error, Closed):
        return RerankFailed("was closed")
    _log.error("a bug in a reranker", exc_info=error)
    return RerankFailed(f"failed: {type(error).__name__}", said=str(error))


def _open(settings: BackendSettings) -> Reranker:
    """Open the reranker that the settings name; import only the libraries it needs."""
    if settings.kind == "onnx":
        try:
            from vikingd.models.rerank.cross_encoder import CrossEncoder
        except ImportError as error:
            raise RerankFailed(
                f"{error.name} is not installed; install it with: {install_command('onnx')}"
            ) from None
        return CrossEncoder(settings)
    from vikingd.models.rerank.rerank_endpoint import Endpoint

    return Endpoint(settings)


def _name(settings: BackendSettings) -> str:
    """Return the name of a reranker in replies, logs and metrics: "kind/model"."""
    model = settings.model or {
        "http": settings.form,
        "volcengine": DOUBAO,
        "onnx": settings.path.rstrip("/").rpartition("/")[2],
    }.get(settings.kind, "")
    return f"{settings.kind}/{model}"
