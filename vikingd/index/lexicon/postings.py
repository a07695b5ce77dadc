"""The postings of a tail in three levels. New ones are merged into larger levels step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from viking_kernels.postings import Postings, merged, no_postings

Levels: TypeAlias = tuple[Postings, Postings, Postings]
"""The largest and oldest level first; the rows of texts ascend from each level to the next."""

EMPTY: Levels = (no_postings(), no_postings(), no_postings())

_SMALL, _MIDDLE = 1 << 12, 1 << 16  # postings in a level at most


def added(levels: Levels, new: Postings) -> Levels:
    """Return the levels with the postings of new texts, whose rows are behind all others.

    A commit of one text moves few postings, and a query reads three levels.
    """
    large, middle, small = levels
    small = merged(small, new)
    if len(small.packed) > _SMALL:
        middle, small = merged(middle, small), no_postings()
    if len(middle.packed) > _MIDDLE:
        large, middle = merged(large, middle), no_postings()
    return large, middle, small


def as_one(levels: Levels) -> Postings:
    """Return all levels merged into one."""
    large, middle, small = levels
    return merged(large, merged(middle, small))


def of_titles(titles: Sequence[tuple[int, int, int]]) -> Postings:
    """Return postings of (key, row of the text, number of the title's terms), rows ascending."""
    keys = np.array([key for key, _, _ in titles], np.uint64)
    order = np.argsort(keys, kind="stable")
    packed = np.array([row << 16 | count for _, row, count in titles], np.uint64)
    found, starts = np.unique(keys[order], return_index=True)
    return Postings(found, np.append(starts, len(keys)), packed[order])
