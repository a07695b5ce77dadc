"""The most that scores of texts can be, from int4 codes: half of what int8 codes read.

What can't be among the best by this is looked at no closer: see `walk.open_all`, `weighted`.
"Can't" has a probability, of less than one in 4e10 for each text: see `int4.CodedDirection`.
"""

from __future__ import annotations

import numpy as np

from viking_kernels import simd
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import I8, Query, Scope, Scratch, Texts, Vectors
from viking_kernels.dense import most_cosine
from viking_kernels.int4 import CodedDirection, code_direction, products_int4
from viking_kernels.rotation import rotate
from viking_kernels.texts import foreign, run_end

_SHORT = 0.02  # what of a mean lies across the axis is no longer: it is bounded, not multiplied


@njit
def bound_scores(
    texts: Texts,
    vectors: Vectors,
    query: Query,
    weights: tuple[float, float],
    scope: Scope,
    scratch: Scratch,
) -> None:
    """Fills scratch.coded[0] with the most that v * dense + w * lexical of base texts can be.

    Of the scope's, living or dead. Where words can't be compared it is (v + w) * dense; without a
    query's vector dense is 0. Whether a
    text's vector is there yet is not asked: without one its dense is 0, which is within the bound.

    Args:
        weights: (v, w), at least 0.
    """
    axis, scripts = vectors.base_int4.axis, texts.script
    if not query.use_dense:
        for at in range(scope.text_high - scope.text_low):
            missing = foreign(np.int64(scripts[scope.text_low + at]), query.script)
            words = np.float32(0) if missing else np.float32(weights[1])
            scratch.coded[0, at] = words * scratch.lexical[at]
        return
    rotated = np.empty(axis.shape[0], np.float32)
    rotate(query.direction, rotated)
    factors = np.empty(axis.shape[0], np.int8)
    direction = code_direction(rotated, axis, query.direction.shape[0], factors)
    start = scope.text_low
    while start < scope.text_high:
        end = run_end(scripts, start, scope.text_high, scratch.products.shape[1])
        script = np.int64(scripts[start])
        _bound_run(start, end, script, vectors, query, weights, direction, factors, scope, scratch)
        start = end


@inlined
def _bound_run(
    low: int,
    high: int,
    script: int,
    vectors: Vectors,
    query: Query,
    weights: tuple[float, float],
    direction: CodedDirection,
    factors: I8,
    scope: Scope,
    scratch: Scratch,
) -> None:
    """Texts [low, high) of one script.

    |x - m'|^2 = 1 + |m'|^2 - 2 m' . x.
    """
    coded = vectors.base_int4
    along_products, across_products = scratch.products[0], scratch.products[1]
    mean = query.means.against_int4[script]
    short = mean[5] <= _SHORT
    for row in range(low, high, simd.TOGETHER):
        products_int4(coded.codes, row, high - 1, factors, along_products, row - low)
    if not short:
        for row in range(low, high, simd.TOGETHER):
            products_int4(
                coded.codes, row, high - 1, query.means.factors[script], across_products, row - low
            )
    half = np.float32(0.5)
    one_along, one_step, one_offset = direction.along, direction.step * half, direction.offset
    one_length, one_off = direction.length, direction.off
    dot = np.float32(query.mean_dot[script])
    two_along, two_step = np.float32(mean[0]), np.float32(0.0 if short else mean[1] * 0.5)
    two_offset = np.int32(mean[2])
    # A product with what is bounded would be between -1 and 1 times its length.
    two_length = np.float32(0.0 if short else mean[3])
    two_off = np.float32(mean[5] + mean[4] if short else mean[4])
    whole = np.float32(1.0 + query.means.length[script] ** 2)
    two = np.float32(2)
    share, words = np.float32(weights[0]), np.float32(weights[1])
    if foreign(script, query.script):
        share, words = share + words, np.float32(0)
    at = low - scope.text_low
    most, lexical = scratch.coded[0, at:], scratch.lexical[at:]
    scale, error, along = coded.scale[low:], coded.error[low:], coded.along[low:]
    for i in range(high - low):
        first = np.float32(np.int32(2) * along_products[i] - one_offset)
        second = np.float32(np.int32(2) * across_products[i] - two_offset)
        above = one_along * along[i] + scale[i] * one_step * first - dot
        square = whole - two * (two_along * along[i] + scale[i] * two_step * second)
        above_off = one_off + one_length * error[i]
        square_off = two * (two_off + two_length * error[i])
        most[i] = share * most_cosine(above, square, above_off, square_off) + words * lexical[i]
