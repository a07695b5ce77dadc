"""Dot products of vectors, equal to the last bit on every processor.

BLAS and einsum add in an order that depends on the processor, and may fuse multiplications.
"""

from __future__ import annotations

import numpy as np
from viking_kernels import products as kernel
from viking_kernels.arrays import F32, F64


def product(x: F32, y: F32) -> float:
    """Return the dot product of x and y, float32 [dim].

    Raises:
        ValueError: the shapes differ.
    """
    return float(_checked(np.array(x, np.float32, ndmin=2), np.array(y, np.float32, ndmin=2))[0])


def products(x: F32, y: F32) -> F64:
    """Return the dot product of each row of x, float32 [n, dim], with y.

    Args:
        y: float32 [dim], one vector for all rows; or [n, dim], one vector for each row.

    Raises:
        ValueError: the shapes differ.
    """
    return _checked(_plain(x), _plain(np.atleast_2d(y)))


def _plain(x: F32) -> F32:
    """Return x, or a contiguous and writable copy, since the kernel is compiled for such arrays."""
    return np.require(x, np.float32, ("C", "W"))


def _checked(x: F32, y: F32) -> F64:
    # The kernel checks no bounds.
    if x.shape[1] != y.shape[1] or y.shape[0] not in (1, x.shape[0]):
        raise ValueError(f"vectors of the shapes {x.shape} and {y.shape} have no products")
    return kernel.products(x, y)
