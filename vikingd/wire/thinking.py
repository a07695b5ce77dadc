"""The answers to searches: in QUICK at once, in THINKING by walks that a reranker decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from vikingd.answer.find import Search
from vikingd.answer.thinking import Walk
from vikingd.domain.find import FindResult, Rerank, RerankStatus
from vikingd.domain.stages import Stage, seconds_of
from vikingd.models.rerank.backends import RerankFailed
from vikingd.models.rerank.rerankers import Rerankers
from vikingd.wire.calls import Deadline
from vikingd.wire.queues import Runner

_RESERVE = 0.1  # of the time left: what is kept for making the answer
_LEAST_RESERVE = 0.05  # seconds
_AGAIN = 2.0  # of what scoring the scope took: it is done once more

_IDENTIFIERS = "the query is of identifiers, which words alone decide"
_NOTHING = "nothing that could be read has an abstract"
_NONE = "no reranker is configured for the language of the query"


async def answers(
    query: str, searches: Sequence[Search], rerankers: Rerankers, run: Runner, deadline: Deadline
) -> tuple[FindResult, ...]:
    """The answers side by side, all on one scale: a reranker that fails for one fails for all.

    Args:
        query: what was asked, whose language chooses the reranker.
        searches: all in one mode.
    """
    if not searches or not searches[0].query.thinking:
        off = None
    elif all(search.identifiers for search in searches):
        off = Rerank(RerankStatus.OFF, _IDENTIFIERS)
    elif not rerankers.named(query):
        off = Rerank(RerankStatus.OFF, _NONE)
    else:
        return await _thought(query, searches, rerankers, run, deadline)
    found = await asyncio.gather(*(run.away(s.answer) for s in searches))
    return tuple(replace(result, rerank=off) if off else result for result in found)


async def _thought(
    query: str, searches: Sequence[Search], rerankers: Rerankers, run: Runner, deadline: Deadline
) -> tuple[FindResult, ...]:
    model = rerankers.named(query)
    walks = await asyncio.gather(*(run.away(Walk, s) for s in searches))
    ends = [
        asyncio.ensure_future(_rerank(query, s, walk, rerankers, run, deadline))
        for s, walk in zip(searches, walks, strict=True)
    ]
    try:
        await asyncio.gather(*ends)
    except RerankFailed as error:
        return tuple(walk.failed(str(error), model) for walk in walks)
    finally:
        for end in ends:
            end.cancel()  # where one failed, the others' scores are of no use
    if not any(walk.was_read for walk in walks):
        off = Rerank(RerankStatus.OFF, _NOTHING)
        return tuple(replace(walk.plain, rerank=off) for walk in walks)
    return tuple(await asyncio.gather(*(run.away(walk.answer, model) for walk in walks)))


async def _rerank(
    query: str, search: Search, walk: Walk, rerankers: Rerankers, run: Runner, deadline: Deadline
) -> None:
    """Takes the walk to its end.

    Raises:
        RerankFailed: there are no scores for one of its rounds.
    """
    spare = _AGAIN * seconds_of(walk.plain.stages)["score"]
    while documents := await run.away(walk.documents):
        started = time.perf_counter()
        done = await rerankers.rerank(
            search.query.text, documents, _time_left(deadline, spare), chosen_by=query
        )
        stage = Stage("rerank", started, time.perf_counter())
        await run.away(walk.take, done, stage)


def _time_left(deadline: Deadline, spare: float) -> float | None:
    """Seconds that a reranker has; None where the call has no deadline.

    `spare` are those that making the answer will take besides.

    Raises:
        RerankFailed: there are none.
    """
    left = deadline.left()
    if left is None:
        return None
    seconds = left - max(left * _RESERVE, _LEAST_RESERVE) - spare
    if seconds <= 0:
        raise RerankFailed("the deadline of the call leaves the reranker no time")
    return seconds
