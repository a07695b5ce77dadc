"""The embedding of queries, with a cache and a circuit breaker; equal queries are embedded once."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from vikingd.domain.errors import EmbedderFailed, EmbedderRefused
from vikingd.models.embed.provider import (
    MAX_QUERY_CHARS,
    PROBE,
    EmbedderBroke,
    EmbedderUnreachable,
    Provider,
    Vectors,
    clean,
)

MIN_BACKOFF = 1.0
MAX_BACKOFF = 30.0

_BETWEEN = "\0"  # a caller and a text; no text has it after `clean`

_log = logging.getLogger(__name__)


class QueryEmbedder:
    """Embeds queries by a provider; thread-safe.

    After a failure of the provider, queries fail at once for a back-off time (1 s, doubling to 30
    s), so that a dead endpoint does not cost each query its time-out. Then one query is tried, and
    the others fail at once until it ends. If a query fails and a fixed short text (the probe)
    succeeds, only that query fails.

    Callers of different names share neither cached vectors nor queries in flight.

    Args:
        size: the most queries in the cache; 0: no cache.
        record_call: a callback for metrics. It gets the duration in seconds of each call of the
            provider.

    Attributes:
        cached_since: vectors added to the cache since the start.
        hits: queries answered from the cache, or together with an equal query in flight.
        misses: queries given to the provider.
    """

    def __init__(
        self,
        provider: Provider,
        size: int = 4096,
        record_call: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._provider = provider
        self._record_call = record_call
        self._size = size
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, Vectors] = OrderedDict()
        self._in_flight: dict[str, Future[Vectors]] = {}
        self._failure = ""
        self._failed = "", ""  # the caller whose query showed it, and what others are told
        self._kind = EmbedderFailed
        self._backoff = 0.0
        self._retry_at = 0.0
        self.cached_since = 0
        self.hits = 0
        self.misses = 0

    @property
    def last_error(self) -> str:
        """The error that makes all queries fail now; "" if the provider works."""
        return self._failure

    def cached(self, text: str, caller: str = "") -> Vectors | None:
        """Return the cached vector of a query, or None; the provider is not called."""
        with self._lock:
            return self._look_up(_key(clean(text, MAX_QUERY_CHARS), caller))

    def entries(self) -> dict[str, Vectors]:
        """Return the cached vectors, the least recently used first; `text_of` reads their keys."""
        with self._lock:
            return dict(self._cache)

    def restore(self, entries: Mapping[str, Vectors]) -> None:
        """Add vectors to the cache; `entries` returned them in an earlier run."""
        with self._lock:
            self._cache.update(entries)
            self._shrink()

    def embed(self, text: str, caller: str = "") -> Vectors:
        """Return the unit vector of a query; it is read-only.

        Raises:
            EmbedderFailed: the provider failed now, or before within the back-off time.
        """
        # Cut the query first: the provider ignores the rest, and the cache must not hold it.
        text = clean(text, MAX_QUERY_CHARS)
        key = _key(text, caller)
        with self._lock:
            vector = self._look_up(key)
            if vector is not None:
                return vector
            future = self._in_flight.get(key)
            first = future is None
            if future is None:
                self._admit(caller)
                future = self._in_flight[key] = Future()
                self.misses += 1
            else:
                self.hits += 1
        if first:
            self._resolve(key, text, caller, future)
        error = future.exception()
        if error is not None:
            # A new error, because threads must not share a traceback.
            raise _error_class(error)(str(error)) from error
        return future.result()

    def _look_up(self, key: str) -> Vectors | None:
        vector = self._cache.get(key)
        if vector is not None:
            self._cache.move_to_end(key)
            self.hits += 1
        return vector

    def _shrink(self) -> None:
        while len(self._cache) > self._size:
            self._cache.popitem(last=False)

    def _admit(self, caller: str) -> None:
        if not self._backoff:
            return
        if time.monotonic() < self._retry_at:
            # The whole failure may quote the query.
            failed, brief = self._failed
            raise self._kind(self._failure if caller == failed else brief)
        self._retry_at = float("inf")  # only this query tries until it ends

    def _resolve(self, key: str, text: str, caller: str, future: Future[Vectors]) -> None:
        started = time.perf_counter()
        try:
            try:
                vector = self._provider.embed_query(text)
            finally:
                self._record_call(time.perf_counter() - started)
        except BaseException as error:
            failure = self._failure_of_all(error)
            with self._lock:
                self._record(failure, caller)
                del self._in_flight[key]
            future.set_exception(error)
            if not isinstance(error, EmbedderFailed):
                raise
            return
        vector.flags.writeable = False
        with self._lock:
            self._record(None, caller)
            self._cache[key] = vector
            self.cached_since += 1
            self._shrink()
            del self._in_flight[key]
        future.set_result(vector)

    def _failure_of_all(self, error: BaseException) -> BaseException | None:
        """Return the error that makes all queries fail; None if only this query fails.

        If the error does not show which, the probe is embedded: if that fails, all queries fail.
        """
        of_all = isinstance(error, EmbedderUnreachable | EmbedderBroke)
        if of_all or not isinstance(error, Exception):
            return error
        try:
            self._provider.embed_query(PROBE)
        except Exception as failure:
            return failure
        return None

    def _record(self, failure: BaseException | None, caller: str) -> None:
        """Record the result of a query: a failure begins or extends the back-off time.

        With `failure` None, a success, the back-off time ends. `caller` is the caller of the query.
        Only this caller sees the whole message of the failure, because it may quote the query.
        """
        if failure is None:
            self._failure, self._backoff = "", 0.0
            return
        # Queries that were in flight together count as one failure.
        if not self._backoff or self._retry_at == float("inf"):
            self._backoff = min(max(2 * self._backoff, MIN_BACKOFF), MAX_BACKOFF)
            self._retry_at = time.monotonic() + self._backoff
        if not self._failure:  # the first of several in a row
            _log.warning("the embedder fails: %s", failure)
        self._failure = str(failure) or type(failure).__name__
        brief = failure.brief if isinstance(failure, EmbedderFailed) else type(failure).__name__
        self._failed = caller, brief
        self._kind = _error_class(failure)


def text_of(key: str) -> str:
    """Return the text of a query, given its key in the cache."""
    return key.rpartition(_BETWEEN)[2]


def _key(text: str, caller: str) -> str:
    """Return the cache key of a caller's query; for the caller "" it is the text alone."""
    return f"{caller}{_BETWEEN}{text}" if caller else text


def _error_class(error: BaseException) -> type[EmbedderFailed]:
    """Return the class to raise for an error of the provider: EmbedderRefused or EmbedderFailed."""
    return EmbedderRefused if isinstance(error, EmbedderRefused) else EmbedderFailed
