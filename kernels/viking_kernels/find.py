"""One query over one scope: the kernels in the order in which a find takes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels import bm25, hierarchy, select, walk
from viking_kernels import scope as scopes
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    DIRECTORIES,
    F32,
    F64,
    FILES,
    I32,
    I64,
    U8,
    Asked,
    Means,
    Numbers,
    Query,
    Scope,
    Scratch,
    Terms,
    Texts,
    Tree,
    Vectors,
)
from viking_kernels.dense import PREFETCH_VECTORS, prepare
from viking_kernels.simd import prefetch
from viking_kernels.texts import best_passages, own_of_file
from viking_kernels.titles import forget_titles, score_titles

EXHAUSTIVE = 1
BEST_FIRST = 2
EXACT = 3

BLOCK = 256
"""Texts whose codes are multiplied before their scores are worked out."""

MAX_DEPTH = 128
"""More than a directory can have above it."""

BEST_BY_WORDS = 64
"""Texts that a walk looks at besides the directories it opens."""


class Plan(NamedTuple):
    """How to search."""

    method: int  # EXHAUSTIVE, BEST_FIRST or EXACT
    threshold: float  # a score must lie above it; at least 0
    alpha: float  # in [0, 1]; below 0: adaptive
    start_points: int  # BEST_FIRST: best directories to begin with, besides the root
    passages: int  # best passages to show of each file
    all_directories: bool  # exact scores of all, not only of those around files
    limits: walk.Limits  # k is at least 1 in every method
    keeps_words: bool = False  # leaves scratch to score_rows: the caller calls `forget` then
    all_files: bool = False  # EXHAUSTIVE: own scores of all in scratch, not only of the best


class Found(NamedTuple):
    """What came of it. Positions are in the scope's arrays, see scope.place."""

    rows: I32  # [n] the k best files, best first, with all that share the last place
    parts: F64  # [n, 9] dense, lexical, dense weight, own, smoothed, parent, b, title, final
    best_text: I32  # [n] rows
    passages: I32  # [n, Plan.passages] rows of texts, best first, -1 none
    passage_own: F32  # [n, Plan.passages]
    directories: F32  # [5, d] dense, lexical, dense weight, own, final; own -1 outside: of Scratch
    start_points: I32  # BEST_FIRST: positions of directories
    opened: I32  # BEST_FIRST: likewise, in the order of opening
    lift: float  # of the lexical scores of texts
    icc: float
    gate: float
    weights: tuple[float, float, float]  # b, b below the scope's root, c
    sample_files: int
    scored_texts: int
    rescored: int  # files that could be among the best, scored again in fp32
    rounds: int
    stop: int


def scratch(directories: int, files: int, texts: int) -> Scratch:
    """Room for the scores of so many rows."""
    return Scratch(
        np.zeros(texts, np.float32),
        np.zeros(files, np.float32),
        np.empty((2, texts), np.float32),
        np.empty((2, BLOCK), np.int32),
        np.empty(directories, np.float32),
        np.zeros(directories, np.float32),
        np.empty(directories + 1, np.int32),
        np.empty((5, directories), np.float32),
        np.empty(directories, np.float32),
        np.empty(directories, np.uint8),
        np.empty(MAX_DEPTH, np.int32),
        np.empty((2, files), np.float32),
        np.empty(files, np.int32),
        np.empty(directories, np.uint8),
        np.empty(directories, np.uint8),
        np.empty(files, np.int32),
        np.empty(directories, np.uint8),
        np.empty(directories, np.int32),
        np.empty(directories, np.int32),
        np.empty(files, np.int32),
        np.empty(files, np.float32),
    )


