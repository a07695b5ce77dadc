"""The texts of a scope ranked by words, by meaning, or by both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from viking_kernels import flat, weighted_search
from viking_kernels.arrays import F32, F64, I32, I64, TEXTS, U8, RawQuery, decode_file, is_file
from viking_kernels.dense import prepare
from viking_kernels.find import ALL_FILES, NO_ROWS
from viking_kernels.hierarchy import NEIGHBOUR_WEIGHT
from viking_kernels.scope import place, tail_directories

from vikingd.answer.ranked_lists import RankedList
from vikingd.answer.scored_scope import keep_scratch, take_scratch
from vikingd.answer.shown_texts import name_of
from vikingd.domain.retrieve_query import Rrf
from vikingd.domain.text import NONE
from vikingd.plan.retrieve_plan import TextScope

DEEPER = 4
"""The factor of the next depth, if duplicates leave too few texts or the order is not settled.

A boost can bring a later text first, and of equal scores the URI decides.
"""

MOST_DEPTH = 16_000

HALVES = (0.5, 0.5)
"""The weights of dense and lexical in the node score of a find."""

FILE_WEIGHT = 0.25
"""The share b of the file in the score of a passage."""

OWN_SCRIPT = 10
"""The first texts in the query's script that tell how words compare with meaning, at most."""


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
    search = _WeightedSearch(scope, vector, weights)
    found = _first(scope, depth, search.best)
    keep_scratch(search.scratch)
    return found


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


def ranked_in_files(
    scope: TextScope, vector: F32, depth: int, also: Sequence[str] = ()
) -> tuple[RankedList, RankedList]:
    """Rank the passages of files by both, with their neighbours and their file.

    At most `depth`, and with `also` as many of these files. The second list has the texts with the
    best scores of their own, without neighbours and file.

        final = (1 - b) * smoothed + b * best of the file

    `smoothed` is that of a find: the mean of a passage's score and those of the passages before and
    after it, which weigh NEIGHBOUR_WEIGHT each. The score of a file is the best one of its texts,
    its abstract included. The candidates are the first `depth` texts by their own scores, and their
    neighbours. A find's gate is not used: it spares files whose parent says nothing new, but here
    the file's score is one of its own passages, never a mean.
    """
    search = _WeightedSearch(scope, vector, HALVES, keeps_words=True)
    found = _first(scope, depth, search.best)
    rows = found.rows
    if also and len(allowed := _mask(scope, also)):
        more = _first(scope, depth, lambda more: search.best(more, allowed))
        rows = np.union1d(rows, more.rows).astype(np.int32)
        depth *= 2
    windows, scores = search.windows(rows)
    keep_scratch(search.scratch)
    scores *= _script_weights(scope, vector, found, windows)
    texts = scope.snapshot.tree.texts
    files, at = np.unique(texts.file[windows[:, 0]], return_inverse=True)
    best = np.zeros(len(files))
    np.maximum.at(best, at, scores[:, 0])
    there = scores >= 0
    shares = there * np.array([1.0, NEIGHBOUR_WEIGHT, NEIGHBOUR_WEIGHT])
    smoothed = _sum_of_three(shares * scores) / _sum_of_three(shares)
    final = (1.0 - FILE_WEIGHT) * smoothed + FILE_WEIGHT * best[at]
    order = np.lexsort((windows[:, 0], -final))
    first = windows[order, 0]
    after = np.minimum(first + 1, len(texts.file) - 1)
    # An abstract is a memory if its file has no other text.
    is_alone = (after == first) | (texts.file[after] != texts.file[first])
    order = order[(texts.ordinal[first] > 0) | is_alone]
    ranked = RankedList(windows[order, 0], final[order], found.is_full)
    order = _by_name(scope, ranked, depth)[:depth]
    return RankedList(ranked.rows[order], ranked.scores[order], found.is_full), found


