"""Dot products of rows of vectors, for callers in Python."""

from __future__ import annotations

import numpy as np

from viking_kernels import simd_scores as lanes
from viking_kernels._jit import njit
from viking_kernels.arrays import F32, F64


@njit
def products(x: F32, y: F32) -> F64:
    """Return the dot product x[i] . y[i] of each row, [n].

    Args:
        x: [n, dim].
        y: [n, dim], or [1, dim] for the same vector with all rows.

    Returns:
        [n].
    """
    out = np.empty(x.shape[0], np.float64)
    step = 0 if y.shape[0] == 1 else 1
    for i in range(x.shape[0]):
        out[i] = lanes.product(x[i], y[step * i])
    return out
