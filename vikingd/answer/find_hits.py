"""The hits of a find: rows and scores of the best contexts, before any text of them is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from vikingd.answer.confidence import Features, confidence_of, shown_by
from vikingd.answer.find_trace import merged_trace
from vikingd.domain.answers import NO_CONFIDENCE, Confidence, Degraded, Stage
from vikingd.domain.contexts import Relation
from vikingd.domain.find_query import FindTrace, Method, Rerank, ScoreParts
from vikingd.index.snapshot import Snapshot
from vikingd.plan.find_plan import FIRST, FindPlan


class Hit(NamedTuple):
    """A result by its row."""

    score: float
    row: int  # a node
    level: int
    passages: Sequence[tuple[int, float]]  # (row of a text, its node score), best first
    parts: ScoreParts | None = None  # for a trace


Relations = dict[int, tuple[Relation, ...]]
"""The relations of each node."""


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
    if any(hit.score <= later.score for hit, later in pairwise(hits)):
        hits.sort(key=lambda hit: (-hit.score, snapshot.uri(hit.row)))
    return tuple(hits[:limit])


def merged(plan: FindPlan, parts: Sequence[FindHits]) -> FindHits:
    """Return the best hits of the scopes of a plan; their scores have one scale."""
    confidence = confidence_of((part.features for part in parts), plan.model)
    if len(parts) == 1:
        parts[0].confidence = shown_by(confidence, len(parts[0].hits))
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
        confidence=shown_by(confidence, len(hits)),
    )
