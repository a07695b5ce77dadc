"""Measures of a ranking against relevance judgements of one grade, in [0, 1].

A ranking is a sequence of distinct names, best first. The set of relevant names is not empty.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence


def ndcg(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the normalised discounted cumulative gain (Järvelin and Kekäläinen, 2002).

    A relevant name at place p >= 1 gains 1 / log2(1 + p). The ideal ranking has all of them first.
    """
    gain = sum(_discount(p) for p, name in enumerate(ranking[:k], 1) if name in relevant)
    return gain / sum(_discount(p) for p in range(1, min(k, len(relevant)) + 1))


def recall(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return the share of the relevant names among the first k."""
    return sum(name in relevant for name in ranking[:k]) / len(relevant)


def reciprocal_rank(ranking: Sequence[str], relevant: Collection[str], k: int) -> float:
    """Return 1 / place of the first relevant name, or 0 if none is among the first k."""
    places = (p for p, name in enumerate(ranking[:k], 1) if name in relevant)
    return 1 / next(places, math.inf)


def _discount(place: int) -> float:
    return 1 / math.log2(1 + place)
