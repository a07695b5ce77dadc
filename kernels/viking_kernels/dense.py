"""Dense scores: centred cosines, from int8 codes or from fp32 vectors.

    dense(x) = max(0, cos(q - m, x - m'))

m is the centroid of the query's language and m' that of the text's language, both over the scope.
No centred vector is stored. With u = (q - m) / |q - m|,

    cos = (u . x - u . m') / |x - m'|,   |x - m'|^2 = 1 - 2 m' . x + |m'|^2

so one pass over an int8 row gives both products that a score needs. fp32 rows are centred while
they are read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from viking_kernels import simd
from viking_kernels import simd_scores as lanes
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    F32,
    I8,
    I32,
    SCRIPTS,
    Centroids,
    PreparedQuery,
    RawQuery,
    SubtreeStats,
    Vectors,
)
from viking_kernels.int4 import (
    CODED_ACROSS,
    CODED_ALONG,
    CODED_ERROR,
    CODED_OFFSET,
    CODED_SLOPE,
    CODED_STEP,
    code_direction,
)
from viking_kernels.rotation import rotate
from viking_kernels.simd import prefetch

# Below this length x - m' is rounding noise, as of the only text of its language.
_NEGLIGIBLE = 1e-4

_TOO_NEAR = 0.1  # residual norms are about .003

PREFETCH_CODES = 32
PREFETCH_VECTORS = 6
"""Rows by which codes and vectors are fetched ahead. Mostly all rows of a range are read, but the
processor itself fetches no further than to the end of a page."""


@njit
def to_int8(x: F32, code: I8) -> tuple[int, float, float]:
    """Code x [dim] in int8, so that x is nearly step * code; return (bias, step, residual norm).

    Fills `code` [padded dim]. `bias` is what `products_int8` with this code is too large by.
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
        rest = np.float64(x[j]) - rounded / scale
        square += rest * rest
    return simd.BIAS * total, 1.0 / scale, np.sqrt(square)


