"""The ranking of the texts of a scope by words, by meaning, or by both (hybrid)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from viking_kernels import flat, weighted_search
from viking_kernels.arrays import (
    COUNTS,
    F32,
    F64,
    I32,
    I64,
    SCRIPTS,
    TEXTS,
    U8,
    RawQuery,
    decode_file,
    is_file,
)
from viking_kernels.dense import prepare
from viking_kernels.find import ALL_FILES, NO_ROWS
from viking_kernels.scope import place, tail_directories

from vikingd.answer.ranked_lists import RankedList
from vikingd.answer.scored_scope import keep_scratch, take_scratch
from vikingd.answer.texts_by_row import name_of
from vikingd.domain.retrieve_query import Rrf
from vikingd.domain.text import NONE
from vikingd.plan.retrieve_plan import TextScope

DEEPER = 4
"""The factor by which a list gets longer if duplicates leave too few texts or ties are not settled.

A boost can bring a later text first, and of equal scores the URI decides.
"""

MOST_DEPTH = 16_000

HALVES = (0.5, 0.5)
"""The weights of dense and lexical in the node score of a find."""

OWN_SCRIPT = 10
"""The most texts in the query's script from which lexical and dense scores are compared."""


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
    """Return the ranked lists of a scope, each of at most `depth` texts.

    A fusion by rank needs two lists: by meaning and by words. All else is one list. Without a
    vector it is by words.
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
    """Rank passages by their own scores, those of the passages beside them, and that of their file.

    The candidates are the first `depth` texts by their own scores (words and meaning), and the
    first `depth` texts of the files `also`. `weighted_search.rank_in_files` ranks them. A find's
    gate is not used here: it limits the share of a mean over a directory, but the score of a file
    is that of its best text.

    Returns:
        (the ranked passages, at most `depth`, or twice as many with `also`; the first candidates,
        ranked by their own scores).
    """
    search = _WeightedSearch(scope, vector, HALVES, keeps_words=True)
    found = _first(scope, depth, search.best)
    rows = found.rows
    if also and len(allowed := _mask(scope, also)):
        more = _first(scope, depth, lambda more: search.best(more, allowed))
        rows = np.union1d(rows, more.rows).astype(np.int32)
        depth *= 2
    factor = _other_script(scope, vector, found)
    rows, scores = search.in_files(rows, factor)
    keep_scratch(search.scratch)
    ranked = RankedList(rows, scores, found.is_full)
    order = _by_name(scope, ranked, depth)[:depth]
    candidates = _lowered(found, scope, scope.script(vector), factor)
    return RankedList(rows[order], scores[order], found.is_full), candidates


def _other_script(scope: TextScope, vector: F32, found: RankedList) -> float:
    """Return a factor for the scores of texts in another script than the query: (1 + r) / 2.

    Only meaning judges such texts, and scores by meaning are mostly higher than those by words. r
    is the median of lexical / dense, at most 1, of the first OWN_SCRIPT texts in the query's
    script.

    A find uses a cap instead: the best score in the query's script limits the scores of texts in
    other scripts (`viking_kernels.other_script`). The cap is worse here, where texts have no titles
    and lexical scores are not rescaled to reach the score floor of finds. On xquad .925 of the
    first texts are right with the cap, .946 with the factor. nDCG@10 on documentation is .635 with
    the cap, .664 with the factor. In conversations in one language nothing changes.
    """
    counts, script = scope.counts, scope.script(vector)
    alike = counts[COUNTS - SCRIPTS] + counts[COUNTS - SCRIPTS + script]
    if script == NONE or found.parts is None or alike == counts[TEXTS]:
        return 1.0
    of_texts = scope.snapshot.tree.texts.script[found.rows]
    own = ((of_texts == script) | (of_texts == NONE)).nonzero()[0][:OWN_SCRIPT]
    if not len(own):
        return 1.0
    dense, lexical = found.parts[own].T
    ratios = np.minimum(1.0, lexical / np.maximum(dense, 1e-9))
    return (1.0 + float(np.median(ratios))) / 2.0


def _lowered(found: RankedList, scope: TextScope, script: int, factor: float) -> RankedList:
    """Return a list whose texts in another script than the query have their score times `factor`.

    Texts in the query's script keep their scores.
    """
    if factor == 1.0 or script == NONE:
        return found
    of_texts = scope.snapshot.tree.texts.script[found.rows]
    is_other = (of_texts != script) & (of_texts != NONE)
    scores = np.where(is_other, found.scores * factor, found.scores)
    order = np.argsort(-scores, kind="stable")
    parts = None if found.parts is None else found.parts[order]
    return RankedList(found.rows[order], scores[order], found.is_full, parts)


def _mask(ranked: TextScope, uris: Sequence[str]) -> U8:
    """Return a mask, uint8 [files of the scope]: 1 for the files with these URIs, 0 for others.

    If none of these files is in the scope, the result is an empty array. The caller must not pass
    it on to a kernel, which takes an empty mask (`ALL_FILES`) for one that allows all files.
    """
    low, high, base = ranked.ends(files=True)
    snapshot = ranked.snapshot
    allowed = np.zeros(high - low + len(snapshot.file_id) - base, np.uint8)
    nodes = (snapshot.find(uri) for uri in uris)
    files = [decode_file(node) for node in nodes if node is not None and is_file(node)]
    inside = [place(file, low, high, base) for file in files if low <= file < high or file >= base]
    allowed[inside] = 1
    return allowed if inside else ALL_FILES


def _look_by_words(ranked: TextScope, depth: int) -> RankedList:
    snapshot, scope = ranked.snapshot, ranked.scope
    if not len(ranked.terms.hashes):
        return RankedList(NO_ROWS, np.zeros(0), False)
    rows, scores = flat.keyword_top(
        snapshot.tree.texts,
        ranked.counts,
        scope,
        tail_directories(snapshot.tree.directories, scope),
        ranked.postings,
        ranked.allowed_files,
        depth,
    )
    return RankedList(rows, scores.astype(np.float64), len(rows) == depth)


class _WeightedSearch:
    """Searches of one scope by a weighted sum of dense and lexical scores.

    With `keeps_words` the lexical scores are computed once and kept in the scratch. Then `in_files`
    must be the last search, since it clears them.
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
        self._given = *scope.arrays, self._asked, scope.scope, scope.postings

    def best(self, depth: int, allowed: U8 | None = None) -> RankedList:
        """Return the best texts, at most `depth`; `allowed` replaces the filters of the query."""
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

    def in_files(self, rows: I32, other_script: float) -> tuple[I32, F64]:
        """Rank some texts and the texts beside them; return (rows, scores), see `rank_in_files`."""
        plan = weighted_search.WeightedPlan(
            *self._weights, 1, rows, ALL_FILES, self._has_words, other_script=other_script
        )
        return weighted_search.rank_in_files(*self._given, plan, self.scratch)


