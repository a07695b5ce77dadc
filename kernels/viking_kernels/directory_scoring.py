"""Opening directories, and the upper bounds by which a scan passes directories over.

To open a directory is to score its files: their node scores, their shares from neighbours and from
the directory, and whether they can be among the k best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels._jit import called, inlined, njit
from viking_kernels.arrays import (
    DIRECTORY_FINAL,
    F32,
    I64,
    NODE,
    U8,
    Search,
    Weights,
)
from viking_kernels.bounds import bound_scores
from viking_kernels.dense import PREFETCH_VECTORS
from viking_kernels.final_scores import final_score, parent_share, rescore_exactly, smooth
from viking_kernels.node_scores import dense_weight, file_score, score_codes
from viking_kernels.scope import list_files, place, row_at
from viking_kernels.select import best_positions, push_smallest
from viking_kernels.simd import prefetch

_ROUNDING = 1e-6  # of scores that are kept in fp32
_FIRST = 32  # directories with the highest upper bounds


class Best(NamedTuple):
    """The best files found so far."""

    top: F32  # [k] heap of the lower bounds of the k best final scores
    held: I64  # [1] number of scores in it
    candidates: I64  # [1] number of files in Scratch.candidates


class Limits(NamedTuple):
    """The limits at which a walk stops."""

    in_round: int  # directories opened in a round
    patience: int  # rounds without a change, to stop after
    max_directories: int  # directories to open


class Opening(NamedTuple):
    """The settings by which directories are opened, and the best files found so far."""

    weights: Weights  # of the find
    exact: bool  # texts are scored from vectors, not from codes
    every: bool  # a scan passes no directory over
    limits: Limits
    allowed: U8  # [files of the scope], 0 if a filter forbids the file; [0] allows all
    best: Best  # changed in place


@njit
def none_yet(k: int) -> Best:
    """Return an empty Best for k files."""
    return Best(np.empty(k, np.float32), np.zeros(1, np.int64), np.zeros(1, np.int64))


@inlined
def code_directory(directory: int, search: Search) -> None:
    """Score the base texts of a directory by codes, into scratch.code_scores and .code_errors.

    Texts of the tail have codes of their own; `score_files` scores these one at a time.
    """
    if directory < search.scope.base_dirs:
        texts = search.tree.directories.texts
        score_codes(np.int64(texts[directory]), np.int64(texts[directory + 1]), search)


@inlined
def score_files(directory: int, exact: bool, search: Search) -> int:
    """Compute the node scores of a directory's files; return the number of their texts.

    scratch.file_scores, .file_errors and .best get the results. Unless `exact`, the scores are from
    codes, which `code_directory` must have scored just before.
    """
    tree, scope, scratch = search.tree, search.scope, search.scratch
    position = place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
    unchanged = scratch.unchanged[position] == 1
    if unchanged and not exact:
        return _score_range(directory, search)
    texts = 0
    for i in range(list_files(directory, unchanged, search)):
        at = np.int64(scratch.listed[i])
        file = row_at(at, scope.file_low, scope.file_high, scope.base_files)
        if file < scope.base_files:
            ahead = np.int64(tree.files.texts[file, 0]) + PREFETCH_VECTORS
            prefetch(search.vectors.base_raw, ahead)
        score, error, best, count = file_score(file, not exact, search)
        scratch.file_scores[at] = score
        scratch.file_errors[at] = error
        scratch.best[at] = best
        texts += count
    return texts


@inlined
def _score_range(directory: int, search: Search) -> int:
    """Compute the node scores of a directory's files from codes, as `score_files`.

    The directory must be as it was when the base was written.
    """
    tree, scope, scratch = search.tree, search.scope, search.scratch
    first, last = tree.directories.files[directory], tree.directories.files[directory + 1]
    if first == last:
        return np.int64(0)
    low = np.int64(tree.directories.texts[directory])
    text = start = np.int64(tree.files.texts[first, 0])
    for file in range(first, last):
        end = np.int64(tree.files.texts[file, 1])
        best_score = error = np.float32(0)
        best = np.int64(-1)
        while text < end:
            score = scratch.code_scores[text - low]
            error = max(error, scratch.code_errors[text - low])
            if best < 0 or score > best_score:
                best_score = score
                best = text
            text += 1
        at = file - scope.file_low
        scratch.file_scores[at] = best_score
        scratch.file_errors[at] = error
        scratch.best[at] = best
    return text - start


@inlined
def offer_files(position: int, row: int, search: Search, opening: Opening) -> tuple[bool, float]:
    """Compute the final scores of a directory's files, and add the best ones to `opening.best`.

    The error of a weighted mean is at most the largest error of its parts; the parent's score is
    exact. scratch.candidates and .upper_bounds get the files that may be among the best.

    Returns:
        (True if the k best changed, the highest node score plus title bonus of the files).
    """
    scope, scratch = search.scope, search.scratch
    weights, allowed, best = opening.weights, opening.allowed, opening.best
    weight, share = parent_share(row, weights, scope), weights.neighbours
    parent = np.float64(scratch.directories[DIRECTORY_FINAL, position])
    before = -1.0
    error_before = 0.0
    best_node = 0.0
    changed = False
    k = best.top.shape[0]
    listed = scratch.listed
    count = list_files(row, scratch.unchanged[position] == 1, search)
    for i in range(count):
        at = np.int64(listed[i])
        node = np.float64(scratch.file_scores[at])
        node_error = np.float64(scratch.file_errors[at])
        largest = max(node_error, error_before) if share > 0 else node_error
        after = -1.0
        if i + 1 < count:
            after = np.float64(scratch.file_scores[listed[i + 1]])
            if share > 0:
                largest = max(largest, np.float64(scratch.file_errors[listed[i + 1]]))
        best_node = max(best_node, node + np.float64(scratch.titles[at]))
        if allowed.shape[0] == 0 or allowed[at]:
            smoothed = smooth(node, before, after, share)
            final = final_score(smoothed, parent, weight, np.float64(scratch.titles[at]))
            error = (1.0 - weight) * largest
            held = best.held[0]
            # Equal scores may differ in the last bit, and so in their rounding.
            upper_bound = np.float32(final + error + _ROUNDING)
            if final + error > 0 and (held < k or upper_bound >= best.top[0]):
                scratch.candidates[best.candidates[0]] = at
                scratch.upper_bounds[best.candidates[0]] = upper_bound
                best.candidates[0] += 1
                if held < k or np.float32(final - error) > best.top[0]:
                    best.held[0] = push_smallest(best.top, held, final - error)
                    changed = True
        before = node
        error_before = node_error
    return changed, best_node


@inlined
def open_directory(
    position: int, row: int, search: Search, opening: Opening
) -> tuple[bool, float, int]:
    """Score a directory's files, and add the best ones to `opening.best`.

    Files of sampled directories already have node scores. For other directories, unless
    `opening.exact`, `code_directory` must have been called just before.

    Returns:
        (both results of `offer_files`, the number of texts that were scored).
    """
    texts = 0
    if search.scratch.sampled[position] == 0:
        texts = score_files(row, opening.exact, search)
    changed, best_node = offer_files(position, row, search, opening)
    return changed, best_node, texts


@njit
def open_all(count: int, search: Search, opening: Opening) -> int:
    """Open all directories of the scope (`count` positions); return the number of their texts.

    Unless `opening.exact` or `opening.every`, a directory is passed over if the upper bounds from
    int4 or int8 codes show that no file of it can be among the best. The most promising ones are
    opened first, so that the k-th best score is high early.
    """
    scope, scratch, query = search.scope, search.scratch, search.query
    weights, exact, best = opening.weights, opening.exact, opening.best
    upper_bounds = np.full(count, np.inf, np.float32)
    first = np.empty(0, np.int32)
    texts = 0
    if not (exact or opening.every):
        is_open = False  # whether the files of any base directory have no scores yet
        for position in range(scope.dir_high - scope.dir_low):
            is_open = is_open or (
                scratch.sampled[position] == 0 and scratch.unchanged[position] == 1
            )
        if is_open:
            share = dense_weight(False, query.use_dense, query.use_lexical)
            bound_scores((share, 1.0 - share), search)
        texts = bound_directories(weights, search, upper_bounds)
        first = best_positions(upper_bounds, _FIRST)
    for i in range(first.shape[0] + count):
        position = np.int64(first[i]) if i < first.shape[0] else i - first.shape[0]
        floor = best.top[0] if best.held[0] == best.top.shape[0] else np.float32(-1)
        if scratch.directories[NODE, position] >= 0 and upper_bounds[position] >= floor:
            row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
            if not exact and scratch.sampled[position] == 0:
                code_directory(row, search)
                if (
                    floor >= 0
                    and upper_bounds[position] < np.inf
                    and _bound_from_codes(row, position, weights, True, search) < floor
                ):
                    upper_bounds[position] = -np.inf
                    continue
            rescore_exactly(row, weights, search)
            _, _, more = open_directory(position, row, search, opening)
            if upper_bounds[position] == np.inf:
                texts += more
            upper_bounds[position] = -np.inf  # it is open now
    return texts


@called
def bound_directories(weights: Weights, search: Search, upper_bounds: F32) -> int:
    """Fill `upper_bounds`, by position: no final score of a directory's files is above its bound.

    Smoothing never exceeds the best node score of the directory. Sampled directories have node
    scores with error bounds. For the others, scratch.code_scores must hold the results of
    `bound_scores`. If a subtree has changed since the base was written and has no node scores, its
    entry stays as it is.

    Returns the number of texts of the directories that are not sampled.
    """
    tree, scope, scratch = search.tree, search.scope, search.scratch
    texts = 0
    for position in range(upper_bounds.shape[0]):
        if scratch.directories[NODE, position] < 0:
            continue
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        if scratch.sampled[position] == 1:
            upper_bounds[position] = _bound_sampled(row, position, weights, search)
        elif scratch.unchanged[position] == 1:
            first, last = tree.directories.files[row], tree.directories.files[row + 1]
            upper_bounds[position] = -np.inf
            if first < last:
                upper_bounds[position] = _bound_from_codes(row, position, weights, False, search)
                texts += tree.files.texts[last - 1, 1] - tree.files.texts[first, 0]
    return texts


@inlined
def _bound_sampled(row: int, position: int, weights: Weights, search: Search) -> float:
    """Return an upper bound of the final scores of a directory's files, from their node scores."""
    scratch = search.scratch
    node = title = np.float32(0)
    count = list_files(row, scratch.unchanged[position] == 1, search)
    if count == 0:
        return -np.inf
    for i in range(count):
        at = scratch.listed[i]
        node = max(node, scratch.file_scores[at] + scratch.file_errors[at])
        title = max(title, scratch.titles[at])
    return _upper_bound(row, position, weights, node, title, search)


