"""Flat searches: the best of files' texts by meaning alone, or by words alone, both exact.

By meaning: from int4 codes follows the most that a row's product with the query can be; the best
of these, rescored from fp32, say what the k-th best has at least, and every row that may reach it
is rescored: from its int8 code first, by the same rule.

By words: terms that can't lift a text into the k best by themselves are looked up only for texts
that others have lifted (MaxScore: Turtle and Flood 1995), one window of texts after the other.
"""

from __future__ import annotations

import numpy as np

from viking_kernels import simd
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    F32,
    I32,
    I64,
    TEXT_LENGTH,
    TEXTS,
    U8,
    Scope,
    Terms,
    Texts,
    Vectors,
)
from viking_kernels.bm25 import idf, lower_bound, norm_of, postings
from viking_kernels.dense import products_int8, to_int8
from viking_kernels.int4 import ROUNDING, CodedDirection, code_direction, products_int4
from viking_kernels.scope import directory_inside, place
from viking_kernels.select import GROUP, any_above

_BLOCK = 256  # rows whose products are made before they are looked at
_AHEAD = 8  # rows by which codes are fetched before they are needed
_WINDOW = 8192  # texts whose scores fit into the nearest cache, a multiple of GROUP
_LOOK_UP = 8  # postings that are added up in about the time of one that is looked up


@inlined
def _reach(
    products: I32, along: F32, scale: F32, error: F32, query: CodedDirection, limit: float,
    reach: F32,
) -> int:  # fmt: skip
    """Fills `reach` with the most that rows' products can be; how many are above the limit.

    By Cauchy and Schwarz, with x = along * axis + y + e, y = scale * (code - 7.5), |e| the error:
    u . x <= along * (u . axis) + step * (y . factors) + |u - step * factors| |y| + |v| |e|, and
    |y| <= 1 + |e|.
    """
    above = np.int32(0)
    for i in range(reach.shape[0]):
        across = scale[i] * np.float32(2 * products[i] - query.offset) * np.float32(0.5)
        most = query.along * along[i] + query.step * across + query.length * error[i] + query.off
        reach[i] = most
        above = np.int32(above + np.int32(most > limit))
    return above


@inlined
def _product(x: F32, direction: F32) -> float:
    """Scalar product in fp32."""
    total = np.float32(0)
    for j in range(direction.shape[0]):
        total += x[j] * direction[j]
    return total


@inlined
def keep_best(rows: I32, scores: F32, count: int, row: int, score: float) -> int:
    """Takes a row in where it is one of the best, by score, then by row; the new count."""
    value = np.float32(score)
    at = count
    while at > 0 and (value > scores[at - 1] or (value == scores[at - 1] and row < rows[at - 1])):
        if at < rows.shape[0]:
            rows[at] = rows[at - 1]
            scores[at] = scores[at - 1]
        at -= 1
    if at < rows.shape[0]:
        rows[at] = row
        scores[at] = value
    return min(count + 1, rows.shape[0])


@inlined
def is_inside(row: int, texts: Texts, scope: Scope, tail_inside: U8) -> bool:
    """Whether a text of the scope's range in the base, or any of the tail, counts."""
    return texts.died[row] > scope.revision and (
        row < scope.base_texts or directory_inside(texts.directory[row], tail_inside, scope)
    )


@inlined
def is_allowed(row: int, texts: Texts, allowed: U8, scope: Scope) -> bool:
    """Whether a text of the scope is a file's, and the filter lets the file through."""
    file = np.int64(texts.file[row])
    if file < 0:
        return False
    at = place(file, scope.file_low, scope.file_high, scope.base_files)
    return allowed.shape[0] == 0 or allowed[at] != 0


@inlined
def _eligible(
    row: int, vectors: Vectors, texts: Texts, scope: Scope, tail_inside: U8, allowed: U8
) -> bool:
    """Whether a text has a vector, is inside and allowed."""
    return (
        vectors.vector_at[row] <= scope.revision
        and is_inside(row, texts, scope, tail_inside)
        and is_allowed(row, texts, allowed, scope)
    )


