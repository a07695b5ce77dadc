"""The answers to finds: by the scores of the kernels in QUICK, by a reranker in THINKING.

In THINKING each scope has a walk (see `thinking`), which chooses the contexts to rerank.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from vikingd.answer.find_answer import find
from vikingd.answer.find_hits import FindHits, merged
from vikingd.answer.thinking import Walk
from vikingd.answer.translated_twins import with_twins
from vikingd.domain.answers import Stage, seconds_of
from vikingd.domain.find_query import Rerank, RerankStatus
from vikingd.lanes.queues import Runner
from vikingd.models.rerank.reranker_protocol import RerankFailed
from vikingd.models.rerank.rerankers import Rerankers
from vikingd.plan.find_plan import FindPlan

_RESERVE = 0.1  # of the time left, to make the answer
_LEAST_RESERVE = 0.05  # seconds
_AGAIN = 2.0  # times the seconds of scoring the scope: the answer scores it once more


async def reranked(
    query: str, plans: Sequence[FindPlan], rerankers: Rerankers, run: Runner
) -> tuple[FindHits, ...]:
    """Return the hits of each plan, reranked if the plans are in THINKING.

    All plans have the same mode. The language of `query`, the request's text, chooses the reranker.
    If the reranker fails for one plan, all plans get plain scores, so that scores stay comparable.
    """
    scopes = [scope for plan in plans for scope in plan.scopes]
    if not plans or not plans[0].query.thinking:
        off = None
    elif not scopes:
        off = Rerank(RerankStatus.OFF, "there is nothing to read")
    elif all(scope.identifiers for scope in scopes):
        off = Rerank(RerankStatus.OFF, "the query is of identifiers, which words alone decide")
    elif not rerankers.named(query):
        off = Rerank(RerankStatus.OFF, "no reranker is configured for the language of the query")
    else:
        parts = iter(await _reranked(query, plans, rerankers, run))
        ranked = [merged(plan, [next(parts) for _ in plan.scopes]) for plan in plans]
        return tuple(map(with_twins, plans, ranked))
    found = await asyncio.gather(*(run.away(find, plan) for plan in plans))
    return tuple(replace(hits, rerank=off) if off else hits for hits in found)


async def _reranked(
    query: str, plans: Sequence[FindPlan], rerankers: Rerankers, run: Runner
) -> tuple[FindHits, ...]:
    """Return the hits of each scope in the order of a reranker.

    Each scope has a walk of its own down the tree, see `thinking`; all run at the same time. If the
    reranker fails in one walk, all scopes get the hits of QUICK, the mode without a reranker.
    """
    model = rerankers.named(query)
    walks = await asyncio.gather(
        *(
            run.away(Walk, scope, plan.started, plan.degraded)
            for plan in plans
            for scope in plan.scopes
        )
    )
    ends = [asyncio.ensure_future(_walk(query, walk, rerankers, run)) for walk in walks]
    try:
        await asyncio.gather(*ends)
    except RerankFailed as error:
        return tuple(walk.failed(str(error), model) for walk in walks)
    finally:
        for end in ends:
            end.cancel()  # after a failure the scores of the others are not used
        del end
        ends.clear()  # an error holds this frame, and with it the snapshot
    if not any(walk.was_read for walk in walks):
        off = Rerank(RerankStatus.OFF, "nothing that could be read has an abstract")
        return tuple(replace(walk.plain, rerank=off) for walk in walks)
    return tuple(await asyncio.gather(*(run.away(walk.answer, model) for walk in walks)))


async def _walk(query: str, walk: Walk, rerankers: Rerankers, run: Runner) -> None:
    """Run a walk: send its documents to the reranker, round by round, until it has no more.

    Raises:
        RerankFailed: the reranker gave no scores for a round.
    """
    spare = _AGAIN * seconds_of(walk.plain.stages)["score"]
    while documents := await run.away(walk.documents):
        started = time.perf_counter()
        done = await rerankers.rerank(walk.text, documents, _time_left(run, spare), chosen_by=query)
        stage = Stage("rerank", started, time.perf_counter())
        await run.away(walk.take, done, stage)


def _time_left(run: Runner, spare: float) -> float | None:
    """Return the seconds that a call of the reranker may take; None without a deadline.

    The rest of the time is kept for making the answer: `spare` seconds, and a share of what is
    left.

    Raises:
        RerankFailed: no time is left for the reranker.
    """
    left = run.left()
    if left is None:
        return None
    seconds = left - max(left * _RESERVE, _LEAST_RESERVE) - spare
    if seconds <= 0:
        raise RerankFailed("the deadline of the call leaves the reranker no time")
    return seconds
