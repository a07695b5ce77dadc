"""Ranked lists of texts, and their fusion by rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from viking_kernels.arrays import F64, I32
from viking_kernels.fusion import rrf


@dataclass(frozen=True, slots=True)
class RankedList:
    """Rows of texts, best first, with their scores [n]."""

    rows: I32
    scores: F64
    is_full: bool  # more texts may follow
    parts: F64 | None = None  # [n, 2] dense and lexical, if one pass made both


def fused(lists: Sequence[RankedList], weights: tuple[float, float], k: float) -> RankedList:
    """Return the fusion of some lists by rank; `k` as in `fusion.rrf`."""
    rows, scores = rrf(
        np.concatenate([one.rows for one in lists]),
        np.cumsum([len(one.rows) for one in lists]),
        np.array(weights, np.float64),
        k,
    )
    return RankedList(rows, scores, any(one.is_full for one in lists))


def merged(lists: Sequence[RankedList], depth: int) -> RankedList:
    """Return the best of some lists of one kind by score, ties by row."""
    if len(lists) == 1:
        return lists[0]
    rows = np.concatenate([one.rows for one in lists])
    scores = np.concatenate([one.scores for one in lists])
    order = np.lexsort((rows, -scores))[:depth]
    return RankedList(rows[order], scores[order], any(one.is_full for one in lists))


Places = dict[int, tuple[int | None, float]]
"""The place from 0 and the score of each row of a list."""


def places_in(ranked: RankedList | None) -> Places:
    """Return the place and the score of each row; nothing for None."""
    if ranked is None:
        return {}
    listed = zip(ranked.rows.tolist(), ranked.scores.tolist(), strict=True)
    return {row: (place, score) for place, (row, score) in enumerate(listed)}
