"""Search: the finds of a plan, and their results merged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

from vikingd.answer.deadline import Deadline, Runner, wait_for_revision
from vikingd.answer.find import Find, Finds, bound
from vikingd.answer.parts import parts_of
from vikingd.answer.query_scope import QueryScope
from vikingd.answer.query_vector import QueryVectors
from vikingd.answer.reranking import answer_finds
from vikingd.domain import uri as uris
from vikingd.domain.answers import Degradation, DegradationReason, Stage, cut_notes
from vikingd.domain.contexts import ContextType
from vikingd.domain.find import FindQuery, FindResult, Match, Rerank, RerankStatus
from vikingd.domain.rights import Caller, Right
from vikingd.domain.search import PlanSource, QueryPlan, SearchQuery, SearchResult, TypedQuery
from vikingd.engine import Engine
from vikingd.index.snapshot import Snapshot
from vikingd.models.intent.planner import Planner
from vikingd.models.rerank.rerankers import Rerankers

_PLAN_SHARE = 0.5  # of the time left, for the planner
_USERS = "viking://users"  # has a root of each type for each user


class Models(NamedTuple):
    """The models that plan and rerank."""

    planner: Planner
    rerankers: Rerankers

    async def close(self) -> None:
        """End their connections."""
        await asyncio.gather(self.planner.close(), self.rerankers.close())


class Searcher:
    """Answers Search: plan the finds, answer them side by side, merge the results.

    The results in a reply have about `most_bytes`.
    """

    def __init__(
        self, engine: Engine, vectors: QueryVectors, models: Models, most_bytes: int
    ) -> None:
        self._engine = engine
        self._vectors = vectors
        self._models = models
        self._most_bytes = most_bytes

    def check(self, query: SearchQuery, caller: Caller) -> None:
        """Check a query as far as this is possible without a plan; errors as in `answer`."""
        snapshot = self._engine.snapshot
        for part in parts_of(query.find, caller, snapshot):
            QueryScope(self._engine, part, snapshot)

    async def plan(self, query: SearchQuery, deadline: Deadline) -> tuple[QueryPlan, Stage]:
        """Return the plan, and the stage that made it.

        If the planner fails, rules make the plan, and it says so.
        """
        await wait_for_revision(self._engine, query.find.min_revision, deadline)
        started = perf_counter()
        left = deadline.left()
        seconds = None if left is None else left * _PLAN_SHARE
        made = await self._models.planner.plan(query.text, query.session, seconds)
        return planned_for(made, query), Stage("intent", started, perf_counter())

    async def answer(
        self, query: SearchQuery, planned: tuple[QueryPlan, Stage], caller: Caller, run: Runner
    ) -> SearchResult:
        """Answer the finds of a plan and merge them. If a reranker fails, the result says so.

        Raises:
            NotFound: nothing readable exists below the target.
            InvalidField: the target is a file, or `where` is malformed.
        """
        plan, planning = planned
        found = await self._found(plan, query, caller, run)
        searched = perf_counter()
        matches = await run.away(merged, found, query.find.limit) if found else ()
        stages = (
            planning,
            Stage("queries", planning.ended, searched),
            Stage("merge", searched, perf_counter()),
        )
        revision = found[0].revision if found else self._engine.snapshot.revision
        degraded = dict.fromkeys(note for result in found for note in result.degraded)
        if plan.model and plan.source is PlanSource.RULES:
            failed = Degradation(DegradationReason.PLANNER, plan.reason)
            degraded = {failed: None, **degraded}
        return SearchResult(
            plan, found, matches, revision, rerank_of(found), stages, tuple(degraded)
        )

    async def _found(
        self, plan: QueryPlan, query: SearchQuery, caller: Caller, run: Runner
    ) -> tuple[FindResult, ...]:
        """Return the answers to the plan's queries, from one snapshot and on one scale."""
        started = perf_counter()
        vectors = await asyncio.gather(
            *(self._vectors.embed_or_note(typed.query, run) for typed in plan.queries)
        )
        embed = Stage("embed", started, perf_counter())
        engine, snapshot = self._engine, self._engine.snapshot

        def bind() -> list[Find | Finds]:
            finds = [
                bound(
                    engine,
                    find_of(typed, query, caller, snapshot),
                    vector,
                    degraded,
                    caller,
                    snapshot,
                )
                for typed, (vector, degraded) in zip(plan.queries, vectors, strict=True)
            ]
            for find in finds:
                find.most_bytes = self._most_bytes // len(finds)
            return finds

        finds = await run.away(bind)
        found = await answer_finds(query.text, finds, self._models.rerankers, run)
        return tuple(
            replace(
                result,
                stages=(embed, *result.stages),
                degraded=(*result.degraded, *cut_notes(result.left_out, result.shortened)),
            )
            for result in found
        )


def planned_for(plan: QueryPlan, query: SearchQuery) -> QueryPlan:
    """Return the plan without queries for types that the request excludes.

    If no query is left, the request's own text takes their place.
    """
    types = query.find.context_types
    kept = tuple(
        q for q in plan.queries if not types or not q.context_type or q.context_type in types
    )
    notes = tuple(
        f"{q.query!r} is planned for {q.context_type.name}, which the request leaves out"
        for q in plan.queries
        if q not in kept
    )
    if plan.queries and not kept:
        kept = (TypedQuery(query.text, ContextType.UNSPECIFIED, priority=1),)
    return replace(plan, queries=kept, notes=plan.notes + notes)


def find_of(
    planned: TypedQuery, query: SearchQuery, caller: Caller, snapshot: Snapshot
) -> FindQuery:
    """Return a query of the plan as a find, below the root of its type if there is only one.

    A caller that may not read all keeps the parts that it may read.
    """
    find = replace(query.find, text=planned.query)
    if not planned.context_type:
        return find
    roots = uris.TYPED_ROOTS.get(planned.context_type, ())
    is_only = len(roots) == 1 and snapshot.find(_USERS) is None
    asks_all = find.target_uri == uris.ROOT and caller.may(Right.READ, uris.ROOT)
    if is_only and asks_all and (snapshot.find(roots[0]) or -1) >= 0:
        find = replace(find, target_uri=roots[0])
    return replace(find, context_types=frozenset((planned.context_type,)))


def merged(found: Sequence[FindResult], limit: int) -> tuple[Match, ...]:
    """Return the best matches, each URI once with its best score, by falling score, ties by URI.

    Each result may fill an equal share of `limit`. The rest is for the best of all others.
    """
    best: dict[str, Match] = {}
    for match in (match for result in found for match in result.matches):
        known = best.get(match.uri)
        if known is None or match.score > known.score:
            best[match.uri] = match
    kept: dict[str, Match] = {}
    for result in found:
        for match in result.matches[: limit // len(found)]:
            kept[match.uri] = best[match.uri]
    for match in sorted(best.values(), key=_order):
        if len(kept) == limit:
            break
        kept[match.uri] = match
    return tuple(sorted(kept.values(), key=_order))


def rerank_of(found: Sequence[FindResult]) -> Rerank:
    """Return the outcome of reranking, which is the same for all queries."""
    if found and found[0].rerank is not None:
        return replace(found[0].rerank, rounds=())
    return Rerank(RerankStatus.OFF, "the mode is QUICK" if found else "nothing was searched")


def _order(match: Match) -> tuple[float, str]:
    return -match.score, match.uri
