"""The service Retrieval: finds, searches, retrievals and contexts for prompts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast

from vikingd.answer.context import ContextBuilder, QuerySource, Source, below
from vikingd.answer.deadline import Runner
from vikingd.answer.finder import Finder
from vikingd.answer.query_vector import QueryVectors
from vikingd.answer.retriever import Retriever
from vikingd.answer.search import Models, Searcher
from vikingd.config import Settings
from vikingd.context.build import BuiltContext
from vikingd.domain.answers import Degraded, Stage
from vikingd.domain.find import FindResult
from vikingd.domain.retrieve import Include, RetrieveQuery, RetrieveResult
from vikingd.domain.rights import CALLER
from vikingd.domain.search import SearchMode, SearchQuery, SearchResult
from vikingd.engine import Engine
from vikingd.pb import retrieval_pb2, retrieval_pb2_grpc
from vikingd.telemetry.metrics import Metrics
from vikingd.wire import weigh
from vikingd.wire.calls import CallContext, CallDeadline, Threads, as_sent, reply_bytes
from vikingd.wire.messages import context as wire_context
from vikingd.wire.messages import decode, encode, retrieve
from vikingd.wire.messages import search as wire_search
from vikingd.wire.messages.pieces import Pieces, batched


class RetrievalService(retrieval_pb2_grpc.RetrievalServicer):
    """The handlers of Retrieval."""

    def __init__(
        self,
        engine: Engine,
        threads: Threads,
        metrics: Metrics,
        settings: Settings,
        models: Models,
    ) -> None:
        self._engine = engine
        self._queues = threads.queues
        self._metrics = metrics
        self._settings = settings
        self._pieces = Pieces()
        self._most_bytes = most_bytes = reply_bytes(settings.limits.max_reply_bytes)
        vectors = QueryVectors(engine, threads)
        self._finder = Finder(engine, vectors, models.rerankers, self._pieces.matches, most_bytes)
        self._searcher = Searcher(engine, vectors, models, most_bytes)
        self._retriever = Retriever(engine, vectors)
        self._contexts = ContextBuilder(engine, self._finder, self._retriever, most_bytes)

    async def Find(
        self, request: retrieval_pb2.FindRequest, context: CallContext
    ) -> retrieval_pb2.FindResponse:
        """Return the contexts that match one query."""
        async with self._runner(context, heavy=weigh.find(request)) as run:
            query, vector = await run.here(decode.find_query, request, self._engine.store.dimension)
            return await self._finder.answer(query, vector, CALLER.get(), run, self._find_reply)

    async def BatchFind(
        self, request: retrieval_pb2.BatchFindRequest, context: CallContext
    ) -> retrieval_pb2.BatchFindResponse:
        """Return the contexts that match each of some queries."""
        async with self._runner(context, heavy=weigh.batch(request)) as run:
            queries = await run.here(
                decode.find_queries, request.requests, self._engine.store.dimension
            )
            replies = await self._finder.answer_batch(
                queries,
                CALLER.get(),
                run,
                lambda embed: self._metrics.took("BatchFind", [embed]),
                self._batched_reply,
            )
            # Joined messages are one message with the elements of all.
            return cast("retrieval_pb2.BatchFindResponse", b"".join(replies))  # see as_sent

    async def Search(
        self, request: retrieval_pb2.SearchRequest, context: CallContext
    ) -> retrieval_pb2.SearchResponse:
        """Return the contexts that a task needs, given its conversation."""
        deadline = CallDeadline(context)
        async with self._queues.runner(deadline, heavy=weigh.search(request)) as run:
            query = await run.here(wire_search.query_of, request)
            await run.here(self._searcher.check, query, deadline.caller)
        planned = await self._searcher.plan(query, deadline)  # a model does not hold a slot
        async with self._queues.runner(deadline, heavy=weigh.find(request)) as run:
            result = await self._searcher.answer(query, planned, deadline.caller, run)
            return await run.away(self._search_reply, query, result)

    async def Retrieve(
        self, request: retrieval_pb2.RetrieveRequest, context: CallContext
    ) -> retrieval_pb2.RetrieveResponse:
        """Return the passages that a strategy finds."""
        async with self._runner(context, heavy=weigh.retrieve(request)) as run:
            query, vector = await run.here(
                retrieve.query_of, request, self._engine.store.dimension, self._settings.retrieval
            )
            result, embed = await self._retriever.answer(
                query, vector, CALLER.get(), run, self._most_bytes, self._pieces.items
            )
            return await self._retrieve_reply(query, result, embed, run)

    async def BuildContext(
        self, request: retrieval_pb2.BuildContextRequest, context: CallContext
    ) -> retrieval_pb2.BuildContextResponse:
        """Return the text for a prompt, within a budget of tokens."""
        async with self._runner(context, heavy=True) as run:
            name = wire_context.source_of(request)
            plan = wire_context.plan_of(request, self._settings.context, self._most_bytes)
            source = await run.here(self._source, request, name)
            return await self._contexts.answer(source, plan, CALLER.get(), run, self._context_reply)

    def _runner(self, context: CallContext, *, heavy: bool) -> AbstractAsyncContextManager[Runner]:
        return self._queues.runner(CallDeadline(context), heavy=heavy)

    def _source(self, request: retrieval_pb2.BuildContextRequest, name: str) -> Source:
        dimension, defaults = self._engine.store.dimension, self._settings.retrieval
        with below(name):
            if name == "find":
                return QuerySource(*decode.find_query(request.find, dimension))
            if name == "retrieve":
                return QuerySource(*retrieve.query_of(request.retrieve, dimension, defaults))
        return wire_context.items_of(request)

    def _find_reply(self, result: FindResult, embed: Stage) -> retrieval_pb2.FindResponse:
        reply = self._encoded("Find", result, embed, (embed, *result.stages))
        return cast("retrieval_pb2.FindResponse", reply)  # see as_sent

    def _batched_reply(self, result: FindResult, embed: Stage) -> bytes:
        """Return the reply to one query, as it stands in the reply to all."""
        return batched(self._encoded("BatchFind", result, embed, result.stages))

    def _encoded(
        self, rpc: str, result: FindResult, embed: Stage, stages: Sequence[Stage]
    ) -> bytes:
        """Encode the reply to one query, and count its stages."""
        data, total, top_score = encode.find_response(result, embed)
        self._metrics.took(rpc, stages)
        # The counted total is that of the reply, which has no list for results above the roots.
        degraded = bool(result.degraded or result.is_cut)
        self._metrics.answered(rpc, result.method.name, total, top_score, degraded=degraded)
        if result.rerank is not None:
            self._metrics.reranked(result.rerank.status.name)
        return data

    def _search_reply(
        self, query: SearchQuery, result: SearchResult
    ) -> retrieval_pb2.SearchResponse:
        reply = wire_search.response_of(result)
        self._metrics.took("Search", result.stages)
        mode = SearchMode.THINKING if query.find.thinking else SearchMode.QUICK
        self._metrics.answered(
            "Search",
            mode.name,
            reply.total,
            max((m.score for m in result.matches), default=0.0),
            degraded=bool(reply.degraded),
        )
        self._metrics.planned(result.plan.source.name)
        if query.find.thinking:
            self._metrics.reranked(result.rerank.status.name)
        return as_sent(reply)

    async def _retrieve_reply(
        self, query: RetrieveQuery, result: RetrieveResult, embed: Stage, run: Runner
    ) -> retrieval_pb2.RetrieveResponse:
        self._metrics.took("Retrieve", (embed, *result.stages))
        total = len(result.items)
        top_score = result.items[0].score if result.items else 0.0
        if result.gathered is not None:
            _, total, top_score = result.gathered
        self._metrics.answered(
            "Retrieve", query.strategy, total, top_score, degraded=bool(result.degraded)
        )
        read = self._engine.store.metadata if Include.METADATA in query.include else None

        def reply() -> retrieval_pb2.RetrieveResponse:
            response = retrieve.response_of(result, embed, read, self._most_bytes)
            return as_sent(response, result.gathered)

        return await run.away(reply) if run.is_heavy or read else reply()

    def _context_reply(
        self, built: BuiltContext, revision: int, stages: Sequence[Stage], degraded: Degraded
    ) -> retrieval_pb2.BuildContextResponse:
        self._metrics.took("BuildContext", stages)
        return as_sent(
            wire_context.response_of(built, revision, stages, degraded, self._most_bytes)
        )
