"""Lookup of many texts' words in a hash table with the terms of each word, without the GIL.

The caller adds each word once with its terms. Later texts find the word by its bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import I32, I64, U8, U64


class Words(NamedTuple):
    """A hash table (linear probing) of W words, with the hashes of each word's terms."""

    slots: I32  # [power of two, more than W] number of a word, -1 none
    keys: U64  # [W and more] hash of each word's bytes
    bytes_at: I64  # [W + 1 and more] the bytes of word w: [w] to [w + 1]
    bytes: U8
    terms_at: I64  # [W + 1 and more] the terms of word w: [w] to [w + 1]
    terms: U64


_LETTER, _BLANK, _SIGN, _JOINT, _GROUP = range(5)
"""The kinds of bytes: in a word; white space; a sign that ends a word; a sign that may join two
words; a sign that may stand in a number (1,250). Bytes of other characters are letters."""

_KINDS = np.full(256, _LETTER, np.uint8)
_KINDS[[32, *range(9, 14), *range(28, 32)]] = _BLANK
_KINDS[list(b'!"$%()*;<=>?[]^`{|}~')] = _SIGN
_KINDS[list(b"&-./:@\\")] = _JOINT
_KINDS[list(b",'")] = _GROUP

_DEFINES = 1
"""The byte before a defined name, which ends at the next blank, as `operator()` does."""


@inlined
def is_blank(byte: int) -> bool:
    """Return True if an ASCII byte is white space for `str.split`."""
    return _KINDS[byte] == _BLANK


@inlined
def may_be_digit(byte: int) -> bool:
    """Return True for an ASCII digit, and for a byte of a character that is not ASCII."""
    return 48 <= byte <= 57 or byte >= 128


@inlined
def ends_word(data: U8, at: int, start: int, end: int) -> bool:
    """Return True if the word from `start` ends before data[at], in a text up to `end`."""
    kind = _KINDS[data[at]]
    if kind != _GROUP:
        # `in` would make each process import a module of numba with this kernel.
        return (kind == _BLANK) | (kind == _SIGN)
    inside = start < at and at + 1 < end
    return not (inside and may_be_digit(data[at - 1]) and may_be_digit(data[at + 1]))


@inlined
def key_of(data: U8, start: int, end: int) -> int:
    """Return the hash FNV-1a of data[start:end]; its high bits are mixed into the low ones."""
    key = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        key = (key ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    return key ^ (key >> np.uint64(32))


@inlined
def number_of(data: U8, start: int, end: int, words: Words) -> int:
    """Return the number of the word data[start:end] in the table; -1 if it is unknown."""
    key = key_of(data, start, end)
    mask = words.slots.shape[0] - 1
    at = np.int64(key & np.uint64(mask))
    while words.slots[at] >= 0:
        number = np.int64(words.slots[at])
        first = words.bytes_at[number]
        if words.keys[number] == key and words.bytes_at[number + 1] - first == end - start:
            same = True
            for i in range(end - start):
                same = same and words.bytes[first + i] == data[start + i]
            if same:
                return number
        at = (at + 1) & mask
    return np.int64(-1)


@njit
def add_words(words: Words, first: int, count: int) -> None:
    """Enter the words `first` to `count` - 1 into the table; their bytes and terms are stored."""
    mask = words.slots.shape[0] - 1
    for number in range(first, count):
        key = key_of(words.bytes, words.bytes_at[number], words.bytes_at[number + 1])
        words.keys[number] = key
        at = np.int64(key & np.uint64(mask))
        while words.slots[at] >= 0:
            at = (at + 1) & mask
        words.slots[at] = number


@njit
def look_up(data: U8, bounds: I64, words: Words) -> tuple[I32, I64, I64]:
    """Split texts into words, and look up each word.

    Words are divided so that the terms of a text are those of its words: at white space, and at
    signs that join nothing. So `get(key)` has the words `get` and `key`, and `a.b:` has `a.b`.

    Args:
        data: the texts, one after the other.
        bounds: [n + 1] start of each text and end of the last one.
        words: the table.

    Returns:
        (number of each word in order, -1 if unknown; [n] number of words of each text; [m, 3] for
        each unknown word its place in the first array, and its start and end in `data`).
    """
    found = np.empty((data.shape[0] + bounds.shape[0]) // 2 + 1, np.int32)
    counts = np.zeros(bounds.shape[0] - 1, np.int64)
    missing = np.empty((found.shape[0], 3), np.int64)
    size = lacking = 0
    for i in range(counts.shape[0]):
        at, end = bounds[i], bounds[i + 1]
        before = size
        while True:
            while at < end and _KINDS[data[at]] != _LETTER:
                at += 1
            if at == end:
                break
            start = last = at
            defines = False
            while at < end and not is_blank(data[at]):
                defines = defines or data[at] == _DEFINES
                if not defines and ends_word(data, at, start, end):
                    break
                at += 1
                if defines or _KINDS[data[at - 1]] == _LETTER:
                    last = at
            number = number_of(data, start, last, words)
            if number < 0:
                missing[lacking, 0] = size
                missing[lacking, 1] = start
                missing[lacking, 2] = last
                lacking += 1
            found[size] = number
            size += 1
        counts[i] = size - before
    return found[:size], counts, missing[:lacking]


@njit
def terms_of(found: I32, counts: I64, words: Words) -> tuple[U64, I64]:
    """Return (the terms of all words that `look_up` found, the number of terms of each text)."""
    total = 0
    for i in range(found.shape[0]):
        total += words.terms_at[found[i] + 1] - words.terms_at[found[i]]
    terms = np.empty(total, np.uint64)
    lengths = np.empty(counts.shape[0], np.int64)
    size = at = 0
    for i in range(counts.shape[0]):
        before = size
        for _ in range(counts[i]):
            for k in range(words.terms_at[found[at]], words.terms_at[found[at] + 1]):
                terms[size] = words.terms[k]
                size += 1
            at += 1
        lengths[i] = size - before
    return terms, lengths
