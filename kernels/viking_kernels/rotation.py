"""A fixed rotation with the statistics of a random one. It spreads each component over all others.

int4 codes are of rotated vectors. The residual of such a code then has a random direction for any
kind of vectors, so its product with a query is far below the product of their lengths (see `int4`).

The rotation flips signs by a hash, then applies butterflies, as in a fast Johnson-Lindenstrauss
transform (Ailon and Chazelle 2009). It does both twice. The entries of the product are distributed
like those of a random rotation.
"""

from __future__ import annotations

import numpy as np

from viking_kernels import simd
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import F32


def rotated_size(dimension: int) -> int:
    """Return the number of components of a rotated vector: the next multiple of simd.NIBBLES."""
    return -(-dimension // simd.NIBBLES) * simd.NIBBLES


@njit
def rotate(x: F32, out: F32) -> None:
    """Rotate x [dim] into `out` [rotated_size(dim)]; dot products of vectors stay the same."""
    size = out.shape[0]
    other = np.zeros(size, np.float32)
    for j in range(x.shape[0]):
        other[j] = x[j]
    steps = 0
    while (1 << (2 * steps)) < size:
        steps += 1
    for turn in range(2):
        _change_signs(other, turn, out)
        for _ in range(steps):
            _butterflies(out, other)
            _butterflies(other, out)
        for j in range(size):
            other[j] = out[j]


@inlined
def _change_signs(x: F32, turn: int, out: F32) -> None:
    """Copy x to `out`, with the signs of components flipped by a hash of their number."""
    for j in range(x.shape[0]):
        hashed = np.uint32(np.uint32(j + 1 + turn * x.shape[0]) * np.uint32(2654435769))
        hashed = np.uint32(hashed ^ (hashed >> np.uint32(15)))
        hashed = np.uint32(hashed * np.uint32(2246822507))
        out[j] = x[j] * (np.float32(1) - np.float32(2) * np.float32(hashed >> np.uint32(31)))


@inlined
def _butterflies(x: F32, out: F32) -> None:
    """Rotate each pair of neighbours by 45 degrees; write first parts, then all second parts.

    After log2(size) calls each of `size` components depends on all of them.
    """
    half = x.shape[0] // 2
    first, second = out[:half], out[half:]
    root = np.float32(0.5**0.5)
    for i in range(half):
        first[i] = (x[2 * i] + x[2 * i + 1]) * root
        second[i] = (x[2 * i] - x[2 * i + 1]) * root