@njit
def find(
    tree: Tree,
    vectors: Vectors,
    numbers: Numbers,
    means: Means,
    asked: Asked,
    scope: Scope,
    terms: Terms,
    allowed: U8,
    near: I32,
    plan: Plan,
    scratch: Scratch,
) -> Found:
    """Scores the scope's files and directories as the plan says.

    Args:
        means: of the scope.
        terms: of the query; none where asked.use_lexical is false.
        allowed: uint8 [files], 0 where a filter forbids the file; or [0]: all are allowed.
        near: BEST_FIRST: rows of texts that some other index proposes, wherever they stand.
        scratch: room for all rows of the tree; no other find uses it meanwhile.
    """
    directories, exact = tree.directories, plan.method == EXACT
    # Constants in variables: for a literal numba would compile all that it is handed to once more.
    never = plan.method < 0
    query = prepare(asked, means)
    inside = scopes.tail_directories(directories, scope)
    d = scope.dir_high - scope.dir_low + inside.shape[0]
    scratch.dir_lexical[:d] = 0
    scratch.sampled[:d] = 0
    ranges = bm25.ranges_of(terms, scope)
    bm25.score_scope(tree, numbers, scope, inside, terms, ranges, scratch)
    lift = bm25.lift(tree.texts, scope, query.script, scratch.lexical)
    score_titles(tree.texts, scope, inside, terms, ranges, scratch.titles)
    walks = plan.method == BEST_FIRST
    hierarchy.directory_scores(directories, numbers, query, scope, inside, not exact, scratch)

    counts = numbers.counts[numbers.slot[scope.root]]
    sample = hierarchy.sample_directories(
        directories, counts[FILES], counts[DIRECTORIES], scope, inside
    )
    texts = 0
    for i in range(sample.shape[0]):
        at = scopes.place(sample[i], scope.dir_low, scope.dir_high, scope.base_dirs)
        scratch.sampled[at] = 1
        row = np.int64(sample[i])
        walk.code_directory(row, tree, vectors, query, scope, scratch)
        texts += walk.score_files(row, tree, vectors, query, scope, never, scratch)
    icc, sample_files = hierarchy.intraclass_correlation(sample, tree, scope, scratch)
    if exact:  # these, too, are scored from vectors then
        scratch.sampled[:d] = 0
        texts = 0
    gate = hierarchy.gate_of(icc)
    weight, share = hierarchy.PARENT_WEIGHT * gate, hierarchy.NEIGHBOUR_WEIGHT * gate
    if plan.alpha >= 0:
        weight, share = 1.0 - plan.alpha, 0.0
    weights = (weight, hierarchy.root_weight(numbers, scope, weight), share)
    hierarchy.propagate(directories.parent, scope, d, weights[0], weights[1], scratch)

    best = walk.none_yet(plan.limits.k)
    starts = np.empty(0, np.int32)
    opened = rounds = stop = 0
    if walks:
        starts = _start_points(d, plan.start_points, scope, scratch)
        opened, rounds, stop, more = walk.best_first(
            starts,
            d,
            weights,
            tree,
            vectors,
            numbers,
            query,
            scope,
            exact,
            allowed,
            scratch,
            best,
            plan.limits,
        )
        texts += more
    else:
        texts += walk.open_all(
            d,
            weights,
            tree,
            vectors,
            numbers,
            query,
            scope,
            exact,
            plan.all_files,
            allowed,
            scratch,
            best,
        )
    candidates = _candidates(best, plan.threshold, scratch)
    if walks:
        candidates = _with_proposed(candidates, near, tree, scope, allowed, scratch)
        for i in range(candidates.shape[0]):
            file = scopes.row_at(candidates[i], scope.file_low, scope.file_high, scope.base_files)
            row = np.int64(tree.files.directory[file])
            hierarchy.settle(row, weights, directories, numbers, query, scope, scratch)
    if plan.all_directories:
        for position in range(d):
            if scratch.directories[3, position] >= 0:
                row = scopes.row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
                hierarchy.settle(row, weights, directories, numbers, query, scope, scratch)
    trio = hierarchy.with_neighbours(candidates, tree.files, scope)
    _score_again(trio, share > 0, tree, vectors, query, scope, never, scratch)
    parts, best_text = hierarchy.parts_of_files(
        trio, tree.files.directory, tree.texts, scope, query, weights, scratch
    )
    kept = select.best_rows(parts[:, 8], plan.limits.k, plan.threshold)
    passages = np.empty((kept.shape[0], plan.passages), np.int32)
    passage_own = np.empty((kept.shape[0], plan.passages), np.float32)
    for i in range(kept.shape[0]):
        best_passages(
            trio[kept[i], 0],
            tree,
            vectors,
            query,
            scratch,
            scope,
            passages[i],
            passage_own[i],
        )
    if not plan.keeps_words:
        _forget(tree.texts, scope, terms, ranges, scratch)
    return Found(
        trio[kept, 0],
        parts[kept],
        best_text[kept],
        passages,
        passage_own,
        scratch.directories[:, :d],
        starts,
        scratch.opened[:opened].copy(),
        lift,
        icc,
        gate,
        weights,
        sample_files,
        texts,
        trio.shape[0],
        rounds,
        stop,
    )


@njit
def forget(texts: Texts, scope: Scope, terms: Terms, scratch: Scratch) -> None:
    """Makes a scratch fit for the next query when the words of this one are used no more."""
    _forget(texts, scope, terms, bm25.ranges_of(terms, scope), scratch)


@inlined
def _forget(texts: Texts, scope: Scope, terms: Terms, ranges: I64, scratch: Scratch) -> None:
    bm25.forget(terms, ranges, scope, scratch.lexical)
    forget_titles(texts, scope, terms, ranges, scratch.titles)


