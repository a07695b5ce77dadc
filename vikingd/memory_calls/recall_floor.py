"""The floor of a recall: memories that have nothing to do with the question stay out of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from viking_kernels.arrays import F32

from vikingd.answer.confidence import (
    Features,
    best_confidence,
    confidence_of,
    features_of_find,
    features_of_texts,
    shown_by,
)
from vikingd.answer.scored_scope import keep_scratch, score, take_scratch
from vikingd.answer.text_ranking import ranked_by_words
from vikingd.domain.answers import NO_CONFIDENCE, Confidence
from vikingd.domain.find_query import FindQuery
from vikingd.index.snapshot import Snapshot
from vikingd.plan.find_plan import FIRST, FindScope
from vikingd.plan.retrieve_plan import TextScope


def features_of(
    snapshot: Snapshot, scopes: Iterable[TextScope], vector: F32 | None
) -> list[Features | None]:
    """Return the features of the parts of a recall, as a find of the same text has them."""
    scratch = take_scratch(snapshot)
    found: list[Features | None] = []
    for one in scopes:
        asked = one.query
        query = FindQuery(asked.text, asked.target_uri, asked.within, vector=vector)
        scope = FindScope(snapshot, query, one.exhaustive_texts)
        features = features_of_find(scope, score(scope, scratch, keeps_words=False))
        if features is None:  # a recall finds words of another script, too
            words = ranked_by_words(one, FIRST)
            features = features_of_texts(one, None, words, {"keyword": words})
        found.append(features)
    keep_scratch(scratch)
    return found


def kept_by_floor(
    questions: Iterable[Sequence[Features | None]], model: str, floor: float | None, memories: int
) -> tuple[Confidence, bool]:
    """Return the confidence of a recall, and whether its memories stay.

    Args:
        questions: the features of the scopes of each question; the best answered one decides.
        model: the name of the embedder.
        floor: the least in_scope; None: all but NOTHING.
        memories: the number that was found.
    """
    best = best_confidence([confidence_of(parts, model) for parts in questions]) or NO_CONFIDENCE
    confidence = shown_by(best, memories) or NO_CONFIDENCE
    return confidence, not confidence.is_below(floor)
