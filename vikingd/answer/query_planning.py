"""The step from a checked query to its plan: embed its text, compile it for the newest snapshot.

The embedder has a share of the time that the call has left. If it fails, words alone answer, and
the reply says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import NamedTuple, TypeVar

from viking_kernels.arrays import F32

from vikingd.answer.retrieve_answer import (
    Ranked,
    RetrieveHits,
    rank_meaning,
    rank_words,
    retrieve,
)
from vikingd.domain.answers import Degradation, DegradationReason, Degraded, Stage
from vikingd.domain.errors import (
    EmbedderFailed,
    EmbedderRefused,
    EmbedderTimedOut,
    InvalidField,
)
from vikingd.domain.find_query import FindQuery
from vikingd.domain.retrieve_query import Mode, RetrieveQuery
from vikingd.domain.rights import CALLER
from vikingd.engine import Engine
from vikingd.lanes import call_cost
from vikingd.lanes.call_pools import Threads, wait_for_revision
from vikingd.lanes.queues import Deadline, Runner
from vikingd.plan.find_plan import FindPlan, compile_finds
from vikingd.plan.query_scope import note_on_waiting
from vikingd.plan.query_text import finds_of
from vikingd.plan.retrieve_plan import RetrievePlan, compile_retrieve

_SHARE = 0.7  # of the time left: the embedder's part, before words alone answer

_T = TypeVar("_T")


class QueryVectors:
    """Embeds the texts of queries.

    Callers of different names do not share cached vectors, so that the time of a call does not show
    what others asked.
    """

    def __init__(self, engine: Engine, threads: Threads) -> None:
        self._engine = engine
        self._threads = threads

    async def embed(self, text: str, deadline: Deadline) -> F32 | None:
        """Return the vector [dim] of a text; None if the daemon has no embedder.

        Raises:
            EmbedderFailed: the embedder failed, or did not answer in its share of the time left.
        """
        embedder = self._engine.embedding.query_embedder
        if embedder is None:
            return None
        caller = CALLER.get().name  # threads do not see it
        vector = embedder.cached(text, caller)
        if vector is not None:
            return vector

        def embed(text: str) -> F32:
            return embedder.embed(text, caller)

        return await embed_in_share(self._threads, deadline, embed, text)

    async def embed_all(
        self, texts: Iterable[str], deadline: Deadline
    ) -> dict[str, tuple[F32 | None, Degraded]]:
        """Return (vector, notes for the reply) of each text, by text.

        If the embedder failed, the vector is None and a note says so. Without an embedder the
        vector is None, and there is no note.
        """
        once = list(dict.fromkeys(texts))
        if len(once) < 2:  # a task would take longer than a vector that is kept
            return {text: await self._embed_or_note(text, deadline) for text in once}
        made = await asyncio.gather(*(self._embed_or_note(text, deadline) for text in once))
        return dict(zip(once, made, strict=True))

    async def _embed_or_note(self, text: str, deadline: Deadline) -> tuple[F32 | None, Degraded]:
        try:
            return await self.embed(text, deadline), ()
        except EmbedderFailed as error:
            return None, (embedder_failed(error, "answered by text alone"),)


def embedder_failed(error: EmbedderFailed, instead: str) -> Degradation:
    """Return the note for the reply on a failure; `instead` says how the query was answered."""
    return Degradation(DegradationReason.EMBEDDER, f"{error}: {instead}")


async def embed_in_share(
    threads: Threads, deadline: Deadline, embed: Callable[[str], _T], text: str
) -> _T:
    """Return `embed(text)`, which runs on a thread within a share of the call's remaining time.

    Raises:
        EmbedderFailed: the embedder failed, or did not answer in time.
    """
    left = deadline.left()
    try:
        async with asyncio.timeout(None if left is None else left * _SHARE):
            return await threads.embed(deadline, embed, text)
    except EmbedderRefused as error:
        raise EmbedderRefused(f"the embedder refused ({error})") from None
    except EmbedderFailed as error:
        raise EmbedderFailed(f"the embedder failed ({error})", retryable="true") from None
    except TimeoutError:
        why = "the embedder did not answer in time"
        raise EmbedderTimedOut(why, retryable="true") from None


async def planned_find(
    engine: Engine, vectors: QueryVectors, query: FindQuery, run: Runner
) -> tuple[tuple[FindPlan, ...], Stage]:
    """Return the plans of a find, and the timing of the embedding.

    Each question in the text has a plan. All plans are for one snapshot.

    Raises:
        NotFound: nothing readable exists below the target.
        InvalidField: the target is a file, or `where` is malformed.
    """
    await wait_for_revision(engine, query.min_revision, run)
    started, finds = perf_counter(), finds_of(query)
    made = await vectors.embed_all((one.text for one in finds if one.vector is None), run)
    embed = Stage("embed", started, perf_counter())
    plans = await run.here(compile_finds, engine, finds, made, CALLER.get(), engine.snapshot)
    return plans, embed


class PlannedRetrieve(NamedTuple):
    """A retrieval that is ready to run.

    Attributes:
        plan: the compiled request.
        vector: the vector of the query; None if only words are searched.
        degraded: notes for the reply.
        embed: the time that the embedding of the query took.
        ready: ranked lists that were computed during the embedding, by name ("keyword").
    """

    plan: RetrievePlan
    vector: F32 | None
    degraded: Degraded
    embed: Stage
    ready: Mapping[str, Ranked]

    def run(self) -> RetrieveHits:
        """Run the retrieval and return its hits."""
        return retrieve(self.plan, self.vector, self.degraded, self.ready)


async def planned_retrieve(
    engine: Engine, vectors: QueryVectors, query: RetrieveQuery, run: Runner
) -> PlannedRetrieve:
    """Return the plan of a retrieval with its vector.

    If the plan needs a vector and the query brings none, the text is embedded. A long search by
    words runs meanwhile.

    Raises:
        NotFound: nothing readable exists below the target.
        InvalidField: the target is a file, a filter is malformed, or the query needs a vector and
            there is no embedder.
        EmbedderFailed: the embedder failed, and the query does not allow words alone.
    """
    await wait_for_revision(engine, query.min_revision, run)
    plan = await run.here(compile_retrieve, engine, query, CALLER.get())
    scope = plan.two_sides
    if scope is None or call_cost.is_light_retrieve(plan):
        vector, degraded, embed = await _vector(engine, vectors, plan, run)
        return PlannedRetrieve(plan, vector, degraded, embed, {})

    async def meaning() -> tuple[F32 | None, Degraded, Stage, Ranked | None]:
        vector, degraded, embed = await _vector(engine, vectors, plan, run)
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
    engine: Engine, vectors: QueryVectors, plan: RetrievePlan, run: Runner
) -> tuple[F32 | None, Degraded, Stage]:
    """Return the vector of a query if the plan needs one, notes for the reply, and the timing."""
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
    if vector is not None and plan.by_meaning:
        degraded += note_on_waiting(engine, plan.snapshot, plan.scopes)
    return vector, degraded, Stage("embed", started, perf_counter())
