"""Flat search by a weighted sum of dense and lexical: codes propose texts, fp32 vectors decide.

A text is missed only with the probability that `bounds` states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels import bm25
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    F32,
    F64,
    I32,
    U8,
    PreparedQuery,
    RawQuery,
    Scope,
    Scratch,
    SubtreeStats,
    Terms,
    Texts,
    Tree,
    Vectors,
)
from viking_kernels.bounds import bound_scores
from viking_kernels.dense import cosine_upper_bound, parts_of_code, prepare
from viking_kernels.flat import is_allowed, is_inside, keep_best
from viking_kernels.lanes import GROUP
from viking_kernels.scope import place, tail_directories
from viking_kernels.select import lowest, mask_above, push_smallest
from viking_kernels.simd import prefetch
from viking_kernels.texts import script_mismatch, text_score

_AHEAD = 8  # rows by which codes are fetched ahead
_ROUNDING = 1e-6  # of scores in fp32
_NOTHING = 1e-30  # smaller scores are none


class WeightedPlan(NamedTuple):
    """The weights of a search, its limits and its filter."""

    dense_weight: float  # v, at least 0
    lexical_weight: float  # w, at least 0
    k: int  # results wanted, at least 1
    near: I32  # base rows that an inverted file proposes for the whole base; [0]: score every text
    allowed: U8  # [files of the scope], 0 if a filter forbids the file; [0] allows all


class _Results(NamedTuple):
    """The best texts so far, best first; how many there are is counted beside them."""

    rows: I32  # [k]
    scores: F32  # [k]


@njit
def weighted_top(
    tree: Tree,
    vectors: Vectors,
    stats: SubtreeStats,
    raw: RawQuery,
    scope: Scope,
    terms: Terms,
    plan: WeightedPlan,
    scratch: Scratch,
) -> tuple[I32, F32, F64]:
    """Return the k files' texts of a scope with the best v * dense + w * lexical above 0.

    If the scripts of text and query mismatch, the score is (v + w) * dense.

    Args:
        tree: of a snapshot.
        vectors: of the snapshot.
        stats: of the snapshot.
        raw: the query, with use_lexical off: the weights alone decide how words count.
        scope: the directory to search.
        terms: of the query; not used if w is 0.
        plan: the weights and limits.
        scratch: for all rows of the tree; no other search may use it at the same time.

    Returns:
        (rows, scores, parts [n, 2] dense and lexical), best first, ties by row.
    """
    near, allowed, texts = plan.near, plan.allowed, tree.texts
    query = prepare(raw)
    inside = tail_directories(tree.directories, scope)
    words = plan.lexical_weight > 0
    ranges = np.empty((0, 2), np.int64)
    if words:
        scratch.dir_lexical[: scope.dir_high - scope.dir_low + inside.shape[0]] = 0
        ranges = bm25.ranges_of(terms, scope)
        bm25.score_scope(tree, stats, scope, inside, terms, ranges, scratch)
    rows = np.empty(plan.k, np.int32)
    scores = np.empty(plan.k, np.float32)
    count = 0
    for row in range(scope.base_texts, texts.tombstoned.shape[0]):
        if is_inside(row, texts, scope, inside) and is_allowed(row, texts, allowed, scope):
            score, _, _ = _score(row, plan, tree, vectors, query, scope, scratch)
            if score > 0:
                count = keep_best(rows, scores, count, row, score)
    if near.shape[0] > 0:
        for i in range(near.shape[0]):
            row = np.int64(near[i])
            if is_inside(row, texts, scope, inside) and is_allowed(row, texts, allowed, scope):
                score, _, _ = _score(row, plan, tree, vectors, query, scope, scratch)
                if score > 0:
                    count = keep_best(rows, scores, count, row, score)
    else:
        results = _Results(rows, scores)
        count = _best_of_base(plan, tree, vectors, query, scope, scratch, results, count)
    parts = np.empty((count, 2), np.float64)
    for i in range(count):
        _, dense, lexical = _score(np.int64(rows[i]), plan, tree, vectors, query, scope, scratch)
        parts[i, 0] = dense
        parts[i, 1] = lexical
    if words:
        bm25.forget(terms, ranges, scope, scratch.lexical)
    return rows[:count], scores[:count], parts


@njit
def _best_of_base(
    plan: WeightedPlan,
    tree: Tree,
    vectors: Vectors,
    query: PreparedQuery,
    scope: Scope,
    scratch: Scratch,
    results: _Results,
    count: int,
) -> int:
    """Add the best of the scope's base texts; return the number of results.

    The texts with the highest bounds from int4 codes are scored in fp32 first, which gives a floor
    for the k-th best score. Every other text that may reach the floor is bounded by its int8 code,
    then scored in fp32.
    """
    rows, scores = results.rows, results.scores
    texts, allowed, k, low = tree.texts, plan.allowed, rows.shape[0], scope.text_low
    size = scope.text_high - low
    weights = (plan.dense_weight, plan.lexical_weight)
    bound_scores(texts, vectors, query, weights, scope, scratch)
    upper_bounds = scratch.code_scores
    top = np.empty(min(2 * k + 32, size), np.float32)
    held = np.int64(0)
    limit = np.float32(0)
    for first in range(0, size, GROUP):
        mask = mask_above(upper_bounds, first, size, limit)
        while mask != 0:
            at = first + lowest(mask)
            mask &= mask - 1
            if upper_bounds[at] > limit and _counts(low + at, texts, allowed, scope):
                held = push_smallest(top, held, upper_bounds[at])
                if held == top.shape[0]:
                    limit = top[0]
    for first in range(0, size, GROUP):
        mask = mask_above(upper_bounds, first, size, limit)
        while mask != 0:
            at = first + lowest(mask)
            mask &= mask - 1
            if _counts(low + at, texts, allowed, scope):
                score, _, _ = _score(low + at, plan, tree, vectors, query, scope, scratch)
                if score > 0:
                    count = keep_best(rows, scores, count, low + at, score)
                upper_bounds[at] = -1.0  # or it would be scored twice
    floor = scores[k - 1] if count == k else np.float32(0)
    # A list first: its branch is hard to predict, and the codes of a list can be fetched ahead.
    candidates = scratch.code_errors.view(np.int32)  # which is free here
    enough = np.float32(max(np.float64(floor) - _ROUNDING, _NOTHING))
    found = 0
    for at in range(size):
        candidates[found] = low + at
        found += np.int64(upper_bounds[at] >= enough)
    for i in range(found):
        prefetch(vectors.base_codes, np.int64(candidates[min(i + _AHEAD, found - 1)]))
        row = np.int64(candidates[i])
        bound = _bound_by_code(row, plan, tree, vectors, query, scope, scratch)
        if bound >= floor and _counts(row, texts, allowed, scope):
            score, _, _ = _score(row, plan, tree, vectors, query, scope, scratch)
            if score > 0:
                count = keep_best(rows, scores, count, row, score)
                if count == k:
                    floor = scores[k - 1]
    return count


@inlined
def _counts(row: int, texts: Texts, allowed: U8, scope: Scope) -> bool:
    """Return whether a base text of the scope is alive and the filter allows its file."""
    return texts.tombstoned[row] > scope.revision and is_allowed(row, texts, allowed, scope)


@inlined
def _score(
    row: int,
    plan: WeightedPlan,
    tree: Tree,
    vectors: Vectors,
    query: PreparedQuery,
    scope: Scope,
    scratch: Scratch,
) -> tuple[float, float, float]:
    """Return (score, dense, lexical) of a living text from its fp32 vector."""
    dense = lexical = 0.0
    if query.use_dense:
        dense = text_score(row, tree, vectors, query, scratch.lexical, scope)
    share, words = _shares(row, plan, tree, query)
    if words > 0:
        at = place(row, scope.text_low, scope.text_high, scope.base_texts)
        lexical = np.float64(scratch.lexical[at])
    return share * dense + words * lexical, dense, lexical


@inlined
def _bound_by_code(
    row: int,
    plan: WeightedPlan,
    tree: Tree,
    vectors: Vectors,
    query: PreparedQuery,
    scope: Scope,
    scratch: Scratch,
) -> float:
    """Return the upper bound of the score of a base text from its int8 code."""
    script = np.int64(tree.texts.script[row])
    parts = parts_of_code(
        vectors.base_codes, row, vectors.scale[row], vectors.residual[row], query, script
    )
    share, words = _shares(row, plan, tree, query)
    upper_bound = share * np.float64(cosine_upper_bound(*parts)) if query.use_dense else 0.0
    if words > 0:
        upper_bound += words * np.float64(scratch.lexical[row - scope.text_low])
    return upper_bound + _ROUNDING


@inlined
def _shares(row: int, plan: WeightedPlan, tree: Tree, query: PreparedQuery) -> tuple[float, float]:
    """Return the weights of dense and lexical for a text."""
    if script_mismatch(np.int64(tree.texts.script[row]), query.script):
        return plan.dense_weight + plan.lexical_weight, 0.0
    return plan.dense_weight, plan.lexical_weight
