"""The floor of a recall, below which memories do not answer the question and are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from viking_kernels.arrays import F32

from vikingd.answer.confidence import (
    Features,
    best_confidence,
    confidence_of,
    confidence_to_show,
    features_of_texts,
)
from vikingd.answer.ranked_lists import RankedList, fused
from vikingd.domain.answers import NO_CONFIDENCE, Confidence
from vikingd.domain.retrieve_query import Rrf
from vikingd.plan.retrieve_plan import TextScope


def features_of(
    scope: TextScope, vector: F32 | None, lists: Sequence[RankedList]
) -> Features | None:
    """Return the confidence features of one scope of a recall, from the result lists of its search.

    Args:
        scope: the scope.
        vector: the vector of the question; None if words alone were searched.
        lists: the ranked lists of the search: [by meaning, by words] for a fusion by rank, else one
            list, by words alone or by both.
    """
    if len(lists) == 2:
        fusion = scope.query.fusion
        assert isinstance(fusion, Rrf), "only a fusion by rank has two lists"
        weights, names = (fusion.vector_weight, fusion.keyword_weight), ("vector", "keyword")
        both = fused(lists, weights, float(fusion.k))
        return features_of_texts(scope, vector, both, dict(zip(names, lists, strict=True)))
    (found,) = lists
    return features_of_texts(scope, vector, found, {"keyword": found} if vector is None else {})


def kept_by_floor(
    questions: Iterable[Sequence[Features | None]], model: str, floor: float | None, memories: int
) -> tuple[Confidence, bool]:
    """Return (the confidence of a recall, True if it reaches the floor).

    Args:
        questions: for each question the features of its scopes. The question with the highest
            confidence decides.
        model: the name of the embedder.
        floor: the least `in_scope` that reaches the floor; None: all but NOTHING reach it.
        memories: the number of memories that were found.
    """
    best = best_confidence([confidence_of(parts, model) for parts in questions]) or NO_CONFIDENCE
    confidence = confidence_to_show(best, memories) or NO_CONFIDENCE
    return confidence, not confidence.is_below(floor)
