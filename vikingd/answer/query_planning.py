"""Queries with their vectors, compiled to plans for the newest snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple

from viking_kernels.arrays import F32

from vikingd.answer.deadline import Runner, wait_for_revision
from vikingd.answer.find_answer import find
from vikingd.answer.find_hits import FindHits, answered
from vikingd.answer.query_vector import QueryVectors, embedder_failed
from vikingd.answer.reranking import find_all
from vikingd.answer.retrieve_answer import (
    Ranked,
    RetrieveHits,
    rank_meaning,
    rank_words,
    retrieve,
)
from vikingd.domain.answers import Degradation, DegradationReason, Degraded, Stage
from vikingd.domain.errors import EmbedderFailed, InvalidField
from vikingd.domain.find_query import FindQuery
from vikingd.domain.retrieve_query import Mode, RetrieveQuery
from vikingd.domain.rights import CALLER
from vikingd.engine import Engine
from vikingd.models.rerank.rerankers import Rerankers
from vikingd.plan.find_plan import FindPlan, are_all_light, compile_find
from vikingd.plan.question_parts import finds_of
from vikingd.plan.retrieve_plan import RetrievePlan, compile_retrieve


class PlannedFind(NamedTuple):
    """The plans of a find, one for each question that it asks, and the stage that embedded them."""

    plans: tuple[FindPlan, ...]
    embed: Stage

    @property
    def is_light(self) -> bool:
        """True if the answer takes less time than a thread takes to start."""
        return are_all_light(self.plans)

    def run(self) -> FindHits:
        """Return the hits by plain scores."""
        return answered(self.plans, [find(plan) for plan in self.plans])

    async def rerank(self, text: str, rerankers: Rerankers, run: Runner) -> FindHits:
        """Return the hits in the mode of the plans; `text` is that of the request."""
        return answered(self.plans, await find_all(text, self.plans, rerankers, run))


async def planned_find(
    engine: Engine, vectors: QueryVectors, query: FindQuery, run: Runner
) -> PlannedFind:
    """Return the plans of a find, all for one snapshot.

    Without a vector of the query the text of each of its questions is embedded.

    Raises:
        NotFound: nothing readable exists below the target.
        InvalidField: the target is a file, or `where` is malformed.
    """
    await wait_for_revision(engine, query.min_revision, run)
    started = perf_counter()
    finds, notes = finds_of(query), [tuple[Degradation, ...]()]
    if query.vector is None:
        made = await asyncio.gather(*(vectors.embed_or_note(one.text, run) for one in finds))
        for one, (vector, _) in zip(finds, made, strict=True):
            one.vector = vector
        notes = [degraded for _, degraded in made]
    embed, snapshot, caller = Stage("embed", started, perf_counter()), engine.snapshot, CALLER.get()

    def compile_all() -> tuple[FindPlan, ...]:
        return tuple(
            compile_find(engine, one, caller, degraded, snapshot)
            for one, degraded in zip(finds, notes, strict=True)
        )

    return PlannedFind(await run.here(compile_all), embed)


class PlannedRetrieve(NamedTuple):
    """A retrieval that is ready to run.

    Attributes:
        plan: the compiled request.
        vector: the vector of the query; None if only words are searched.
        degraded: notes for the reply.
        embed: the time that the embedding of the query took.
        ready: ranked lists that were computed during the embedding, by their names.
    """

    plan: RetrievePlan
    vector: F32 | None
    degraded: Degraded
    embed: Stage
    ready: Mapping[str, Ranked]

    def run(self) -> RetrieveHits:
        """Return the hits."""
        return retrieve(self.plan, self.vector, self.degraded, self.ready)


async def planned_retrieve(
    engine: Engine, vectors: QueryVectors, query: RetrieveQuery, run: Runner
) -> PlannedRetrieve:
    """Return the plan of a retrieval with its vector.

    Without a vector of the query its text is embedded, if the plan needs one. A long search by
    words runs meanwhile.

    Raises:
        NotFound: nothing readable exists below the target.
        InvalidField: the target is a file, a filter is malformed, or the query needs a vector and
            there is no embedder.
        EmbedderFailed: it failed, and the query does not allow words alone.
    """
    await wait_for_revision(engine, query.min_revision, run)
    plan = await run.here(compile_retrieve, engine, query, CALLER.get())
    scope = plan.two_sides
    if scope is None or plan.is_light:
        vector, degraded, embed = await _vector(vectors, plan, run)
        return PlannedRetrieve(plan, vector, degraded, embed, {})

    async def meaning() -> tuple[F32 | None, Degraded, Stage, Ranked | None]:
        vector, degraded, embed = await _vector(vectors, plan, run)
        ranked = None if vector is None else await run.away(rank_meaning, scope, vector)
        return vector, degraded, embed, ranked

    (vector, degraded, embed, by_meaning), words = await asyncio.gather(
        meaning(), run.away(rank_words, scope)
    )
    ready = {"keyword": words}
    if by_meaning is not None:
        ready["vector"] = by_meaning
    return PlannedRetrieve(plan, vector, degraded, embed, ready)


async def _vector(
    vectors: QueryVectors, plan: RetrievePlan, run: Runner
) -> tuple[F32 | None, Degraded, Stage]:
    """Return the vector of a query that needs one, notes for the reply, and the stage."""
    query, started = plan.query, perf_counter()
    vector, degraded = query.vector, tuple[Degradation, ...]()
    if vector is None and plan.by_meaning:
        try:
            vector = await vectors.embed(query.text, run)
        except EmbedderFailed as error:
            if not query.degrade:
                raise
            degraded = (embedder_failed(error, "answered by words alone"),)
        if vector is None and not degraded:
            if query.mode is Mode.VECTOR and not query.degrade:
                raise InvalidField("vector", "is needed: the daemon has no embedder")
            detail = "no embedder is configured: answered by words alone"
            degraded = (Degradation(DegradationReason.EMBEDDER, detail),)
    return vector, degraded, Stage("embed", started, perf_counter())
