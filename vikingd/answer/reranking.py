"""The answers to finds: by plain scores in QUICK, by walks of a reranker in THINKING."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from vikingd.answer.deadline import Runner
from vikingd.answer.find import Find, Finds
from vikingd.answer.thinking import Walk
from vikingd.domain.answers import Stage, seconds_of
from vikingd.domain.find import FindResult, Rerank, RerankStatus
from vikingd.models.rerank.reranker_protocol import RerankFailed
from vikingd.models.rerank.rerankers import Rerankers

_RESERVE = 0.1  # of the time left, to make the answer
_LEAST_RESERVE = 0.05  # seconds
_AGAIN = 2.0  # times the seconds of scoring the scope: the answer scores it once more


async def answer_finds(
    query: str, finds: Sequence[Find | Finds], rerankers: Rerankers, run: Runner
) -> tuple[FindResult, ...]:
    """Return the answers, all on one scale: if a reranker fails for one, plain scores decide all.

    The finds are all in one mode. The language of `query`, the request's text, chooses the
    reranker. It scores each part of a target by itself.
    """
    parts = [part for find in finds for part in find.parts]
    if not finds or not finds[0].query.thinking:
        off = None
    elif not parts:
        off = Rerank(RerankStatus.OFF, "there is nothing to read")
    elif all(part.identifiers for part in parts):
        off = Rerank(RerankStatus.OFF, "the query is of identifiers, which words alone decide")
    elif not rerankers.named(query):
        off = Rerank(RerankStatus.OFF, "no reranker is configured for the language of the query")
    else:
        for find in finds:
            for part in find.parts:
                part.most_bytes = find.most_bytes // len(find.parts)
        results = iter(await _reranked(query, parts, rerankers, run))
        return tuple(
            next(results)
            if isinstance(find, Find)
            else find.merged([next(results) for _ in find.parts])
            for find in finds
        )
    found = await asyncio.gather(*(run.away(find.answer) for find in finds))
    return tuple(replace(result, rerank=off) if off else result for result in found)


async def _reranked(
    query: str, finds: Sequence[Find], rerankers: Rerankers, run: Runner
) -> tuple[FindResult, ...]:
    model = rerankers.named(query)
    walks = await asyncio.gather(*(run.away(Walk, find) for find in finds))
    ends = [
        asyncio.ensure_future(_walk(query, find, walk, rerankers, run))
        for find, walk in zip(finds, walks, strict=True)
    ]
    try:
        await asyncio.gather(*ends)
    except RerankFailed as error:
        return tuple(walk.failed(str(error), model) for walk in walks)
    finally:
        for end in ends:
            end.cancel()  # after a failure the scores of the others are not used
    if not any(walk.was_read for walk in walks):
        off = Rerank(RerankStatus.OFF, "nothing that could be read has an abstract")
        return tuple(replace(walk.plain, rerank=off) for walk in walks)
    return tuple(await asyncio.gather(*(run.away(walk.answer, model) for walk in walks)))


async def _walk(query: str, find: Find, walk: Walk, rerankers: Rerankers, run: Runner) -> None:
    """Take a walk to its end; raises RerankFailed if a round gets no scores."""
    spare = _AGAIN * seconds_of(walk.plain.stages)["score"]
    while documents := await run.away(walk.documents):
        started = time.perf_counter()
        done = await rerankers.rerank(
            find.query.text, documents, _time_left(run, spare), chosen_by=query
        )
        stage = Stage("rerank", started, time.perf_counter())
        await run.away(walk.take, done, stage)


def _time_left(run: Runner, spare: float) -> float | None:
    """Return the seconds of the reranker, with `spare` seconds to make the answer after it."""
    left = run.left()
    if left is None:
        return None
    seconds = left - max(left * _RESERVE, _LEAST_RESERVE) - spare
    if seconds <= 0:
        raise RerankFailed("the deadline of the call leaves the reranker no time")
    return seconds
