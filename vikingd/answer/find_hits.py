"""The hits of a find: rows and scores of the best contexts, before any text of them is read.

The hits of several scopes are merged by score; those of several questions are interleaved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import le
from typing import NamedTuple, TypeVar

from vikingd.answer.confidence import Features, best_confidence, confidence_of, confidence_to_show
from vikingd.answer.find_trace import merged_trace
from vikingd.answer.scored_scope import Relations
from vikingd.domain.answers import NO_CONFIDENCE, Confidence, Degraded, Stage
from vikingd.domain.find_query import FindTrace, Method, Rerank, ScoreParts
from vikingd.index.snapshot import Snapshot
from vikingd.plan.find_plan import FIRST, FindPlan

_T = TypeVar("_T")


class Hit(NamedTuple):
    """A context that a find returns, by its row in the snapshot."""

    score: float
    row: int  # a node
    level: int
    passages: Sequence[tuple[int, float]]  # (row of a text, its node score), best first
    parts: ScoreParts | None = None  # for a trace


# Not frozen: a frozen one takes four times as long to make.
@dataclass(slots=True)
class FindHits:
    """Hits by falling score, ties by URI, and their explanation."""

    snapshot: Snapshot
    hits: Sequence[Hit]
    linked: Relations
    method: Method  # the one that was used, never AUTO
    stages: tuple[Stage, ...]
    degraded: Degraded = ()
    trace: FindTrace | None = None
    rerank: Rerank | None = None  # None in QUICK
    features: Features | None = None  # of one scope, for the confidence
    confidence: Confidence | None = NO_CONFIDENCE  # None: it was not measured
    questions: tuple[str, ...] = ()  # of a request that asks several
    further_traces: tuple[FindTrace, ...] = ()  # of the questions after the first
    twins: Mapping[int, int] = field(default_factory=dict)  # the twin of each hit that has one


def best(snapshot: Snapshot, hits: list[Hit], limit: int) -> tuple[Hit, ...]:
    """Return the best hits by score, ties by URI; sorts `hits`."""
    scores = [hit.score for hit in hits]
    if any(map(le, scores, scores[1:])):
        hits.sort(key=lambda hit: (-hit.score, snapshot.uri(hit.row)))
    return tuple(hits[:limit])


def merged(plan: FindPlan, parts: Sequence[FindHits]) -> FindHits:
    """Return the best hits of the scopes of a plan; their scores have one scale."""
    confidence = confidence_of((part.features for part in parts), plan.model)
    if len(parts) == 1:
        parts[0].confidence = confidence_to_show(confidence, len(parts[0].hits))
        return parts[0]
    linked: Relations = {}
    for part in parts:
        linked |= part.linked
    rerank = parts[0].rerank if parts else None
    if rerank is not None:
        rounds = [one for part in parts if part.rerank is not None for one in part.rerank.rounds]
        rerank = replace(rerank, rounds=tuple(rounds))
    limit = max(plan.query.limit, FIRST)  # `with_twins` cuts them
    hits = best(plan.snapshot, [hit for part in parts for hit in part.hits], limit)
    return FindHits(
        plan.snapshot,
        hits,
        linked,
        max((part.method for part in parts), default=Method.EXHAUSTIVE),
        tuple(stage for part in parts for stage in part.stages),
        tuple(dict.fromkeys(note for part in parts for note in part.degraded)),
        merged_trace([(part.hits[0].score if part.hits else 0.0, part.trace) for part in parts]),
        rerank,
        confidence=confidence_to_show(confidence, len(hits)),
    )


def rounds(lists: Sequence[Sequence[_T]], key: Callable[[_T], Hashable]) -> Iterator[list[_T]]:
    """Yield the rounds in which ranked lists are interleaved; each round is a list of items.

    A round has one item from each list: the next one whose key no earlier item has.
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
    """Interleave ranked lists; yield each item with a new score.

    Items come round by round (see `rounds`), and within a round by their old score. An item's new
    score is the highest old score in its round, but always less than that of the item before. So
    the new scores fall strictly, and sorting by them keeps the order.
    """
    last = math.inf
    for items in rounds(lists, key):
        items.sort(key=score_of, reverse=True)
        best = score_of(items[0])
        for item in items:
            last = min(best, math.nextafter(last, 0.0))
            yield item, last


def in_rounds(found: Sequence[Sequence[Hit]], limit: int) -> list[Hit]:
    """Interleave the hits for several questions, at most `limit`."""
    turns = taking_turns(found, lambda hit: hit.row, lambda hit: hit.score)
    return [hit._replace(score=score) for hit, score in islice(turns, limit)]


def linked_of(found: Sequence[FindHits]) -> Relations:
    """Return the relations of all hits by row; a hit of several finds has those of the first."""
    linked: Relations = {}
    for one in reversed(found):
        linked |= one.linked
    return linked


def twins_of(found: Sequence[FindHits]) -> Mapping[int, int]:
    """Return the twins of all hits by row; see the module `translated_twins`."""
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
