"""int8 codes of unit vectors, with the exact length of what they leave out."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import F32, I8


@njit
def quantize_rows(raw: F32, codes: I8, scale: F32, error: F32) -> None:
    """Codes each row of `raw` [n, dim] by its own largest component.

    code = round(x / scale), scale = max|x| / 127, error = |x - scale * code| (Euclidean), so that
    |y . x - scale * (y . code)| <= |y| * error for any y. Fills `codes` [n, dim and zeros], whose
    zeros it leaves alone, `scale` [n] and `error` [n]; a row of zeros has scale 0.
    """
    for i in range(raw.shape[0]):
        largest = np.float32(0)
        for j in range(raw.shape[1]):
            largest = max(largest, abs(raw[i, j]))
        step = largest / np.float32(127)
        square = 0.0
        for j in range(raw.shape[1]):
            code = np.int8(np.rint(raw[i, j] / step)) if step > 0 else np.int8(0)
            codes[i, j] = code
            left = np.float64(raw[i, j]) - np.float64(step) * np.float64(code)
            square += left * left
        scale[i] = step
        error[i] = np.sqrt(square)
