"""One query over one scope: the kernels in the order in which a find takes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels import bm25, hierarchy, select, texts, walk
from viking_kernels import scope as scopes
from viking_kernels.arrays import (
    DIRECTORIES,
    F32,
    F64,
    FILES,
    I32,
    U8,
    Numbers,
    Query,
    Scope,
    Scores,
    Terms,
    Tree,
    Vectors,
)

EXHAUSTIVE = 1
BEST_FIRST = 2
EXACT = 3

BEST_BY_WORDS = 64
"""Texts that a walk looks at besides the directories it opens."""


class Plan(NamedTuple):
    """How to search."""

    method: int  # EXHAUSTIVE, BEST_FIRST or EXACT
    threshold: float  # a score must lie above it; at least 0
    alpha: float  # in [0, 1]; below 0: adaptive
    start_points: int  # BEST_FIRST: best directories to begin with, besides the root
    limits: walk.Limits  # k is at least 1 in every method


class Found(NamedTuple):
    """What came of it. Positions are in the scope's arrays, see scope.place."""

    candidates: I32  # [n] rows of the files that may be among the k best
    parts: F64  # [n, 8] dense, lexical, dense weight, own, smoothed, parent, b, final
    best_text: I32  # [n] rows
    directories: F32  # [5, d] dense, lexical, dense weight, own, final; own -1 outside
    own_texts: F32  # [2, t] exact for the candidates' texts
    start_points: I32  # BEST_FIRST: positions of directories
    opened: I32  # BEST_FIRST: likewise, in the order of opening
    icc: float
    gate: float
    weights: tuple[float, float, float]  # b, b below the scope's root, c
    sample_files: int
    scored_texts: int
    rounds: int
    stop: int


def find(
    tree: Tree,
    vectors: Vectors,
    numbers: Numbers,
    query: Query,
    scope: Scope,
    terms: Terms,
    allowed: U8,
    near: I32,
    plan: Plan,
) -> Found:
    """Scores the scope's files and directories as the plan says.

    Args:
        allowed: uint8 [files], 0 where a filter forbids the file; or [0]: all are allowed.
        near: BEST_FIRST: rows of texts that some other index proposes, wherever they stand.
    """
    directories, files = tree.directories, tree.files
    inside = scopes.tail_directories(directories, scope)
    d = scope.dir_high - scope.dir_low + len(inside)
    f = scope.file_high - scope.file_low + len(files.directory) - scope.base_files
    t = scope.text_high - scope.text_low + len(tree.texts.file) - scope.base_texts
    # numpy's zeros are the system's lazily mapped ones: what a walk does not open costs nothing.
    scores = Scores(
        np.zeros((5, d), np.float32), np.zeros((2, t), np.float32), np.zeros((2, f), np.float32),
        np.zeros((2, f), np.float32), np.full(f, -1, np.int32),
    )  # fmt: skip
    lexical, dir_lexical = np.zeros(t, np.float32), np.zeros(d, np.float32)
    if query.use_lexical:
        bm25.score_scope(
            directories.parent, tree.texts, numbers, scope, inside, terms, lexical, dir_lexical
        )
    hierarchy.directory_scores(
        directories, numbers, query, dir_lexical, scope, inside, scores.directories
    )
    counts = numbers.counts[numbers.slot[scope.root]]
    sample = hierarchy.sample_directories(
        directories, counts[FILES], counts[DIRECTORIES], scope, inside
    )
    scored = 0
    if plan.method != BEST_FIRST:
        scored = _score_all(tree, vectors, query, lexical, scope, inside, scores, plan.method)
    of_sample = hierarchy.files_of_directories(sample, directories, files, scope)
    scored += _score_exactly(of_sample, tree, vectors, query, (lexical, scope), scores)
    icc, sample_files = hierarchy.intraclass_correlation(
        sample, directories, files, scope, scores.own
    )
    gate = max(0.0, 1.0 - icc / hierarchy.ICC_FULL)
    weight, share = hierarchy.PARENT_WEIGHT * gate, hierarchy.NEIGHBOUR_WEIGHT * gate
    if plan.alpha >= 0:
        weight, share = 1.0 - plan.alpha, 0.0
    weights = (weight, hierarchy.root_weight(numbers, scope, weight), share)
    hierarchy.propagate(directories.parent, scope, weight, weights[1], scores.directories)
    starts = opened = np.empty(0, np.int32)
    rounds = stop = 0
    if plan.method == BEST_FIRST:
        root = scopes.place(scope.root, scope.dir_low, scope.dir_high, scope.base_dirs)
        best = select.best_positions(scores.directories[4], plan.start_points)
        starts = np.append(best, np.int32(root)).astype(np.int32)
        sampled = np.zeros(d, np.uint8)
        beyond = scope.dir_high - scope.dir_low - scope.base_dirs
        sampled[np.where(sample < scope.base_dirs, sample - scope.dir_low, sample + beyond)] = 1
        opened, rounds, stop, more = walk.best_first(
            tree, vectors, query, lexical, scope, scores, (starts, sampled, allowed, weights),
            plan.limits,
        )  # fmt: skip
        scored += more
    else:
        hierarchy.final_of_all_files(
            directories, files, scope, weights, scores.directories, scores.own, scores.final
        )
    contenders = select.contenders(scores.final, allowed, plan.limits.k, plan.threshold)
    if plan.method == BEST_FIRST:
        seen = np.concatenate([near, _best_by_words(lexical, scope)])
        contenders = np.union1d(contenders, _positions(seen, tree, scope, allowed))
    rows, parts, best_text = _rescore(
        contenders, weights, tree, vectors, query, (lexical, scope), scores
    )
    return Found(
        rows, parts, best_text, scores.directories, scores.own_texts, starts, opened, icc, gate,
        weights, sample_files, scored, rounds, stop,
    )  # fmt: skip


