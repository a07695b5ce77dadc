"""Diversity of results: maximal marginal relevance (Carbonell and Goldstein, 1998)."""

from __future__ import annotations

import numpy as np
from viking_kernels.arrays import F32, F64


def diverse(scores: F64, vectors: F32, share: float, count: int) -> list[int]:
    """Return the places of the chosen candidates, in their order.

    Args:
        scores: [n] of the candidates, best first.
        vectors: [n, dim]; zeros for a text without a vector, which is similar to no other.
        share: the weight of diversity, in [0, 1].
        count: how many to choose, at most.
    """
    if not len(scores):
        return []
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
    relevance = scores / scores.max()
    nearest = np.zeros(len(scores))
    left = np.ones(len(scores), bool)
    chosen: list[int] = []
    for _ in range(min(count, len(scores))):
        worth = np.where(left, (1 - share) * relevance - share * nearest, -np.inf)
        best = int(worth.argmax())  # the first of equal ones
        left[best] = False
        chosen.append(best)
        nearest = np.maximum(nearest, unit @ unit[best])
    return chosen
