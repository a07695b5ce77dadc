"""The answer to a request that asks several questions: the finds of each, interleaved."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from vikingd.answer.confidence import best_confidence
from vikingd.answer.find_hits import FindHits, Hit, Relations
from vikingd.plan.find_plan import FindPlan

_T = TypeVar("_T")


def rounds(lists: Sequence[Sequence[_T]], key: Callable[[_T], Hashable]) -> Iterator[list[_T]]:
    """Yield the rounds in which ranked lists are interleaved.

    A round has the next item of each list, in the order of the lists, that was not taken yet.
    """
    taken: set[Hashable] = set()
    left = [iter(one) for one in lists]
    while True:
        found = []
        for one in left:
            for item in one:
                if key(item) not in taken:
                    taken.add(key(item))
                    found.append(item)
                    break
        if not found:
            return
        yield found


def taking_turns(
    lists: Sequence[Sequence[_T]], key: Callable[[_T], Hashable], score_of: Callable[[_T], float]
) -> Iterator[tuple[_T, float]]:
    """Yield the items of ranked lists by rounds, and in a round by score, each with its new score.

    All items of a round have the score of the best of them, but for the last bits: the scores fall
    strictly, so that the order by score is the order of the rounds.
    """
    last = math.inf
    for items in rounds(lists, key):
        items.sort(key=score_of, reverse=True)
        best = score_of(items[0])
        for item in items:
            last = min(best, math.nextafter(last, 0.0))
            yield item, last


def in_rounds(found: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Interleave the hits for some questions."""
    turns = taking_turns(found, lambda hit: hit.row, lambda hit: hit.score)
    return [hit._replace(score=score) for hit, score in islice(turns, limit)]


def linked_of(found: Sequence[FindHits]) -> Relations:
    """Return the relations of all hits; of a hit of several finds those of the first."""
    linked: Relations = {}
    for one in reversed(found):
        linked |= one.linked
    return linked


def twins_of(found: Sequence[FindHits]) -> Mapping[int, int]:
    """Return the twins of all hits."""
    twins: dict[int, int] = {}
    for one in reversed(found):
        twins.update(one.twins)
    return twins


def answered(plans: Sequence[FindPlan], found: Sequence[FindHits]) -> FindHits:
    """Return the answer to a request from the hits for each of its questions."""
    if len(found) == 1:
        return found[0]
    first, questions = found[0], tuple(plan.query.text for plan in plans)
    traces = [
        replace(one.trace, question=text)
        for one, text in zip(found, questions, strict=True)
        if one.trace is not None
    ]
    rerank = first.rerank
    if rerank is not None:
        calls = [call for one in found if one.rerank is not None for call in one.rerank.rounds]
        rerank = replace(rerank, rounds=tuple(calls))
    return FindHits(
        first.snapshot,
        in_rounds([one.hits for one in found], plans[0].query.limit),
        linked_of(found),
        max(one.method for one in found),
        tuple(stage for one in found for stage in one.stages),
        tuple(dict.fromkeys(note for one in found for note in one.degraded)),
        traces[0] if traces else None,
        rerank,
        confidence=best_confidence([one.confidence for one in found]),
        questions=questions,
        further_traces=tuple(traces[1:]),
        twins=twins_of(found),
    )
