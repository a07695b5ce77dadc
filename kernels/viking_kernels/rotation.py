"""A rotation that looks random: it spreads what stands in few components over all of them.

int4 codes are of rotated vectors. What such a code leaves out then points nowhere in particular,
whatever the vectors are like, so its product with a query is far less than their lengths allow
(see `int4`). Signs from a hash, then butterflies, as in a fast Johnson-Lindenstrauss transform
(Ailon and Chazelle 2009), twice: the entries of the whole are spread like those of a rotation
drawn at random.
"""

from __future__ import annotations

import numpy as np

from viking_kernels import simd
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import F32


def rotated_size(dimension: int) -> int:
    """Components of a rotated vector: the next multiple of simd.NIBBLES."""
    return -(-dimension // simd.NIBBLES) * simd.NIBBLES


@njit
def rotate(x: F32, out: F32) -> None:
    """Fills `out` [rotated_size(dim)] with x [dim], rotated; products of two vectors stay."""
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
    """The sign of each component is the first bit of a hash of its number."""
    for j in range(x.shape[0]):
        hashed = np.uint32(np.uint32(j + 1 + turn * x.shape[0]) * np.uint32(2654435769))
        hashed = np.uint32(hashed ^ (hashed >> np.uint32(15)))
        hashed = np.uint32(hashed * np.uint32(2246822507))
        out[j] = x[j] * (np.float32(1) - np.float32(2) * np.float32(hashed >> np.uint32(31)))


@inlined
def _butterflies(x: F32, out: F32) -> None:
    """Turns each two neighbours by 45 degrees, and sets the first ones before the second ones.

    So of size components each has gone into each other one after log2(size) goes.
    """
    half = x.shape[0] // 2
    first, second = out[:half], out[half:]
    root = np.float32(0.5**0.5)
    for i in range(half):
        first[i] = (x[2 * i] + x[2 * i + 1]) * root
        second[i] = (x[2 * i] - x[2 * i + 1]) * root
