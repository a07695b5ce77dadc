"""Upper bounds of the scores of texts, from int4 codes, which are half as long as int8 codes.

A text that can't be among the best by its upper bound is passed over: see
`directory_scoring.open_all` and `weighted_search`. The bound fails with a probability of less than
one in 4e10 for each text: see `int4.CodedDirection`.
"""

from __future__ import annotations

import numpy as np

from viking_kernels import simd
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import I8, Search
from viking_kernels.dense import cosine_upper_bound
from viking_kernels.int4 import (
    CODED_ACROSS,
    CODED_ALONG,
    CODED_ERROR,
    CODED_OFFSET,
    CODED_SLOPE,
    CODED_STEP,
    CodedDirection,
    code_direction,
    products_int4,
)
from viking_kernels.node_scores import Run, capped, next_run, script_mismatch
from viking_kernels.rotation import rotate

_SHORT = 0.02  # a centroid's part across the axis is bounded, not multiplied, if it is no longer


@njit
def bound_scores(weights: tuple[float, float], search: Search) -> None:
    """Fill scratch.code_scores with upper bounds of v * dense + w * lexical of the base texts.

    All base texts of the scope get a bound, tombstoned or not. If the scripts of text and query
    mismatch, the score is (v + w) * `node_scores.capped`. Without a query vector, dense is 0. A
    text whose vector is not known yet has dense 0, and the bound is valid for that.

    Args:
        weights: (v, w), at least 0.
    """
    query, scope, scratch = search.query, search.scope, search.scratch
    axis, scripts = search.vectors.base_int4.axis, search.tree.texts.script
    if not query.use_dense:
        for at in range(scope.text_high - scope.text_low):
            missing = script_mismatch(np.int64(scripts[scope.text_low + at]), query.script)
            words = np.float32(0) if missing else np.float32(weights[1])
            scratch.code_scores[at] = words * scratch.lexical[at]
        return
    rotated = np.empty(axis.shape[0], np.float32)
    rotate(query.direction, rotated)
    factors = np.empty(axis.shape[0], np.int8)
    direction = code_direction(rotated, axis, query.direction.shape[0], factors)
    start = scope.text_low
    while start < scope.text_high:
        run = next_run(scripts, start, scope.text_high, scratch.products.shape[1])
        _bound_run(run, weights, direction, factors, search)
        start = run.high


@inlined
def _bound_run(
    run: Run,
    weights: tuple[float, float],
    direction: CodedDirection,
    factors: I8,
    search: Search,
) -> None:
    """Compute the upper bounds of a run of base texts in the same script.

    `direction` and `factors` are the coded query. |x - m'|^2 = 1 + |m'|^2 - 2 m' . x.
    """
    query, scratch = search.query, search.scratch
    low, high = run.low, run.high
    coded = search.vectors.base_int4
    along_products, across_products = scratch.products[0], scratch.products[1]
    centroid = query.centroids.against_int4[run.script]
    short = centroid[CODED_ACROSS] <= _SHORT
    for row in range(low, high, simd.TOGETHER):
        products_int4(coded.codes, row, high - 1, factors, along_products, row - low)
    if not short:
        centroid_factors = query.centroids.factors[run.script]
        for row in range(low, high, simd.TOGETHER):
            products_int4(coded.codes, row, high - 1, centroid_factors, across_products, row - low)
    half = np.float32(0.5)
    one_along, one_step, one_offset = direction.along, direction.step * half, direction.offset
    one_slope, one_error = direction.error_slope, direction.error
    centroid_dot = np.float32(query.centroid_dot[run.script])
    two_along = np.float32(centroid[CODED_ALONG])
    two_step = np.float32(0.0 if short else centroid[CODED_STEP] * 0.5)
    two_offset = np.int32(centroid[CODED_OFFSET])
    # The product with a short part lies between -1 and 1 times its length.
    two_slope = np.float32(0.0 if short else centroid[CODED_SLOPE])
    two_error = np.float32(
        centroid[CODED_ACROSS] + centroid[CODED_ERROR] if short else centroid[CODED_ERROR]
    )
    whole = np.float32(1.0 + query.centroids.length[run.script] ** 2)
    two = np.float32(2)
    share, words = np.float32(weights[0]), np.float32(weights[1])
    missing = script_mismatch(run.script, query.script)
    if missing:
        share, words = np.float32(1), np.float32(0)
    at = low - search.scope.text_low
    upper_bounds, lexical = scratch.code_scores[at:], scratch.lexical[at:]
    scale, residual, along = coded.scale[low:], coded.residual[low:], coded.along[low:]
    for i in range(high - low):
        first = np.float32(np.int32(2) * along_products[i] - one_offset)
        second = np.float32(np.int32(2) * across_products[i] - two_offset)
        dot = one_along * along[i] + scale[i] * one_step * first - centroid_dot
        square = whole - two * (two_along * along[i] + scale[i] * two_step * second)
        dot_error = one_error + one_slope * residual[i]
        square_error = two * (two_error + two_slope * residual[i])
        cosine = cosine_upper_bound(dot, square, dot_error, square_error)
        upper_bounds[i] = share * cosine + words * lexical[i]
    if missing:
        for i in range(high - low):
            score = capped(np.float64(upper_bounds[i]), search.other_script)
            upper_bounds[i] = np.float32((weights[0] + weights[1]) * score)
