"""Closeness of meaning: cosines centred by language, from int8 codes or from fp32 vectors.

dense(x) = max(0, cos(q - m, x - m')) with m the mean of the query's language and m' that of the
text's, both over the scope. Nothing centred is stored: with u = (q - m) / |q - m|,

    cos = (u . x - u . m') / |x - m'|,   |x - m'|^2 = 1 - 2 m' . x + |m'|^2

so one reading of an int8 row gives both products that a score needs; fp32 rows are centred as
they are read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import F32, I8, I16, SCRIPTS, Numbers, Query

# Below this length x - m' is rounding noise: a text that is all there is of its language.
_NEGLIGIBLE = 1e-4


def to_int16(x: F32) -> tuple[I16, float, float]:
    """(code, scale, error) with x nearly code / scale and error = |x - code / scale|.

    The scale keeps the sum of 127 * |code| within int32, rounding included, so that a product with
    an int8 row can't overflow.
    """
    largest = float(np.abs(x).max(initial=0.0))
    if largest == 0.0:
        return np.zeros(len(x), np.int16), 1.0, 0.0
    total = float(np.abs(x).sum(dtype=np.float64))
    scale = min(32767 / largest, ((2**31 - 1) / 127 - len(x) / 2) / total)
    code = np.rint(x.astype(np.float64) * scale)
    left = x - code / scale
    return code.astype(np.int16), scale, float(np.sqrt(left @ left))


class Means(NamedTuple):
    """The mean m' of each script's vectors in a scope, ready for the kernels."""

    mean: F32  # [SCRIPTS, dim]
    code: I16  # [SCRIPTS, dim]
    scale: F32  # [SCRIPTS]
    error: F32  # [SCRIPTS]
    square: F32  # [SCRIPTS] |m'|^2


def code_means(mean: F32) -> Means:
    """Codes the means [SCRIPTS, dim] of a scope."""
    coded = [to_int16(row) for row in mean]
    return Means(
        mean,
        np.stack([code for code, _, _ in coded]),
        np.array([scale for _, scale, _ in coded], np.float32),
        np.array([error for _, _, error in coded], np.float32),
        np.einsum("ij,ij->i", mean, mean),
    )


def prepare(
    vector: F32 | None, script: int, means: Means, *, use_dense: bool, use_lexical: bool
) -> Query:
    """A query for the kernels below.

    Args:
        vector: [dim] the query's embedding, any length; None: there is none.
        script: of the query; 0 (none) when nothing is foreign to it. Its mean is that of `script`.
        means: of the scope.
        use_dense: whether meaning counts; it does not without a vector.
        use_lexical: whether text counts.
    """
    direction = np.zeros(means.mean.shape[1], np.float32)
    if vector is not None:
        wide = vector.astype(np.float64)
        centred = wide / np.sqrt(wide @ wide) - means.mean[script]
        length = np.sqrt(centred @ centred)
        if length > _NEGLIGIBLE:
            direction = (centred / length).astype(np.float32)
    code, scale, error = to_int16(direction)
    return Query(
        use_dense and vector is not None,
        use_lexical,
        script,
        direction,
        code,
        scale,
        error,
        means.mean,
        means.code,
        means.scale,
        means.error,
        means.square,
        means.mean @ direction,
    )


@njit
def products_int8(codes: I8, row: int, direction: I16, mean: I16, script: int) -> tuple[int, int]:
    """(code . direction, code . mean[script]) of one row of codes [n, dim], within int32."""
    along = np.int32(0)
    across = np.int32(0)
    for j in range(codes.shape[1]):
        x = np.int32(codes[row, j])
        # numba widens sums of int32; cast back, they stay in half the registers.
        along = np.int32(along + x * np.int32(direction[j]))
        across = np.int32(across + x * np.int32(mean[script, j]))
    return along, across


@njit
def centred_fp32(raw: F32, row: int, direction: F32, mean: F32, script: int) -> tuple[float, float]:
    """((x - m') . u, |x - m'|^2) of one row of vectors [n, dim].

    Subtracted first: near the mean, differences of large sums would be noise.
    """
    above = np.float32(0)
    square = np.float32(0)
    for j in range(raw.shape[1]):
        x = raw[row, j] - mean[script, j]
        above += x * direction[j]
        square += x * x
    return above, square


@njit
def cosine(above: float, square: float) -> float:
    """Dense from (x - m') . u and |x - m'|^2: in [0, 1]; 0 where nothing of x is left."""
    if square <= _NEGLIGIBLE * _NEGLIGIBLE:
        return 0.0
    return min(max(0.0, above / np.sqrt(square)), 1.0)


@njit
def cosine_bound(
    score: float, above: float, square: float, above_off: float, square_off: float
) -> float:
    """How far a `cosine` can be off when what it is made of is off by so much at most."""
    floor = _NEGLIGIBLE * _NEGLIGIBLE
    highest = min(max(0.0, above + above_off) / np.sqrt(max(square - square_off, floor)), 1.0)
    lowest = 0.0
    if square - square_off > floor:
        lowest = min(max(0.0, above - above_off) / np.sqrt(square + square_off), 1.0)
    return max(highest - score, score - lowest) + 1e-6


@njit
def directory_dense(slot: int, query: Query, numbers: Numbers) -> float:
    """Dense of a directory: that of the sum of its subtree's vectors, less their means.

    In [0, 1]; 0 where the subtree has no vector. With n vectors of mean c in each language the
    sum is n * (c - m') over the languages.
    """
    dimension = query.direction.shape[0]
    base = numbers.base_mean.shape[0]
    total = np.zeros(dimension, np.float32)
    count = 0
    for script in range(SCRIPTS):
        row = numbers.mean_slot[slot, script]
        if row >= 0:
            n = np.float32(numbers.mean_count[row])
            count += numbers.mean_count[row]
            centre = numbers.base_mean[row] if row < base else numbers.tail_mean[row - base]
            mean = query.mean[script]
            for j in range(dimension):
                total[j] += n * (centre[j] - mean[j])
    along = np.float32(0)
    square = np.float32(0)
    for j in range(dimension):
        along += total[j] * query.direction[j]
        square += total[j] * total[j]
    length = np.sqrt(square)
    if length <= _NEGLIGIBLE * count:
        return 0.0
    return min(max(0.0, along / length), 1.0)
