"""Exact search in all texts by words alone, and the checks whether a text may be a result.

Some terms have so little weight that a text with these terms alone can't be among the k best. They
are looked up only for texts with other terms (MaxScore: Turtle and Flood 1995), one window of texts
after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    F32,
    I32,
    I64,
    TEXT_LENGTH,
    TEXTS,
    U8,
    U16,
    Scope,
    Terms,
    Texts,
)
from viking_kernels.bm25 import idf, lower_bound, norm_of, postings
from viking_kernels.scope import directory_inside, place
from viking_kernels.select import keep_best, lowest, mask_above
from viking_kernels.simd_scores import GROUP, POSTINGS, gains

_WINDOW = 16384  # texts whose scores fit into the first caches, a multiple of GROUP
_LOOK_UP = 16  # postings that are added in about the time of one lookup


@inlined
def is_inside(row: int, texts: Texts, scope: Scope, tail_inside: U8) -> bool:
    """Return True if a text is living and in the scope; a base row must be one of the scope."""
    return texts.tombstoned[row] > scope.revision and (
        row < scope.base_texts or directory_inside(texts.directory[row], tail_inside, scope)
    )


@inlined
def is_allowed(row: int, texts: Texts, allowed: U8, scope: Scope) -> bool:
    """Return True if the filter allows the file of a text; False for a directory's abstract."""
    file = np.int64(texts.file[row])
    if file < 0:
        return False
    at = place(file, scope.file_low, scope.file_high, scope.base_files)
    return allowed.shape[0] == 0 or allowed[at] != 0


class _Postings(NamedTuple):
    """Postings of several terms, with the lengths of all texts."""

    text: I32  # [postings]
    tf: U16  # [postings]
    length: I32  # [T] in terms


@inlined
def _add_up(
    postings: _Postings,
    at: int,
    last: int,
    factors: tuple[float, float, float],
    rows: tuple[int, int],
    scores: F32,
    gained: F32,
) -> int:
    """Add the BM25 gains of the postings [at, last) to `scores`, for texts below rows[1].

    `scores` are those of the texts rows[0] to rows[1] - 1; no posting is of a text before these.
    `factors` are those of `simd_scores.gains`, and `gained` [POSTINGS] is working memory. Returns
    the first posting that is not added.
    """
    text, tf, length = postings.text, postings.tf, postings.length
    start, end = rows
    while at < last:
        count = min(POSTINGS, last - at)
        while count > 0 and text[at + count - 1] >= end:
            count -= 1
        gains(text, tf, length, at, count, factors, gained)
        if count < POSTINGS:
            for i in range(count):
                scores[text[at + i] - start] += gained[i]
            return at + count
        for i in range(POSTINGS):  # a loop of known length
            scores[text[at + i] - start] += gained[i]
        at += POSTINGS
    return at


@inlined
def _skip(text: I32, at: int, last: int, row: int) -> int:
    """Return the first posting in [at, last) with a text >= `row`; fast if it is near `at`."""
    if at >= last or text[at] >= row:
        return at
    step = 1
    while at + step < last and text[at + step] < row:
        at += step
        step *= 2
    return lower_bound(text, at + 1, min(at + step, last), row)


