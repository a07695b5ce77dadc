"""int8 codes of vectors, computed again for `recompute`; only the gate of a find uses them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.stored import F64

NEGLIGIBLE = 1e-4  # a shorter centred vector is rounding noise


class Codes:
    """Vectors x [n, dim] as int8 codes; x is nearly scale * code."""

    def __init__(self, vectors: F64) -> None:
        rows = vectors.astype(np.float32)
        scale = np.abs(rows).max(axis=1, initial=0) / np.float32(127)
        code = np.rint(rows / np.where(scale > 0, scale, np.float32(1))[:, None])
        self._near = scale[:, None].astype(np.float64) * code.astype(np.float64)
        self._residual = np.linalg.norm(vectors - self._near, axis=1)

    def cosines(self, rows: Sequence[int], direction: F64, mean: F64) -> tuple[F64, F64]:
        """Return (cosines of x - mean with a direction, in [0, 1], their error bounds).

        The formula takes x as a unit vector, and codes of the direction and the mean.
        """
        near, residual = self._near[rows], self._residual[rows]
        near_direction, direction_residual = coded(direction)
        near_mean, mean_residual = coded(mean)
        product = near @ near_direction - direction @ mean
        square = 1 - 2 * (near @ near_mean) + mean @ mean
        product_error = direction_residual + residual * (1 + direction_residual)
        square_error = 2 * (mean_residual + residual * (np.linalg.norm(mean) + mean_residual))
        floored = np.maximum(square, NEGLIGIBLE**2)
        error = product_error + (np.abs(product) + product_error) * square_error / floored
        error /= np.sqrt(floored)
        error[(square_error > square / 2) | (square - square_error <= NEGLIGIBLE**2)] = 1.0
        error[product + product_error <= 0] = 0.0
        return np.clip(product / np.sqrt(floored), 0.0, 1.0), error


def coded(x: F64) -> tuple[F64, float]:
    """Return (the vector of the int8 code of x, the residual norm)."""
    largest = float(np.abs(x).max(initial=0.0))
    if largest == 0:
        return x, 0.0
    near = np.rint(x * (127 / largest)) * (largest / 127)
    return near, float(np.linalg.norm(x - near))
