"""The postings of a tail in three levels (small, middle, large), merged step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from viking_kernels.arrays import I32, I64, U64
from viking_kernels.postings import Postings, grouped, merged, no_postings

from vikingd.index.lexicon import tokens
from vikingd.index.lexicon.vocabulary import Vocabulary

Levels: TypeAlias = tuple[Postings, Postings, Postings]
"""The levels, the largest and oldest one first; text rows ascend from each level to the next."""

EMPTY: Levels = (no_postings(), no_postings(), no_postings())

_SMALL, _MIDDLE = 1 << 12, 1 << 16  # postings in a level at most
_MANY_CHARACTERS = 1 << 22  # texts are kept up to here before they are posted together


def added(levels: Levels, new: Postings) -> Levels:
    """Return the levels with `new` added; its texts must have greater rows than all others.

    New postings go into the small level. A level that is full is merged into the next larger one,
    so that a commit of one text moves few postings.
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
    """Return the postings of titles.

    Args:
        titles: (key of a term, row of the file's first text, number of terms of the title), in the
            order of rows.
    """
    keys = np.array([key for key, _, _ in titles], np.uint64)
    order = np.argsort(keys, kind="stable")
    packed = np.array([row << 16 | count for _, row, count in titles], np.uint64)
    found, starts = np.unique(keys[order], return_index=True)
    return Postings(found, np.append(starts, len(keys)), packed[order])


def _lengths(terms: U64, counts: I64) -> I64:
    """Return the length of each text: the number of its terms that are not names, see `tokens`."""
    names = np.flatnonzero(terms >= np.uint64(tokens.UNCOUNTED))
    texts = np.searchsorted(np.cumsum(counts), names, side="right")
    return counts - np.bincount(texts, minlength=len(counts))


class TermWriter:
    """Collects the terms of new texts, and turns them into postings, many texts at a time."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.postings = EMPTY
        self._vocabulary = vocabulary
        self._texts: list[Sequence[str]] = []  # see tokens.parts
        self._titles: list[tuple[int, int, int]] = []  # key, row, number of the title's terms
        self._characters = 0

    def add(self, parts: tuple[str, ...], characters: int) -> None:
        """Collect the next text, given by its `tokens.parts`, and its length in characters."""
        self._texts.append(parts)
        self._characters += characters

    def add_title(self, row: int, title: str) -> None:
        """Collect the title of a file with the row of its first text; call this before `add`."""
        keys = tokens.title_keys(title)
        self._titles += [(key, row, len(keys)) for key in keys]

    @property
    def is_full(self) -> bool:
        """True if so many texts are collected that `write_postings` must be called."""
        return self._characters >= _MANY_CHARACTERS

    def write_postings(self, lengths: I32, end: int) -> None:
        """Make postings of the collected texts, and write each text's length into `lengths`.

        Args:
            lengths: [texts] the lengths in terms, by row.
            end: one past the row of the newest text.
        """
        if not self._texts:
            return
        terms, counts = self._vocabulary.hashes(self._texts)
        first = end - len(counts)
        lengths[first:end] = _lengths(terms, counts)
        new = grouped(terms, counts, first)
        if self._titles:
            new = merged(new, of_titles(self._titles))
        self.postings = added(self.postings, new)
        self._texts, self._titles, self._characters = [], [], 0