@njit
def dense_top(
    direction: F32,
    vectors: Vectors,
    texts: Texts,
    scope: Scope,
    tail_inside: U8,
    allowed: U8,
    k: int,
) -> tuple[I32, F32]:
    """The k files' texts of a scope whose vectors have the largest products with a direction.

    Exact but for fp32 sums: no bound is a matter of chance. Dead texts and those without a vector
    are left out.

    Args:
        direction: [dim] of unit length for cosines; of zeros, all products are 0; if it isn't
            finite, nothing is found.
        tail_inside: from `scope.tail_directories`.
        allowed: uint8 [files of the scope], 0 where a filter forbids; or [0]: nothing is
            forbidden.
        k: at least 1.

    Returns:
        (rows, products): k or as many as there are, best first, ties by row.
    """
    rows = np.empty(k, np.int32)
    scores = np.empty(k, np.float32)
    count = 0
    code = np.empty((1, vectors.base_codes.shape[1]), np.int8)
    bias, step, off = to_int8(direction, code[0])
    length = 0.0
    for j in range(direction.shape[0]):
        length += np.float64(direction[j]) * np.float64(direction[j])
    length = np.sqrt(length)
    if not length < np.inf:
        return rows[:0], scores[:0]
    for row in range(scope.base_texts, texts.died.shape[0]):
        if _eligible(row, vectors, texts, scope, tail_inside, allowed):
            score = _product(vectors.tail_raw[row - scope.base_texts], direction)
            count = keep_best(rows, scores, count, row, score)

    low, high, coded = scope.text_low, scope.text_high, vectors.base_int4
    factors = np.zeros(coded.codes.shape[1] * 2, np.int8)
    query = code_direction(direction, coded.axis, factors)
    reach = np.empty(high - low, np.float32)
    products = np.empty(_BLOCK + simd.TOGETHER, np.int32)
    proposed = np.empty(min(2 * k + 32, high - low), np.int32)
    most = np.empty(proposed.shape[0], np.float32)
    proposals = 0
    for first in range(low, high, _BLOCK):
        end = min(first + _BLOCK, high)
        for row in range(first, end, simd.TOGETHER):
            products_int4(coded.codes, row, high - 1, factors, products, row - first)
        limit = np.float32(-np.inf)
        if proposals == proposed.shape[0]:
            limit = most[proposals - 1]
        above = _reach(
            products, coded.along[first:end], coded.scale[first:end], coded.error[first:end],
            query, limit, reach[first - low : end - low],
        )  # fmt: skip
        if above > 0:
            for row in range(first, end):
                value = reach[row - low]
                if value > limit and _eligible(row, vectors, texts, scope, tail_inside, allowed):
                    proposals = keep_best(proposed, most, proposals, row, value)
                    if proposals == proposed.shape[0]:
                        limit = most[proposals - 1]

    for i in range(proposals):
        row = np.int64(proposed[i])
        count = keep_best(rows, scores, count, row, _product(vectors.base_raw[row], direction))
        reach[row - low] = -np.inf  # or it would be taken twice
    least = np.float32(-np.inf)
    if count == k:
        least = scores[k - 1]
    # In a list first: each is a surprise to the processor only once, and can be fetched ahead.
    reaching = np.empty(high - low, np.int32)
    found = 0
    for i in range(high - low):
        reaching[found] = low + i
        found += np.int64(reach[i] >= least and reach[i] > -np.inf)
    for i in range(found):
        simd.prefetch(vectors.base_codes, np.int64(reaching[min(i + _AHEAD, found - 1)]))
        row = np.int64(reaching[i])
        product, _ = products_int8(vectors.base_codes, row, code, 0, code, 0)
        error = np.float64(vectors.error[row])
        can_be = np.float64(vectors.scale[row]) * step * (product - bias) + error * length
        can_be += off * (1.0 + error) + ROUNDING * length
        if can_be >= least and _eligible(row, vectors, texts, scope, tail_inside, allowed):
            count = keep_best(rows, scores, count, row, _product(vectors.base_raw[row], direction))
            if count == k:
                least = scores[k - 1]
    return rows[:count], scores[:count]


