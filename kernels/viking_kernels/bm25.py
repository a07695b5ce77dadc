"""BM25 over the texts of a scope, and over its directories as documents.

Lucene's form (Robertson and Zaragoza 2009, without the constant factor k1 + 1):

    score(text) = sum over terms of weight * idf * tf / (tf + k1 * (1 - b + b * length / average))
    idf = ln(1 + (N - df + 0.5) / (df + 0.5))

N, df and the average length are the scope's. The score of a text is at most the sum of
weight * idf, the ideal; score / ideal lies in [0, 1). A term without a text counts in the ideal
with the largest idf, that of df = 0.

A directory's document is its abstract, the texts of its files and the abstracts of its
directories. Its tf is the sum of theirs, computed here, so that there is no second index to update.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    DIRECTORIES,
    DOCUMENT_LENGTH,
    F32,
    F64,
    I32,
    I64,
    OWN_LENGTH,
    TEXT_LENGTH,
    TEXTS,
    U8,
    Scope,
    Search,
    Terms,
    Texts,
)
from viking_kernels.node_scores import script_mismatch
from viking_kernels.scope import directory_inside, place, row_at
from viking_kernels.select import lowest, mask_above
from viking_kernels.simd_scores import GROUP

K1 = 1.2
B = 0.75

_CLEARED = 16
"""Adjacent scores that are cleared in the time of one score that a posting leads to."""

SCORE_FLOOR = 0.2
"""The least lexical score of the best text; from .15 to .25 the quality is the same."""


@inlined
def postings(terms: Terms, term: int) -> tuple[int, int]:
    """Return the range [first, last) of a term's postings in the base; (0, 0) without any."""
    low, high = 0, terms.base_key.shape[0]
    while low < high:
        middle = (low + high) // 2
        if terms.base_key[middle] < terms.key[term]:
            low = middle + 1
        else:
            high = middle
    if low < terms.base_key.shape[0] and terms.base_key[low] == terms.key[term]:
        return terms.base_at[low], terms.base_at[low + 1]
    return 0, 0


@inlined
def lower_bound(values: I32, low: int, high: int, wanted: int) -> int:
    """Return the first index in [low, high) with a value >= `wanted`, else high; values rise."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def ranges_of(terms: Terms, scope: Scope) -> I64:
    """Return [2n, 2]: for each key of the terms, the range of its base postings in the scope."""
    ranges = np.empty((terms.key.shape[0], 2), np.int64)
    for i in range(ranges.shape[0]):
        first, last = postings(terms, i)
        ranges[i, 0] = lower_bound(terms.base_text, first, last, scope.text_low)
        ranges[i, 1] = lower_bound(terms.base_text, ranges[i, 0], last, scope.text_high)
    return ranges


@inlined
def is_crowded(ranges: I64, first: int, last: int, size: int) -> bool:
    """Return True if clearing all `size` scores is faster than clearing those of the postings.

    The postings are those in ranges[first] to ranges[last - 1].
    """
    count = 0
    for i in range(first, last):
        count += ranges[i, 1] - ranges[i, 0]
    return count * _CLEARED > size


@inlined
def _add_to_directory(position: int, tf: float, dir_tf: F32, touched: I32, count: int) -> int:
    """Add a tf above 0 to a directory's document; return the new number of directories with a tf.

    `touched` lists these directories. The directory is always written to touched[count], and counts
    only if it is new: a branch would be hard to predict.
    """
    touched[count] = position
    count += np.int64(dir_tf[position] == 0)
    dir_tf[position] += tf
    return count


@inlined
def norm_of(average: float) -> tuple[float, float]:
    """Return (level, slope) of BM25: a term's gain is tf / (tf + level + slope * text length)."""
    return K1 * (1.0 - B), K1 * B / average


@inlined
def idf(documents: float, df: float) -> float:
    """Return Lucene's idf: ln(1 + (N - df + 0.5) / (df + 0.5)), above 0."""
    return np.log(1.0 + (documents - df + 0.5) / (df + 0.5))


