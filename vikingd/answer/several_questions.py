"""The answer to a request that asks several questions: the finds of each, interleaved."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from vikingd.answer.confidence import best_confidence
from vikingd.answer.find_hits import FindHits, Hit, Relations
from vikingd.index.snapshot import Snapshot
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


def in_rounds(found: Sequence[Sequence[Hit]], snapshot: Snapshot, limit: int) -> list[Hit]:
    """Interleave the hits for some questions.

    All hits of a round have the score of its best one. So the order by score, ties by URI, which
    replies promise, is the order of the rounds.
    """
    hits: list[Hit] = []
    for equal in rounds(found, lambda hit: hit.row):
        best = max(hit.score for hit in equal)
        equal.sort(key=lambda hit: snapshot.uri(hit.row))
        hits += (hit._replace(score=best) for hit in equal)
        if len(hits) >= limit:
            break
    return hits[:limit]


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
        in_rounds([one.hits for one in found], first.snapshot, plans[0].query.limit),
        linked_of(found),
        max(one.method for one in found),
        tuple(stage for one in found for stage in one.stages),
        tuple(dict.fromkeys(note for one in found for note in one.degraded)),
        traces[0] if traces else None,
        rerank,
        confidence=best_confidence(one.confidence for one in found),
        questions=questions,
        further_traces=tuple(traces[1:]),
        twins=twins_of(found),
    )
