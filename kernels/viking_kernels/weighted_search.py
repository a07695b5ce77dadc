"""Search in all texts by a weighted sum of dense and lexical.

Codes select candidates, and fp32 vectors decide. A text is missed only with the probability that
`bounds` states.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels import bm25
from viking_kernels._jit import called, inlined, njit
from viking_kernels.arrays import (
    F32,
    F64,
    I32,
    I64,
    U8,
    RawQuery,
    Scope,
    Scratch,
    Search,
    SubtreeStats,
    Terms,
    Texts,
    Tree,
    Vectors,
)
from viking_kernels.bounds import bound_scores
from viking_kernels.dense import PREFETCH_VECTORS, cosine_upper_bound, parts_of_code, prepare
from viking_kernels.final_scores import NEIGHBOUR_WEIGHT
from viking_kernels.flat import is_allowed, is_inside
from viking_kernels.node_scores import script_mismatch, text_score
from viking_kernels.scope import place, tail_directories
from viking_kernels.select import (
    best_rows,
    keep_best,
    lowest,
    mask_above,
    push_smallest,
    sort_rising,
)
from viking_kernels.simd import prefetch
from viking_kernels.simd_scores import GROUP

FILE_WEIGHT = 0.25
"""The share b of the file in the score of a passage."""

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
    has_words: bool = False  # scratch.lexical has the scores by words
    keeps_words: bool = False  # scratch.lexical keeps them; else it is zeros again
    other_script: float = 1.0  # factor of the scores of texts in another script, in a ranking


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
    """Return the k texts of a scope with the best v * dense + w * lexical; only texts of files.

    Scores of 0 are left out. If the scripts of text and query mismatch, the score is (v + w) *
    dense.

    Args:
        tree, vectors, stats: the arrays of a snapshot.
        raw: the query, with use_lexical off: the weights alone decide how words count.
        scope: the directory to search.
        terms: the terms of the query; not used if w is 0.
        plan: the weights and limits.
        scratch: for all rows of the tree; no other search may use it at the same time.

    Returns:
        (rows, scores, parts [n, 2] dense and lexical), best first, ties by row.
    """
    near, allowed, texts = plan.near, plan.allowed, tree.texts
    search = Search(tree, vectors, stats, prepare(raw), scope, scratch, np.inf)
    inside = tail_directories(tree.directories, scope)
    words = plan.lexical_weight > 0
    ranges = bm25.ranges_of(terms, scope)
    if words and not plan.has_words:
        _score_words(inside, terms, ranges, search)
    rows = np.empty(plan.k, np.int32)
    scores = np.empty(plan.k, np.float32)
    count = 0
    tail = texts.tombstoned.shape[0] - scope.base_texts
    for i in range(tail + near.shape[0]):
        row = scope.base_texts + i if i < tail else np.int64(near[i - tail])
        if is_inside(row, texts, scope, inside) and is_allowed(row, texts, allowed, scope):
            score, _, _ = _score(row, plan, search)
            if score > 0:
                count = keep_best(rows, scores, count, row, score)
    if near.shape[0] == 0:
        count = _best_of_base(plan, search, rows, scores, count)
    parts = np.empty((count, 2), np.float64)
    for i in range(count):
        _, parts[i, 0], parts[i, 1] = _score(np.int64(rows[i]), plan, search)
    if words and not plan.keeps_words:
        bm25.forget(terms, ranges, scope, scratch.lexical)
    return rows[:count], scores[:count], parts


@njit
def _score_words(inside: U8, terms: Terms, ranges: I64, search: Search) -> None:
    """Compute the lexical scores of all texts of the scope, in scratch.lexical."""
    scope = search.scope
    search.scratch.dir_lexical[: scope.dir_high - scope.dir_low + inside.shape[0]] = 0
    bm25.score_scope(search, inside, terms, ranges)


@njit
def rank_in_files(
    tree: Tree,
    vectors: Vectors,
    stats: SubtreeStats,
    raw: RawQuery,
    scope: Scope,
    terms: Terms,
    plan: WeightedPlan,
    scratch: Scratch,
) -> tuple[I32, F64]:
    """Rank texts, and the passages beside them, by their own score, neighbours and file.

        final = (1 - b) * smoothed + b * best of the file                     b = FILE_WEIGHT

    `smoothed` is the mean of a text's own score and those of its neighbours, which weigh
    NEIGHBOUR_WEIGHT each. The neighbours of a passage are the living passages of its file right
    before and after it. An abstract has no neighbours, and is not a neighbour. The score of a file
    is the best own score of its texts in the list, its abstract included. An abstract is in the
    result if its file has no passage.

    Args:
        tree, vectors, stats, raw, scope, terms, scratch: as in `weighted_top`.
        plan: the weights; `near` has the rows of the texts [n], living ones of files of the scope.

    Returns:
        (rows [m], final scores [m]), best first, ties by row.
    """
    rows, texts = plan.near, tree.texts
    search = Search(tree, vectors, stats, prepare(raw), scope, scratch, np.inf)
    inside = tail_directories(tree.directories, scope)
    ranges = bm25.ranges_of(terms, scope)
    if not plan.has_words:
        _score_words(inside, terms, ranges, search)
    around = np.empty(3 * rows.shape[0], np.int32)
    count = 0
    for i in range(rows.shape[0]):
        before, after = _beside(np.int64(rows[i]), search)
        around[count] = rows[i]
        count += 1
        if before >= 0:
            around[count] = before
            count += 1
        if after >= 0:
            around[count] = after
            count += 1
    sort_rising(around[:count])
    own = np.empty(count, np.float64)
    size = 0
    for i in range(count):
        if size == 0 or around[i] != around[size - 1]:
            around[size] = around[i]
            size += 1
    for i in range(size):
        ahead = np.int64(around[min(i + PREFETCH_VECTORS, size - 1)])
        if ahead < scope.base_texts:
            prefetch(vectors.base_raw, ahead)
        own[i] = _own_score(np.int64(around[i]), plan, search)
    group_of = scratch.best  # of each file; which is free here
    best = np.zeros(size, np.float64)
    for i in range(size):
        group_of[_place_of_file(around[i], texts, scope)] = -1
    groups = 0
    for i in range(size):
        at = _place_of_file(around[i], texts, scope)
        if group_of[at] < 0:
            group_of[at] = groups
            groups += 1
        best[group_of[at]] = max(best[group_of[at]], own[i])
    finals = np.empty(size, np.float64)
    listed = np.empty(size, np.int32)
    count = 0
    for i in range(size):
        row = np.int64(around[i])
        next_row = min(row + 1, texts.file.shape[0] - 1)
        is_alone = next_row == row or texts.file[next_row] != texts.file[row]
        if texts.ordinal[row] <= 0 and not is_alone:
            continue
        before, after = _beside(row, search)
        total, weight = own[i], 1.0
        for other in (before, after):
            if other >= 0:
                at = bm25.lower_bound(around, 0, size, other)
                is_known = at < size and around[at] == other
                score = own[at] if is_known else _own_score(other, plan, search)
                total += NEIGHBOUR_WEIGHT * score
                weight += NEIGHBOUR_WEIGHT
        of_file = best[group_of[_place_of_file(around[i], texts, scope)]]
        finals[count] = (1.0 - FILE_WEIGHT) * (total / weight) + FILE_WEIGHT * of_file
        listed[count] = around[i]
        count += 1
    bm25.forget(terms, ranges, scope, scratch.lexical)
    order = best_rows(finals[:count], count, -1.0)
    return listed[order], finals[order]


@inlined
def _place_of_file(row: int, texts: Texts, scope: Scope) -> int:
    """Return the position in the scope of a text's file."""
    file = np.int64(texts.file[row])
    return place(file, scope.file_low, scope.file_high, scope.base_files)


