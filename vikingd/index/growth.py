"""The growth of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def grown(old: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """Return a copy with room for more rows; rows behind the old ones are not set."""
    new = np.empty((rows, *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new
