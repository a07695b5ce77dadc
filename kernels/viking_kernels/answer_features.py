"""Features of a query and its first results, from which the confidence of an answer is computed."""

from __future__ import annotations

import numpy as np

from viking_kernels import simd_scores as lanes
from viking_kernels._jit import njit
from viking_kernels.arrays import I32, I64, U8, RawQuery, Scope, Terms, Texts, Tree, Vectors
from viking_kernels.bm25 import ranges_of
from viking_kernels.scope import directory_inside, tail_directories

FIRST = 10
"""The first results whose texts are compared with the query; also those that tie with the last."""


@njit
def features(
    tree: Tree, vectors: Vectors, raw: RawQuery, scope: Scope, terms: Terms, rows: I32
) -> tuple[float, float, float]:
    """Return (`known_share`, both values of `cosines`) for a query and some texts of a scope.

    Args:
        tree, vectors: of a snapshot.
        raw: the query.
        scope: the scope.
        terms: the terms of the query.
        rows: the rows of the texts; -1 for none.
    """
    inside = tail_directories(tree.directories, scope)
    known = known_share(tree.texts, scope, inside, terms, ranges_of(terms, scope))
    cosine, usual = cosines(rows, raw, vectors, scope.revision)
    return known, cosine, usual


@njit
def known_share(texts: Texts, scope: Scope, tail_inside: U8, terms: Terms, ranges: I64) -> float:
    """Return the share of the query's terms that occur in a living text of the scope, in [0, 1].

    It is 0 for a query without terms. Postings of titles are not read, because a text has the terms
    of its title, too. `ranges` are those of `bm25.ranges_of`.
    """
    n = terms.weight.shape[0]
    known = 0
    for i in range(n):
        found = False
        for p in range(ranges[i, 0], ranges[i, 1]):
            if texts.tombstoned[terms.base_text[p]] > scope.revision:
                found = True
                break
        if not found:
            for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
                row = np.int64(terms.tail_text[p])
                if texts.tombstoned[row] > scope.revision and directory_inside(
                    texts.directory[row], tail_inside, scope
                ):
                    found = True
                    break
        known += np.int64(found)
    return known / max(1, n)


@njit
def cosines(rows: I32, raw: RawQuery, vectors: Vectors, revision: int) -> tuple[float, float]:
    """Return (largest cosine of the query with some texts, product of the query with raw.usual).

    The vectors are not centred. For the product the query is scaled to length 1; raw.usual is not.

    Args:
        rows: the rows of the texts; -1 for none.
        raw: the query.
        vectors: the vectors of all texts, of length 1.
        revision: the revision of the snapshot.

    Returns:
        (nan, nan) if the query has no vector, or none of the texts has one.
    """
    vector, base = raw.vector, vectors.base_raw.shape[0]
    if vector.shape[0] == 0:
        return np.nan, np.nan
    square = lanes.product(vector, vector)
    if not square > 0.0:
        return np.nan, np.nan
    largest = -np.inf
    for i in range(rows.shape[0]):
        row = np.int64(rows[i])
        if row >= 0 and vectors.vector_at[row] <= revision:
            x = vectors.base_raw[row] if row < base else vectors.tail_raw[row - base]
            largest = max(largest, lanes.product(x, vector))
    if largest == -np.inf:
        return np.nan, np.nan
    usual = lanes.product(raw.usual, vector) if raw.usual.shape[0] > 0 else 0.0
    length = np.sqrt(square)
    return largest / length, usual / length
