"""Salience of memories: its parts, and the order of memories by it."""

from __future__ import annotations

import math

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import F64, I64, NEVER
from viking_kernels.select import best_rows

SEMANTIC, REINFORCEMENT, RECENCY, ACCESS, HALF_LIFE = range(5)
"""Columns of the parts and of the weights. The last weight is a half-life in days."""

TIMES_REINFORCED, TIMES_ACCESSED, SAID_AT = range(3)
"""Columns of the known facts of a candidate."""

_MICROSECONDS_A_DAY = 86_400e6


@inlined
def _share(times: int, most: int) -> float:
    return math.log(times + 1.0) / math.log(most + 2.0)


@njit
def rank(semantic: F64, known: I64, weights: F64, now: int) -> tuple[I64, F64, F64]:
    """Rank memories by descending salience, ties by index.

    salience = weights . (semantic, log(r + 1) / log(max r + 2), 2^(-age / half-life), log(a + 1) /
    log(max a + 2)). r and a are how often a memory was reinforced and accessed; the maxima are over
    all memories given. A time after `now` has age 0. A memory with the time NEVER has recency 0.

    Args:
        semantic: [n] in [0, 1].
        known: [n, 3] numbers of reinforcements and accesses, at least 0; the time when the memory
            was last said, in microseconds, or NEVER.
        weights: [5] of the parts, and the half-life in days, above 0.
        now: the time in microseconds.

    Returns:
        ([n] indices, best first; [n] saliences; [n, 4] their parts).
    """
    n = semantic.shape[0]
    parts = np.empty((n, 4), np.float64)
    scores = np.empty(n, np.float64)
    most_reinforced, most_accessed = np.int64(0), np.int64(0)
    for i in range(n):
        most_reinforced = max(most_reinforced, known[i, TIMES_REINFORCED])
        most_accessed = max(most_accessed, known[i, TIMES_ACCESSED])
    for i in range(n):
        parts[i, SEMANTIC] = semantic[i]
        parts[i, REINFORCEMENT] = _share(known[i, TIMES_REINFORCED], most_reinforced)
        parts[i, RECENCY] = 0.0
        if known[i, SAID_AT] != NEVER:
            # As floats: the difference of two times may overflow an integer.
            age = max(0.0, float(now) - float(known[i, SAID_AT])) / _MICROSECONDS_A_DAY
            parts[i, RECENCY] = math.pow(2.0, -age / weights[HALF_LIFE])
        parts[i, ACCESS] = _share(known[i, TIMES_ACCESSED], most_accessed)
        scores[i] = 0.0
        for part in range(4):
            scores[i] += weights[part] * parts[i, part]
    return best_rows(scores, n, -1.0), scores, parts
