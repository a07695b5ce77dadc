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

from viking_kernels._jit import njit
from viking_kernels.arrays import (
    DIRECTORIES,
    DOCUMENT_LENGTH,
    F32,
    I32,
    OWN_LENGTH,
    TEXT_LENGTH,
    TEXTS,
    U8,
    Numbers,
    Scope,
    Terms,
    Texts,
)
from viking_kernels.scope import directory_inside, place

K1 = 1.2
B = 0.75


@njit
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
def _add_to_directories(
    text: int,
    tf: int,
    parents: I32,
    texts: Texts,
    scope: Scope,
    dir_tf: F32,
    touched: I32,
    count: int,
) -> int:
    """Adds a text's tf to the documents it is part of; returns the number of touched ones."""
    directory = texts.directory[text]
    position = place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
    if dir_tf[position] == 0:
        touched[count] = directory
        count += 1
    dir_tf[position] += tf
    if texts.file[text] < 0 and directory != scope.root:
        parent = parents[directory]
        position = place(parent, scope.dir_low, scope.dir_high, scope.base_dirs)
        if dir_tf[position] == 0:
            touched[count] = parent
            count += 1
        dir_tf[position] += tf
    return count


@njit
def idf(documents: float, df: float) -> float:
    """Lucene's idf: ln(1 + (N - df + 0.5) / (df + 0.5)), above 0."""
    return np.log(1.0 + (documents - df + 0.5) / (df + 0.5))


@njit
def score_scope(
    parents: I32, texts: Texts, numbers: Numbers, scope: Scope, tail_inside: U8, terms: Terms,
    out: F32, dir_out: F32,
) -> tuple[int, float]:  # fmt: skip
    """Scores every text and directory of a scope against the query's terms, over the ideal.

    Args:
        tail_inside: from `scope.tail_directories`.
        out: float32 zeros, one a text of the scope (see `scope.place`); gets scores in [0, 1).
        dir_out: float32 zeros, one a directory of the scope; likewise.

    Returns:
        (texts that have a term: number of alive postings looked at, the texts' ideal).
    """
    slot = numbers.slot[scope.root]
    documents = float(numbers.counts[slot, TEXTS])
    directories = float(numbers.counts[slot, DIRECTORIES])
    average = max(1.0, numbers.counts[slot, TEXT_LENGTH] / max(1.0, documents))
    dir_average = max(1.0, numbers.counts[slot, DOCUMENT_LENGTH] / max(1.0, directories))
    dir_tf = np.zeros(dir_out.shape[0], np.float32)
    touched = np.empty(dir_out.shape[0], np.int32)
    ideal = 0.0
    dir_ideal = 0.0
    looked_at = 0
    for i in range(terms.weight.shape[0]):
        weight = np.float64(terms.weight[i])
        first = lower_bound(terms.base_text, terms.base_from[i], terms.base_to[i], scope.text_low)
        last = lower_bound(terms.base_text, first, terms.base_to[i], scope.text_high)
        df = 0
        count = 0
        for p in range(first, last):
            text = terms.base_text[p]
            if texts.died[text] > scope.revision:
                df += 1
                tf = terms.base_tf[p]
                count = _add_to_directories(text, tf, parents, texts, scope, dir_tf, touched, count)
        for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
            text = terms.tail_text[p]
            if (
                text < texts.died.shape[0]
                and texts.died[text] > scope.revision
                and directory_inside(texts.directory[text], tail_inside, scope)
            ):
                df += 1
                tf = terms.tail_tf[p]
                count = _add_to_directories(text, tf, parents, texts, scope, dir_tf, touched, count)
        looked_at += df
        gain = weight * idf(documents, df)
        dir_gain = weight * idf(directories, count)
        ideal += gain
        dir_ideal += dir_gain
        for p in range(first, last):
            text = terms.base_text[p]
            if texts.died[text] > scope.revision:
                frequency = np.float64(terms.base_tf[p])
                norm = K1 * (1.0 - B + B * texts.length[text] / average)
                out[text - scope.text_low] += gain * frequency / (frequency + norm)
        for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
            text = terms.tail_text[p]
            if (
                text < texts.died.shape[0]
                and texts.died[text] > scope.revision
                and directory_inside(texts.directory[text], tail_inside, scope)
            ):
                frequency = np.float64(terms.tail_tf[p])
                norm = K1 * (1.0 - B + B * texts.length[text] / average)
                position = place(text, scope.text_low, scope.text_high, scope.base_texts)
                out[position] += gain * frequency / (frequency + norm)
        for c in range(count):
            directory = touched[c]
            position = place(directory, scope.dir_low, scope.dir_high, scope.base_dirs)
            length = numbers.counts[numbers.slot[directory], OWN_LENGTH]
            norm = K1 * (1.0 - B + B * length / dir_average)
            frequency = np.float64(dir_tf[position])
            dir_out[position] += dir_gain * frequency / (frequency + norm)
            dir_tf[position] = 0
    if ideal > 0:
        for t in range(out.shape[0]):
            out[t] = np.float32(out[t] / ideal)
        for d in range(dir_out.shape[0]):
            dir_out[d] = np.float32(dir_out[d] / dir_ideal)
    return looked_at, ideal
