"""BM25 over the texts of a scope, and over its directories as documents.

Lucene's form (Robertson and Zaragoza 2009, without the constant factor k1 + 1):

    score(text) = sum over terms of weight * idf * tf / (tf + k1 * (1 - b + b * length / average))
    idf = ln(1 + (N - df + 0.5) / (df + 0.5))

N, df and the average length are the scope's. The score of a text is at most the sum of
weight * idf, the ideal; score / ideal lies in [0, 1). A term that nothing has counts in the ideal
with the idf of df = 0, the largest there is.

A directory's document is its abstract, the texts of its files and the abstracts of its
directories; its tf is summed up here from theirs, so that no second index has to follow a write.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import (
    DIRECTORIES,
    DOCUMENT_LENGTH,
    F32,
    I32,
    I64,
    OWN_LENGTH,
    TEXT_LENGTH,
    TEXTS,
    U8,
    Numbers,
    Scope,
    Scratch,
    Terms,
    Texts,
    Tree,
)
from viking_kernels.lanes import GROUP
from viking_kernels.scope import directory_inside, place, row_at
from viking_kernels.select import above, lowest
from viking_kernels.texts import foreign

K1 = 1.2
B = 0.75

_CLEARED = 16
"""So many scores that stand side by side are cleared in the time of one that a posting leads to."""

LEAST_BEST = 0.2
"""What the best text by words has at least; from .15 to .25 quality is the same."""


@inlined
def postings(terms: Terms, term: int) -> tuple[int, int]:
    """The range of a term's postings in the base; an empty one for a term that it has not."""
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
    """First index in [low, high) of the rising `values` that is not below `wanted`; else high."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def ranges_of(terms: Terms, scope: Scope) -> I64:
    """[2n, 2] first and one past the last posting of each term in the base that is of the scope."""
    ranges = np.empty((terms.key.shape[0], 2), np.int64)
    for i in range(ranges.shape[0]):
        first, last = postings(terms, i)
        ranges[i, 0] = lower_bound(terms.base_text, first, last, scope.text_low)
        ranges[i, 1] = lower_bound(terms.base_text, ranges[i, 0], last, scope.text_high)
    return ranges


@inlined
def is_crowded(ranges: I64, first: int, last: int, size: int) -> bool:
    """Whether it takes less time to clear `size` scores than those that postings lead to."""
    count = 0
    for i in range(first, last):
        count += ranges[i, 1] - ranges[i, 0]
    return count * _CLEARED > size


@inlined
def _add_to_directory(position: int, tf: float, dir_tf: F32, touched: I32, count: int) -> int:
    """Adds a tf above 0 to a directory's document; the number of those touched so far.

    Without a branch: whether it is touched for the first time is anyone's guess.
    """
    touched[count] = position
    count += np.int64(dir_tf[position] == 0)
    dir_tf[position] += tf
    return count


@inlined
def norm_of(average: float) -> tuple[float, float]:
    """What tf is weighed against: the first, and the second for each term of a text's length."""
    return K1 * (1.0 - B), K1 * B / average


@inlined
def idf(documents: float, df: float) -> float:
    """Lucene's idf: ln(1 + (N - df + 0.5) / (df + 0.5)), above 0."""
    return np.log(1.0 + (documents - df + 0.5) / (df + 0.5))


@inlined
def _tail_counts(p: int, terms: Terms, texts: Texts, tail_inside: U8, scope: Scope) -> bool:
    """Whether a posting of the tail is of a living text of the scope."""
    text = terms.tail_text[p]
    return texts.died[text] > scope.revision and directory_inside(
        texts.directory[text], tail_inside, scope
    )


