"""Asking the tree."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from vikingd.config import Settings
from vikingd.engine import Engine
from vikingd.errors import EmbedderFailed, InvalidField
from vikingd.model import FindResult, Stage
from vikingd.pb import retrieval_pb2, retrieval_pb2_grpc
from vikingd.query import Include, Mode, RetrieveQuery, RetrieveResult, SearchMode
from vikingd.retrieve.context import (
    context_of_items,
    context_of_pieces,
    pieces_found,
    pieces_retrieved,
)
from vikingd.retrieve.find import Search, find
from vikingd.retrieve.strategies import Strategy
from vikingd.wire import context as wire_context
from vikingd.wire import decode, encode, retrieve
from vikingd.wire import search as wire_search
from vikingd.wire.calls import (
    KERNEL_THREADS,
    CallContext,
    Deadline,
    Threads,
    on,
    revision_reached,
    work_on,
)
from vikingd.wire.embedding import vector_of, vector_or_note
from vikingd.wire.observer import Observer
from vikingd.wire.search import Models
from vikingd.wire.thinking import answers


class Retrieval(retrieval_pb2_grpc.RetrievalServicer):
    """The service Retrieval: light queries are answered on the event loop, others on threads."""

    def __init__(
        self, engine: Engine, threads: Threads, observer: Observer, settings: Settings,
        models: Models,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._threads = threads
        self._observer = observer
        self._settings = settings
        self._models = models

    async def Find(
        self, request: retrieval_pb2.FindRequest, context: CallContext
    ) -> retrieval_pb2.FindResponse:
        """The contexts that matter for a query."""
        result, embed = await self._found(request, Deadline(context))
        (reply,) = self._replies("Find", [result], embed)
        return reply

    async def _found(
        self, request: retrieval_pb2.FindRequest, deadline: Deadline
    ) -> tuple[FindResult, Stage]:
        """(the answer, the stage that made the query's vector)."""
        query, vector = decode.find_query(request, self._engine.dimension)
        await revision_reached(self._engine, query.min_revision, deadline)
        degraded: tuple[str, ...] = ()
        started = time.perf_counter()
        if vector is None:
            vector, degraded = await vector_or_note(
                self._engine, self._threads, query.text, deadline
            )
        embed = Stage("embed", started, time.perf_counter())
        deadline.left()
        search = Search(self._engine, query, vector, degraded)
        if query.thinking:
            (result,) = await answers(
                query.text, [search], self._models.rerankers, self._threads, deadline
            )
        else:
            result = await work_on(search, self._threads.kernels, deadline, search.answer)
        return result, embed

    async def Search(
        self, request: retrieval_pb2.SearchRequest, context: CallContext
    ) -> retrieval_pb2.SearchResponse:
        """What a task needs to know, given what was said before it."""
        deadline = Deadline(context)
        query = wire_search.query_of(request)
        await revision_reached(self._engine, query.find.min_revision, deadline)
        result = await wire_search.search(
            query, self._engine, self._threads, self._models, deadline
        )
        reply = wire_search.response_of(result)
        self._observer.took("Search", result.stages)
        mode = SearchMode.THINKING if query.find.thinking else SearchMode.QUICK
        self._observer.answered(
            "Search", mode.name, reply.total, max((m.score for m in result.matches), default=0.0),
            degraded=bool(result.degraded),
        )  # fmt: skip
        self._observer.planned(result.plan.source.name)
        if query.find.thinking:
            self._observer.reranked(result.rerank.status.name)
        return reply

    async def BatchFind(
        self, request: retrieval_pb2.BatchFindRequest, context: CallContext
    ) -> retrieval_pb2.BatchFindResponse:
        """The same for many queries in one call."""
        deadline = Deadline(context)
        queries = decode.find_queries(request.requests, self._engine.dimension)
        min_revision = max(query.min_revision for query, _ in queries)
        await revision_reached(self._engine, min_revision, deadline)
        started = time.perf_counter()
        texts = list(dict.fromkeys(query.text for query, vector in queries if vector is None))
        embedded = await asyncio.gather(
            *(vector_or_note(self._engine, self._threads, text, deadline) for text in texts)
        )
        made = dict(zip(texts, embedded, strict=True))
        embed = Stage("embed", started, time.perf_counter())

        def answer(i: int) -> FindResult:
            deadline.left()
            query, vector = queries[i]
            vector, degraded = made[query.text] if vector is None else (vector, ())
            try:
                return find(self._engine, query, vector, degraded)
            except InvalidField as error:
                raise error.below(f"requests[{i}]") from None

        def answer_share(first: int) -> list[FindResult]:
            return [answer(i) for i in range(first, len(queries), KERNEL_THREADS)]

        shares = await asyncio.gather(
            *(
                on(self._threads.kernels, deadline, answer_share, first)
                for first in range(KERNEL_THREADS)
            )
        )
        results = [shares[i % KERNEL_THREADS][i // KERNEL_THREADS] for i in range(len(queries))]
        return retrieval_pb2.BatchFindResponse(responses=self._replies("BatchFind", results, embed))

    def _replies(
        self, rpc: str, results: Sequence[FindResult], embed: Stage
    ) -> list[retrieval_pb2.FindResponse]:
        """The answers of one call, counted; `embed` made all of their vectors."""
        self._observer.took(rpc, [embed])
        replies = []
        for result in results:
            reply = encode.find_response(result, embed)
            self._observer.took(rpc, result.stages)
            # As in the reply, which has no place for what stands above the typed roots.
            top_score = next((m.score for m in result.matches if m.context_type), 0.0)
            self._observer.answered(
                rpc, result.method.name, reply.total, top_score, degraded=bool(result.degraded)
            )
            if result.rerank is not None:
                self._observer.reranked(result.rerank.status.name)
            replies.append(reply)
        return replies

    async def Retrieve(
        self, request: retrieval_pb2.RetrieveRequest, context: CallContext
    ) -> retrieval_pb2.RetrieveResponse:
        """The passages that a strategy finds."""
        deadline = Deadline(context)
        query, result, embed = await self._retrieved(request, deadline)
        metadata: Mapping[str, Mapping[str, Any]] = {}
        if Include.METADATA in query.include and result.items:
            named = list(dict.fromkeys(item.uri for item in result.items))
            metadata = await on(self._threads.store, deadline, self._engine.store.metadata, named)
        self._observer.took("Retrieve", (embed, *result.stages))
        self._observer.answered(
            "Retrieve", query.strategy, len(result.items),
            result.items[0].score if result.items else 0.0, degraded=bool(result.degraded),
        )  # fmt: skip
        return retrieve.response_of(result, embed, metadata)

    async def _retrieved(
        self, request: retrieval_pb2.RetrieveRequest, deadline: Deadline
    ) -> tuple[RetrieveQuery, RetrieveResult, Stage]:
        """(the query, the answer, the stage that made the query's vector)."""
        query, vector = retrieve.query_of(request, self._engine.dimension, self._settings.retrieval)
        await revision_reached(self._engine, query.min_revision, deadline)
        strategy = Strategy(self._engine, query)
        beside = strategy.has_two_sides and not strategy.is_light
        (vector, degraded, embed), _ = await asyncio.gather(
            self._meaning(strategy, vector, deadline),
            on(self._threads.kernels, deadline, strategy.words) if beside else asyncio.sleep(0),
        )
        result = await work_on(
            strategy, self._threads.kernels, deadline, strategy.answer, vector, degraded
        )
        return query, result, embed

    async def BuildContext(
        self, request: retrieval_pb2.BuildContextRequest, context: CallContext
    ) -> retrieval_pb2.BuildContextResponse:
        """The text for a prompt, of what was found, within a budget of tokens."""
        deadline = Deadline(context)
        source = wire_context.source_of(request)
        plan = wire_context.plan_of(request, self._settings.context)
        engine, store = self._engine, self._threads.store
        now = time.perf_counter()
        embed, stages = Stage("embed", now, now), tuple[Stage, ...]()
        degraded: tuple[str, ...] = ()
        revision = engine.snapshot.revision
        try:
            if source == "find":
                found, embed = await self._found(request.find, deadline)
                pieces = pieces_found(found)
                stages, degraded, revision = found.stages, found.degraded, found.revision
            elif source == "retrieve":
                _, result, embed = await self._retrieved(request.retrieve, deadline)
                pieces = pieces_retrieved(result)
                stages, degraded, revision = result.stages, result.degraded, result.revision
        except InvalidField as error:
            raise error.below(source) from None
        started = time.perf_counter()
        if source in ("find", "retrieve"):
            built = await on(store, deadline, context_of_pieces, engine, pieces, plan)
        else:
            items = wire_context.items_of(request)
            built = await on(store, deadline, context_of_items, engine, items, plan)
        stages = (embed, *stages, Stage("build", started, time.perf_counter()))
        self._observer.took("BuildContext", stages)
        return wire_context.response_of(built, revision, stages, degraded)

    async def _meaning(
        self, strategy: Strategy, vector: decode.Vector | None, deadline: Deadline
    ) -> tuple[decode.Vector | None, tuple[str, ...], Stage]:
        """(the query's vector, what is done without, its stage); looks by it, if it is long.

        Raises:
            InvalidField: MODE_VECTOR without a vector or an embedder.
            EmbedderFailed: it did, and the query may not be answered by words alone.
        """
        query, started = strategy.query, time.perf_counter()
        degraded: tuple[str, ...] = ()
        if vector is None and strategy.by_meaning:
            try:
                vector = await vector_of(self._engine, self._threads, query.text, deadline)
            except EmbedderFailed as error:
                if not query.degrade:
                    raise
                degraded = (f"{error}: answered by words alone",)
            if vector is None and not degraded:
                if query.mode is Mode.VECTOR and not query.degrade:
                    raise InvalidField("vector", "is needed: the daemon has no embedder")
                degraded = ("no embedder is configured: answered by words alone",)
        embed = Stage("embed", started, time.perf_counter())
        if strategy.has_two_sides and not strategy.is_light and vector is not None:
            await on(self._threads.kernels, deadline, strategy.meaning, vector)
        return vector, degraded, embed
