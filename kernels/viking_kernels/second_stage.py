"""The second stage of a find: the scores of the best files, with what these show together.

    score     = f * (final + feedback + cover + agreement + reply + date), in [0, 1]
    feedback  = FEEDBACK_WEIGHT * g * (max(0, c') - max(0, c))
    c'        = (c + p * x . m) / |u + p * m|                          p = PSEUDO
    cover     = COVER_WEIGHT * idf of the query's terms that the file has / idf of all its terms
    agreement = AGREEMENT_WEIGHT * h / (rank by words * rank by meaning)
    reply     = REPLY_WEIGHT * node score of the file before, where another speaker asks
    date      = DATE_WEIGHT where the file's day is one that the query names
    f         = the factor of the file's kind, where the query prefers some kinds

x is the centred unit vector of the file's best text, u that of the query, and c = x . u (see
dense.py). m is the mean of x over the FIRST best files, and those that tie with the last of these:
pseudo relevance feedback (Rocchio 1971). A short text next to the first results is near to them
whatever it says, so g = clip((terms - 20) / 40, 0, 1) by the number of terms of the file's texts.

The ranks are among these files, by the words and by the meaning of their best texts. A file that is
first by both is right more often than its sum says, since in a sum a large lead by one of them
decides alone; see reciprocal rank fusion (Cormack 2009). Among short texts the rank by words is
chance, so h = clip((terms - 10) / 20, 0, 1).

In a conversation, an answer seldom has the words of the question before it. So a turn gets a share
of the score of the turn before, if that is a question of another speaker.
"""

from __future__ import annotations

import numpy as np

from viking_kernels import simd_scores as lanes
from viking_kernels._jit import called, inlined, njit
from viking_kernels.arrays import (
    AGREEMENT,
    COVER,
    DATE,
    DENSE,
    F32,
    F64,
    FEEDBACK,
    FINAL,
    I32,
    I64,
    KIND,
    LEXICAL,
    REPLY,
    U8,
    Search,
    Terms,
)
from viking_kernels.bm25 import lower_bound
from viking_kernels.dense import centred
from viking_kernels.node_scores import file_score
from viking_kernels.scope import place
from viking_kernels.select import sort_rising

BEST = 20
"""The best files that a second stage looks at, whatever the limit of the find.

With 30 the quality is the same, and a find takes a twentieth longer.
"""

FIRST = 3
"""The results whose meaning is added to the query's."""

PSEUDO = 0.3
FEEDBACK_WEIGHT = 0.25
FEEDBACK_TERMS = 20.0, 60.0
"""Feedback counts for nothing in files of so few terms, and in full in files of so many."""
COVER_WEIGHT = 0.03
AGREEMENT_WEIGHT = 0.04
AGREEMENT_TERMS = 10.0, 30.0
"""As FEEDBACK_TERMS."""
REPLY_WEIGHT = 0.15
DATE_WEIGHT = 0.08

_ASKS = 1  # the bit of a turn

_TIE = 1e-6
"""Scores nearer than this are equal: their last bits may depend on the order of a sum."""

_NEGLIGIBLE = 1e-4  # see dense.py


@njit
def adjust(
    chosen: I64,
    windows: I32,
    parts: F64,
    best: I32,
    gains: F64,
    named: U8,
    factors: F32,
    terms: Terms,
    ranges: I64,
    search: Search,
) -> None:
    """Compute the second stage of some files: fill FEEDBACK to KIND of `parts`, and update FINAL.

    Args:
        chosen: [n] indices of the files, by descending FINAL.
        windows, parts, best: the windows and results of `final_scores.parts_of_files`.
        gains: from `bm25.score_scope`.
        named: [files of the scope] 1 if the query names the file's day; [0]: it names none.
        factors: [files of the scope] the factor of each file's kind; [0]: no kind is preferred.
        terms: the terms of the query.
        ranges: from `bm25.ranges_of`.
        search: scratch.lexical holds the lexical scores.
    """
    scope = search.scope
    if search.query.use_dense and chosen.shape[0] > 0:
        lengths = np.empty(chosen.shape[0], np.float64)
        for i in range(chosen.shape[0]):
            lengths[i] = _count_terms(windows[chosen[i], 0], search)
        _add_feedback(chosen, lengths, parts, best, search)
        _add_agreement(chosen, lengths, parts)
    _add_cover(chosen, windows, parts, gains, terms, ranges, search)
    _add_reply(chosen, windows, parts, search)
    for i in range(chosen.shape[0]):
        at = chosen[i]
        file = place(windows[at, 0], scope.file_low, scope.file_high, scope.base_files)
        if named.shape[0] > 0:
            parts[at, DATE] = DATE_WEIGHT * named[file]
        score = parts[at, FINAL]
        for part in range(FEEDBACK, KIND):
            score += parts[at, part]
        if factors.shape[0] > 0:
            parts[at, KIND] = (factors[file] - 1.0) * score
        parts[at, FINAL] = min(max(score + parts[at, KIND], 0.0), 1.0)


