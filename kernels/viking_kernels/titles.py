"""Bonuses of files for their titles.

BM25 measures how much of the query a text has. A title is a few chosen words about a whole file, so
its bonus measures how much of the title the query has:

    bonus(file) = TITLE * share^2 * min(1, m / min(q, ENOUGH))
    share       = m / number of the title's terms
    m, q        : terms that title and query have in common; terms of the query

The share is squared because half a title says little: the other half may distinguish the file from
its neighbours. One word of a longer query counts half, even if it is the whole title: pages about
other things are called "Group" or "Responses", too. Neighbours get no share of the bonus.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import F32, I64, U8, Scope, Terms, Texts
from viking_kernels.bm25 import is_crowded
from viking_kernels.flat import is_inside
from viking_kernels.scope import place

TITLE = 0.1
"""The largest bonus; from .06 to .15 the quality is nearly the same."""

ENOUGH = 2
"""Terms in common for the whole bonus, if the query has so many."""


@njit
def score_titles(
    texts: Texts, scope: Scope, tail_inside: U8, terms: Terms, ranges: I64, titles: F32
) -> None:
    """Compute the title bonus of each file of a scope.

    Args:
        tail_inside: from `scope.tail_directories`.
        ranges: from `bm25.ranges_of`.
        titles: [files of the scope] zeros; files with a term of the query in their title get a
            bonus in (0, TITLE].
    """
    # The first pass counts the terms that the query has, 1 or more. The second replaces the count
    # by the bonus, below 1.
    count = terms.weight.shape[0]
    enough = min(count, ENOUGH)
    for scores in (False, True):
        for i in range(count, terms.key.shape[0]):
            first, last = ranges[i, 0], ranges[i, 1]
            tail = terms.tail_from[i]
            for j in range(last - first + terms.tail_from[i + 1] - tail):
                in_base = first + j < last
                p = first + j if in_base else tail + first + j - last
                text = np.int64(terms.base_text[p] if in_base else terms.tail_text[p])
                # Also of base texts: the file may have another title by now.
                if not is_inside(text, texts, scope, tail_inside):
                    continue
                file = np.int64(texts.file[text])
                if file < 0:  # only in damaged postings
                    continue
                at = place(file, scope.file_low, scope.file_high, scope.base_files)
                if not scores:
                    titles[at] += 1
                elif titles[at] >= 1:
                    size = terms.base_tf[p] if in_base else terms.tail_tf[p]
                    common = np.float64(titles[at])
                    share = common / np.float64(size)
                    titles[at] = np.float32(TITLE * share * share * min(1.0, common / enough))


@njit
def forget_titles(texts: Texts, scope: Scope, terms: Terms, ranges: I64, titles: F32) -> None:
    """Set the title bonuses that a query's terms may have changed back to 0."""
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
