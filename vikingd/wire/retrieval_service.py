"""The service Retrieval: finds, searches, retrievals and contexts for prompts.

Each handler decodes its request, compiles a plan, runs it and renders the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Protocol, TypeVar

from vikingd.answer.context_sources import Source, built, field_prefix, sources_of
from vikingd.answer.find_answer import find_all
from vikingd.answer.find_hits import FindHits, answered
from vikingd.answer.query_planning import QueryVectors, planned_find, planned_retrieve
from vikingd.answer.reranking import reranked
from vikingd.answer.retrieve_answer import RetrieveHits
from vikingd.answer.search_answer import Models, Searcher
from vikingd.config import Settings
from vikingd.domain import cancellation
from vikingd.domain.answers import Stage
from vikingd.domain.retrieve_query import Include
from vikingd.domain.rights import CALLER
from vikingd.domain.search_query import SearchMode
from vikingd.engine import Engine
from vikingd.lanes import call_cost
from vikingd.lanes.call_pools import (
    CallContext,
    CallDeadline,
    Threads,
    reply_bytes,
    wait_for_revision,
)
from vikingd.lanes.queues import Runner
from vikingd.memory_calls.used_memories import count_used, memories_shown
from vikingd.pb import retrieval_pb2
from vikingd.plan.find_plan import compile_finds
from vikingd.plan.query_text import finds_of
from vikingd.telemetry.metrics import Metrics
from vikingd.wire.messages import context_messages, decode, retrieve_request, search_messages
from vikingd.wire.messages.encoded_results import EncodedResults, batched
from vikingd.wire.messages.find_reply import FindReply, find_reply
from vikingd.wire.messages.retrieve_reply import RetrieveReply, retrieve_reply

LIGHT_BYTES = 128 << 10
"""The most bytes of the results in a reply that is made on the event loop."""

_SOURCES = 4  # the sources of a context may have this many times the bytes of a reply
_FILES = 30  # limit of a find without one, whose passages become a context


class _Cut(Protocol):
    """A reply that may lack results because they did not fit."""

    @property
    def is_cut(self) -> bool: ...


_Hits = TypeVar("_Hits")
_Reply = TypeVar("_Reply", bound=_Cut)


class RetrievalService:
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
        self._models = models
        self._results = EncodedResults()
        self._most_bytes = reply_bytes(settings.limits.max_reply_bytes)
        self._vectors = QueryVectors(engine, threads)
        self._searcher = Searcher(engine, self._vectors, models)

    async def Find(self, request: retrieval_pb2.FindRequest, context: CallContext) -> bytes:
        """Return the contexts that match one query."""
        async with self._runner(context, heavy=call_cost.find(request)) as run:
            query = await run.here(decode.find_query, request, self._engine.store.dimension)
            plans, embed = await planned_find(self._engine, self._vectors, query, run)

            def render(found: FindHits, most_bytes: int) -> FindReply:
                return find_reply(found, embed, self._results, most_bytes)

            if query.thinking:
                found = await reranked(query.text, plans, self._models.rerankers, run)
                reply = await run.away(render, answered(plans, found), self._most_bytes)
            else:
                quick = partial(find_all, plans)
                reply = await self._answer(quick, render, run, light=call_cost.is_light_find(plans))
            self._count("Find", (embed, *reply.stages), reply)
            return reply.data

    async def BatchFind(
        self, request: retrieval_pb2.BatchFindRequest, context: CallContext
    ) -> bytes:
        """Return for each of several queries the contexts that match it."""
        async with self._runner(context, heavy=call_cost.batch(request)) as run:
            queries = await run.here(
                decode.find_queries, request.requests, self._engine.store.dimension
            )
            await wait_for_revision(self._engine, max(one.min_revision for one in queries), run)
            started = perf_counter()
            asked = [finds_of(one) for one in queries]
            made = await self._vectors.embed_all(
                (one.text for finds in asked for one in finds if one.vector is None), run
            )
            embed = Stage("embed", started, perf_counter())
            self._metrics.record_stages("BatchFind", [embed])

            def answer(number: int, most_bytes: int) -> bytes:
                cancellation.check()
                engine = self._engine
                with field_prefix(f"requests[{number}]"):
                    plans = compile_finds(
                        engine, asked[number], made, CALLER.get(), engine.snapshot
                    )
                reply = find_reply(find_all(plans), embed, self._results, most_bytes)
                self._count("BatchFind", reply.stages, reply)
                return batched(reply.data)

            def answer_share(numbers: Sequence[int]) -> list[bytes]:
                """Answer the queries with these numbers on one thread; return their replies.

                Together they have a share of the bytes of a reply. What a short reply leaves may be
                used by the later ones.
                """
                left, replies = self._most_bytes * len(numbers) // len(queries), list[bytes]()
                for number in numbers:
                    replies.append(answer(number, left // (len(numbers) - len(replies))))
                    left -= len(replies[-1])
                return replies

            count = run.at_once
            parts = [range(first, len(queries), count) for first in range(count)]
            shares = await asyncio.gather(*(run.away(answer_share, part) for part in parts if part))
            # Joined messages are one message with the elements of all.
            return b"".join(shares[i % count][i // count] for i in range(len(queries)))

    async def Search(self, request: retrieval_pb2.SearchRequest, context: CallContext) -> bytes:
        """Return the contexts that help with a task, given the conversation so far."""
        deadline = CallDeadline(context)
        async with self._queues.runner(deadline, heavy=call_cost.search(request)) as run:
            query = await run.here(search_messages.query_of, request)
            await run.here(self._searcher.check, query)
        planned = await self._searcher.plan(query, deadline)  # a model does not hold a slot
        async with self._queues.runner(deadline, heavy=call_cost.find(request)) as run:
            found = await self._searcher.answer(query, planned, run)
            reply = await run.away(
                search_messages.search_reply,
                found,
                query.find.limit,
                self._results,
                self._most_bytes,
            )
        mode = SearchMode.THINKING if query.find.thinking else SearchMode.QUICK
        self._metrics.record_stages("Search", reply.stages)
        self._metrics.answered(
            "Search", mode.name, reply.total, reply.top_score, degraded=reply.is_degraded
        )
        self._metrics.planned(found.plan.source.name)
        if query.find.thinking:
            self._metrics.reranked(found.rerank.status.name)
        return reply.data

    async def Retrieve(self, request: retrieval_pb2.RetrieveRequest, context: CallContext) -> bytes:
        """Return the passages that match a query, found and ranked as the caller chooses."""
        store = self._engine.store
        async with self._runner(context, heavy=call_cost.retrieve(request)) as run:
            query = await run.here(
                retrieve_request.query_of, request, store.dimension, self._settings.retrieval
            )
            planned = await planned_retrieve(self._engine, self._vectors, query, run)
            read = store.metadata if Include.METADATA in query.include else None

            def render(found: RetrieveHits, most_bytes: int) -> RetrieveReply:
                return retrieve_reply(found, planned.embed, self._results, most_bytes, read)

            is_light = call_cost.is_light_retrieve(planned.plan) and read is None
            reply = await self._answer(planned.run, render, run, light=is_light)
        self._metrics.record_stages("Retrieve", (planned.embed, *reply.stages))
        self._metrics.answered(
            "Retrieve",
            query.strategy,
            reply.total,
            reply.top_score,
            degraded=reply.is_degraded,
        )
        return reply.data

    async def BuildContext(
        self, request: retrieval_pb2.BuildContextRequest, context: CallContext
    ) -> bytes:
        """Return a text for a prompt, within a budget of tokens."""
        most = _SOURCES * self._most_bytes
        async with self._runner(context, heavy=True) as run:
            name = context_messages.source_of(request)
            plan = context_messages.plan_of(request, self._settings.context, self._most_bytes)
            floor = decode.floor(request, self._settings.context.floor)
            source = await run.here(self._source, request, name)
            sources = await sources_of(
                self._engine, self._vectors, self._models.rerankers, source, run, most, floor
            )

            def render() -> bytes:
                started = perf_counter()
                text = built(self._engine, sources, plan)
                ids = [] if request.no_touch else memories_shown(self._engine, text)
                notes = (*sources.degraded, *count_used(self._engine, ids))
                stages = (*sources.stages, Stage("build", started, perf_counter()))
                self._metrics.record_stages("BuildContext", stages)
                reply = context_messages.response_of(text, sources, stages, notes, self._most_bytes)
                return reply.SerializeToString()

            return await run.away(render)

    def _runner(self, context: CallContext, *, heavy: bool) -> AbstractAsyncContextManager[Runner]:
        return self._queues.runner(CallDeadline(context), heavy=heavy)

    async def _answer(
        self,
        answer: Callable[[], _Hits],
        render: Callable[[_Hits, int], _Reply],
        run: Runner,
        *,
        light: bool,
    ) -> _Reply:
        """Run `answer`, then make the reply with `render`; on the event loop if both are quick."""
        if not light or run.is_heavy:
            return await run.away(lambda: render(answer(), self._most_bytes))
        found = await run.here(answer)
        reply = render(found, LIGHT_BYTES)
        return await run.away(render, found, self._most_bytes) if reply.is_cut else reply

    def _source(self, request: retrieval_pb2.BuildContextRequest, name: str) -> Source:
        dimension, defaults = self._engine.store.dimension, self._settings.retrieval
        with field_prefix(name):
            if name == "find":
                query = decode.find_query(request.find, dimension)
                # In THINKING each further file costs calls of the reranker.
                is_free = not (request.find.limit or query.thinking)
                return replace(query, limit=_FILES) if is_free else query
            if name == "retrieve":
                return retrieve_request.query_of(request.retrieve, dimension, defaults)
        return context_messages.items_of(request)

    def _count(self, rpc: str, stages: Sequence[Stage], reply: FindReply) -> None:
        """Add the stages and results of a find to the metrics."""
        found = reply.found
        self._metrics.record_stages(rpc, stages)
        self._metrics.answered(
            rpc, found.method.name, reply.total, reply.top_score, degraded=reply.is_degraded
        )
        if found.rerank is not None:
            self._metrics.reranked(found.rerank.status.name)
