"""Ranked lists of texts, their fusion by rank, and a diverse choice from one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from viking_kernels.arrays import F32, F64, I32
from viking_kernels.fusion import rrf

from vikingd.domain.vector_products import products


@dataclass(frozen=True, slots=True)
class RankedList:
    """Rows of texts, best first, with their scores [n]."""

    rows: I32
    scores: F64
    is_full: bool  # more texts may follow
    parts: F64 | None = None  # [n, 2] dense and lexical, if one pass made both


def fused(lists: Sequence[RankedList], weights: tuple[float, float], k: float) -> RankedList:
    """Return the fusion by rank of some lists, see `fusion.rrf` for `k`."""
    rows, scores = rrf(
        np.concatenate([one.rows for one in lists]),
        np.array(list(accumulate(len(one.rows) for one in lists)), np.int64),
        np.array(weights, np.float64),
        k,
    )
    return RankedList(rows, scores, any(one.is_full for one in lists))


def merged(lists: Sequence[RankedList], depth: int) -> RankedList:
    """Return the best `depth` texts of some lists with comparable scores; ties by row."""
    if len(lists) == 1:
        return lists[0]
    rows = np.concatenate([one.rows for one in lists])
    scores = np.concatenate([one.scores for one in lists])
    order = np.lexsort((rows, -scores))[:depth]
    return RankedList(rows[order], scores[order], any(one.is_full for one in lists))


Places = dict[int, tuple[int | None, float]]
"""The place in a list, from 0, and the score of each row; None: the row has no place."""


def places_in(ranked: RankedList | None) -> Places:
    """Return by row its place in a list, from 0, and its score; {} for None."""
    if ranked is None:
        return {}
    listed = zip(ranked.rows.tolist(), ranked.scores.tolist(), strict=True)
    return {row: (place, score) for place, (row, score) in enumerate(listed)}


def diverse(scores: F64, vectors: F32, share: float, count: int) -> list[int]:
    """Choose texts by maximal marginal relevance (Carbonell and Goldstein, 1998).

    Return their indices in `scores`, in the order of the choice.

    Args:
        scores: [n] of the candidates, best first.
        vectors: [n, dim]; zeros for a text without a vector, which is similar to no other.
        share: the weight of diversity, in [0, 1].
        count: how many to choose, at most.
    """
    if not len(scores):
        return []
    lengths = np.maximum(np.sqrt(products(vectors, vectors)), 1e-6)
    unit = (vectors / lengths[:, None]).astype(np.float32)
    relevance = scores / scores.max()
    nearest = np.zeros(len(scores))
    left = np.ones(len(scores), bool)
    chosen: list[int] = []
    for _ in range(min(count, len(scores))):
        worth = np.where(left, (1 - share) * relevance - share * nearest, -np.inf)
        best = int(worth.argmax())  # the first of equal ones
        left[best] = False
        chosen.append(best)
        nearest = np.maximum(nearest, products(unit, unit[best]))
    return chosen
