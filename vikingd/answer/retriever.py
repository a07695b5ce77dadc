"""The steps of Retrieve: embed the query, retrieve passages."""

from __future__ import annotations

import asyncio
from time import perf_counter

from viking_kernels.arrays import F32

from vikingd.answer.deadline import Runner, wait_for_revision
from vikingd.answer.query_scope import LIGHT_BYTES
from vikingd.answer.query_vector import QueryVectors, embedder_failed
from vikingd.answer.retrievals import GatherItems, Retrievals
from vikingd.domain.answers import Degradation, DegradationReason, Degraded, Stage
from vikingd.domain.errors import EmbedderFailed, InvalidField
from vikingd.domain.retrieve import Mode, RetrieveQuery, RetrieveResult
from vikingd.domain.rights import Caller
from vikingd.engine import Engine


class Retriever:
    """Answers Retrieve."""

    def __init__(self, engine: Engine, vectors: QueryVectors) -> None:
        self._engine = engine
        self._vectors = vectors

    async def answer(
        self,
        query: RetrieveQuery,
        vector: F32 | None,
        caller: Caller,
        run: Runner,
        most_bytes: int,
        gather: GatherItems | None = None,
    ) -> tuple[RetrieveResult, Stage]:
        """Return the answer, and the stage that embedded the query.

        Without a `vector` [dim], the text of the checked query is embedded if it needs one. The
        items in the reply have about `most_bytes`; `gather` encodes them, where it can. Only what
        the caller may read answers.

        Raises:
            NotFound: nothing readable exists below the target.
            InvalidField: the target is a file, a filter is malformed, or the query needs a vector
                and there is no embedder.
            EmbedderFailed: it failed, and the query does not allow words alone.
        """
        await wait_for_revision(self._engine, query.min_revision, run)
        retrieval = await run.here(Retrievals.bound, self._engine, query, caller)
        retrieval.most_bytes = most_bytes
        is_light = retrieval.is_light
        meaning = self._meaning(retrieval, vector, run)
        if retrieval.has_two_sides and not is_light:
            (vector, degraded, embed), _ = await asyncio.gather(meaning, run.away(retrieval.words))
        else:
            vector, degraded, embed = await meaning
        if is_light and not run.is_heavy:
            retrieval.most_bytes = LIGHT_BYTES
            result = await run.here(retrieval.answer, vector, degraded, gather)
            if not result.is_cut:
                return result, embed
            retrieval = retrieval.again(most_bytes)
        return await run.away(retrieval.answer, vector, degraded, gather), embed

    async def _meaning(
        self, retrieval: Retrievals, vector: F32 | None, run: Runner
    ) -> tuple[F32 | None, Degraded, Stage]:
        """Return (vector, notes for the reply, stage); a long search by meaning begins at once."""
        query, started = retrieval.query, perf_counter()
        degraded: Degraded = ()
        if vector is None and retrieval.by_meaning:
            try:
                vector = await self._vectors.embed(query.text, run)
            except EmbedderFailed as error:
                if not query.degrade:
                    raise
                degraded = (embedder_failed(error, "answered by words alone"),)
            if vector is None and not degraded:
                if query.mode is Mode.VECTOR and not query.degrade:
                    raise InvalidField("vector", "is needed: the daemon has no embedder")
                detail = "no embedder is configured: answered by words alone"
                degraded = (Degradation(DegradationReason.EMBEDDER, detail),)
        embed = Stage("embed", started, perf_counter())
        if retrieval.has_two_sides and not retrieval.is_light and vector is not None:
            await run.away(retrieval.meaning, vector)
        return vector, degraded, embed
