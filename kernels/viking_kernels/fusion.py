"""Fusion of several ranked lists into one, by the ranks of their rows."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import F64, I32, I64
from viking_kernels.select import best_rows, sort_rising


@njit
def rrf(rows: I32, ends: I64, weights: F64, k: float) -> tuple[I32, F64]:
    """Fuse ranked lists: the score of a row is the sum of weight / (k + rank + 1) over its lists.

    Reciprocal rank fusion: Cormack, Clarke and Buettcher 2009. Each row's terms are summed in the
    order of the lists.

    Args:
        rows: [n] the lists one after the other, each best first, without repeats within a list.
        ends: [lists] one past the end of each list in `rows`.
        weights: [lists] at least 0.
        k: above -1.

    Returns:
        (rows, scores) of all rows with a score above 0, best first, ties by row.
    """
    keys = np.empty(rows.shape[0], np.int64)
    parts = np.empty(rows.shape[0], np.float64)
    start = 0
    for i in range(ends.shape[0]):
        for at in range(start, ends[i]):
            keys[at] = np.int64(rows[at]) * rows.shape[0] + at
            parts[at] = weights[i] / (k + (at - start) + 1.0)
        start = ends[i]
    sort_rising(keys)
    fused = np.empty(rows.shape[0], np.int32)
    scores = np.zeros(rows.shape[0], np.float64)
    count = 0
    for i in range(keys.shape[0]):
        row = np.int32(keys[i] // rows.shape[0])
        if count == 0 or fused[count - 1] != row:
            fused[count] = row
            count += 1
        scores[count - 1] += parts[keys[i] % rows.shape[0]]
    order = best_rows(scores[:count], count, 0.0)
    return fused[order], scores[order]
