"""Asking the tree."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast

from vikingd.answer.context import (
    context_of_items,
    context_of_pieces,
    pieces_found,
    pieces_retrieved,
)
from vikingd.answer.find import Search
from vikingd.answer.query_scope import Bound
from vikingd.answer.strategies import GatherItems, Strategy
from vikingd.config import Settings
from vikingd.context.parts import Piece
from vikingd.domain import pace
from vikingd.domain.degradation import Degradation, DegradationReason, Degraded
from vikingd.domain.errors import EmbedderFailed, InvalidField
from vikingd.domain.model import FindResult, Stage
from vikingd.domain.query import (
    Include,
    Mode,
    RetrieveQuery,
    RetrieveResult,
    SearchMode,
    SearchQuery,
    SearchResult,
)
from vikingd.domain.reply_budget import Room, cut_notes
from vikingd.engine import Engine
from vikingd.pb import retrieval_pb2, retrieval_pb2_grpc
from vikingd.wire import weigh
from vikingd.wire.calls import CallContext, Deadline, Threads, as_sent, revision_reached
from vikingd.wire.embedding import embedder_failed, vector_of, vector_or_note
from vikingd.wire.messages import context as wire_context
from vikingd.wire.messages import decode, encode, retrieve
from vikingd.wire.messages import search as wire_search
from vikingd.wire.messages.pieces import Pieces, batched
from vikingd.wire.messages.search import Models
from vikingd.wire.observer import Observer
from vikingd.wire.queues import HEAVY_THREADS, Runner
from vikingd.wire.thinking import answers

INLINE_BYTES = 128 << 10
"""Of the results in a reply that is made on the event loop."""

SOURCES = 4
"""Times what a context may have in a reply: what it is built of may have."""


class Retrieval(retrieval_pb2_grpc.RetrievalServicer):
    """The service Retrieval: light queries are answered on the event loop, others on threads."""

    def __init__(
        self,
        engine: Engine,
        threads: Threads,
        observer: Observer,
        settings: Settings,
        models: Models,
    ) -> None:
        self._engine = engine
        self._threads = threads
        self._observer = observer
        self._settings = settings
        self._models = models
        self._pieces = Pieces()
        self._most_bytes = settings.limits.max_reply_bytes * 7 // 8  # the rest is for what is small

    async def Find(
        self, request: retrieval_pb2.FindRequest, context: CallContext
    ) -> retrieval_pb2.FindResponse:
        """The contexts that matter for a query."""
        deadline = Deadline(context)
        async with self._runner(deadline, heavy=weigh.find(request)) as run:
            search, embed = await self._search_of(request, deadline, run)
            if search.query.thinking:
                result = await self._thought(search, run, deadline)
                return await run.away(self._reply, "Find", result, embed)
            if search.is_light and not run.is_heavy:
                result = await run.here(search.answer, INLINE_BYTES, self._pieces.matches)
                if not result.is_cut:
                    return self._reply("Find", result, embed)
            return await run.away(
                lambda: self._reply(
                    "Find", search.answer(self._most_bytes, self._pieces.matches), embed
                )
            )

    def _runner(self, deadline: Deadline, *, heavy: bool) -> AbstractAsyncContextManager[Runner]:
        return self._threads.queues.runner(deadline, heavy=heavy)

    async def _search_of(
        self, request: retrieval_pb2.FindRequest, deadline: Deadline, run: Runner
    ) -> tuple[Search, Stage]:
        """(the find on a snapshot, the stage that made the query's vector)."""
        query, vector = await run.here(decode.find_query, request, self._engine.dimension)
        await revision_reached(self._engine, query.min_revision, deadline)
        degraded: Degraded = ()
        started = time.perf_counter()
        if vector is None:
            vector, degraded = await vector_or_note(
                self._engine, self._threads, query.text, deadline
            )
        embed = Stage("embed", started, time.perf_counter())
        search = await run.here(Search, self._engine, query, vector, degraded)
        search.most_bytes = self._most_bytes
        return search, embed

    async def _thought(self, search: Search, run: Runner, deadline: Deadline) -> FindResult:
        (result,) = await answers(
            search.query.text, [search], self._models.rerankers, run, deadline
        )
        return result

    async def Search(
        self, request: retrieval_pb2.SearchRequest, context: CallContext
    ) -> retrieval_pb2.SearchResponse:
        """What a task needs to know, given what was said before it."""
        deadline = Deadline(context)
        query = await self._planned_from(request, deadline)
        await revision_reached(self._engine, query.find.min_revision, deadline)
        plan, planning = await wire_search.plan(query, self._models, deadline)
        async with self._runner(deadline, heavy=weigh.find(request)) as run:
            result = await wire_search.search(
                query,
                plan,
                planning,
                self._engine,
                self._threads,
                self._models,
                run,
                deadline,
                self._most_bytes,
            )
            return await run.away(self._search_reply, query, result)

    async def _planned_from(
        self, request: retrieval_pb2.SearchRequest, deadline: Deadline
    ) -> SearchQuery:
        """The query, whose finds can be made as far as that is known before there is a plan."""
        async with self._runner(deadline, heavy=weigh.search(request)) as run:
            query = await run.here(wire_search.query_of, request)
            await run.here(Bound, self._engine, query.find)  # raises what the finds would
            return query

    def _search_reply(
        self, query: SearchQuery, result: SearchResult
    ) -> retrieval_pb2.SearchResponse:
        reply = wire_search.response_of(result)
        self._observer.took("Search", result.stages)
        mode = SearchMode.THINKING if query.find.thinking else SearchMode.QUICK
        self._observer.answered(
            "Search",
            mode.name,
            reply.total,
            max((m.score for m in result.matches), default=0.0),
            degraded=bool(reply.degraded),
        )
        self._observer.planned(result.plan.source.name)
        if query.find.thinking:
            self._observer.reranked(result.rerank.status.name)
        return as_sent(reply)

    async def BatchFind(
        self, request: retrieval_pb2.BatchFindRequest, context: CallContext
    ) -> retrieval_pb2.BatchFindResponse:
        """The same for many queries in one call."""
        deadline = Deadline(context)
        async with self._runner(deadline, heavy=weigh.batch(request)) as run:
            queries = await run.here(decode.find_queries, request.requests, self._engine.dimension)
            min_revision = max(query.min_revision for query, _ in queries)
            await revision_reached(self._engine, min_revision, deadline)
            started = time.perf_counter()
            texts = list(dict.fromkeys(query.text for query, vector in queries if vector is None))
            embedded = await asyncio.gather(
                *(vector_or_note(self._engine, self._threads, text, deadline) for text in texts)
            )
            made = dict(zip(texts, embedded, strict=True))
            embed = Stage("embed", started, time.perf_counter())
            self._observer.took("BatchFind", [embed])

            def answer(i: int, most_bytes: int) -> bytes:
                """The reply to one query, as it stands in the reply to all."""
                pace.step()
                query, vector = queries[i]
                vector, degraded = made[query.text] if vector is None else (vector, ())
                try:
                    search = Search(self._engine, query, vector, degraded)
                    result = search.answer(most_bytes, self._pieces.matches)
                except InvalidField as error:
                    raise error.below(f"requests[{i}]") from None
                return batched(self._encoded("BatchFind", result, embed))

            def answer_share(numbers: Sequence[int]) -> list[bytes]:
                """The replies to some queries; each may use what is left by those before it."""
                left, replies = self._most_bytes * len(numbers) // len(queries), list[bytes]()
                for i in numbers:
                    replies.append(answer(i, left // (len(numbers) - len(replies))))
                    left -= len(replies[-1])
                return replies

            parts = [range(k, len(queries), HEAVY_THREADS) for k in range(HEAVY_THREADS)]
            shares = await asyncio.gather(
                *(run.away(answer_share, numbers) for numbers in parts if numbers)
            )
            # Messages joined are one message with the elements of all.
            replies = [shares[i % HEAVY_THREADS][i // HEAVY_THREADS] for i in range(len(queries))]
            return cast("retrieval_pb2.BatchFindResponse", b"".join(replies))  # see as_sent

    def _encoded(self, rpc: str, result: FindResult, embed: Stage, *own: Stage) -> bytes:
        """The reply to one query, which is counted; `embed` made its vector.

        Counted are the stages of the answer and its `own`: a batch embeds once.
        """
        data, total, top_score = encode.find_response(result, embed)
        self._observer.took(rpc, (*own, *result.stages))
        # As in the reply, which has no place for what stands above the typed roots.
        degraded = bool(result.degraded or result.is_cut)
        self._observer.answered(rpc, result.method.name, total, top_score, degraded=degraded)
        if result.rerank is not None:
            self._observer.reranked(result.rerank.status.name)
        return data

    def _reply(self, rpc: str, result: FindResult, embed: Stage) -> retrieval_pb2.FindResponse:
        reply = self._encoded(rpc, result, embed, embed)
        return cast("retrieval_pb2.FindResponse", reply)  # see as_sent

    async def Retrieve(
        self, request: retrieval_pb2.RetrieveRequest, context: CallContext
    ) -> retrieval_pb2.RetrieveResponse:
        """The passages that a strategy finds."""
        deadline = Deadline(context)
        async with self._runner(deadline, heavy=weigh.retrieve(request)) as run:
            query, result, embed = await self._retrieved(
                request, deadline, run, self._most_bytes, self._pieces.items
            )
            self._observer.took("Retrieve", (embed, *result.stages))
            first = result.items[0].score if result.items else 0.0
            total, top_score = len(result.items), first
            if result.gathered is not None:
                _, total, top_score = result.gathered
            self._observer.answered(
                "Retrieve", query.strategy, total, top_score, degraded=bool(result.degraded)
            )
            if not run.is_heavy and Include.METADATA not in query.include:
                return as_sent(retrieve.response_of(result, embed), result.gathered)
            read = self._engine.store.metadata if Include.METADATA in query.include else None
            return await run.away(
                lambda: as_sent(
                    retrieve.response_of(result, embed, read, self._most_bytes), result.gathered
                )
            )

    async def _retrieved(
        self,
        request: retrieval_pb2.RetrieveRequest,
        deadline: Deadline,
        run: Runner,
        most_bytes: int,
        gather: GatherItems | None = None,
    ) -> tuple[RetrieveQuery, RetrieveResult, Stage]:
        """(the query, the answer, the stage that made the query's vector)."""
        query, vector = await run.here(
            retrieve.query_of, request, self._engine.dimension, self._settings.retrieval
        )
        await revision_reached(self._engine, query.min_revision, deadline)
        strategy = await run.here(Strategy, self._engine, query)
        strategy.most_bytes = most_bytes
        is_light = strategy.is_light
        meaning = self._meaning(strategy, vector, deadline, run)
        if strategy.has_two_sides and not is_light:
            (vector, degraded, embed), _ = await asyncio.gather(meaning, run.away(strategy.words))
        else:
            vector, degraded, embed = await meaning
        if is_light and not run.is_heavy:
            strategy.most_bytes = INLINE_BYTES
            result = await run.here(strategy.answer, vector, degraded, gather)
            if not result.is_cut:
                return query, result, embed
            strategy = strategy.once_more(most_bytes)
        result = await run.away(strategy.answer, vector, degraded, gather)
        return query, result, embed

    async def BuildContext(
        self, request: retrieval_pb2.BuildContextRequest, context: CallContext
    ) -> retrieval_pb2.BuildContextResponse:
        """The text for a prompt, of what was found, within a budget of tokens."""
        deadline = Deadline(context)
        async with self._runner(deadline, heavy=True) as run:
            return await self._context(request, deadline, run)

    async def _context(
        self, request: retrieval_pb2.BuildContextRequest, deadline: Deadline, run: Runner
    ) -> retrieval_pb2.BuildContextResponse:
        source = wire_context.source_of(request)
        plan = wire_context.plan_of(request, self._settings.context, self._most_bytes)
        engine, most_bytes = self._engine, SOURCES * self._most_bytes
        now = time.perf_counter()
        embed, stages = Stage("embed", now, now), tuple[Stage, ...]()
        degraded: Degraded = ()
        revision = engine.snapshot.revision
        pieces: list[Piece] | None = None
        try:
            if source == "find":
                search, embed = await self._search_of(request.find, deadline, run)
                if search.query.thinking:
                    found = await self._thought(search, run, deadline)
                else:
                    found = await run.away(search.answer, most_bytes)
                pieces = pieces_found(found)
                stages, revision = found.stages, found.revision
                degraded = (*found.degraded, *cut_notes(found.left_out, found.shortened))
            elif source == "retrieve":
                _, result, embed = await self._retrieved(
                    request.retrieve, deadline, run, most_bytes
                )
                pieces = pieces_retrieved(result)
                stages, degraded, revision = result.stages, result.degraded, result.revision
        except InvalidField as error:
            raise error.below(source) from None

        def build() -> retrieval_pb2.BuildContextResponse:
            started = time.perf_counter()
            room = Room(most_bytes)
            if pieces is not None:
                built = context_of_pieces(engine, pieces, plan, room)
            else:
                built = context_of_items(engine, wire_context.items_of(request), plan, room)
            all_stages = (embed, *stages, Stage("build", started, time.perf_counter()))
            self._observer.took("BuildContext", all_stages)
            return as_sent(
                wire_context.response_of(built, revision, all_stages, degraded, self._most_bytes)
            )

        return await run.away(build)

    async def _meaning(
        self, strategy: Strategy, vector: decode.Vector | None, deadline: Deadline, run: Runner
    ) -> tuple[decode.Vector | None, Degraded, Stage]:
        """(the query's vector, what is done without, its stage); looks by it, if it is long.

        Raises:
            InvalidField: MODE_VECTOR without a vector or an embedder.
            EmbedderFailed: it did, and the query may not be answered by words alone.
        """
        query, started = strategy.query, time.perf_counter()
        degraded: Degraded = ()
        if vector is None and strategy.by_meaning:
            try:
                vector = await vector_of(self._engine, self._threads, query.text, deadline)
            except EmbedderFailed as error:
                if not query.degrade:
                    raise
                degraded = (embedder_failed(error, "answered by words alone"),)
            if vector is None and not degraded:
                if query.mode is Mode.VECTOR and not query.degrade:
                    raise InvalidField("vector", "is needed: the daemon has no embedder")
                detail = "no embedder is configured: answered by words alone"
                degraded = (Degradation(DegradationReason.EMBEDDER, detail),)
        embed = Stage("embed", started, time.perf_counter())
        if strategy.has_two_sides and not strategy.is_light and vector is not None:
            await run.away(strategy.meaning, vector)
        return vector, degraded, embed
