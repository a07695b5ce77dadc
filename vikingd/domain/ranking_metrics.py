"""Measures of a ranking against relevance judgements of one grade, and their uncertainty.

Measures are in [0, 1]. A ranking is a sequence of distinct names, best first. The set of relevant
names is not empty. An interval of confidence has the 95% level.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import NamedTuple

_NORMAL = 1.959964  # the quantile .975 of the normal distribution
_TAIL = 0.025
_RESAMPLES = 1000
_SEED = 1


class Interval(NamedTuple):
    """The limits of an interval of confidence."""

    low: float
    high: float


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


def wilson_interval(hits: int, count: int) -> Interval:
    """Return the interval of a share of `hits` in `count` >= 1 cases (Wilson, 1927)."""
    share, z2 = hits / count, _NORMAL**2
    middle = share + z2 / (2 * count)
    half = _NORMAL * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    whole = 1 + z2 / count
    return Interval(max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole))


def bootstrap_interval(values: Sequence[float]) -> Interval:
    """Return the interval of the mean of at least one value (Efron, 1979).

    The limits are quantiles of the means of 1,000 resamples. The seed is fixed, so equal values
    give equal limits. To compare paired measures, pass the differences of the pairs.
    """
    draw = random.Random(_SEED)
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    cut = round(_TAIL * _RESAMPLES)
    return Interval(means[cut], means[-1 - cut])


def _discount(place: int) -> float:
    return 1 / math.log2(1 + place)