@njit
def keyword_top(
    texts: Texts,
    counts: I64,
    scope: Scope,
    tail_inside: U8,
    terms: Terms,
    allowed: U8,
    k: int,
) -> tuple[I32, F32]:
    """Return the k texts of a scope with the best BM25 scores; only texts of files count.

    The scores equal those of `bm25.score_scope` to 1e-6. N, df and the average length are those of
    the scope, with or without a filter.

    Args:
        counts: [COUNTS] of the scope's root, see `arrays`.
        tail_inside: the result of `scope.tail_directories`.
        allowed: uint8 [files of the scope], 0 if a filter forbids the file; [0] allows all.
        k: at least 1.

    Returns:
        (rows, scores in (0, 1)), at most k, best first, ties by row.
    """
    text = terms.base_text
    n = terms.weight.shape[0]
    rows = np.empty(k, np.int32)
    scores = np.empty(k, np.float32)
    count = 0
    documents = float(counts[TEXTS])
    norm = norm_of(max(1.0, counts[TEXT_LENGTH] / max(1.0, documents)))
    tail = np.zeros(texts.tombstoned.shape[0] - scope.base_texts, np.float32)
    alive = scope.text_high - scope.text_low
    for i in range(tail.shape[0]):
        if is_inside(scope.base_texts + i, texts, scope, tail_inside):
            alive += 1
        else:
            tail[i] = -np.inf
    # If no text of the range is tombstoned, postings are counted without reading them.
    all_alive = alive == counts[TEXTS]
    at = np.empty(n, np.int64)
    ends = np.empty(n, np.int64)
    shares = np.empty(n, np.float64)  # at the end, of the ideal
    ideal = 0.0
    for i in range(n):
        first, last = postings(terms, i)
        at[i] = lower_bound(text, first, last, scope.text_low)
        ends[i] = lower_bound(text, at[i], last, scope.text_high)
        df = ends[i] - at[i]
        if not all_alive:
            for p in range(at[i], ends[i]):
                df -= np.int64(texts.tombstoned[text[p]] <= scope.revision)
        for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
            df += np.int64(tail[np.int64(terms.tail_text[p]) - scope.base_texts] == 0)
        shares[i] = np.float64(terms.weight[i]) * idf(documents, df)
        ideal += shares[i]
    if ideal <= 0:
        return rows[:0], scores[:0]
    # The order of terms is the same for every text, so that equal scores are equal to the last bit.
    order = np.empty(n, np.int64)
    for i in range(n):
        j = i
        while j > 0 and shares[order[j - 1]] < shares[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    rest = np.zeros(n + 1, np.float64)  # upper bound of the sum of terms order[j:]
    for j in range(n - 1, -1, -1):
        shares[order[j]] /= ideal
        rest[j] = rest[j + 1] + shares[order[j]]

    norms = (np.float32(norm[0]), np.float32(norm[1]))
    gained = np.empty(POSTINGS, np.float32)
    in_base = _Postings(text, terms.base_tf, texts.length)
    in_tail = _Postings(terms.tail_text, terms.tail_tf, texts.length)
    tail_rows = (scope.base_texts, texts.tombstoned.shape[0])
    for i in order:
        factors = (np.float32(shares[i]), norms[0], norms[1])
        first, last = terms.tail_from[i], terms.tail_from[i + 1]
        _add_up(in_tail, first, last, factors, tail_rows, tail, gained)
    for i in range(tail.shape[0]):
        if tail[i] > 0 and is_allowed(scope.base_texts + i, texts, allowed, scope):
            count = keep_best(rows, scores, count, scope.base_texts + i, tail[i])

    rounding = 1e-6 + 1e-7 * n  # of sums of n float32 of at most 1
    window = np.zeros(_WINDOW, np.float32)
    needed = n  # terms order[needed:] can't bring a text among the k best
    for start in range(scope.text_low, scope.text_high, _WINDOW):
        least = np.float64(scores[k - 1]) - rounding if count == k else 0.0
        while needed > 0 and rest[needed - 1] < least:
            needed -= 1
        if needed == 0:
            break
        size = min(_WINDOW, scope.text_high - start)
        part = size / (scope.text_high - start)  # about this share of a term's postings is here
        added = 0
        seen = 0
        for j in range(n):
            i = order[j]
            if j < needed or (j == added and (ends[i] - at[i]) * part <= _LOOK_UP * seen):
                added = j + 1
                here = _skip(text, at[i], ends[i], start)
                factors = (np.float32(shares[i]), norms[0], norms[1])
                span = (start, start + size)
                at[i] = _add_up(in_base, here, ends[i], factors, span, window, gained)
                seen += at[i] - here
        for first in range(0, size if seen > 0 else 0, GROUP):
            mask = mask_above(window, first, _WINDOW, np.float32(max(least - rest[added], 0.0)))
            while mask != 0:
                position = first + lowest(mask)
                mask &= mask - 1
                score = window[position]
                row = start + position
                for j in range(added, n):
                    if score + rest[j] < least:
                        break
                    i = order[j]
                    at[i] = _skip(text, at[i], ends[i], row)
                    if at[i] < ends[i] and text[at[i]] == row:
                        factors = (np.float32(shares[i]), norms[0], norms[1])
                        gains(text, terms.base_tf, texts.length, at[i], 1, factors, gained)
                        score = np.float32(score + gained[0])
                if (
                    score >= least
                    and is_inside(row, texts, scope, tail_inside)
                    and is_allowed(row, texts, allowed, scope)
                ):
                    count = keep_best(rows, scores, count, row, score)
                    if count == k:
                        least = np.float64(scores[k - 1]) - rounding
        window[:size] = 0
    return rows[:count], scores[:count]