@njit
def code_centroids(raw: F32, axis: F32) -> Centroids:
    """Return the centroids [SCRIPTS, dim] of a scope with their int8 codes and int4 factors.

    `axis` is that of the base's int4 codes.
    """
    dimension = raw.shape[1]
    code = np.empty((SCRIPTS, -(-dimension // simd.LANES) * simd.LANES), np.int8)
    bias = np.empty(SCRIPTS, np.int64)
    step = np.empty(SCRIPTS, np.float64)
    residual = np.empty(SCRIPTS, np.float64)
    length = np.empty(SCRIPTS, np.float64)
    rotated = np.empty(axis.shape[0], np.float32)
    factors = np.empty((SCRIPTS, axis.shape[0]), np.int8)
    against_int4 = np.empty((SCRIPTS, 6), np.float64)
    for script in range(SCRIPTS):
        bias[script], step[script], residual[script] = to_int8(raw[script], code[script])
        rotate(raw[script], rotated)
        coded = code_direction(rotated, axis, dimension, factors[script])
        against_int4[script, CODED_ALONG] = coded.along
        against_int4[script, CODED_STEP] = coded.step
        against_int4[script, CODED_OFFSET] = coded.offset
        against_int4[script, CODED_SLOPE] = coded.error_slope
        against_int4[script, CODED_ERROR] = coded.error
        against_int4[script, CODED_ACROSS] = coded.across
        length[script] = np.sqrt(lanes.product(raw[script], raw[script]))
    return Centroids(raw, code, bias, step, residual, length, factors, against_int4)


@njit
def prepare(raw: RawQuery) -> PreparedQuery:
    """Return the query with its vector centred, scaled to length 1, and coded."""
    centroids = raw.centroids
    dimension = centroids.raw.shape[1]
    direction = np.zeros(dimension, np.float32)
    has_vector = raw.vector.shape[0] == dimension and dimension > 0
    if has_vector:
        length = np.sqrt(lanes.product(raw.vector, raw.vector))
        centroid = centroids.raw[raw.script]
        square = 0.0
        for j in range(dimension):
            centred = np.float64(raw.vector[j]) / length - np.float64(centroid[j])
            square += centred * centred
        centred_length = np.sqrt(square)
        if centred_length > _NEGLIGIBLE:
            for j in range(dimension):
                centred = np.float64(raw.vector[j]) / length - np.float64(centroid[j])
                direction[j] = centred / centred_length
    code = np.empty((1, centroids.code.shape[1]), np.int8)
    bias, step, residual = to_int8(direction, code[0])
    dots = np.zeros(SCRIPTS, np.float64)
    for script in range(SCRIPTS):
        dots[script] = lanes.product(centroids.raw[script], direction)
    return PreparedQuery(
        raw.use_dense and has_vector,
        raw.use_lexical,
        raw.script,
        direction,
        code,
        bias,
        step,
        residual,
        centroids,
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
    """Return the products of a row of codes with a[a_row] and with b[b_row], in int32.

    Each is larger than the true product by the bias that `to_int8` returned for that row.
    """
    along, across = _products(codes, row, a, a_row, b, b_row)
    return along, across


@inlined
def multiply_codes(
    codes: I8, low: int, high: int, query: PreparedQuery, script: int, out: I32
) -> None:
    """Fill out[:, : high - low] with the products of codes[low:high], without the bias.

    out[0] gets those with the query's code, out[1] those with the code of a script's centroid.
    """
    centroids = query.centroids
    bias, centroid_bias = np.int32(query.bias), np.int32(centroids.bias[script])
    row = low
    while row + 1 < high:
        along, across, next_along, next_across = _products_of_two(
            codes, row, query.code, 0, centroids.code, script
        )
        out[0, row - low] = along - bias
        out[1, row - low] = across - centroid_bias
        out[0, row + 1 - low] = next_along - bias
        out[1, row + 1 - low] = next_across - centroid_bias
        row += 2
    if row < high:
        along, across = _products(codes, row, query.code, 0, centroids.code, script)
        out[0, row - low] = along - bias
        out[1, row - low] = across - centroid_bias


class Operands(NamedTuple):
    """Constants of `coded_parts` for one query and one script, in fp32."""

    step: float  # of the query's code
    dot: float  # direction . m'
    twice: float  # 2 * the step of the centroid's code
    square: float  # 1 + |m'|^2
    dot_error: float  # error bound of the dot product if the residual norm is 0
    dot_slope: float  # by which it grows with the residual norm
    square_error: float
    square_slope: float


@inlined
def operands_of(query: PreparedQuery, script: int) -> Operands:
    """Return the constants of `coded_parts` for a query and the centroid of a script."""
    centroids = query.centroids
    length, residual = centroids.length[script], centroids.residual[script]
    # fp32 sums of some hundred products, |x| = 1 and the arithmetic are exact to about 1e-6.
    return Operands(
        np.float32(query.step),
        np.float32(query.centroid_dot[script]),
        np.float32(2.0 * centroids.step[script]),
        np.float32(1.0 + length * length),
        np.float32(query.residual + 2e-6),
        np.float32(1.0 + query.residual),
        np.float32(2.0 * residual + 4e-6),
        np.float32(2.0 * (length + residual)),
    )


@inlined
def coded_parts(
    along: int, across: int, scale: float, residual: float, operands: Operands
) -> tuple[float, float, float, float]:
    """Return ((x - m') . u, |x - m'|^2, the error bound of each) of a text, from its int8 code.

    By Cauchy and Schwarz the error of a product with a coded row is at most the residual norm. The
    codes of the query and of the centroid add theirs.

    Args:
        along: the product of the code with the query's code.
        across: the product of the code with the code of the centroid of its script.
        scale: Vectors.scale of the text.
        residual: Vectors.residual of the text.
        operands: the result of `operands_of`.
    """
    dot = scale * (operands.step * np.float32(along)) - operands.dot
    square = operands.square - scale * (operands.twice * np.float32(across))
    dot_error = operands.dot_error + residual * operands.dot_slope
    square_error = operands.square_error + residual * operands.square_slope
    return dot, square, dot_error, square_error


@inlined
def parts_of_code(
    codes: I8, row: int, scale: float, residual: float, query: PreparedQuery, script: int
) -> tuple[float, float, float, float]:
    """Return the `coded_parts` of one row of int8 codes; the row may be a text or a centroid."""
    centroids = query.centroids
    along, across = products_int8(codes, row, query.code, 0, centroids.code, script)
    return coded_parts(
        along - query.bias,
        across - centroids.bias[script],
        scale,
        residual,
        operands_of(query, script),
    )


@inlined
def raw_cosine(vectors: Vectors, row: int, query: PreparedQuery, script: int) -> float:
    """Return the dense score of a text, in [0, 1], from its fp32 vector."""
    base = vectors.base_raw.shape[0]
    if row < base:
        dot, square = centred(vectors.base_raw[row], query, script)
    else:
        dot, square = centred(vectors.tail_raw[row - base], query, script)
    return cosine(dot, square)


@inlined
def cosine(dot: float, square: float) -> float:
    """Return the dense score of a text: its centred cosine, limited to [0, 1].

    Symbols are those of the module: x is the vector of the text, m' the centroid of its language
    and u the unit vector of the centred query.

    Args:
        dot: (x - m') . u.
        square: |x - m'|^2.

    Returns:
        max(0, dot / sqrt(square)); 0 if x - m' is so short that it is rounding noise.
    """
    if square <= _NEGLIGIBLE * _NEGLIGIBLE:
        return 0.0
    return min(max(0.0, dot * (1.0 / np.sqrt(square))), 1.0)


@inlined
def bounded_cosine(
    dot: float, square: float, dot_error: float, square_error: float
) -> tuple[float, float]:
    """Return (`cosine`, its error bound), given the error bounds of both arguments.

    It works in fp32 and without a branch, so that LLVM vectorizes it.
    """
    one = np.float32(1)
    least = np.float32(_NEGLIGIBLE * _NEGLIGIBLE)
    shrink = one / np.sqrt(np.float32(max(square, least)))
    score = min(max(np.float32(0), dot * shrink), one)
    # For x in [0, 1/2]: 1 / sqrt(1 - x) <= 1 + x and 1 - x / 2 <= 1 / sqrt(1 + x).
    relative = square_error * shrink * shrink
    error = (dot_error + (abs(dot) + dot_error) * relative) * shrink + np.float32(4e-6)
    is_open = square_error > np.float32(0.5) * square or square - square_error <= least
    bound = one if is_open else error
    if dot + dot_error <= np.float32(0):
        bound = np.float32(0)
    return score if square > least else np.float32(0), bound


@inlined
def cosine_upper_bound(dot: float, square: float, dot_error: float, square_error: float) -> float:
    """Return an upper bound of `cosine` in fp32, given the error bounds of both arguments."""
    one = np.float32(1)
    least = np.float32(_NEGLIGIBLE * _NEGLIGIBLE)
    shrink = one / np.sqrt(max(np.float32(square - square_error), least))
    upper_bound = (dot + dot_error) * shrink + np.float32(4e-6)
    return min(max(np.float32(0), upper_bound), one)


@inlined
def only_language(slot: int, stats: SubtreeStats) -> int:
    """Return the script of all vectors in a directory's subtree; -1 for several scripts or none."""
    languages = 0
    only = 0
    for script in range(SCRIPTS):
        row = stats.centroid_slot[slot, script]
        if row >= 0 and stats.centroid_count[row] > 0:  # 0: all its vectors are tombstoned
            languages += 1
            only = script
    return only if languages == 1 else -1


@inlined
def directory_coded(slot: int, query: PreparedQuery, stats: SubtreeStats) -> tuple[float, float]:
    """Return (an estimate of `directory_dense`, its error bound) from the code of a centroid.

    The estimate is negative if the code cannot be used: the subtree has vectors of several scripts
    or none, or has changed since the base was written, or its centroid is so near to that of the
    scope that their difference is no longer than a residual.
    """
    only = only_language(slot, stats)
    if only < 0 or stats.centroid_slot[slot, only] >= stats.base_centroid_codes.shape[0]:
        return -1.0, 0.0
    row = np.int64(stats.centroid_slot[slot, only])
    prefetch(stats.base_centroid_codes, row + PREFETCH_CODES)
    scale = np.float32(stats.base_centroid_scale[row])
    # A component is rounded by half a step at most.
    residual = np.float32(np.float64(scale) * 0.5 * np.sqrt(query.direction.shape[0]))
    dot, square, dot_error, square_error = parts_of_code(
        stats.base_centroid_codes, row, scale, residual, query, only
    )
    square += stats.base_centroid_square[row] - np.float32(1)
    if square < _TOO_NEAR * _TOO_NEAR:
        return -1.0, 0.0
    return bounded_cosine(dot, square, dot_error, square_error)


@inlined
def directory_dense(slot: int, query: PreparedQuery, stats: SubtreeStats) -> float:
    """Return the dense score of a directory, in [0, 1]: that of the sum of its centred vectors.

    The vectors are those of its subtree. It is 0 if there is none. With n vectors of mean c in each
    language, the sum is that of n * (c - m') over the languages. With one language n does not
    matter.
    """
    base = stats.base_centroid.shape[0]
    only = only_language(slot, stats)
    if only >= 0:
        row = stats.centroid_slot[slot, only]
        prefetch(stats.base_centroid, np.int64(row) + PREFETCH_VECTORS)
        centre = stats.base_centroid[row] if row < base else stats.tail_centroid[row - base]
        dot, square = centred(centre, query, only)
        return cosine(dot, square)
    dimension = query.direction.shape[0]
    total = query.work
    total[:] = 0
    count = 0
    for script in range(SCRIPTS):
        row = stats.centroid_slot[slot, script]
        if row >= 0:
            n = np.float32(stats.centroid_count[row])
            count += stats.centroid_count[row]
            centre = stats.base_centroid[row] if row < base else stats.tail_centroid[row - base]
            centroid = query.centroids.raw[script]
            for j in range(dimension):
                total[j] += n * (centre[j] - centroid[j])
    dot, square = lanes.product(total, query.direction), lanes.product(total, total)
    return cosine(dot / max(count, 1), square / max(count, 1) ** 2)


@inlined
def centred(x: F32, query: PreparedQuery, script: int) -> tuple[float, float]:
    """Return ((x - m') . u, |x - m'|^2) for a vector x and the centroid m' of its script.

    m' is subtracted first. Near the centroid, differences of large sums would be noise.
    """
    dot, square = lanes.centred_products(x, query.centroids.raw[script], query.direction)
    return dot, square