@njit
def score_scope(
    tree: Tree,
    numbers: Numbers,
    scope: Scope,
    tail_inside: U8,
    terms: Terms,
    ranges: I64,
    scratch: Scratch,
) -> tuple[int, float]:
    """Scores every text and directory of a scope against the query's terms, over the ideal.

    Args:
        tail_inside: from `scope.tail_directories`.
        ranges: from `ranges_of`.
        scratch: `lexical` and `dir_lexical`, zeros for the scope, get scores in [0, 1).

    Returns:
        (texts that have a term: number of alive postings looked at, the texts' ideal).
    """
    texts = tree.texts
    count = terms.weight.shape[0]
    slot = numbers.slot[scope.root]
    documents = float(numbers.counts[slot, TEXTS])
    average = max(1.0, numbers.counts[slot, TEXT_LENGTH] / max(1.0, documents))
    all_alive = _all_alive(texts, numbers.counts[slot, TEXTS], scope, tail_inside)
    gains = np.empty(count, np.float64)
    dir_gains = 0.0
    ideal = 0.0
    looked_at = 0
    for i in range(count):
        first, last = ranges[i, 0], ranges[i, 1]
        df = last - first
        if not all_alive:
            for p in range(first, last):
                df -= np.int64(texts.died[terms.base_text[p]] <= scope.revision)
        for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
            df += np.int64(_tail_counts(p, terms, texts, tail_inside, scope))
        looked_at += df
        gains[i] = np.float64(terms.weight[i]) * idf(documents, df)
        ideal += gains[i]
    if ideal <= 0:
        return looked_at, ideal
    # In their order here; each term would ask for them anew, in disorder and lines apart.
    lengths = scratch.dir_off
    for position in range(scope.dir_high - scope.dir_low + tail_inside.shape[0]):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        lengths[position] = numbers.counts[numbers.slot[row], OWN_LENGTH]
    for i in range(count):
        dir_gains += _score_term(
            i,
            ranges[i, 0],
            ranges[i, 1],
            gains[i] / ideal,
            average,
            all_alive,
            tree,
            numbers,
            scope,
            tail_inside,
            terms,
            scratch,
        )
    for d in range(scope.dir_high - scope.dir_low + tail_inside.shape[0]):
        scratch.dir_lexical[d] = np.float32(scratch.dir_lexical[d] / dir_gains)
    return looked_at, ideal


@inlined
def _all_alive(texts: Texts, alive: int, scope: Scope, tail_inside: U8) -> bool:
    """Whether none of the scope's base texts is dead, given how many of the scope are alive."""
    for row in range(scope.base_texts, texts.died.shape[0]):
        alive -= np.int64(
            texts.died[row] > scope.revision
            and directory_inside(texts.directory[row], tail_inside, scope)
        )
    return alive == scope.text_high - scope.text_low


@inlined
def _score_term(
    term: int,
    first: int,
    last: int,
    gain: float,
    average: float,
    all_alive: bool,
    tree: Tree,
    numbers: Numbers,
    scope: Scope,
    tail_inside: U8,
    terms: Terms,
    scratch: Scratch,
) -> float:
    """Adds a term to the scores of texts and directories; its share of the directories' ideal.

    `gain` is its share of the texts' ideal.
    """
    parents, starts, texts = tree.directories.parent, tree.directories.texts, tree.texts
    dir_tf, touched, lengths = scratch.dir_tf, scratch.touched, scratch.dir_off
    level, slope = norm_of(average)
    count = np.int64(0)
    for p in range(first, last):
        text = np.int64(terms.base_text[p])
        if all_alive or texts.died[text] > scope.revision:
            tf = np.float64(terms.base_tf[p])
            norm = level + slope * texts.length[text]
            scratch.lexical[text - scope.text_low] += gain * tf / (tf + norm)
            directory = np.int64(texts.directory[text])
            at = directory - scope.dir_low
            count = _add_to_directory(at, tf, dir_tf, touched, count)
            # A directory's abstract is the first of its texts: the others' files need no look.
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
    slot = numbers.slot[scope.root]
    directories = float(numbers.counts[slot, DIRECTORIES])
    average_document = max(1.0, numbers.counts[slot, DOCUMENT_LENGTH] / max(1.0, directories))
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
def lift(texts: Texts, scope: Scope, script: int, lexical: F32) -> float:
    """Raises all scores of texts by one factor, so that the best is LEAST_BEST at least.

    Of a long request no text can have most terms: against what all of them could give, every score
    is small, and words would hardly count beside meaning. Scores of 0 stay so.

    Args:
        script: of the query; texts of another one don't count, see `texts.foreign`.
        lexical: [texts of the scope] from `score_scope`, changed in place.

    Returns:
        The factor, 1 where the best is high enough, or nothing matches.
    """
    size = scope.text_high - scope.text_low + texts.died.shape[0] - scope.base_texts
    best = np.float32(0)
    for first in range(0, size, GROUP):
        mask = above(lexical, first, size, best)
        while mask != 0:
            i = first + lowest(mask)
            mask &= mask - 1
            if lexical[i] > best:
                row = row_at(i, scope.text_low, scope.text_high, scope.base_texts)
                if not foreign(np.int64(texts.script[row]), script):
                    best = lexical[i]
        if best >= LEAST_BEST:
            return 1.0
    if best <= 0:
        return 1.0
    factor = LEAST_BEST / np.float64(best)
    for i in range(size):
        lexical[i] = np.float32(min(1.0, np.float64(lexical[i]) * factor))
    return factor


@njit
def forget(terms: Terms, ranges: I64, scope: Scope, lexical: F32) -> None:
    """Makes the scores of texts zeros again, where a term can have left others."""
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
