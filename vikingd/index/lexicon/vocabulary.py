"""A cache of words with the hashes of their terms, for indexing many texts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from viking_kernels import word_hash_table as kernels
from viking_kernels.arrays import I64, U64

from vikingd.index.array_growth import grown
from vikingd.index.lexicon import tokens

_KEPT_WORDS = 1 << 18
_KEPT_BYTES = 1 << 23


class Vocabulary:
    """Computes the hashes of the terms of many texts at once; known words are looked up.

    It has a lock, for the writer and a compaction. Readers do not use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._count = 0
        self._words = kernels.Words(
            np.full(2, -1, np.int32),
            np.empty(1, np.uint64),
            np.zeros(1, np.int64),
            np.empty(0, np.uint8),
            np.zeros(1, np.int64),
            np.empty(0, np.uint64),
        )

    def hashes(self, texts: Sequence[Sequence[str]]) -> tuple[U64, I64]:
        """Return (the hashes of all terms, text by text; the number of terms of each text).

        Each text is given by its `tokens.parts`. The hashes of one text are in no special order.
        """
        joined = ["\n".join(parts) for parts in texts]
        spaced = np.array([tokens.is_spaced(text) for text in joined], np.bool_)
        if spaced.all():
            return self._by_words(joined)
        known, lengths = self._by_words([joined[i] for i in np.flatnonzero(spaced).tolist()])
        others = [tokens.hashes(joined[i]) for i in np.flatnonzero(~spaced).tolist()]
        counts = np.empty(len(texts), np.int64)
        counts[spaced], counts[~spaced] = lengths, [len(one) // 8 for one in others]
        of_known = np.repeat(spaced, counts)
        found = np.empty(len(of_known), np.uint64)
        found[of_known], found[~of_known] = known, np.frombuffer(b"".join(others), "<u8")
        return found, counts

    def _by_words(self, texts: Sequence[str]) -> tuple[U64, I64]:
        encoded = [text.encode(errors="surrogatepass") for text in texts]
        joined = b"".join(encoded)
        bounds = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(one) for one in encoded], out=bounds[1:])
        data = np.frombuffer(joined, np.uint8)
        with self._lock:
            if self._count > _KEPT_WORDS or self._words.bytes_at[self._count] > _KEPT_BYTES:
                self._clear()
            found, counts, missing = kernels.look_up(data, bounds, self._words)
            if len(missing):
                new: dict[bytes, int] = {}
                found[missing[:, 0]] = [
                    new.setdefault(joined[start:end], self._count + len(new))
                    for start, end in missing[:, 1:].tolist()
                ]
                self._learn(list(new))
            return kernels.terms_of(found, counts, self._words)

    def _learn(self, new: Sequence[bytes]) -> None:
        """Add words with the hashes of their terms to the table."""
        first, count = self._count, self._count + len(new)
        words = self._words
        bytes_at, letters = _appended(words.bytes_at, words.bytes, first, new)
        terms = [tokens.hashes(word.decode(errors="surrogatepass")) for word in new]
        terms_at, hashes = _appended(words.terms_at, words.terms, first, terms)
        slots = words.slots
        if 2 * count > len(slots):
            slots, first = np.full(1 << (2 * count).bit_length(), -1, np.int32), 0
        words = kernels.Words(
            slots, _with_room(words.keys, count), bytes_at, letters, terms_at, hashes
        )
        kernels.add_words(words, first, count)
        self._words, self._count = words, count


def _appended(
    bounds: I64, values: npt.NDArray[Any], count: int, new: Sequence[bytes]
) -> tuple[I64, npt.NDArray[Any]]:
    """Append byte strings to a list that is stored as (offsets, joined values).

    The list keeps its first `count` items; any others are overwritten. Returns the new offsets and
    values.
    """
    start = bounds[count]
    ends = start + np.cumsum([len(one) // values.itemsize for one in new])
    bounds = _with_room(bounds, count + len(new) + 1)
    bounds[count + 1 : count + len(new) + 1] = ends
    values = _with_room(values, ends[-1])
    values[start : ends[-1]] = np.frombuffer(b"".join(new), values.dtype)
    return bounds, values


def _with_room(old: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    return old if size <= len(old) else grown(old, 2 * size)
