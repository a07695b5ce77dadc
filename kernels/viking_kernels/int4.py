"""Directions against int4 codes: products of many rows at a time, and how far they can be off."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from viking_kernels import simd
from viking_kernels._jit import inlined
from viking_kernels.arrays import F32, I8, I32, U8


def _plain_products_int4(codes: U8, row: int, last: int, factors: I8, out: I32, at: int) -> None:
    for i in range(simd.TOGETHER):
        total = np.int32(0)
        for j in range(codes.shape[1]):
            both = codes[min(row + i, last), j]
            first = j // 32 * 64 + j % 32
            low = np.int32(both & 15) * np.int32(factors[first])
            high = np.int32(both >> 4) * np.int32(factors[first + 32])
            total = np.int32(total + np.int32(low + high))
        out[at + i] = total


_products: Any = inlined(_plain_products_int4) if simd.PATH == "plain" else simd.products_int4


@inlined
def products_int4(codes: U8, row: int, last: int, factors: I8, out: I32, at: int) -> None:
    """Fills out[at : at + TOGETHER] with the products of codes[row], codes[row + 1], ...

    See `simd.products_int4`; rows beyond `last` are taken for it.
    """
    _products(codes, row, last, factors, out, at)


_ROUNDING = 8e-6
"""What fp32 sums of products of a vector with unit vectors can be off, for each of its length, and
so can rotations of both."""


_SPREADS = 7.0
"""Standard deviations of a product with what codes leave out: more comes up once in 4e10."""


class CodedDirection(NamedTuple):
    """A direction u against int4 codes: u = along * axis + v, v nearly step * factors.

    With x = x_along * axis + c + e, c = scale * (code - 7.5), |e| the error: u . x is
    along * x_along + step * (c . factors), off by what the factors leave out and by v . e. The
    first is at most |v - step * factors| |c|, and |c| <= 1 + |e|. Of the second only what v has
    across y = c + e counts, for e has nothing of y; vectors are rotated at random, so among the
    n = dim - 1 directions across y that part points anywhere, and by the measure of a cap of the
    sphere (Ball 1997) v . e is above t |v| |e| / sqrt(n) with a probability of exp(-t^2 / 2) at
    most: the bound of RaBitQ (Gao and Long 2024). t is _SPREADS, or what makes it |v| |e|, which it
    can't exceed.
    """

    along: np.float32
    step: np.float32
    offset: np.int32  # 15 * the sum of the factors: c . factors = scale * (products - offset / 2)
    length: np.float32  # by which u . x is off for each that x has in e: t |v| / sqrt(n), and `off`
    off: np.float32  # by which it is off at least: what the factors leave out, and rounding
    across: np.float32  # |v|


@inlined
def code_direction(direction: F32, axis: F32, dimension: int, factors: I8) -> CodedDirection:
    """Codes a rotated direction of finite length, which had `dimension` components before.

    Fills `factors` [dim rotated].
    """
    along = 0.0
    whole = 0.0
    for j in range(direction.shape[0]):
        along += np.float64(direction[j]) * np.float64(axis[j])
        whole += np.float64(direction[j]) * np.float64(direction[j])
    largest = 0.0
    square = 0.0
    for j in range(direction.shape[0]):
        left = np.float64(direction[j]) - along * np.float64(axis[j])
        largest = max(largest, abs(left))
        square += left * left
    step = largest / 127.0
    total = 0.0
    missing = 0.0
    for j in range(direction.shape[0]):
        left = np.float64(direction[j]) - along * np.float64(axis[j])
        factor = np.rint(left / step) if step > 0 else 0.0
        factors[j] = np.int8(factor)
        total += factor
        missing += (left - step * factor) ** 2
    off = np.sqrt(missing)
    spread = min(1.0, _SPREADS / np.sqrt(max(dimension - 1.0, 1.0)))
    return CodedDirection(
        np.float32(along),
        np.float32(step),
        np.int32(15 * total),
        np.float32(spread * np.sqrt(square) + off),
        np.float32(off + _ROUNDING * np.sqrt(whole)),
        np.float32(np.sqrt(square)),
    )