@inlined
def _tail_counts(p: int, terms: Terms, texts: Texts, tail_inside: U8, scope: Scope) -> bool:
    """Return True if posting p of the tail is of a living text of the scope."""
    text = terms.tail_text[p]
    return texts.tombstoned[text] > scope.revision and directory_inside(
        texts.directory[text], tail_inside, scope
    )


@njit
def score_scope(
    search: Search, tail_inside: U8, terms: Terms, ranges: I64
) -> tuple[int, float, F64]:
    """Compute the BM25 scores of all texts and directories of a scope.

    Scores are divided by the ideal, which is the upper bound of the score of a text; see the
    module.

    Args:
        search: scratch.lexical and .dir_lexical, zeros for the scope, get scores in [0, 1).
        tail_inside: the result of `scope.tail_directories`.
        terms: the terms of the query.
        ranges: the result of `ranges_of`.

    Returns:
        (number of living postings, the ideal of texts, weight * idf of each term [n]).
    """
    stats, scope, scratch, texts = search.stats, search.scope, search.scratch, search.tree.texts
    count = terms.weight.shape[0]
    slot = stats.slot[scope.root]
    documents = float(stats.counts[slot, TEXTS])
    average = max(1.0, stats.counts[slot, TEXT_LENGTH] / max(1.0, documents))
    all_alive = _all_alive(texts, stats.counts[slot, TEXTS], scope, tail_inside)
    gains = np.empty(count, np.float64)
    dir_gains = 0.0
    ideal = 0.0
    looked_at = 0
    for i in range(count):
        first, last = ranges[i, 0], ranges[i, 1]
        df = last - first
        if not all_alive:
            for p in range(first, last):
                df -= np.int64(texts.tombstoned[terms.base_text[p]] <= scope.revision)
        for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
            df += np.int64(_tail_counts(p, terms, texts, tail_inside, scope))
        looked_at += df
        gains[i] = np.float64(terms.weight[i]) * idf(documents, df)
        ideal += gains[i]
    if ideal <= 0:
        return looked_at, ideal, gains
    # Read once in order: each term would read them again in disorder, from distant cache lines.
    lengths = scratch.dir_errors
    for position in range(scope.dir_high - scope.dir_low + tail_inside.shape[0]):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        lengths[position] = stats.counts[stats.slot[row], OWN_LENGTH]
    for i in range(count):
        gain = gains[i] / ideal
        dir_gains += _score_term(i, gain, average, all_alive, search, tail_inside, terms, ranges)
    for d in range(scope.dir_high - scope.dir_low + tail_inside.shape[0]):
        scratch.dir_lexical[d] = np.float32(scratch.dir_lexical[d] / dir_gains)
    return looked_at, ideal, gains


@inlined
def _all_alive(texts: Texts, alive: int, scope: Scope, tail_inside: U8) -> bool:
    """Return True if all base texts of the scope are living; `alive` counts all living texts."""
    for row in range(scope.base_texts, texts.tombstoned.shape[0]):
        alive -= np.int64(
            texts.tombstoned[row] > scope.revision
            and directory_inside(texts.directory[row], tail_inside, scope)
        )
    return alive == scope.text_high - scope.text_low