@called
def _own_score(row: int, plan: WeightedPlan, search: Search) -> float:
    """Return the weighted score of a text, times plan.other_script if scripts mismatch."""
    score, _, _ = _score(row, plan, search)
    if script_mismatch(np.int64(search.tree.texts.script[row]), search.query.script):
        score *= plan.other_script
    return score


@called
def _beside(row: int, search: Search) -> tuple[int, int]:
    """Return the rows of the living passages before and after one in its file; -1 for none."""
    tree, scope = search.tree, search.scope
    texts = tree.texts
    file, place_of = np.int64(texts.file[row]), np.int64(texts.ordinal[row])
    before = np.int64(-1)
    after = np.int64(-1)
    if place_of <= 0:
        return before, after
    low = high = np.int64(0)
    if file < scope.base_files:
        low, high = np.int64(tree.files.texts[file, 0]), np.int64(tree.files.texts[file, 1])
    at = low if low < high else np.int64(tree.files.newest[file])
    while at >= 0:
        if at < texts.tombstoned.shape[0] and texts.tombstoned[at] > scope.revision:
            ordinal = np.int64(texts.ordinal[at])
            if 0 < ordinal < place_of and (before < 0 or ordinal > texts.ordinal[before]):
                before = at
            if ordinal > place_of and (after < 0 or ordinal < texts.ordinal[after]):
                after = at
        if at >= scope.base_texts:
            at = np.int64(texts.older[at - scope.base_texts])
        else:
            at = at + 1 if at + 1 < high else np.int64(tree.files.newest[file])
    return before, after


