"""Recall: known files, the journal, or a search ranked by salience, in a budget of tokens."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from viking_kernels.arrays import F32

from vikingd.answer.query_planning import QueryVectors
from vikingd.domain.answers import NAMED, Degraded, Stage
from vikingd.domain.prompt_options import RecallPath
from vikingd.engine import Engine
from vikingd.lanes.call_pools import wait_for_revision
from vikingd.lanes.queues import Runner
from vikingd.memory.known_file_routes import Routes
from vikingd.memory.memory_types import RecallQuery, RecallResult
from vikingd.memory_calls.direct_recall import DirectRecall, query_after, result_of_direct
from vikingd.memory_calls.memory_search import MemorySearch
from vikingd.memory_calls.used_memories import count_used, readable_memories


class Recaller:
    """Answers Recall; the memories in a reply have about `most_bytes`."""

    def __init__(
        self, engine: Engine, vectors: QueryVectors, routes: Routes, most_bytes: int
    ) -> None:
        self._engine = engine
        self._vectors = vectors
        self._routes = routes
        self._most_bytes = most_bytes

    async def answer(
        self, query: RecallQuery, vector: F32 | None, run: Runner
    ) -> tuple[RecallResult, Stage]:
        """Return the result, and the timing of the stage that embedded the query.

        A known file is tried first, then the journal, then a search. If a direct answer leaves
        tokens, a search fills them.
        """
        engine = self._engine
        await wait_for_revision(engine, query.min_revision, run)
        direct = DirectRecall(engine, query, self._routes, self._most_bytes)
        read = await (run.here if direct.is_light else run.away)(direct.answer)
        started = perf_counter()
        embed = Stage("embed", started, started)
        rest = query_after(query, read)
        if rest is None:
            result = result_of_direct(engine, query, read)
        else:
            is_whole = vector is not None
            search = await run.here(MemorySearch, engine, rest, read, self._most_bytes, is_whole)
            degraded: Degraded = ()
            vectors = [vector]
            if vector is None and search.needs_vector:
                made = await self._vectors.embed_all(search.texts, run)
                vectors = [made[text][0] for text in search.texts]
                degraded = tuple(
                    dict.fromkeys(note for _, notes in made.values() for note in notes)
                )
            embed = Stage("embed", started, perf_counter())
            result = await run.away(search.answer, vectors, degraded)
            if read.path is not None:
                result = replace(
                    result,
                    memories=(*read.memories, *result.memories),
                    path=read.path,
                    budget=query.max_tokens,
                    stages=(*read.stages, *result.stages),
                    confidence=NAMED if read.memories else result.confidence,
                )
        if not query.no_touch:
            is_counted = query.counts_returned and result.path is RecallPath.HYBRID
            ids = [memory.entry.id for memory in result.memories if is_counted]
            if query.used:
                ids += await run.away(readable_memories, engine, query.used, query.scope.caller)
            result = replace(result, degraded=(*result.degraded, *count_used(engine, ids)))
        return result, embed