def _script_weights(ranked: TextScope, vector: F32, found: RankedList, windows: I32) -> F64:
    """Return the factors [m, 3] of scores: (1 + r) / 2 for texts in another script, else 1.

    Meaning alone judges such a text, which mostly scores higher than words. r is the median of
    lexical / dense, at most 1, of the first OWN_SCRIPT texts in the query's script.
    """
    scripts, script = ranked.snapshot.tree.texts.script, ranked.script(vector)
    weights = np.ones(windows.shape)
    others = (scripts[windows] != script) & (scripts[windows] != NONE)
    if script == NONE or found.parts is None or not others.any():
        return weights
    own = np.isin(scripts[found.rows], (script, NONE)).nonzero()[0][:OWN_SCRIPT]
    if len(own):
        dense, lexical = found.parts[own].T
        ratios = np.minimum(1.0, lexical / np.maximum(dense, 1e-9))
        weights[others] = (1.0 + float(np.median(ratios))) / 2.0
    return weights


def _mask(ranked: TextScope, uris: Sequence[str]) -> U8:
    """Return uint8 [files of the scope]: 1 for the files of these URIs; [0] if there is none."""
    low, high, base = ranked.ends(files=True)
    snapshot = ranked.snapshot
    allowed = np.zeros(high - low + len(snapshot.file_id) - base, np.uint8)
    nodes = (snapshot.find(uri) for uri in uris)
    files = [decode_file(node) for node in nodes if node is not None and is_file(node)]
    inside = [place(file, low, high, base) for file in files if low <= file < high or file >= base]
    allowed[inside] = 1
    return allowed if inside else ALL_FILES


def _sum_of_three(columns: F64) -> F64:
    """Return the sum of three columns [n, 3], added in their order."""
    return columns[:, 0] + columns[:, 1] + columns[:, 2]


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


class _WeightedSearch:
    """Searches of a scope by a weighted sum of dense and lexical.

    With `keeps_words` the words are scored once, and `windows` must be the last search.
    """

    def __init__(
        self,
        scope: TextScope,
        vector: F32,
        weights: tuple[float, float],
        *,
        keeps_words: bool = False,
    ) -> None:
        snapshot = scope.snapshot
        self.scratch = take_scratch(snapshot)
        self._ranked = scope
        self._weights = weights
        self._keeps_words = keeps_words
        self._has_words = False
        self._asked = scope.asked(vector, scope.script(vector), dense=True, lexical=False)
        terms = snapshot.terms(scope.terms.hashes, scope.terms.weights)
        self._given = *scope.arrays, self._asked, scope.scope, terms

    def best(self, depth: int, allowed: U8 | None = None) -> RankedList:
        """Return the best texts, at most `depth`; `allowed` replaces the filter of the query."""
        near = _near(self._ranked, self._asked, self._weights, depth)
        plan = weighted_search.WeightedPlan(
            *self._weights,
            depth,
            near,
            self._ranked.allowed_files if allowed is None else allowed,
            self._has_words,
            self._keeps_words,
        )
        rows, scores, parts = weighted_search.weighted_top(*self._given, plan, self.scratch)
        self._has_words = self._keeps_words
        return RankedList(rows, scores.astype(np.float64), len(rows) == depth, parts)

    def windows(self, rows: I32) -> tuple[I32, F64]:
        """Return texts with the passages beside them, and their scores; see `score_windows`."""
        plan = weighted_search.WeightedPlan(
            *self._weights, 1, rows, ALL_FILES, self._has_words, keeps_words=False
        )
        return weighted_search.score_windows(*self._given, plan, self.scratch)


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
    snapshot, scores = scope.snapshot, found.scores
    order = np.arange(len(scores))
    ends = (scores[1:] != scores[:-1]).nonzero()[0]
    if len(ends) >= len(scores) - 1:
        return order  # no scores tie
    rows, start = found.rows.tolist(), 0
    for end in [*(ends + 1).tolist(), len(rows)]:
        if start < depth < end or (scope.orders_ties and end - start > 1):
            order[start:end] = sorted(range(start, end), key=lambda i: name_of(snapshot, rows[i]))
        start = end
    return order
