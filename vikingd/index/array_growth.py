"""Copies of arrays: with more rows, or of rows that are partly in a base and partly in a tail."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import I32, I64


def grown(old: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Return a copy of an array, extended to `rows` rows; the values of new rows are undefined."""
    new = np.empty((rows, *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new


def gathered(base: npt.NDArray[Any], tail: npt.NDArray[Any], rows: I32 | I64) -> npt.NDArray[Any]:
    """Return copies of these rows; row len(base) is the first row of the tail."""
    out = np.empty((len(rows), *base.shape[1:]), base.dtype)
    of_base = rows < len(base)
    out[of_base] = base[rows[of_base]]
    out[~of_base] = tail[rows[~of_base] - len(base)]
    return out
