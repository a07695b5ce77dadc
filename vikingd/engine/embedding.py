"""The part of an engine that makes vectors: of queries at once, of texts in the background."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
from viking_kernels.arrays import F32

from vikingd.domain.store_changes import Backlog
from vikingd.engine.allowance import DailyAllowance, EmbeddingLimit
from vikingd.engine.shared_engine_parts import Shared
from vikingd.engine.store_opening import EngineSettings, Progress
from vikingd.models.embed.backlog_worker import BacklogWorker, WorkerState
from vikingd.models.embed.query_embedder import QueryEmbedder
from vikingd.models.embed.query_vector_file import QueryVectorFile
from vikingd.store.sqlite.sqlite_reader import StoreReader
from vikingd.store.store_writes import WritableStore

_SMALL_QUERY_CACHE, _SMALL_RECENT_BYTES = 256, 1 << 20  # of an engine of many
_NO_WORK = WorkerState(0, 0, "", "", None, busy=False, rate=0.0, stalled="")


@dataclass(frozen=True, slots=True)
class EmbedderStats:
    """The state of the embedder, for Stats."""

    provider: str
    model: str
    dimension: int
    backlog: Backlog
    work: WorkerState
    last_error: str  # why no text is embedded now, or why texts are skipped; "" otherwise
    query_cache_hits: int
    query_cache_misses: int


class Embedding:
    """Makes the vectors of queries at once, and the vectors of texts in the background.

    Args:
        shared: the embedder, and the metrics of query vectors and their cache.
        store: the store whose texts get vectors.
        progress: called with a line for the operator if the embedder fails at the start.
        limit: returns how many texts may be embedded in a day; None: no limit.

    Attributes:
        model: the name of the model; "none" without an embedder.
        query_embedder: embeds queries; None without an embedder.
    """

    def __init__(
        self,
        settings: EngineSettings,
        shared: Shared,
        store: WritableStore | StoreReader,
        progress: Progress,
        limit: EmbeddingLimit | None = None,
    ) -> None:
        provider = self._provider = shared.provider
        self._store = store
        self.model = provider.model
        self.query_embedder: QueryEmbedder | None = None
        self._kept_queries: QueryVectorFile | None = None
        self._worker: BacklogWorker | None = None
        dimension = provider.dimension
        if dimension is not None:
            size, recent = settings.embedding.query_cache, None
            if settings.small:
                size, recent = min(size, _SMALL_QUERY_CACHE), _SMALL_RECENT_BYTES
            self.query_embedder = QueryEmbedder(provider, size, record_call=shared.metrics.embedded)
            if settings.embedding.keep_queries:
                self._kept_queries = QueryVectorFile(
                    settings.path,
                    self.query_embedder,
                    provider.model,
                    dimension,
                    read_only=settings.reader,
                )
            shared.warm(progress)
            if isinstance(store, WritableStore):
                self._worker = BacklogWorker(
                    settings.embedding,
                    store,
                    dimension,
                    shared.backlogs,
                    recent,
                    DailyAllowance(store, limit) if limit is not None else None,
                )
        self._unfollow = shared.metrics.follow(lambda: self._backlog().texts, self.query_cache)

    def start(self) -> None:
        """Start to embed the waiting texts; a reader embeds none."""
        if self._worker is not None:
            self._worker.start()

    def wake(self) -> None:
        """Wake the background thread, because new texts wait."""
        if self._worker is not None:
            self._worker.wake()

    def prefer(self, text_ids: Sequence[int]) -> AbstractContextManager[None]:
        """During the block, embed these texts before others, because a call waits for them."""
        return self._worker.asked_for(text_ids) if self._worker is not None else nullcontext()

    def embed_document(self, text: str) -> F32 | None:
        """Return the vector [dim] of a text, of length 1; None without an embedder.

        Raises:
            EmbedderFailed: the embedder failed.
        """
        if self._provider.dimension is None:
            return None
        (vector,) = self._provider.embed_documents([text])
        return np.asarray(vector, np.float32)

    @property
    def has_work(self) -> bool:
        """True while texts are being embedded; False if none waits or the embedder fails."""
        return self._worker is not None and self._worker.has_work

    def failure(self) -> str | None:
        """Return the error why no text is embedded now; None if there is none."""
        query = self.query_embedder.last_error if self.query_embedder is not None else None
        return self._work().last_error or query or None

    def stats(self) -> EmbedderStats:
        """Return the state of the embedder."""
        work, backlog = self._work(), self._backlog()
        if not backlog.texts:
            work = replace(work, stalled="", retry_at=None)  # the texts that waited are deleted
        hits, misses = self.query_cache()
        return EmbedderStats(
            provider=self._provider.name,
            model=self.model,
            dimension=self._store.dimension or 0,
            backlog=backlog,
            work=work,
            last_error=self.failure() or work.skipped,
            query_cache_hits=hits,
            query_cache_misses=misses,
        )

    def _work(self) -> WorkerState:
        return self._worker.state() if self._worker is not None else _NO_WORK

    def _backlog(self) -> Backlog:
        """Return the number and the cost of the waiting texts; 0 without an embedder."""
        return self._store.backlog_size() if self.query_embedder is not None else Backlog(0, 0)

    def query_cache(self) -> tuple[int, int]:
        """Return (hits, misses) of the cache of query vectors."""
        queries = self.query_embedder
        return (queries.hits, queries.misses) if queries is not None else (0, 0)

    def stop(self) -> None:
        """Stop the background work, and write the cached query vectors to their file."""
        self._unfollow()
        if self._worker is not None:
            self._worker.stop()
        if self._kept_queries is not None:
            self._kept_queries.close()