@inlined
def _bound_from_codes(
    row: int, position: int, weights: Weights, scored: bool, search: Search
) -> float:
    """Return an upper bound of the final scores of a base directory's files, from codes.

    With `scored`, scratch.code_scores and .code_errors hold the directory's texts, from
    `score_codes`. Without, scratch.code_scores holds the upper bounds of all texts of the scope,
    from `bound_scores`.
    """
    tree, scope, scratch = search.tree, search.scope, search.scratch
    first, last = tree.directories.files[row], tree.directories.files[row + 1]
    start = np.int64(tree.directories.texts[row]) if scored else scope.text_low
    low = np.int64(tree.files.texts[first, 0]) - start
    high = np.int64(tree.files.texts[last - 1, 1]) - start
    node = title = np.float32(0)
    for at in range(low, high):
        # Without `scored` the errors are stale.
        error = scratch.code_errors[at] if scored else np.float32(0)
        node = max(node, scratch.code_scores[at] + error)
    for at in range(first - scope.file_low, last - scope.file_low):
        title = max(title, scratch.titles[at])
    return _upper_bound(row, position, weights, node, title, search)


@inlined
def _upper_bound(
    row: int, position: int, weights: Weights, node: float, title: float, search: Search
) -> float:
    """Return an upper bound of final scores, given the highest node score and title bonus."""
    scratch, weight = search.scratch, parent_share(row, weights, search.scope)
    parent = np.float64(
        scratch.directories[DIRECTORY_FINAL, position] + scratch.dir_errors[position]
    )
    return final_score(np.float64(node), parent, weight, np.float64(title)) + _ROUNDING
