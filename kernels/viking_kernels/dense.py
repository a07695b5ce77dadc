"""Closeness of meaning: cosines centred by language, from int8 codes or from fp32 vectors.

dense(x) = max(0, cos(q - m, x - m')) with m the mean of the query's language and m' that of the
text's, both over the scope. Nothing centred is stored: with u = (q - m) / |q - m|,

    cos = (u . x - u . m') / |x - m'|,   |x - m'|^2 = 1 - 2 m' . x + |m'|^2

so one reading of an int8 row gives both products that a score needs; fp32 rows are centred as
they are read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from viking_kernels import simd
from viking_kernels._jit import ieee, inlined, njit
from viking_kernels.arrays import (
    F32,
    I8,
    I32,
    SCRIPTS,
    Asked,
    Means,
    Numbers,
    Query,
    Vectors,
)
from viking_kernels.int4 import code_direction
from viking_kernels.rotation import rotate
from viking_kernels.simd import prefetch

# Below this length x - m' is rounding noise: a text that is all there is of its language.
_NEGLIGIBLE = 1e-4

_TOO_NEAR = 0.1  # codes leave out some .003

PREFETCH_CODES = 32
PREFETCH_VECTORS = 6
"""So many rows ahead they are asked for: mostly, all of a range are read, and the processor alone
looks no further than a page."""


@njit
def to_int8(x: F32, code: I8) -> tuple[int, float, float]:
    """(bias, step, error) with x [dim] nearly step * code and error = |x - step * code|.

    Fills `code` [dim and padding]. `bias` is what `products_int8` with it are too large by.
    """
    largest = 0.0
    for j in range(x.shape[0]):
        largest = max(largest, abs(np.float64(x[j])))
    code[:] = 0
    if largest == 0.0:
        return 0, 0.0, 0.0
    scale = 127.0 / largest
    total = 0
    square = 0.0
    for j in range(x.shape[0]):
        rounded = np.rint(np.float64(x[j]) * scale)
        code[j] = np.int8(rounded)
        total += np.int64(rounded)
        left = np.float64(x[j]) - rounded / scale
        square += left * left
    return simd.BIAS * total, 1.0 / scale, np.sqrt(square)


@njit
def code_means(mean: F32, axis: F32) -> Means:
    """Codes the means [SCRIPTS, dim] of a scope; `axis` is that of the base's int4 codes."""
    dimension = mean.shape[1]
    code = np.empty((SCRIPTS, -(-dimension // simd.LANES) * simd.LANES), np.int8)
    bias = np.empty(SCRIPTS, np.int64)
    step = np.empty(SCRIPTS, np.float64)
    error = np.empty(SCRIPTS, np.float64)
    length = np.empty(SCRIPTS, np.float64)
    rotated = np.empty(axis.shape[0], np.float32)
    factors = np.empty((SCRIPTS, axis.shape[0]), np.int8)
    against_int4 = np.empty((SCRIPTS, 6), np.float64)
    for script in range(SCRIPTS):
        bias[script], step[script], error[script] = to_int8(mean[script], code[script])
        rotate(mean[script], rotated)
        coded = code_direction(rotated, axis, dimension, factors[script])
        against_int4[script, 0] = coded.along
        against_int4[script, 1] = coded.step
        against_int4[script, 2] = coded.offset
        against_int4[script, 3] = coded.length
        against_int4[script, 4] = coded.off
        against_int4[script, 5] = coded.across
        total = 0.0
        for j in range(dimension):
            total += np.float64(mean[script, j]) * np.float64(mean[script, j])
        length[script] = np.sqrt(total)
    return Means(mean, code, bias, step, error, length, factors, against_int4)


@njit
def prepare(asked: Asked, means: Means) -> Query:
    """The query against the means of its scope; its own is that of its script."""
    dimension = means.mean.shape[1]
    direction = np.zeros(dimension, np.float32)
    there = asked.vector.shape[0] == dimension and dimension > 0
    if there:
        length = 0.0
        for j in range(dimension):
            length += np.float64(asked.vector[j]) * np.float64(asked.vector[j])
        length = np.sqrt(length)
        mean = means.mean[asked.script]
        square = 0.0
        for j in range(dimension):
            centred = np.float64(asked.vector[j]) / length - np.float64(mean[j])
            square += centred * centred
        centred_length = np.sqrt(square)
        if centred_length > _NEGLIGIBLE:
            for j in range(dimension):
                centred = np.float64(asked.vector[j]) / length - np.float64(mean[j])
                direction[j] = centred / centred_length
    code = np.empty((1, means.code.shape[1]), np.int8)
    bias, step, error = to_int8(direction, code[0])
    dots = np.zeros(SCRIPTS, np.float64)
    for script in range(SCRIPTS):
        total = 0.0
        for j in range(dimension):
            total += np.float64(means.mean[script, j]) * np.float64(direction[j])
        dots[script] = total
    return Query(
        asked.use_dense and there,
        asked.use_lexical,
        asked.script,
        direction,
        code,
        bias,
        step,
        error,
        means,
        dots,
        np.empty(dimension, np.float32),
    )


def _plain_products(codes: I8, row: int, a: I8, a_row: int, b: I8, b_row: int) -> tuple[int, int]:
    along = np.int32(0)
    across = np.int32(0)
    for j in range(codes.shape[1]):
        x = np.int32(codes[row, j])
        # numba widens sums of int32; cast back, they stay in half the registers.
        along = np.int32(along + x * np.int32(a[a_row, j]))
        across = np.int32(across + x * np.int32(b[b_row, j]))
    return along, across


def _plain_products_of_two(
    codes: I8, row: int, a: I8, a_row: int, b: I8, b_row: int
) -> tuple[int, int, int, int]:
    along, across = _products(codes, row, a, a_row, b, b_row)
    other_along, other_across = _products(codes, row + 1, a, a_row, b, b_row)
    return along, across, other_along, other_across


_PLAIN = simd.PATH == "plain"
_products: Any = inlined(_plain_products) if _PLAIN else simd.products
_products_of_two: Any = inlined(_plain_products_of_two) if _PLAIN else simd.products_of_two


@inlined
def products_int8(codes: I8, row: int, a: I8, a_row: int, b: I8, b_row: int) -> tuple[int, int]:
    """(code . a[a_row], code . b[b_row]) of one row of codes [n, dim padded], within int32.

    Each is too large by the bias that `to_int8` has told for a[a_row] or b[b_row].
    """
    along, across = _products(codes, row, a, a_row, b, b_row)
    return along, across


@inlined
def multiply_codes(codes: I8, low: int, high: int, query: Query, script: int, out: I32) -> None:
    """Fills out[:, : high - low] with the products of codes[low:high].

    out[0] with the query's code, out[1] with that of a script's mean, less the bias of each.
    """
    means = query.means
    bias, mean_bias = np.int32(query.bias), np.int32(means.bias[script])
    row = low
    while row + 1 < high:
        along, across, next_along, next_across = _products_of_two(
            codes, row, query.code, 0, means.code, script
        )
        out[0, row - low] = along - bias
        out[1, row - low] = across - mean_bias
        out[0, row + 1 - low] = next_along - bias
        out[1, row + 1 - low] = next_across - mean_bias
        row += 2
    if row < high:
        along, across = _products(codes, row, query.code, 0, means.code, script)
        out[0, row - low] = along - bias
        out[1, row - low] = across - mean_bias


class Against(NamedTuple):
    """What the codes of one script's texts are set against, all fp32: see `coded_parts`."""

    step: float  # of the query's code
    dot: float  # direction . m'
    twice: float  # 2 * the step of the mean's code
    square: float  # 1 + |m'|^2
    off: float
    off_more: float  # for each that a code leaves out
    square_off: float
    square_off_more: float


@ieee
def against(query: Query, script: int) -> Against:
    """The query and the mean of a script."""
    means = query.means
    length, error = means.length[script], means.error[script]
    # fp32 sums of some hundred products, |x| = 1 and the arithmetic hold to about 1e-6.
    return Against(
        np.float32(query.step),
        np.float32(query.mean_dot[script]),
        np.float32(2.0 * means.step[script]),
        np.float32(1.0 + length * length),
        np.float32(query.error + 2e-6),
        np.float32(1.0 + query.error),
        np.float32(2.0 * error + 4e-6),
        np.float32(2.0 * (length + error)),
    )


@ieee
def coded_parts(
    along: int, across: int, scale: float, left: float, other: Against
) -> tuple[float, float, float, float]:
    """((x - m') . u, |x - m'|^2) of a text from its int8 code, and how far each can be off.

    By Cauchy and Schwarz a product with a coded row is off by at most the length of what the code
    leaves out; the coding of the query and of the mean add their parts.

    Args:
        along, across: products of the code with those of the query and of its script's mean.
        scale, left: see Vectors.scale and .error.
    """
    above = scale * (other.step * np.float32(along)) - other.dot
    square = other.square - scale * (other.twice * np.float32(across))
    above_off = other.off + left * other.off_more
    square_off = other.square_off + left * other.square_off_more
    return above, square, above_off, square_off


@ieee
def parts_of_code(
    codes: I8, row: int, scale: float, left: float, query: Query, script: int
) -> tuple[float, float, float, float]:
    """`coded_parts` of one row of codes [n, dim padded], of a text or a mean in a script."""
    means = query.means
    along, across = products_int8(codes, row, query.code, 0, means.code, script)
    return coded_parts(
        along - query.bias, across - means.bias[script], scale, left, against(query, script)
    )


@inlined
def raw_cosine(vectors: Vectors, row: int, query: Query, script: int) -> float:
    """Dense of a text from its fp32 vector."""
    base = vectors.base_raw.shape[0]
    if row < base:
        above, square = centred(vectors.base_raw[row], query, script)
    else:
        above, square = centred(vectors.tail_raw[row - base], query, script)
    return cosine(above, square)


@inlined
def cosine(above: float, square: float) -> float:
    """Dense from (x - m') . u and |x - m'|^2: in [0, 1]; 0 where nothing of x is left."""
    if square <= _NEGLIGIBLE * _NEGLIGIBLE:
        return 0.0
    return min(max(0.0, above * (1.0 / np.sqrt(square))), 1.0)


@ieee
def bounded_cosine(
    above: float, square: float, above_off: float, square_off: float
) -> tuple[float, float]:
    """(`cosine`, how far it can be off) when what it is made of is off by so much at most.

    In fp32 and without a branch, so that LLVM takes several rows at a time.
    """
    one = np.float32(1)
    least = np.float32(_NEGLIGIBLE * _NEGLIGIBLE)
    shrink = one / np.sqrt(np.float32(max(square, least)))
    score = min(max(np.float32(0), above * shrink), one)
    # For x in [0, 1/2]: 1 / sqrt(1 - x) <= 1 + x and 1 - x / 2 <= 1 / sqrt(1 + x).
    relative = square_off * shrink * shrink
    off = (above_off + (abs(above) + above_off) * relative) * shrink + np.float32(4e-6)
    anything = square_off > np.float32(0.5) * square or square - square_off <= least
    bound = one if anything else off
    if above + above_off <= np.float32(0):
        bound = np.float32(0)
    return score if square > least else np.float32(0), bound


@inlined
def most_cosine(above: float, square: float, above_off: float, square_off: float) -> float:
    """The most that `cosine` can be when what it is made of is off by so much; in fp32 likewise."""
    one = np.float32(1)
    least = np.float32(_NEGLIGIBLE * _NEGLIGIBLE)
    shrink = one / np.sqrt(max(np.float32(square - square_off), least))
    most = (above + above_off) * shrink + np.float32(4e-6)
    return min(max(np.float32(0), most), one)


@inlined
def only_language(slot: int, numbers: Numbers) -> int:
    """The script of all vectors of a directory's subtree; -1 where there are several or none."""
    languages = 0
    only = 0
    for script in range(SCRIPTS):
        row = numbers.mean_slot[slot, script]
        if row >= 0 and numbers.mean_count[row] > 0:  # none: all its vectors are gone again
            languages += 1
            only = script
    return only if languages == 1 else -1


@inlined
def directory_coded(slot: int, query: Query, numbers: Numbers) -> tuple[float, float]:
    """(about `directory_dense`, how far it can be off) from the code of a base mean.

    The first is below 0 where the code can't tell: beside the mean of the scope, where what is
    left is no longer than what codes leave out, and where the subtree has changed since the base
    was written.
    """
    only = only_language(slot, numbers)
    if only < 0 or numbers.mean_slot[slot, only] >= numbers.base_mean_codes.shape[0]:
        return -1.0, 0.0
    row = np.int64(numbers.mean_slot[slot, only])
    prefetch(numbers.base_mean_codes, row + PREFETCH_CODES)
    scale = np.float32(numbers.base_mean_scale[row])
    # A component is rounded by half a step at most.
    left = np.float32(np.float64(scale) * 0.5 * np.sqrt(query.direction.shape[0]))
    above, square, above_off, square_off = parts_of_code(
        numbers.base_mean_codes, row, scale, left, query, only
    )
    square += numbers.base_mean_square[row] - np.float32(1)
    if square < _TOO_NEAR * _TOO_NEAR:
        return -1.0, 0.0
    return bounded_cosine(above, square, above_off, square_off)


@inlined
def directory_dense(slot: int, query: Query, numbers: Numbers) -> float:
    """Dense of a directory: that of the sum of its subtree's vectors, less their means.

    In [0, 1]; 0 where the subtree has no vector. With n vectors of mean c in each language the
    sum is n * (c - m') over the languages; with one language n does not matter.
    """
    base = numbers.base_mean.shape[0]
    only = only_language(slot, numbers)
    if only >= 0:
        row = numbers.mean_slot[slot, only]
        prefetch(numbers.base_mean, np.int64(row) + PREFETCH_VECTORS)
        centre = numbers.base_mean[row] if row < base else numbers.tail_mean[row - base]
        along, square = centred(centre, query, only)
        return cosine(along, square)
    dimension = query.direction.shape[0]
    total = query.work
    total[:] = 0
    count = 0
    for script in range(SCRIPTS):
        row = numbers.mean_slot[slot, script]
        if row >= 0:
            n = np.float32(numbers.mean_count[row])
            count += numbers.mean_count[row]
            centre = numbers.base_mean[row] if row < base else numbers.tail_mean[row - base]
            mean = query.means.mean[script]
            for j in range(dimension):
                total[j] += n * (centre[j] - mean[j])
    along = np.float32(0)
    square = np.float32(0)
    for j in range(dimension):
        along += total[j] * query.direction[j]
        square += total[j] * total[j]
    return cosine(along / max(count, 1), square / max(count, 1) ** 2)


@inlined
def centred(x: F32, query: Query, script: int) -> tuple[float, float]:
    """((x - m') . u, |x - m'|^2).

    Subtracted first: near the mean, differences of large sums would be noise.
    """
    mean = query.means.mean[script]
    along = np.float32(0)
    square = np.float32(0)
    for j in range(x.shape[0]):
        left = x[j] - mean[j]
        along += left * query.direction[j]
        square += left * left
    return along, square
