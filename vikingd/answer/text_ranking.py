"""The texts of a scope ranked by words, by meaning, or by both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from viking_kernels import flat, weighted_search
from viking_kernels.arrays import F32, I32, I64, TEXTS, RawQuery
from viking_kernels.dense import prepare
from viking_kernels.find import NO_ROWS
from viking_kernels.scope import tail_directories

from vikingd.answer.ranked_lists import RankedList
from vikingd.answer.scored_scope import keep_scratch, take_scratch
from vikingd.answer.shown_texts import name_of
from vikingd.domain.retrieve_query import Rrf
from vikingd.plan.retrieve_plan import TextScope

DEEPER = 4
"""The factor of the next depth, if duplicates leave too few texts or the order is not settled.

A boost can bring a later text first, and of equal scores the URI decides.
"""

MOST_DEPTH = 16_000


def ranked_by_words(scope: TextScope, depth: int) -> RankedList:
    """Rank by words; at most `depth` texts."""
    return _first(scope, depth, lambda more: _look_by_words(scope, more))


def ranked_by_meaning(scope: TextScope, vector: F32, depth: int) -> RankedList:
    """Rank by meaning; at most `depth` texts."""
    return ranked_by_both(scope, vector, (1.0, 0.0), depth)


def ranked_by_both(
    scope: TextScope, vector: F32, weights: tuple[float, float], depth: int
) -> RankedList:
    """Rank by the sum of dense and lexical scores with these weights."""
    return _first(scope, depth, lambda more: _look_by_both(scope, vector, weights, more))


def lists(scope: TextScope, vector: F32 | None, depth: int) -> tuple[RankedList, ...]:
    """Return the lists to fuse, each of at most `depth` texts.

    A fusion by rank has two: by meaning and by words. Else there is one list. Without a vector
    it is the list by words.
    """
    fusion = scope.query.fusion
    if vector is None or not scope.by_meaning:
        return (ranked_by_words(scope, depth),)
    if isinstance(fusion, Rrf):
        return ranked_by_meaning(scope, vector, depth), ranked_by_words(scope, depth)
    weights = (fusion.vector_weight, fusion.keyword_weight)
    return (ranked_by_both(scope, vector, weights, depth),)


def _look_by_words(ranked: TextScope, depth: int) -> RankedList:
    snapshot, scope, terms = ranked.snapshot, ranked.scope, ranked.terms
    if not len(terms.hashes):
        return RankedList(NO_ROWS, np.zeros(0), False)
    rows, scores = flat.keyword_top(
        snapshot.tree.texts,
        ranked.counts,
        scope,
        tail_directories(snapshot.tree.directories, scope),
        snapshot.terms(terms.hashes, terms.weights),
        ranked.allowed_files,
        depth,
    )
    return RankedList(rows, scores.astype(np.float64), len(rows) == depth)


def _look_by_both(
    ranked: TextScope, vector: F32, weights: tuple[float, float], depth: int
) -> RankedList:
    snapshot = ranked.snapshot
    asked = ranked.asked(vector, ranked.script(vector), dense=True, lexical=False)
    scratch = take_scratch(snapshot)
    rows, scores, parts = weighted_search.weighted_top(
        *ranked.arrays,
        asked,
        ranked.scope,
        snapshot.terms(ranked.terms.hashes, ranked.terms.weights),
        weighted_search.WeightedPlan(
            *weights, depth, _near(ranked, asked, weights, depth), ranked.allowed_files
        ),
        scratch,
    )
    keep_scratch(scratch)
    return RankedList(rows, scores.astype(np.float64), len(rows) == depth, parts)


def _near(ranked: TextScope, asked: RawQuery, weights: tuple[float, float], depth: int) -> I32:
    """Return the rows that the inverted file of a large base proposes.

    It knows neither words nor filters. Its clusters tell of all vectors, so it answers only
    callers that may read all.
    """
    inverted, scope = ranked.snapshot.inverted_file, ranked.scope
    small = ranked.counts[TEXTS] <= ranked.exhaustive_texts
    if (
        inverted is None
        or small
        or weights[1] > 0
        or len(ranked.allowed_files)
        or not ranked.reads_all
    ):
        return NO_ROWS
    compared = prepare(asked)
    return inverted.near(compared.direction, scope.text_low, scope.text_high, depth)


def _first(scope: TextScope, depth: int, look: Callable[[int], RankedList]) -> RankedList:
    """Return the first texts of a list, ties by name: a compaction changes rows."""
    wide = depth + 1
    found = look(wide)
    while found.is_full and wide < MOST_DEPTH and found.scores[depth - 1] == found.scores[-1]:
        wide = min(wide * DEEPER, MOST_DEPTH)
        found = look(wide)
    order = _by_name(scope, found, depth)[:depth]
    parts = None if found.parts is None else found.parts[order]
    return RankedList(found.rows[order], found.scores[order], len(found.rows) > depth, parts)


def _by_name(scope: TextScope, found: RankedList, depth: int) -> I64:
    """Return the order [n] of a list by falling score, ties by name where it matters.

    It matters for a tie across the place `depth`, and for every tie if `orders_ties`. The
    others are ordered when they are chosen.
    """
    snapshot = scope.snapshot
    rows, scores = found.rows.tolist(), found.scores
    order = np.arange(len(rows))
    start = 0
    for end in [*(np.flatnonzero(scores[1:] != scores[:-1]) + 1).tolist(), len(rows)]:
        if start < depth < end or (scope.orders_ties and end - start > 1):
            order[start:end] = sorted(range(start, end), key=lambda i: name_of(snapshot, rows[i]))
        start = end
    return order
