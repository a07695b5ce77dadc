"""The answer to a search: the finds of its plan, and their hits merged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from time import perf_counter
from typing import NamedTuple

from vikingd.answer.confidence import best_confidence
from vikingd.answer.find_hits import FindHits, Hit, in_rounds, linked_of, rounds, twins_of
from vikingd.answer.query_planning import QueryVectors
from vikingd.answer.reranking import reranked
from vikingd.answer.scored_scope import Relations
from vikingd.domain import uri as uris
from vikingd.domain.answers import Confidence, Degradation, DegradationReason, Degraded, Stage
from vikingd.domain.contexts import ContextType
from vikingd.domain.find_query import FindQuery, Rerank, RerankStatus
from vikingd.domain.rights import CALLER, Caller, Right
from vikingd.domain.search_query import PlanSource, QueryPlan, SearchQuery, TypedQuery
from vikingd.engine import Engine
from vikingd.index.snapshot import Snapshot
from vikingd.lanes.call_pools import wait_for_revision
from vikingd.lanes.queues import Deadline, Runner
from vikingd.models.intent import plan_rules
from vikingd.models.intent.planner import Planner
from vikingd.models.intent.planner_question import MAX_QUERIES
from vikingd.models.rerank.rerankers import Rerankers
from vikingd.plan.find_plan import FindPlan, compile_find, compile_finds
from vikingd.plan.query_text import questions_of

_PLAN_SHARE = 0.5  # of the time left, for the planner
_USERS = "viking://users"  # has a root of each type for each user


class Models(NamedTuple):
    """The models that plan searches and rerank results."""

    planner: Planner
    rerankers: Rerankers

    async def close(self) -> None:
        """End the connections of the models."""
        await asyncio.gather(self.planner.close(), self.rerankers.close())


@dataclass(frozen=True, slots=True)
class SearchHits:
    """The hits of a search; `found` has the hits of each query of the plan, in the plan's order."""

    plan: QueryPlan
    found: tuple[FindHits, ...]
    revision: int
    rerank: Rerank
    stages: tuple[Stage, ...]
    degraded: Degraded = ()
    questions: tuple[str, ...] = ()  # of a task that asks several; () if a model made the plan

    def merged(self, limit: int) -> FindHits | None:
        """Return the best hits of all queries, at most `limit`; None if there are no queries."""
        if self.questions and self.plan.source is PlanSource.NONE:
            hits = in_rounds([one.hits for one in self.found], limit)
            linked, twins = linked_of(self.found), twins_of(self.found)
            return replace(self.found[0], hits=hits, linked=linked, twins=twins)
        return merged(self.found, limit)

    @property
    def confidence(self) -> Confidence | None:
        """The highest confidence among the queries; see `best_confidence`."""
        return best_confidence([hits.confidence for hits in self.found])


