"""A recomputation of the second stage of a find, in float64, by the plain formulas.

It uses the daemon's own detection of turns and of days; see recompute.py, which calls it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from benchmarks.stored import F64

ADJUSTED, FIRST, TIE = 20, 3, 1e-6
PSEUDO, FEEDBACK, COVER, AGREEMENT, REPLY, DATE = 0.3, 0.25, 0.03, 0.04, 0.15, 0.08
FEEDBACK_TERMS, AGREEMENT_TERMS = (20, 60), (10, 30)

Days = Sequence[tuple[date, date]]
"""Spans of days, each by its first and its last day."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The properties of a file that the second stage of a find uses.

    Attributes:
        terms: number of terms of its texts.
        distinct: these terms, each once.
        speaker: the speaker of the turn; "" for none.
        asks: True if one of its texts asks a question.
        day: the day of its time.
        before: the file before it in its directory; "" for none.
    """

    terms: int
    distinct: Collection[str]
    speaker: str
    asks: bool
    day: date
    before: str


@dataclass(frozen=True, slots=True)
class FirstStage:
    """The scores of the first stage of a find.

    Attributes:
        finals: the final score of each file.
        node_scores: the node score of each file.
        best: the centred unit vector of the best text of each file that has one.
        words, meaning: the lexical and the dense score of the best text of each file.
        direction: the centred vector of the query; None without a vector.
        idf: the idf of each distinct term of the query.
    """

    finals: Mapping[str, float]
    node_scores: Mapping[str, float]
    best: Mapping[str, F64]
    words: Mapping[str, float]
    meaning: Mapping[str, float]
    direction: F64 | None
    idf: Mapping[str, float]


def adjusted(
    found: FirstStage, facts: Mapping[str, FileFacts], days: Days, without: Collection[str]
) -> dict[str, float]:
    """Return the final scores of all files after the second stage.

    It adjusts the best files, and the best files of the days that the query names.
    """
    finals = dict(found.finals)
    best = _best(finals, ADJUSTED)
    of_days = {uri: score for uri, score in finals.items() if _is_within(facts[uri].day, days)}
    if "dates" in without:
        of_days = {}
    chosen = [*best, *(uri for uri in _best(of_days, ADJUSTED) if uri not in best)]
    feedback = {} if "feedback" in without else _feedback(found, facts, best, chosen)
    total = sum(found.idf.values())
    for uri in chosen:
        score = finals[uri] + feedback.get(uri, 0.0)
        if "cover" not in without and total > 0:
            has = sum(idf for term, idf in found.idf.items() if term in facts[uri].distinct)
            score += COVER * has / total
        if "agreement" not in without:
            score += AGREEMENT * _agreement(uri, chosen, found, facts[uri].terms)
        before = facts.get(facts[uri].before)
        if before is not None and before.asks and "replies" not in without:
            speakers = {before.speaker, facts[uri].speaker}
            if len(speakers) == 2 and "" not in speakers:
                score += REPLY * found.node_scores[facts[uri].before]
        if uri in of_days:
            score += DATE
        finals[uri] = min(1.0, max(0.0, score))
    lowest = min((finals[uri] for uri in best), default=1.0)
    following = max((s for uri, s in found.finals.items() if uri not in best), default=0.0)
    scale = min(1.0, lowest / following) if following else 1.0
    return {uri: s if uri in chosen else scale * s for uri, s in finals.items()}


def _best(finals: Mapping[str, float], count: int) -> list[str]:
    """Return the `count` files with the highest scores, and all that tie with the last one."""
    ordered = sorted((-score, uri) for uri, score in finals.items() if score > 0)
    last = ordered[min(count, len(ordered)) - 1][0] if ordered else 0.0
    return [uri for score, uri in ordered if score <= last + 1e-9]


def _feedback(
    found: FirstStage, facts: Mapping[str, FileFacts], best: Sequence[str], chosen: Sequence[str]
) -> dict[str, float]:
    u = found.direction
    if u is None or not best:
        return {}
    last = found.finals[best[min(FIRST, len(best)) - 1]] - TIE
    first = [uri for uri in best if found.finals[uri] >= last and uri in found.best]
    m = np.mean([found.best[uri] for uri in first], axis=0) if first else np.zeros_like(u)
    length = np.sqrt(1 + 2 * PSEUDO * (u @ m) + PSEUDO**2 * (m @ m))
    amounts = {}
    for uri in chosen:
        if uri in found.best:
            x = found.best[uri]
            g = _gate(facts[uri].terms, FEEDBACK_TERMS)
            moved = max(0.0, float((x @ u + PSEUDO * (x @ m)) / length))
            amounts[uri] = FEEDBACK * g * (moved - max(0.0, float(x @ u)))
    return amounts


def _agreement(uri: str, chosen: Sequence[str], found: FirstStage, terms: int) -> float:
    gate = _gate(terms, AGREEMENT_TERMS)
    for of_file in found.words, found.meaning:
        own = of_file.get(uri, 0.0)
        if own <= 0:
            return 0.0
        gate /= 1 + sum(of_file.get(other, 0.0) > own + TIE for other in chosen)
    return gate


def _gate(terms: int, bounds: tuple[int, int]) -> float:
    return min(1.0, max(0.0, (terms - bounds[0]) / (bounds[1] - bounds[0])))


def _is_within(day: date, days: Days) -> bool:
    return any(first <= day <= last for first, last in days)
