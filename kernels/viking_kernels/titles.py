"""What the titles of files add to their scores.

BM25 asks how much of the query a text has. A title is a few words that somebody chose to say what
all of a file is about, so here it is the other way round:

    title(file) = TITLE * share^2    share: of the title's terms, those that the query has

The square: half a title says little, for its other half may be what tells the file from those
beside it. It is of the file alone, and so nothing of it goes to neighbours.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import F32, I64, U8, Scope, Terms, Texts
from viking_kernels.bm25 import is_crowded
from viking_kernels.flat import is_inside
from viking_kernels.scope import place

TITLE = 0.1
"""What a title adds at most; from .06 to .15 quality is much the same."""


@njit
def score_titles(
    texts: Texts, scope: Scope, tail_inside: U8, terms: Terms, ranges: I64, titles: F32
) -> None:
    """Scores the titles of a scope's files.

    Args:
        tail_inside: from `scope.tail_directories`.
        ranges: from `bm25.ranges_of`.
        titles: [files of the scope] zeros; where the query has a term of the title, its score in
            (0, TITLE].
    """
    # First how many terms of a title the query has, 1 and more; from that its score, below 1.
    for scores in (False, True):
        for i in range(terms.weight.shape[0], terms.key.shape[0]):
            first, last = ranges[i, 0], ranges[i, 1]
            tail = terms.tail_from[i]
            for j in range(last - first + terms.tail_from[i + 1] - tail):
                in_base = first + j < last
                p = first + j if in_base else tail + first + j - last
                text = np.int64(terms.base_text[p] if in_base else terms.tail_text[p])
                # Also in the base: the file may have another title by now.
                if not is_inside(text, texts, scope, tail_inside):
                    continue
                file = np.int64(texts.file[text])
                if file < 0:  # no title, unless the postings are damaged
                    continue
                at = place(file, scope.file_low, scope.file_high, scope.base_files)
                if not scores:
                    titles[at] += 1
                elif titles[at] >= 1:
                    size = terms.base_tf[p] if in_base else terms.tail_tf[p]
                    share = np.float64(titles[at]) / np.float64(size)
                    titles[at] = np.float32(TITLE * share * share)


@njit
def forget_titles(texts: Texts, scope: Scope, terms: Terms, ranges: I64, titles: F32) -> None:
    """Makes the scores of titles zeros again, where a term can have left others."""
    count = terms.weight.shape[0]
    size = scope.file_high - scope.file_low
    cleared = is_crowded(ranges, count, terms.key.shape[0], size)
    if cleared:
        titles[:size] = 0
    for i in range(count, terms.key.shape[0]):
        for p in range(ranges[i, 0], ranges[i, 0] if cleared else ranges[i, 1]):
            file = texts.file[terms.base_text[p]]
            if file >= 0:
                titles[file - scope.file_low] = 0
        for p in range(terms.tail_from[i], terms.tail_from[i + 1]):
            file = texts.file[terms.tail_text[p]]
            if file >= scope.base_files or scope.file_low <= file < scope.file_high:
                titles[place(file, scope.file_low, scope.file_high, scope.base_files)] = 0