@njit
def _add_feedback(chosen: I64, lengths: F64, parts: F64, best: I32, search: Search) -> None:
    query = search.query
    mean = _mean_of_first(chosen, parts, best, search)
    along, square = lanes.product(mean, query.direction), lanes.product(mean, mean)
    length = np.sqrt(1.0 + 2.0 * PSEUDO * along + PSEUDO * PSEUDO * square)
    for i in range(chosen.shape[0]):
        at = chosen[i]
        text = np.int64(best[at])
        if not _has_vector(text, search):
            continue
        gate = _gate(lengths[i], FEEDBACK_TERMS)
        if gate == 0.0:
            continue
        dot, of_mean, norm = _products(text, mean, search)
        if norm <= _NEGLIGIBLE:
            continue
        cosine = dot / norm
        moved = (cosine + PSEUDO * of_mean / norm) / length
        parts[at, FEEDBACK] = FEEDBACK_WEIGHT * gate * (max(moved, 0.0) - max(cosine, 0.0))


@njit
def _mean_of_first(chosen: I64, parts: F64, best: I32, search: Search) -> F32:
    """Return m [dim], the mean vector of the first files; zeros if none of them has a vector."""
    vectors, scripts = search.vectors, search.tree.texts.script
    base = vectors.base_raw.shape[0]
    total = np.zeros(search.query.direction.shape[0], np.float64)
    count = 0
    last = parts[chosen[min(FIRST, chosen.shape[0]) - 1], FINAL] - _TIE
    for i in range(chosen.shape[0]):
        text = np.int64(best[chosen[i]])
        if parts[chosen[i], FINAL] < last:
            break
        if not _has_vector(text, search):
            continue
        x = vectors.base_raw[text] if text < base else vectors.tail_raw[text - base]
        centroid = search.query.centroids.raw[np.int64(scripts[text])]
        square = 0.0
        for j in range(total.shape[0]):
            square += (np.float64(x[j]) - np.float64(centroid[j])) ** 2
        norm = np.sqrt(square)
        if norm > _NEGLIGIBLE:
            for j in range(total.shape[0]):
                total[j] += (np.float64(x[j]) - np.float64(centroid[j])) / norm
            count += 1
    mean = np.empty(total.shape[0], np.float32)
    for j in range(total.shape[0]):  # In fp32, so that the order of files that tie is of no effect.
        mean[j] = np.float32(total[j] / max(count, 1))
    return mean


@inlined
def _has_vector(text: int, search: Search) -> bool:
    return text >= 0 and search.vectors.vector_at[text] <= search.scope.revision


@inlined
def _products(text: int, mean: F32, search: Search) -> tuple[float, float, float]:
    """Return (y . u, y . mean, |y|), where y is the centred vector of a text and u the query's."""
    vectors, query = search.vectors, search.query
    base = vectors.base_raw.shape[0]
    script = np.int64(search.tree.texts.script[text])
    x = vectors.base_raw[text] if text < base else vectors.tail_raw[text - base]
    dot, square = centred(x, query, script)
    of_mean, _ = lanes.centred_products(x, query.centroids.raw[script], mean)
    return dot, of_mean, np.sqrt(square)


@inlined
def _count_terms(file: int, search: Search) -> float:
    """Return the total number of terms in the living texts of a file, repeats included."""
    texts, files, scope = search.tree.texts, search.tree.files, search.scope
    count = 0.0
    if file < scope.base_files:
        for row in range(np.int64(files.texts[file, 0]), np.int64(files.texts[file, 1])):
            if texts.tombstoned[row] > scope.revision:
                count += texts.length[row]
    row = np.int64(files.newest[file])
    while row >= 0:
        if row < texts.tombstoned.shape[0] and texts.tombstoned[row] > scope.revision:
            count += texts.length[row]
        row = np.int64(texts.older[row - scope.base_texts])
    return count