@inlined
def _gain(gain: float, tf: int, length: int, norm: tuple[float, float]) -> float:
    """What a term adds to a text's score: see `bm25`."""
    frequency = np.float64(tf)
    return gain * frequency / (frequency + norm[0] + norm[1] * length)


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
    """The k files' texts of a scope that score best against the query's terms, if they have any.

    The scores are those of `bm25.score_scope` to 1e-6: N, df and the average length are the
    scope's, whatever a filter forbids.

    Args:
        counts: [COUNTS] of the scope's root, see `arrays`.
        tail_inside: from `scope.tail_directories`.
        allowed: uint8 [files of the scope], 0 where a filter forbids; or [0]: nothing is
            forbidden.
        k: at least 1.

    Returns:
        (rows, scores in (0, 1)): k or as many as there are, best first, ties by row.
    """
    text = terms.base_text
    n = terms.weight.shape[0]
    rows = np.empty(k, np.int32)
    scores = np.empty(k, np.float32)
    count = 0
    documents = float(counts[TEXTS])
    norm = norm_of(max(1.0, counts[TEXT_LENGTH] / max(1.0, documents)))
    tail = np.zeros(texts.died.shape[0] - scope.base_texts, np.float32)
    alive = scope.text_high - scope.text_low
    for i in range(tail.shape[0]):
        if is_inside(scope.base_texts + i, texts, scope, tail_inside):
            alive += 1
        else:
            tail[i] = -1.0
    # Postings need not be looked at to be counted where no text of the range is dead.
    all_alive = alive == counts[TEXTS]
    at = np.empty(n, np.int64)
    ends = np.empty(n, np.int64)
    gains = np.empty(n, np.float64)
    ideal = 0.0
    for i in range(n):
        first, last = postings(terms, i)
        at[i] = lower_bound(text, first, last, scope.text_low)
        ends[i] = lower_bound(text, at[i], last, scope.text_high)
        df = ends[i] - at[i]
        if not all_alive:
            for p in range(at[i], ends[i]):
                df -= np.int64(texts.died[text[p]] <= scope.revision)
        for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
            position = np.int64(terms.tail_text[p]) - scope.base_texts
            df += np.int64(position < tail.shape[0] and tail[position] == 0)
        gains[i] = np.float64(terms.weight[i]) * idf(documents, df)
        ideal += gains[i]
    if ideal <= 0:
        return rows[:0], scores[:0]
    # Every text's score is summed in one order, whichever terms were looked up: what is equal
    # stays equal in its last bit.
    order = np.empty(n, np.int64)
    for i in range(n):
        j = i
        while j > 0 and gains[order[j - 1]] < gains[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    rest = np.zeros(n + 1, np.float64)  # the most that terms order[j:] can give
    for j in range(n - 1, -1, -1):
        gains[order[j]] /= ideal
        rest[j] = rest[j + 1] + gains[order[j]]

    for i in order:
        for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
            position = np.int64(terms.tail_text[p]) - scope.base_texts
            if position < tail.shape[0] and tail[position] >= 0:
                length = texts.length[terms.tail_text[p]]
                tail[position] += _gain(gains[i], terms.tail_tf[p], length, norm)
    for i in range(tail.shape[0]):
        if tail[i] > 0 and is_allowed(scope.base_texts + i, texts, allowed, scope):
            count = keep_best(rows, scores, count, scope.base_texts + i, tail[i])

    rounding = 1e-6 + 1e-7 * n  # of sums of n float32 that come to 1 at most
    window = np.zeros(_WINDOW, np.float32)
    stops = np.empty(n, np.int64)
    needed = n  # terms order[needed:] can't lift a text into the k best
    for start in range(scope.text_low, scope.text_high, _WINDOW):
        least = np.float64(scores[k - 1]) - rounding if count == k else 0.0
        while needed > 0 and rest[needed - 1] < least:
            needed -= 1
        if needed == 0:
            break
        size = min(_WINDOW, scope.text_high - start)
        added = 0
        seen = 0
        for j in range(n):
            i = order[j]
            stops[i] = lower_bound(text, at[i], ends[i], start + size)
            here = stops[i] - at[i]
            if j < needed or (j == added and here <= _LOOK_UP * seen):
                added = j + 1
                seen += here
                for p in range(at[i], stops[i]):
                    length = texts.length[text[p]]
                    window[text[p] - start] += _gain(gains[i], terms.base_tf[p], length, norm)
        for first in range(0, size if seen > 0 else 0, GROUP):
            limit = np.float32(max(least - rest[added], 0.0))
            if not any_above(window, first, limit):
                continue
            for position in range(first, first + GROUP):
                score = window[position]
                if score <= np.float32(max(least - rest[added], 0.0)):
                    continue
                row = start + position
                for j in range(added, n):
                    if score + rest[j] < least:
                        break
                    i = order[j]
                    at[i] = lower_bound(text, at[i], stops[i], row)
                    if at[i] < stops[i] and text[at[i]] == row:
                        tf = terms.base_tf[at[i]]
                        score = np.float32(score + _gain(gains[i], tf, texts.length[row], norm))
                if (
                    score >= least
                    and is_inside(row, texts, scope, tail_inside)
                    and is_allowed(row, texts, allowed, scope)
                ):
                    count = keep_best(rows, scores, count, row, score)
                    if count == k:
                        least = np.float64(scores[k - 1]) - rounding
        window[:size] = 0
        for i in range(n):  # from array to array, numba would compile what makes its error's text
            at[i] = stops[i]
    return rows[:count], scores[:count]
