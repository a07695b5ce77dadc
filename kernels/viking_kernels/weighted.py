"""Flat search by a weighted sum of meaning and words, exact: codes propose, fp32 vectors decide."""

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
    Tree,
    Vectors,
)
from viking_kernels.dense import prepare
from viking_kernels.flat import is_allowed, is_inside, keep_best
from viking_kernels.scope import place, tail_directories
from viking_kernels.select import push_smallest
from viking_kernels.texts import foreign, own_of_text, score_codes


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
            [0]: every text is scored.
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
    if words:
        scratch.dir_lexical[: scope.dir_high - scope.dir_low + inside.shape[0]] = 0
        bm25.score_scope(tree, numbers, scope, inside, terms, scratch)
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
        low, high = scope.text_low, scope.text_high
        score_codes(low, high, tree, vectors, query, scope, scratch)
        # What a text has at least, and at most: the k-th best of the first bounds the second.
        least = np.empty(k, np.float32)
        held = 0
        for row in range(low, high):
            if texts.died[row] > scope.revision and is_allowed(row, texts, allowed, scope):
                value, bound = _from_codes(row, weights, tree, query, scope, scratch)
                held = push_smallest(least, held, value - bound)
        floor = least[0] if held == k else np.float32(0)
        for row in range(low, high):
            value, bound = _from_codes(row, weights, tree, query, scope, scratch)
            if (
                value + bound >= floor
                and texts.died[row] > scope.revision
                and is_allowed(row, texts, allowed, scope)
            ):
                score, _, _ = _score(row, weights, tree, vectors, query, scope, scratch)
                if score > 0:
                    count = keep_best(rows, scores, count, row, score)
    parts = np.empty((count, 2), np.float64)
    for i in range(count):
        _, dense, lexical = _score(np.int64(rows[i]), weights, tree, vectors, query, scope, scratch)
        parts[i, 0] = dense
        parts[i, 1] = lexical
    if words:
        bm25.forget(terms, scope, scratch.lexical)
    return rows[:count], scores[:count], parts


@inlined
def _score(
    row: int, weights: tuple[float, float], tree: Tree, vectors: Vectors, query: Query,
    scope: Scope, scratch: Scratch,
) -> tuple[float, float, float]:  # fmt: skip
    """(score, dense, lexical) of a living text from its fp32 vector."""
    dense = 0.0
    if query.use_dense:
        dense = own_of_text(row, tree, vectors, query, scratch.lexical, scope)
    if foreign(np.int64(tree.texts.script[row]), query.script):
        return (weights[0] + weights[1]) * dense, dense, 0.0
    lexical = 0.0
    if weights[1] > 0:
        at = place(row, scope.text_low, scope.text_high, scope.base_texts)
        lexical = np.float64(scratch.lexical[at])
    return weights[0] * dense + weights[1] * lexical, dense, lexical


@inlined
def _from_codes(
    row: int, weights: tuple[float, float], tree: Tree, query: Query, scope: Scope,
    scratch: Scratch,
) -> tuple[float, float]:  # fmt: skip
    """(score of a base text, how far it can be off) from its code; see `texts.score_codes`."""
    at = row - scope.text_low
    dense = 0.0
    bound = 0.0
    if query.use_dense:
        dense = np.float64(scratch.coded[0, at])
        bound = np.float64(scratch.coded[1, at])
    if foreign(np.int64(tree.texts.script[row]), query.script):
        share = weights[0] + weights[1]
        return share * dense, share * bound + 1e-6
    words = weights[1] * np.float64(scratch.lexical[at]) if weights[1] > 0 else 0.0
    return weights[0] * dense + words, weights[0] * bound + 1e-6