class Searcher:
    """Answers Search: plan the finds, and answer them side by side."""

    def __init__(self, engine: Engine, vectors: QueryVectors, models: Models) -> None:
        self._engine = engine
        self._vectors = vectors
        self._models = models

    def check(self, query: SearchQuery) -> None:
        """Check a request before its queries are planned.

        Raises:
            The errors of `answer`, as far as they do not depend on the planned queries.
        """
        compile_find(self._engine, query.find, CALLER.get())

    async def plan(self, query: SearchQuery, deadline: Deadline) -> tuple[QueryPlan, Stage]:
        """Plan the queries; return the plan and the time that it took.

        If the planner's model fails, rules make the plan, and the plan says so.
        """
        await wait_for_revision(self._engine, query.find.min_revision, deadline)
        started = perf_counter()
        left = deadline.left()
        seconds = None if left is None else left * _PLAN_SHARE
        made = await self._models.planner.plan(query.text, query.session, seconds)
        made = with_questions(made, questions_of(query.text))
        return planned_for(made, query), Stage("intent", started, perf_counter())

    async def answer(
        self, query: SearchQuery, planned: tuple[QueryPlan, Stage], run: Runner
    ) -> SearchHits:
        """Answer the finds of a plan. If a reranker fails, the result says so.

        Raises:
            NotFound: nothing readable exists below the target.
            InvalidField: the target is a file, or `where` is malformed.
        """
        plan, planning = planned
        found = await self._found(plan, query, run)
        degraded = dict.fromkeys(note for hits in found for note in hits.degraded)
        if plan.model and plan.source is PlanSource.RULES:
            failed = Degradation(DegradationReason.PLANNER, plan.reason)
            degraded = {failed: None, **degraded}
        stages = planning, Stage("queries", planning.ended, perf_counter())
        revision = found[0].snapshot.revision if found else self._engine.snapshot.revision
        questions = () if plan.source is PlanSource.MODEL else questions_of(query.text)
        return SearchHits(
            plan,
            found,
            revision,
            rerank_of(found),
            stages,
            tuple(degraded),
            questions if len(questions) > 1 else (),
        )

    async def _found(
        self, plan: QueryPlan, query: SearchQuery, run: Runner
    ) -> tuple[FindHits, ...]:
        """Return the hits of each query of the plan.

        All are from one snapshot, and their scores can be compared.
        """
        started = perf_counter()
        made = await self._vectors.embed_all((typed.query for typed in plan.queries), run)
        embed = Stage("embed", started, perf_counter())
        caller, snapshot = CALLER.get(), self._engine.snapshot

        def compiled() -> tuple[FindPlan, ...]:
            finds = [find_of(typed, query, caller, snapshot) for typed in plan.queries]
            return compile_finds(self._engine, finds, made, caller, snapshot)

        plans = await run.away(compiled)
        found = await reranked(query.text, plans, self._models.rerankers, run)
        return tuple(replace(hits, stages=(embed, *hits.stages)) for hits in found)


def with_questions(plan: QueryPlan, questions: Sequence[str]) -> QueryPlan:
    """Return the plan with queries for each question of the request.

    A plan that a model made is returned unchanged.
    """
    if plan.source is PlanSource.MODEL or len(questions) == 1:
        return plan
    if plan.source is PlanSource.RULES:
        each = [plan_rules.plan(question)[0] for question in questions]
    else:
        each = [(TypedQuery(one, ContextType.UNSPECIFIED, priority=1),) for one in questions]
    queries = list(chain.from_iterable(rounds(each, lambda one: (one.query, one.context_type))))
    queries = sorted(queries[:MAX_QUERIES], key=lambda one: one.priority)
    return replace(plan, queries=tuple(queries))


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
    """Return the find for a query of the plan.

    If the request searches the whole tree, the caller may read all of it, and only one root has
    contexts of the query's type, the find searches below that root.
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


def merged(found: Sequence[FindHits], limit: int) -> FindHits | None:
    """Return the best hits of all finds, at most `limit`; None without finds.

    Each context appears once, with its best score; ties by URI. The best hits of each find get an
    equal share of `limit`. The places that are left go to the best other hits of all finds.
    """
    if not found:
        return None
    snapshot, linked = found[0].snapshot, Relations()
    best: dict[int, Hit] = {}
    for hits in found:
        for hit in hits.hits:
            known = best.get(hit.row)
            if known is None or hit.score > known.score:
                best[hit.row] = hit
                linked[hit.row] = hits.linked.get(hit.row, ())
    kept = dict.fromkeys(hit.row for hits in found for hit in hits.hits[: limit // len(found)])
    in_order = sorted(best.values(), key=lambda hit: (-hit.score, snapshot.uri(hit.row)))
    for hit in in_order:
        if len(kept) == limit:
            break
        kept[hit.row] = None
    chosen = [hit for hit in in_order if hit.row in kept]
    return replace(found[0], hits=chosen, linked=linked, twins=twins_of(found))


def rerank_of(found: Sequence[FindHits]) -> Rerank:
    """Return the outcome of reranking, which is the same for all queries."""
    if found and found[0].rerank is not None:
        return replace(found[0].rerank, rounds=())
    return Rerank(RerankStatus.OFF, "the mode is QUICK" if found else "nothing was searched")