@njit
def score_rows(
    rows: I32,
    tree: Tree,
    vectors: Vectors,
    numbers: Numbers,
    means: Means,
    asked: Asked,
    scope: Scope,
    weights: tuple[float, float, float],
    scratch: Scratch,
) -> F64:
    """Final scores of living rows of the scope, whatever `find` made of them by whichever method.

    Args:
        rows: directory d as d, file f as -1 - f.
        means: like `asked`, those of the find.
        weights: Found.weights.
        scratch: as the find left it, with the words kept.

    Returns:
        [n] exact scores in [0, 1].
    """
    query = prepare(asked, means)
    never = weights[0] < 0  # see `find` for constants
    scores = np.empty(rows.shape[0], np.float64)
    files = np.empty(rows.shape[0], np.int32)
    count = 0
    for i in range(rows.shape[0]):
        directory = np.int64(rows[i])
        if directory < 0:
            files[count] = scopes.place(
                -1 - rows[i], scope.file_low, scope.file_high, scope.base_files
            )
            count += 1
            directory = np.int64(tree.files.directory[-1 - rows[i]])
        hierarchy.settle(directory, weights, tree.directories, numbers, query, scope, scratch)
        at = scopes.place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
        scores[i] = scratch.directories[4, at]
    trio = hierarchy.with_neighbours(files[:count], tree.files, scope)
    _score_again(trio, weights[2] > 0, tree, vectors, query, scope, never, scratch)
    parts, _ = hierarchy.parts_of_files(
        trio, tree.files.directory, tree.texts, scope, query, weights, scratch
    )
    count = 0
    for i in range(rows.shape[0]):
        if rows[i] < 0:
            scores[i] = parts[count, 8]
            count += 1
    return scores


@njit
def _start_points(count: int, wanted: int, scope: Scope, scratch: Scratch) -> I32:
    """Positions of the best of `count` directories, then of the scope's root."""
    best = select.best_positions(scratch.directories[4, :count], wanted)
    starts = np.empty(best.shape[0] + 1, np.int32)
    for i in range(best.shape[0]):
        starts[i] = best[i]
    starts[best.shape[0]] = scopes.place(scope.root, scope.dir_low, scope.dir_high, scope.base_dirs)
    return starts


@njit
def _candidates(best: walk.Best, threshold: float, scratch: Scratch) -> I32:
    """Positions of the files that may be among the k best and above the threshold, rising."""
    count = best.candidates[0]
    full = best.held[0] == best.top.shape[0]
    floor = best.top[0] if full else np.float32(0)
    found = np.empty(count, np.int32)
    size = 0
    for i in range(count):
        # The threshold as it would be kept: what lies just above it may be rounded down to it.
        if scratch.reach[i] >= floor and scratch.reach[i] >= np.float32(threshold):
            found[size] = scratch.candidates[i]
            size += 1
    select.sort_rising(found[:size])
    return found[:size]


@njit
def _with_proposed(
    candidates: I32, near: I32, tree: Tree, scope: Scope, allowed: U8, scratch: Scratch
) -> I32:
    """The candidates, and the files of the texts that match best by words or stand in `near`."""
    size = scope.text_high - scope.text_low + tree.texts.file.shape[0] - scope.base_texts
    by_words = select.best_positions(scratch.lexical[:size], np.int64(BEST_BY_WORDS))
    found = np.empty(candidates.shape[0] + by_words.shape[0] + near.shape[0], np.int32)
    count = candidates.shape[0]
    for i in range(count):
        found[i] = candidates[i]
    for i in range(by_words.shape[0] + near.shape[0]):
        if i < by_words.shape[0]:
            if scratch.lexical[by_words[i]] <= 0:
                continue
            row = scopes.row_at(by_words[i], scope.text_low, scope.text_high, scope.base_texts)
        else:
            row = np.int64(near[i - by_words.shape[0]])
        file = tree.texts.file[row]
        if tree.texts.died[row] > scope.revision and file >= 0:
            at = scopes.place(file, scope.file_low, scope.file_high, scope.base_files)
            if allowed.shape[0] == 0 or allowed[at]:
                found[count] = at
                count += 1
    return _distinct(found[:count])


@njit
def _distinct(values: I32) -> I32:
    """Each value once, rising, in the place of `values`."""
    select.sort_rising(values)
    count = 0
    for i in range(values.shape[0]):
        if i == 0 or values[i] != values[i - 1]:
            values[count] = values[i]
            count += 1
    return values[:count]


@njit
def _score_again(
    trio: I32,
    neighbours: bool,
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scope: Scope,
    coded: bool,
    scratch: Scratch,
) -> None:
    """Own scores of files, and of their neighbours where they count."""
    each = 3 if neighbours else 1
    rows = np.empty(trio.shape[0] * each, np.int32)
    for i in range(rows.shape[0]):
        rows[i] = trio[i // each, i % each]
    rows = _distinct(rows)
    for i in range(rows.shape[0]):
        ahead = np.int64(rows[min(i + PREFETCH_VECTORS, rows.shape[0] - 1)])
        if 0 <= ahead < scope.base_files:
            prefetch(vectors.base_raw, np.int64(tree.files.texts[ahead, 0]))
        if rows[i] >= 0:
            at = scopes.place(rows[i], scope.file_low, scope.file_high, scope.base_files)
            own, _, text, _ = own_of_file(rows[i], tree, vectors, query, scope, coded, scratch)
            scratch.own[0, at] = own
            scratch.own[1, at] = 0
            scratch.best[at] = text