def _near(ranked: TextScope, asked: RawQuery, weights: tuple[float, float], depth: int) -> I32:
    """Return candidate rows from the inverted file; `NO_ROWS` if it is not used for this search.

    It is used only for searches by meaning alone, of large scopes, without filters. Its clusters
    depend on all vectors, so the caller must also have the right to read all contexts.
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
    """Return the best `depth` texts, ties by name (URI and number of the passage).

    `look(n)` returns the best n texts, ties by row. A compaction changes rows, so more than `depth`
    texts are read until all texts that tie with the last one are known.
    """
    wide = depth + 1
    found = look(wide)
    while found.is_full and wide < MOST_DEPTH and found.scores[depth - 1] == found.scores[-1]:
        wide = min(wide * DEEPER, MOST_DEPTH)
        found = look(wide)
    order = _by_name(scope, found, depth)[:depth]
    parts = None if found.parts is None else found.parts[order]
    return RankedList(found.rows[order], found.scores[order], len(found.rows) > depth, parts)


def _by_name(scope: TextScope, found: RankedList, depth: int) -> I64:
    """Return the order [n] of a list by falling score; ties that matter are ordered by name.

    A tie matters if it crosses the place `depth`, or if `orders_ties` is set. All other ties are
    ordered when the texts are chosen.
    """
    snapshot, scores = scope.snapshot, found.scores
    order = np.arange(len(scores))
    ends = (scores[1:] != scores[:-1]).nonzero()[0] + 1
    if len(ends) >= len(scores) - 1:
        return order  # no scores tie
    rows = found.rows.tolist()
    for start, end in pairwise((0, *ends.tolist(), len(rows))):
        if end - start > 1 and (start < depth < end or scope.orders_ties):
            order[start:end] = sorted(range(start, end), key=lambda i: name_of(snapshot, rows[i]))
    return order
