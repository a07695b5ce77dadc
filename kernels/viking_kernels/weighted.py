"""Flat search by a weighted sum of meaning and words: codes propose, fp32 vectors decide.

Nothing is missed but by the chance that `bounds` names.
"""

from __future__ import annotations

import numpy as np

from viking_kernels import bm25
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    F32,
    F64,
    I32,
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
from viking_kernels.bounds import bound_scores
from viking_kernels.dense import most_cosine, parts_of_code, prepare
from viking_kernels.flat import is_allowed, is_inside, keep_best
from viking_kernels.lanes import GROUP
from viking_kernels.scope import place, tail_directories
from viking_kernels.select import above, lowest, push_smallest
from viking_kernels.simd import prefetch
from viking_kernels.texts import foreign, own_of_text

_AHEAD = 8  # rows by which codes are fetched before they are needed
_ROUNDING = 1e-6  # of scores in fp32
_NOTHING = 1e-30  # less is no score


@njit
def weighted_top(
    tree: Tree,
    vectors: Vectors,
    numbers: Numbers,
    means: Means,
    asked: Asked,
    scope: Scope,
    terms: Terms,
    allowed: U8,
    near: I32,
    weights: tuple[float, float],
    k: int,
    scratch: Scratch,
) -> tuple[I32, F32, F64]:
    """The k files' texts of a scope with the best v * dense + w * lexical, of those above 0.

    Where words can't be compared, because text and query differ in script, the words' weight goes
    to meaning: (v + w) * dense.

    Args:
        means: of the scope.
        asked: with use_lexical off: words come in by their weight.
        terms: of the query; not looked at where w is 0.
        allowed: uint8 [files of the scope], 0 where a filter forbids; or [0]: nothing is forbidden.
        near: base rows that stand for all of the base's texts, as an inverted file proposes them;
            [0]: every text is looked at.
        weights: (v, w), at least 0.
        k: at least 1.
        scratch: room for all rows of the tree; no other search uses it meanwhile.

    Returns:
        (rows, scores, parts [n, 2] dense and lexical), best first, ties by row.
    """
    texts = tree.texts
    query = prepare(asked, means)
    inside = tail_directories(tree.directories, scope)
    words = weights[1] > 0
    ranges = np.empty((0, 2), np.int64)
    if words:
        scratch.dir_lexical[: scope.dir_high - scope.dir_low + inside.shape[0]] = 0
        ranges = bm25.ranges_of(terms, scope)
        bm25.score_scope(tree, numbers, scope, inside, terms, ranges, scratch)
    rows = np.empty(k, np.int32)
    scores = np.empty(k, np.float32)
    count = 0
    for row in range(scope.base_texts, texts.died.shape[0]):
        if is_inside(row, texts, scope, inside) and is_allowed(row, texts, allowed, scope):
            score, _, _ = _score(row, weights, tree, vectors, query, scope, scratch)
            if score > 0:
                count = keep_best(rows, scores, count, row, score)
    if near.shape[0] > 0:
        for i in range(near.shape[0]):
            row = np.int64(near[i])
            if is_inside(row, texts, scope, inside) and is_allowed(row, texts, allowed, scope):
                score, _, _ = _score(row, weights, tree, vectors, query, scope, scratch)
                if score > 0:
                    count = keep_best(rows, scores, count, row, score)
    else:
        count = _best_of_base(
            weights, tree, vectors, query, scope, allowed, rows, scores, count, scratch
        )
    parts = np.empty((count, 2), np.float64)
    for i in range(count):
        _, dense, lexical = _score(np.int64(rows[i]), weights, tree, vectors, query, scope, scratch)
        parts[i, 0] = dense
        parts[i, 1] = lexical
    if words:
        bm25.forget(terms, ranges, scope, scratch.lexical)
    return rows[:count], scores[:count], parts