@inlined
def _score_term(
    term: int,
    gain: float,
    average: float,
    all_alive: bool,
    search: Search,
    tail_inside: U8,
    terms: Terms,
    ranges: I64,
) -> float:
    """Add a term to the scores of texts and directories; return its part of the directories' ideal.

    Args:
        gain: the term's share of the ideal of texts.
        average: the average length of a text.
        all_alive: True if no base text is tombstoned.
    """
    tree, stats, scope, scratch = search.tree, search.stats, search.scope, search.scratch
    parents, starts, texts = tree.directories.parent, tree.directories.texts, tree.texts
    dir_tf, touched, lengths = scratch.dir_tf, scratch.touched, scratch.dir_errors
    level, slope = norm_of(average)
    count = np.int64(0)
    for p in range(ranges[term, 0], ranges[term, 1]):
        text = np.int64(terms.base_text[p])
        if all_alive or texts.tombstoned[text] > scope.revision:
            tf = np.float64(terms.base_tf[p])
            norm = level + slope * texts.length[text]
            scratch.lexical[text - scope.text_low] += gain * tf / (tf + norm)
            directory = np.int64(texts.directory[text])
            at = directory - scope.dir_low
            count = _add_to_directory(at, tf, dir_tf, touched, count)
            # Only the first text of a directory can be its abstract.
            if text == starts[directory] and texts.file[text] < 0 and directory != scope.root:
                at = np.int64(parents[directory]) - scope.dir_low
                count = _add_to_directory(at, tf, dir_tf, touched, count)
    for p in range(terms.tail_from[term], terms.tail_from[term + 1]):
        if _tail_counts(p, terms, texts, tail_inside, scope):
            text = terms.tail_text[p]
            tf = np.float64(terms.tail_tf[p])
            at = place(text, scope.text_low, scope.text_high, scope.base_texts)
            scratch.lexical[at] += gain * tf / (tf + level + slope * texts.length[text])
            directory = np.int64(texts.directory[text])
            at = place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
            count = _add_to_directory(at, tf, dir_tf, touched, count)
            if texts.file[text] < 0 and directory != scope.root:
                parent = np.int64(parents[directory])
                at = place(parent, scope.dir_low, scope.dir_high, scope.base_dirs)
                count = _add_to_directory(at, tf, dir_tf, touched, count)
    slot = stats.slot[scope.root]
    directories = float(stats.counts[slot, DIRECTORIES])
    average_document = max(1.0, stats.counts[slot, DOCUMENT_LENGTH] / max(1.0, directories))
    dir_gain = np.float64(terms.weight[term]) * idf(directories, count)
    level, slope = norm_of(average_document)
    for c in range(count):
        position = touched[c]
        norm = level + slope * np.float64(lengths[position])
        frequency = np.float64(dir_tf[position])
        scratch.dir_lexical[position] += dir_gain * frequency / (frequency + norm)
        dir_tf[position] = 0
    return dir_gain


@njit
def rescale_to_floor(texts: Texts, scope: Scope, script: int, lexical: F32) -> float:
    """Multiply all lexical scores by one factor, so that the best one is at least SCORE_FLOOR.

    No text has most terms of a long query, so all scores are small compared with the ideal, and
    words would hardly count beside dense. Scores of 0 stay 0, and texts of a script that mismatches
    the query's do not set the factor. `lexical` [texts of the scope] is changed in place.

    Returns the factor; 1 if the best score is high enough or nothing matches.
    """
    size = scope.text_high - scope.text_low + texts.tombstoned.shape[0] - scope.base_texts
    best = np.float32(0)
    for first in range(0, size, GROUP):
        mask = mask_above(lexical, first, size, best)
        while mask != 0:
            i = first + lowest(mask)
            mask &= mask - 1
            if lexical[i] > best:
                row = row_at(i, scope.text_low, scope.text_high, scope.base_texts)
                if not script_mismatch(np.int64(texts.script[row]), script):
                    best = lexical[i]
        if best >= SCORE_FLOOR:
            return 1.0
    if best <= 0:
        return 1.0
    factor = SCORE_FLOOR / np.float64(best)
    for i in range(size):
        lexical[i] = np.float32(min(1.0, np.float64(lexical[i]) * factor))
    return factor


@njit
def forget(terms: Terms, ranges: I64, scope: Scope, lexical: F32) -> None:
    """Set the lexical scores that a query's terms may have changed back to 0."""
    count = terms.weight.shape[0]
    size = scope.text_high - scope.text_low
    if is_crowded(ranges, 0, count, size):
        lexical[:size] = 0
    else:
        for i in range(count):
            for p in range(ranges[i, 0], ranges[i, 1]):
                lexical[terms.base_text[p] - scope.text_low] = 0
    for p in range(terms.tail_from[count]):
        at = place(terms.tail_text[p], scope.text_low, scope.text_high, scope.base_texts)
        lexical[at] = 0
