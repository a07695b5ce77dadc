"""Asking the tree."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from vikingd.engine import Engine
from vikingd.errors import EmbedderFailed
from vikingd.metrics import Metrics
from vikingd.model import FindQuery, FindResult
from vikingd.pb import retrieval_pb2, retrieval_pb2_grpc
from vikingd.retrieve.find import Search, find
from vikingd.wire import decode, encode
from vikingd.wire.calls import (
    KERNEL_THREADS,
    CallContext,
    Deadline,
    Threads,
    on,
    revision_reached,
)

_EMBED_SHARE = 0.7  # of the time left: what the embedder may take before text alone answers

_Embedded = tuple[decode.Vector | None, tuple[str, ...]]


class Retrieval(retrieval_pb2_grpc.RetrievalServicer):
    """The service Retrieval: light queries are answered on the event loop, others on threads."""

    def __init__(self, engine: Engine, threads: Threads, metrics: Metrics) -> None:
        self._engine = engine
        self._threads = threads
        self._metrics = metrics

    async def Find(
        self, request: retrieval_pb2.FindRequest, context: CallContext
    ) -> retrieval_pb2.FindResponse:
        """The contexts that matter for a query."""
        deadline = Deadline(context)
        query, vector = decode.find_query(request, self._engine.dimension)
        await revision_reached(self._engine, self._threads, query.min_revision, deadline)
        degraded: tuple[str, ...] = ()
        started = time.perf_counter()
        if vector is None:
            vector, degraded = await self._embed(query.text, deadline)
        embed_seconds = time.perf_counter() - started
        deadline.left()
        search = Search(self._engine, query, vector, degraded)
        if search.is_light:
            result = search.answer()
        else:
            result = await on(self._threads.kernels, deadline, search.answer)
        (reply,) = self._replies("Find", [result], embed_seconds)
        return reply

    async def BatchFind(
        self, request: retrieval_pb2.BatchFindRequest, context: CallContext
    ) -> retrieval_pb2.BatchFindResponse:
        """The same for many queries in one call."""
        deadline = Deadline(context)
        queries = decode.find_queries(request.requests, self._engine.dimension)
        min_revision = max(query.min_revision for query, _ in queries)
        await revision_reached(self._engine, self._threads, min_revision, deadline)
        started = time.perf_counter()
        texts = list(dict.fromkeys(query.text for query, vector in queries if vector is None))
        embedded = await asyncio.gather(*(self._embed(text, deadline) for text in texts))
        made = dict(zip(texts, embedded, strict=True))
        embed_seconds = time.perf_counter() - started
        jobs = [
            (query, *(made[query.text] if vector is None else (vector, ())))
            for query, vector in queries
        ]
        found = await asyncio.gather(
            *(
                on(self._threads.kernels, deadline, self._find_all, jobs[i::KERNEL_THREADS],
                   deadline)
                for i in range(KERNEL_THREADS)
            )
        )  # fmt: skip
        results = [found[i % KERNEL_THREADS][i // KERNEL_THREADS] for i in range(len(jobs))]
        return retrieval_pb2.BatchFindResponse(
            responses=self._replies("BatchFind", results, embed_seconds)
        )

    def _replies(
        self, rpc: str, results: Sequence[FindResult], embed_seconds: float
    ) -> list[retrieval_pb2.FindResponse]:
        """The answers of one call, counted; `embed_seconds` went into all of their vectors."""
        self._metrics.took(rpc, "embed", embed_seconds)
        replies = []
        for result in results:
            reply = encode.find_response(result, embed_seconds)
            for stage, seconds in result.timings:
                self._metrics.took(rpc, stage, seconds)
            # As in the reply, which has no place for what stands above the typed roots.
            top_score = next((m.score for m in result.matches if m.context_type), 0.0)
            self._metrics.answered(
                rpc, result.method.name, reply.total, top_score, degraded=bool(result.degraded)
            )
            replies.append(reply)
        return replies

    def _find_all(
        self,
        jobs: Sequence[tuple[FindQuery, decode.Vector | None, tuple[str, ...]]],
        deadline: Deadline,
    ) -> list[FindResult]:
        results = []
        for query, vector, degraded in jobs:
            deadline.left()
            results.append(find(self._engine, query, vector, degraded))
        return results

    async def _embed(self, text: str, deadline: Deadline) -> _Embedded:
        """The vector of a text; without one, what to say about that.

        No note where the daemon is configured to have no embedder.
        """
        embedder = self._engine.query_embedder
        if embedder is None:
            return None, ()
        vector = embedder.cached(text)
        if vector is not None:
            return vector, ()
        left = deadline.left()
        try:
            async with asyncio.timeout(None if left is None else left * _EMBED_SHARE):
                return await on(self._threads.embedding, deadline, embedder.embed, text), ()
        except EmbedderFailed as error:
            why = f"the embedder failed ({error})"
        except TimeoutError:
            why = "the embedder did not answer in time"
        return None, (f"{why}: answered by text alone",)