@njit
def _best_of_base(
    weights: tuple[float, float],
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scope: Scope,
    allowed: U8,
    rows: I32,
    scores: F32,
    count: int,
    scratch: Scratch,
) -> int:
    """Takes the best of the scope's base texts in; how many there are then.

    Those that may be the best by int4 codes say, from fp32, what the k-th best has at least. Every
    other one that may reach it is asked for its int8 code, then for its fp32 vector.
    """
    texts, k, low = tree.texts, rows.shape[0], scope.text_low
    size = scope.text_high - low
    bound_scores(texts, vectors, query, weights, scope, scratch)
    reach = scratch.coded[0]
    top = np.empty(min(2 * k + 32, size), np.float32)
    held = np.int64(0)
    limit = np.float32(0)
    for first in range(0, size, GROUP):
        mask = above(reach, first, size, limit)
        while mask != 0:
            at = first + lowest(mask)
            mask &= mask - 1
            if reach[at] > limit and _counts(low + at, texts, allowed, scope):
                held = push_smallest(top, held, reach[at])
                if held == top.shape[0]:
                    limit = top[0]
    for first in range(0, size, GROUP):
        mask = above(reach, first, size, limit)
        while mask != 0:
            at = first + lowest(mask)
            mask &= mask - 1
            if _counts(low + at, texts, allowed, scope):
                score, _, _ = _score(low + at, weights, tree, vectors, query, scope, scratch)
                if score > 0:
                    count = keep_best(rows, scores, count, low + at, score)
                reach[at] = -1.0  # or it would be taken twice
    floor = scores[k - 1] if count == k else np.float32(0)
    # In a list first: each is a surprise to the processor only once, and can be fetched ahead.
    reaching = scratch.coded[1].view(np.int32)  # nothing else stands there now
    enough = np.float32(max(np.float64(floor) - _ROUNDING, _NOTHING))
    found = 0
    for at in range(size):
        reaching[found] = low + at
        found += np.int64(reach[at] >= enough)
    for i in range(found):
        prefetch(vectors.base_codes, np.int64(reaching[min(i + _AHEAD, found - 1)]))
        row = np.int64(reaching[i])
        if _most_by_code(row, weights, tree, vectors, query, scope, scratch) >= floor and _counts(
            row, texts, allowed, scope
        ):
            score, _, _ = _score(row, weights, tree, vectors, query, scope, scratch)
            if score > 0:
                count = keep_best(rows, scores, count, row, score)
                if count == k:
                    floor = scores[k - 1]
    return count


@inlined
def _counts(row: int, texts: Texts, allowed: U8, scope: Scope) -> bool:
    """Whether a base text of the scope lives, and the filter lets its file through."""
    return texts.died[row] > scope.revision and is_allowed(row, texts, allowed, scope)


@inlined
def _score(
    row: int,
    weights: tuple[float, float],
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scope: Scope,
    scratch: Scratch,
) -> tuple[float, float, float]:
    """(score, dense, lexical) of a living text from its fp32 vector."""
    dense = lexical = 0.0
    if query.use_dense:
        dense = own_of_text(row, tree, vectors, query, scratch.lexical, scope)
    share, words = _shares(row, weights, tree, query)
    if words > 0:
        at = place(row, scope.text_low, scope.text_high, scope.base_texts)
        lexical = np.float64(scratch.lexical[at])
    return share * dense + words * lexical, dense, lexical


@inlined
def _most_by_code(
    row: int,
    weights: tuple[float, float],
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scope: Scope,
    scratch: Scratch,
) -> float:
    """The most that the score of a base text can be, from its int8 code; see `bound_scores`."""
    script = np.int64(tree.texts.script[row])
    parts = parts_of_code(
        vectors.base_codes, row, vectors.scale[row], vectors.error[row], query, script
    )
    share, words = _shares(row, weights, tree, query)
    most = share * np.float64(most_cosine(*parts)) if query.use_dense else 0.0
    if words > 0:
        most += words * np.float64(scratch.lexical[row - scope.text_low])
    return most + _ROUNDING


@inlined
def _shares(
    row: int, weights: tuple[float, float], tree: Tree, query: Query
) -> tuple[float, float]:
    """The weights of meaning and of words for a text."""
    if foreign(np.int64(tree.texts.script[row]), query.script):
        return weights[0] + weights[1], 0.0
    return weights[0], weights[1]