@njit
def _add_cover(
    chosen: I64,
    windows: I32,
    parts: F64,
    gains: F64,
    terms: Terms,
    ranges: I64,
    search: Search,
) -> None:
    texts, files, scope = search.tree.texts, search.tree.files, search.scope
    total = 0.0
    for term in range(gains.shape[0]):
        total += gains[term] / np.float64(terms.weight[term])
    if total <= 0.0:
        return
    count = chosen.shape[0]
    rows = np.empty(count, np.int32)
    for i in range(count):
        rows[i] = windows[chosen[i], 0]
    sort_rising(rows)
    has = np.empty(count, np.uint8)
    for term in range(gains.shape[0]):
        has[:] = 0
        first, last = ranges[term, 0], ranges[term, 1]
        for i in range(count):
            if rows[i] >= scope.base_files:
                break
            end = np.int64(files.texts[rows[i], 1])
            first = lower_bound(terms.base_text, first, last, np.int64(files.texts[rows[i], 0]))
            while first < last and terms.base_text[first] < end and has[i] == 0:
                has[i] = texts.tombstoned[terms.base_text[first]] > scope.revision
                first += 1
        for p in range(terms.tail_from[term], terms.tail_from[term + 1]):
            text = np.int64(terms.tail_text[p])
            if texts.tombstoned[text] > scope.revision and texts.file[text] >= 0:
                i = lower_bound(rows, 0, count, np.int64(texts.file[text]))
                if i < count and rows[i] == texts.file[text]:
                    has[i] = 1
        share = COVER_WEIGHT * (gains[term] / np.float64(terms.weight[term])) / total
        for i in range(count):
            file = np.int64(windows[chosen[i], 0])
            if has[lower_bound(rows, 0, count, file)] == 1:
                parts[chosen[i], COVER] += share


@njit
def _add_agreement(chosen: I64, lengths: F64, parts: F64) -> None:
    for i in range(chosen.shape[0]):
        at = chosen[i]
        words, meaning = parts[at, LEXICAL], parts[at, DENSE]
        if words <= 0.0 or meaning <= 0.0:
            continue
        by_words = by_meaning = 1.0
        for j in range(chosen.shape[0]):
            by_words += parts[chosen[j], LEXICAL] > words + _TIE
            by_meaning += parts[chosen[j], DENSE] > meaning + _TIE
        share = _gate(lengths[i], AGREEMENT_TERMS) / (by_words * by_meaning)
        parts[at, AGREEMENT] = AGREEMENT_WEIGHT * share


@inlined
def _gate(terms: float, bounds: tuple[float, float]) -> float:
    """Return 0 up to the first bound, 1 from the second one on, and a straight line between."""
    return min(max((terms - bounds[0]) / (bounds[1] - bounds[0]), 0.0), 1.0)


@called
def _add_reply(chosen: I64, windows: I32, parts: F64, search: Search) -> None:
    never = search.scope.revision < 0  # see `find` for constants
    for i in range(chosen.shape[0]):
        at = chosen[i]
        before = np.int64(windows[at, 1])
        if before < 0:
            continue
        said = _turn(before, search)
        if said & _ASKS == 0 or said <= _ASKS:
            continue
        own = _turn(np.int64(windows[at, 0]), search)
        if own > _ASKS and own >> 1 != said >> 1:
            score, _, _, _ = file_score(before, never, search)
            parts[at, REPLY] = REPLY_WEIGHT * score


@inlined
def _turn(file: int, search: Search) -> int:
    """Return a file's turn: twice its speaker's number, plus 1 if a text has a question mark."""
    texts, files, scope = search.tree.texts, search.tree.files, search.scope
    turn = np.int64(0)
    if file < scope.base_files:
        for row in range(np.int64(files.texts[file, 0]), np.int64(files.texts[file, 1])):
            if texts.tombstoned[row] > scope.revision:
                turn |= np.int64(texts.turn[row])
    row = np.int64(files.newest[file])
    while row >= 0:
        if row < texts.tombstoned.shape[0] and texts.tombstoned[row] > scope.revision:
            turn |= np.int64(texts.turn[row])
        row = np.int64(texts.older[row - scope.base_texts])
    return turn
