"""Products of vectors that have the same bits on every processor.

BLAS and einsum add in an order that depends on the processor, and may fuse multiplications. The
`sum` of numpy adds in pairs, always in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def product(x: NDArray[Any], y: NDArray[Any]) -> Any:
    """Return the product of the last axes, in float64."""
    return np.multiply(x, y, dtype=np.float64).sum(axis=-1)