def _score_all(
    tree: Tree,
    vectors: Vectors,
    query: Query,
    lexical: F32,
    scope: Scope,
    inside: U8,
    scores: Scores,
    method: int,
) -> int:
    """Own scores of all texts and files of the scope; how many texts there were."""
    first, last = scope.text_low, scope.text_high
    tail = scopes.tail_texts(tree.texts, inside, scope)
    texts.own_of_base(first, last, tree.texts, vectors, query, lexical, scope, scores.own_texts)
    if method == EXACT:
        living = first + np.flatnonzero(tree.texts.died[first:last] > scope.revision)
        texts.own_of_rows(
            living.astype(np.int32), tree.texts, vectors, query, lexical, scope, scores.own_texts
        )
    hierarchy.own_of_base_files(
        first, last, tree.texts, scope, scores.own_texts, scores.own, scores.best
    )
    if len(tail):
        texts.own_of_rows(tail, tree.texts, vectors, query, lexical, scope, scores.own_texts)
        hierarchy.own_of_files(tree.texts, tail, scope, scores.own_texts, scores.own, scores.best)
    return last - first + len(tail)


def _score_exactly(
    rows: I32,
    tree: Tree,
    vectors: Vectors,
    query: Query,
    lexical_scope: tuple[F32, Scope],
    scores: Scores,
) -> int:
    """Own scores of some files from fp32 vectors; how many texts they have."""
    lexical, scope = lexical_scope
    own_rows = hierarchy.texts_of_files(rows, tree.files, tree.texts, scope)
    texts.own_of_rows(own_rows, tree.texts, vectors, query, lexical, scope, scores.own_texts)
    hierarchy.forget_files(rows, scope, scores)
    hierarchy.own_of_files(tree.texts, own_rows, scope, scores.own_texts, scores.own, scores.best)
    return len(own_rows)


def _best_by_words(lexical: F32, scope: Scope) -> I32:
    """Rows of the texts that match best by words, wherever they stand."""
    best = select.best_positions(lexical, BEST_BY_WORDS)
    best = best[lexical[best] > 0]
    size = scope.text_high - scope.text_low
    rows: I32 = np.where(best < size, best + scope.text_low, best - size + scope.base_texts)
    return rows.astype(np.int32)


def _positions(rows: I32, tree: Tree, scope: Scope, allowed: U8) -> I32:
    """Positions of the living, allowed files that have these texts."""
    rows = rows[tree.texts.died[rows] > scope.revision]
    of_texts = tree.texts.file[rows]
    of_texts = of_texts[of_texts >= 0]
    size = scope.file_high - scope.file_low
    positions: I32 = np.where(
        of_texts < scope.base_files, of_texts - scope.file_low, of_texts - scope.base_files + size
    )
    if len(allowed):
        positions = positions[allowed[positions] > 0]
    return positions.astype(np.int32)


def _rescore(
    contenders: I32,
    weights: tuple[float, float, float],
    tree: Tree,
    vectors: Vectors,
    query: Query,
    lexical_scope: tuple[F32, Scope],
    scores: Scores,
) -> tuple[I32, F64, I32]:
    """(rows, parts [n, 8], best texts) of the files at these positions, from fp32 vectors."""
    lexical, scope = lexical_scope
    trio = hierarchy.with_neighbours(contenders, tree.files, scope)
    wanted = trio if weights[2] > 0 else trio[:, :1]
    rows = np.unique(wanted[wanted >= 0])
    _score_exactly(rows, tree, vectors, query, lexical_scope, scores)
    parts, best = hierarchy.parts_of_files(
        trio, tree.files.directory, tree.texts, scope, query, lexical, weights, scores
    )
    return trio[:, 0], parts, best
