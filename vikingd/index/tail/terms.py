"""The terms of the texts that a tail takes, as postings."""

from __future__ import annotations

from collections.abc import Sequence

from viking_kernels.arrays import I32
from viking_kernels.postings import grouped, merged

from vikingd.index.lexicon import postings, tokens
from vikingd.index.lexicon.vocabulary import Vocabulary

_MANY_CHARACTERS = 1 << 22  # texts are kept up to here before they are posted together


class TermWriter:
    """The postings of a tail, and the newest texts that are not posted yet.

    Attributes:
        postings: the postings so far.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.postings = postings.EMPTY
        self._vocabulary = vocabulary
        self._texts: list[Sequence[str]] = []  # see tokens.parts
        self._titles: list[tuple[int, int, int]] = []  # key, row, number of the title's terms
        self._characters = 0

    def add(self, parts: tuple[str, ...], characters: int) -> None:
        """Take the parts of the next text, see `tokens.parts`."""
        self._texts.append(parts)
        self._characters += characters

    def add_title(self, row: int, title: str) -> None:
        """Take the title of a file, with the row of its first text, before the text itself."""
        keys = tokens.title_keys(title)
        self._titles += [(key, row, len(keys)) for key in keys]

    @property
    def is_full(self) -> bool:
        """True if the texts must be posted now."""
        return self._characters >= _MANY_CHARACTERS

    def post(self, lengths: I32, end: int) -> None:
        """Post the terms of the kept texts and fill in their number.

        Args:
            lengths: [texts] number of terms of each text.
            end: one past the row of the newest text.
        """
        if not self._texts:
            return
        terms, counts = self._vocabulary.hashes(self._texts)
        first = end - len(counts)
        lengths[first:end] = counts
        new = grouped(terms, counts, first)
        if self._titles:
            new = merged(new, postings.of_titles(self._titles))
        self.postings = postings.added(self.postings, new)
        self._texts, self._titles, self._characters = [], [], 0
