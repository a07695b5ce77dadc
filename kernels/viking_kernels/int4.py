"""Dot products of vectors with int4 codes, many rows at a time, and their error bounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from viking_kernels import simd
from viking_kernels import simd_scores as lanes
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
    """Compute the products of `factors` with the codes of TOGETHER rows from `row` on.

    They are written to out[at : at + TOGETHER]. Rows beyond `last` count as `last`. See
    `simd.products_int4`.
    """
    _products(codes, row, last, factors, out, at)


_ROUNDING = 8e-6
"""The error bound of fp32 sums of products of a vector of length 1 with unit vectors.

It also covers the rounding of both rotations.
"""


_SPREADS = 7.0
"""Standard deviations that a product with a residual may have. One in 4e10 has more."""


class CodedDirection(NamedTuple):
    """A vector u, coded for products with int4 codes: u = along * axis + v, v ~ step * factors.

    Let x = x_along * axis + c + e, with c = scale * (code - 7.5) and |e| the residual norm. Then u
    . x is nearly along * x_along + step * (c . factors). The error has two parts.

    The first is from the rounding of v: at most |v - step * factors| |c|, with |c| <= 1 + |e|.

    The second is v . e. Only the part of v across y = c + e counts, because e . y = 0. Vectors are
    rotated at random, so among the n = dim - 1 directions across y that part points anywhere. By
    the measure of a cap of the sphere (Ball 1997), v . e exceeds t |v| |e| / sqrt(n) with a
    probability of at most exp(-t^2 / 2): the bound of RaBitQ (Gao and Long 2024). t is _SPREADS, or
    smaller if the bound reaches |v| |e|, which v . e never exceeds.
    """

    along: np.float32
    step: np.float32
    offset: np.int32  # 15 * the sum of the factors: c . factors = scale * (products - offset / 2)
    error_slope: np.float32  # the error bound of u . x grows by this for each unit of |e|
    error: np.float32  # error bound of u . x if |e| is 0: rounding of v, and fp32
    across: np.float32  # |v|


CODED_ALONG, CODED_STEP, CODED_OFFSET, CODED_SLOPE, CODED_ERROR, CODED_ACROSS = range(6)
"""Columns of Centroids.against_int4: the numbers of a CodedDirection."""


@inlined
def code_direction(direction: F32, axis: F32, dimension: int, factors: I8) -> CodedDirection:
    """Return a vector u, coded for products with int4 codes; see CodedDirection for the formula.

    Args:
        direction: [rotated dim] u, of any finite length, rotated as the coded rows are.
        axis: [rotated dim] the unit vector along which the rows have an exact part, see
            `quantize.quantize_int4`.
        dimension: the number of components before the rotation.
        factors: [rotated dim] is filled with the code of v, the part of u across the axis.
    """
    along, whole = lanes.product(direction, axis), lanes.product(direction, direction)
    largest = 0.0
    square = 0.0
    for j in range(direction.shape[0]):
        rest = np.float64(direction[j]) - along * np.float64(axis[j])
        largest = max(largest, abs(rest))
        square += rest * rest
    step = largest / 127.0
    total = 0.0
    missing = 0.0
    for j in range(direction.shape[0]):
        rest = np.float64(direction[j]) - along * np.float64(axis[j])
        factor = np.rint(rest / step) if step > 0 else 0.0
        factors[j] = np.int8(factor)
        total += factor
        missing += (rest - step * factor) ** 2
    residual = np.sqrt(missing)
    spread = min(1.0, _SPREADS / np.sqrt(max(dimension - 1.0, 1.0)))
    return CodedDirection(
        np.float32(along),
        np.float32(step),
        np.int32(15 * total),
        np.float32(spread * np.sqrt(square) + residual),
        np.float32(residual + _ROUNDING * np.sqrt(whole)),
        np.float32(np.sqrt(square)),
    )
