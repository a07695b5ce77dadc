"""Measures of a ranking against relevance judgements of one grade; all lie in [0, 1].

A ranking is a sequence of names, best first, each once; what is relevant is a set of names that
is not empty.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def ndcg(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Normalised discounted cumulative gain of the first k (Järvelin and Kekäläinen, 2002).

    A relevant name at place p, from 1, gains 1 / log2(1 + p); the ideal has all of them in front.
    """
    gain = sum(_discount(p) for p, name in enumerate(ranking[:k], 1) if name in relevant)
    return gain / sum(_discount(p) for p in range(1, min(k, len(relevant)) + 1))


def recall(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """The share of what is relevant that is among the first k."""
    return sum(name in relevant for name in ranking[:k]) / len(relevant)


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """1 / place of the first relevant name, 0 when none is among the first k."""
    places = (p for p, name in enumerate(ranking[:k], 1) if name in relevant)
    return 1 / next(places, math.inf)


def _discount(place: int) -> float:
    return 1 / math.log2(1 + place)