@njit
def _best_of_base(plan: WeightedPlan, search: Search, rows: I32, scores: F32, count: int) -> int:
    """Insert the best base texts of the scope into the list of the best; return the list's size.

    The texts with the highest bounds from int4 codes are scored in fp32 first. The k-th best of
    these scores is a lower bound of the final one. Every other text that may reach this bound is
    bounded by its int8 code, then scored in fp32.
    """
    vectors, scope, scratch = search.vectors, search.scope, search.scratch
    texts, allowed, k, low = search.tree.texts, plan.allowed, rows.shape[0], scope.text_low
    size = scope.text_high - low
    bound_scores((plan.dense_weight, plan.lexical_weight), search)
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
                score, _, _ = _score(low + at, plan, search)
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
        bound = _bound_by_code(row, plan, search)
        if bound >= floor and _counts(row, texts, allowed, scope):
            score, _, _ = _score(row, plan, search)
            if score > 0:
                count = keep_best(rows, scores, count, row, score)
                if count == k:
                    floor = scores[k - 1]
    return count


@inlined
def _counts(row: int, texts: Texts, allowed: U8, scope: Scope) -> bool:
    """Return True if a base text of the scope is living and the filter allows its file."""
    return texts.tombstoned[row] > scope.revision and is_allowed(row, texts, allowed, scope)


@inlined
def _score(row: int, plan: WeightedPlan, search: Search) -> tuple[float, float, float]:
    """Return (weighted score, dense, lexical) of a living text, from its fp32 vector."""
    scope = search.scope
    dense = lexical = 0.0
    if search.query.use_dense:
        dense = text_score(row, search)
    share, words = _shares(row, plan, search)
    if words > 0:
        at = place(row, scope.text_low, scope.text_high, scope.base_texts)
        lexical = np.float64(search.scratch.lexical[at])
    return share * dense + words * lexical, dense, lexical


@inlined
def _bound_by_code(row: int, plan: WeightedPlan, search: Search) -> float:
    """Return an upper bound of the weighted score of a base text, from its int8 code."""
    vectors, query = search.vectors, search.query
    script = np.int64(search.tree.texts.script[row])
    parts = parts_of_code(
        vectors.base_codes, row, vectors.scale[row], vectors.residual[row], query, script
    )
    share, words = _shares(row, plan, search)
    upper_bound = share * np.float64(cosine_upper_bound(*parts)) if query.use_dense else 0.0
    if words > 0:
        upper_bound += words * np.float64(search.scratch.lexical[row - search.scope.text_low])
    return upper_bound + _ROUNDING


@inlined
def _shares(row: int, plan: WeightedPlan, search: Search) -> tuple[float, float]:
    """Return the weights (of dense, of lexical) for a text; (v + w, 0) if scripts mismatch."""
    if script_mismatch(np.int64(search.tree.texts.script[row]), search.query.script):
        return plan.dense_weight + plan.lexical_weight, 0.0
    return plan.dense_weight, plan.lexical_weight
