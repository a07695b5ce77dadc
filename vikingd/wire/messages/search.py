"""Search: the request and the reply, and the finds of its plan side by side."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import NamedTuple

from vikingd.answer.find import Search
from vikingd.answer.search import find_of, merged, planned_for, rerank_of
from vikingd.domain.degradation import Degradation, DegradationReason
from vikingd.domain.errors import InvalidField
from vikingd.domain.model import FindResult, Stage
from vikingd.domain.query import (
    PlanSource,
    QueryPlan,
    SearchQuery,
    SearchResult,
    SearchSession,
    SessionMessage,
    TypedQuery,
)
from vikingd.domain.reply_budget import cut_notes
from vikingd.engine import Engine
from vikingd.models.intent.planner import Planner
from vikingd.models.rerank.rerankers import Rerankers
from vikingd.pb import retrieval_pb2
from vikingd.wire.calls import Deadline, Threads
from vikingd.wire.embedding import vector_or_note
from vikingd.wire.limits import MAX_MESSAGES
from vikingd.wire.messages import decode, encode
from vikingd.wire.queues import Runner
from vikingd.wire.thinking import answers

_ROLES = ("user", "assistant", "system", "tool")
_PLAN_SHARE = 0.5  # of the time left: what the planner may take


class Models(NamedTuple):
    """Who is asked by THINKING and by Search, besides the embedder."""

    planner: Planner
    rerankers: Rerankers

    async def close(self) -> None:
        """Ends their connections."""
        await asyncio.gather(self.planner.close(), self.rerankers.close())


def query_of(request: retrieval_pb2.SearchRequest) -> SearchQuery:
    """The query with its session.

    Raises:
        InvalidField: naming the field as in the proto.
    """
    if not request.query.strip():
        raise InvalidField("query", "is empty")
    find = retrieval_pb2.FindRequest(
        query=request.query,
        target_uri=request.target_uri,
        context_types=request.context_types,
        levels=request.levels,
        limit=request.limit,
        where=request.where if request.HasField("where") else None,
        trace=request.trace,
        min_revision=request.min_revision,
        mode=request.mode or retrieval_pb2.SEARCH_MODE_THINKING,
    )
    if request.HasField("score_threshold"):
        find.score_threshold = request.score_threshold
    if request.HasField("alpha"):
        find.alpha = request.alpha
    query, _ = decode.find_query(find, None)
    return SearchQuery(query.text, _session(request.session), query)


async def plan(query: SearchQuery, models: Models, deadline: Deadline) -> tuple[QueryPlan, Stage]:
    """The plan, and the stage that made it; a planner that fails is told of in it."""
    started = time.perf_counter()
    left = deadline.left()
    seconds = None if left is None else left * _PLAN_SHARE
    made = await models.planner.plan(query.text, query.session, seconds)
    return planned_for(made, query), Stage("intent", started, time.perf_counter())


async def search(
    query: SearchQuery,
    plan: QueryPlan,
    planning: Stage,
    engine: Engine,
    threads: Threads,
    models: Models,
    run: Runner,
    deadline: Deadline,
    most_bytes: int,
) -> SearchResult:
    """Finds and merges; a reranker that fails is told of in the result.

    Raises:
        NotFound: the target is not there.
        InvalidField: the target is a file, or `where` is malformed.
    """
    planned = planning.ended
    found = await _found(plan, query, engine, threads, models, run, deadline, most_bytes)
    searched = time.perf_counter()
    matches = await run.away(merged, found, query.find.limit) if found else ()
    stages = (
        planning,
        Stage("queries", planned, searched),
        Stage("merge", searched, time.perf_counter()),
    )
    revision = found[0].revision if found else engine.snapshot.revision
    degraded = dict.fromkeys(note for result in found for note in result.degraded)
    if plan.model and plan.source is PlanSource.RULES:
        failed = Degradation(DegradationReason.PLANNER, plan.reason)
        degraded = {failed: None, **degraded}
    return SearchResult(plan, found, matches, revision, rerank_of(found), stages, tuple(degraded))


async def _found(
    plan: QueryPlan,
    query: SearchQuery,
    engine: Engine,
    threads: Threads,
    models: Models,
    run: Runner,
    deadline: Deadline,
    most_bytes: int,
) -> tuple[FindResult, ...]:
    """The answers to the plan's queries, from one snapshot and on one scale."""
    started = time.perf_counter()
    vectors = await asyncio.gather(
        *(vector_or_note(engine, threads, planned.query, deadline) for planned in plan.queries)
    )
    embed = Stage("embed", started, time.perf_counter())
    snapshot = engine.snapshot

    def bound() -> list[Search]:
        searches = [
            Search(engine, find_of(planned, query, snapshot), vector, degraded, snapshot)
            for planned, (vector, degraded) in zip(plan.queries, vectors, strict=True)
        ]
        for search in searches:
            search.most_bytes = most_bytes // len(searches)
        return searches

    searches = await run.away(bound)
    found = await answers(query.text, searches, models.rerankers, run, deadline)
    return tuple(
        replace(
            result,
            stages=(embed, *result.stages),
            degraded=(*result.degraded, *cut_notes(result.left_out, result.shortened)),
        )
        for result in found
    )


def response_of(result: SearchResult) -> retrieval_pb2.SearchResponse:
    """The reply."""
    plan = result.plan
    reply = retrieval_pb2.SearchResponse(
        query_plan=retrieval_pb2.QueryPlan(
            source=plan.source,  # type: ignore[arg-type]  # same numbers
            reason=plan.reason,
            queries=map(_typed, plan.queries),
            notes=plan.notes,
            model=plan.model,
        ),
        revision=result.revision,
        degraded=encode.degraded(result.degraded),
        rerank=encode.rerank(result.rerank),
    )
    reply.total, _ = encode.add_matches(reply, result.matches)
    encode.add_timings(reply.timings, result.stages)
    for planned, found in zip(plan.queries, result.found, strict=True):
        added = reply.query_results.add(
            query=_typed(planned),
            hits=[
                retrieval_pb2.QueryHit(uri=match.uri, score=match.score)
                for match in found.matches
                if match.context_type
            ],
            degraded=encode.degraded(found.degraded),
            trace=encode.find_trace(found.trace) if found.trace else None,
        )
        encode.add_timings(added.timings, found.stages)
        if found.rerank is not None:
            added.rerank.CopyFrom(encode.rerank(found.rerank))
    return reply


def _typed(query: TypedQuery) -> retrieval_pb2.TypedQuery:
    return retrieval_pb2.TypedQuery(
        query=query.query,
        context_type=query.context_type,  # type: ignore[arg-type]  # same numbers
        intent=query.intent,
        priority=query.priority,
    )


def _session(session: retrieval_pb2.SearchSession) -> SearchSession:
    if len(session.messages) > MAX_MESSAGES:
        raise InvalidField(
            "session.messages", f"has {len(session.messages)} entries, at most {MAX_MESSAGES}"
        )
    for i, message in enumerate(session.messages):
        if message.role not in _ROLES:
            raise InvalidField(
                f"session.messages[{i}].role",
                f"is {message.role[:32]!r}, not one of {', '.join(_ROLES)}",
            )
        if not message.content.strip():
            raise InvalidField(f"session.messages[{i}].content", "is empty")
    return SearchSession(
        session.summary,
        tuple(SessionMessage(message.role, message.content) for message in session.messages),
    )
