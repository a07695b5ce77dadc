"""The texts of a scope ranked by words, by meaning, or by both."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from viking_kernels import flat, weighted
from viking_kernels.arrays import F32, I32, I64, TEXTS, U8, RawQuery
from viking_kernels.dense import prepare
from viking_kernels.find import NO_ROWS
from viking_kernels.scope import tail_directories

from vikingd.answer.fusion import RankedList
from vikingd.answer.passages import name_of
from vikingd.answer.query_scope import QueryScope, keep_scratch, take_scratch

DEEPER = 4
"""The factor of the next depth, if duplicates leave too few texts or the order is not settled.

A boost can bring a later text first, and of equal scores the URI decides.
"""

MOST_DEPTH = 16_000


class Ranking(QueryScope):
    """A query's scope that ranks its texts.

    Attributes:
        orders_ties: order all ties by name, because places are fused or shown.
    """

    orders_ties = False

    @cached_property
    def allowed_files(self) -> U8:
        """The files that the filters allow; see QueryScope.allowed."""
        return self.allowed(files=True)

    def ranked_by_words(self, depth: int) -> RankedList:
        """Rank by words; at most `depth` texts."""
        return self._first(depth, self._look_by_words)

    def ranked_by_meaning(self, vector: F32, depth: int) -> RankedList:
        """Rank by meaning; at most `depth` texts."""
        return self.ranked_by_both(vector, (1.0, 0.0), depth)

    def ranked_by_both(self, vector: F32, weights: tuple[float, float], depth: int) -> RankedList:
        """Rank by the sum of dense and lexical scores with these weights."""
        return self._first(depth, lambda more: self._look_by_both(vector, weights, more))

    def _look_by_words(self, depth: int) -> RankedList:
        snapshot, scope, terms = self.snapshot, self.scope, self.terms
        if not len(terms.hashes):
            return RankedList(NO_ROWS, np.zeros(0), False)
        rows, scores = flat.keyword_top(
            snapshot.tree.texts,
            self.counts,
            scope,
            tail_directories(snapshot.tree.directories, scope),
            snapshot.terms(terms.hashes, terms.weights),
            self.allowed_files,
            depth,
        )
        return RankedList(rows, scores.astype(np.float64), len(rows) == depth)

    def _look_by_both(self, vector: F32, weights: tuple[float, float], depth: int) -> RankedList:
        snapshot = self.snapshot
        asked = self.asked(vector, self.script(vector), dense=True, lexical=False)
        scratch = take_scratch(snapshot)
        rows, scores, parts = weighted.weighted_top(
            *self.arrays,
            asked,
            self.scope,
            snapshot.terms(self.terms.hashes, self.terms.weights),
            weighted.WeightedPlan(
                *weights, depth, self._near(asked, weights, depth), self.allowed_files
            ),
            scratch,
        )
        keep_scratch(scratch)
        return RankedList(rows, scores.astype(np.float64), len(rows) == depth, parts)

    def _near(self, asked: RawQuery, weights: tuple[float, float], depth: int) -> I32:
        """Return the rows that the inverted file of a large base proposes.

        It knows neither words nor filters. Its clusters tell of all vectors, so it answers only
        callers that may read all.
        """
        inverted, scope = self.snapshot.inverted_file, self.scope
        small = self.counts[TEXTS] <= self.exhaustive_texts
        if (
            inverted is None
            or small
            or weights[1] > 0
            or len(self.allowed_files)
            or not self.reads_all
        ):
            return NO_ROWS
        compared = prepare(asked)
        return inverted.near(compared.direction, scope.text_low, scope.text_high, depth)

    def _first(self, depth: int, look: Callable[[int], RankedList]) -> RankedList:
        """Return the first texts of a list, ties by name: a compaction changes rows."""
        wide = depth + 1
        found = look(wide)
        while found.is_full and wide < MOST_DEPTH and found.scores[depth - 1] == found.scores[-1]:
            wide = min(wide * DEEPER, MOST_DEPTH)
            found = look(wide)
        order = self._by_name(found, depth)[:depth]
        parts = None if found.parts is None else found.parts[order]
        return RankedList(found.rows[order], found.scores[order], len(found.rows) > depth, parts)

    def _by_name(self, found: RankedList, depth: int) -> I64:
        """Return the order [n] of a list by falling score, ties by name where it matters.

        It matters for a tie across the place `depth`, and for every tie if `orders_ties`. The
        others are ordered when they are chosen.
        """
        snapshot = self.snapshot
        rows, scores = found.rows.tolist(), found.scores
        order = np.arange(len(rows))
        start = 0
        for end in [*(np.flatnonzero(scores[1:] != scores[:-1]) + 1).tolist(), len(rows)]:
            if start < depth < end or (self.orders_ties and end - start > 1):
                order[start:end] = sorted(
                    range(start, end), key=lambda i: name_of(snapshot, rows[i])
                )
            start = end
        return order
