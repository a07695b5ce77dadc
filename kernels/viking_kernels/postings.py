"""Postings of new texts: made from the texts' terms, and merged.

Postings are immutable. A merge makes new ones, so that readers keep the old ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import I32, I64, U16, U64

MAX_COUNT = 0xFFFF
"""The largest tf: it is stored in 16 bits."""


class Postings(NamedTuple):
    """For each of t terms, the texts that have it, with the term's frequency in each."""

    keys: U64  # [t] hashes of the terms, rising
    at: I64  # [t + 1] postings of term i: [i] to [i + 1]
    packed: U64  # text << 16 | count, texts rising within a term


def no_postings() -> Postings:
    """Return Postings without terms and texts."""
    return Postings(np.empty(0, np.uint64), np.zeros(1, np.int64), np.empty(0, np.uint64))


@njit
def grouped(terms: U64, lengths: I64, first: int) -> Postings:
    """Return the postings of n texts, given their terms; the first text has the row `first`.

    Args:
        terms: the hashes of the terms of all texts, one text after the other.
        lengths: [n] number of terms of each text.
    """
    bits = 4
    while (1 << bits) < 2 * terms.shape[0]:
        bits += 1
    mask = (1 << bits) - 1
    slots = np.full(1 << bits, -1, np.int32)
    keys = np.empty(terms.shape[0], np.uint64)
    number = np.empty(terms.shape[0], np.int32)  # of each term, in the order of the texts
    last = np.empty(terms.shape[0], np.int32)  # last text that has a term
    texts = np.zeros(terms.shape[0], np.int64)  # number of texts that have a term
    count = 0
    at = 0
    for i in range(lengths.shape[0]):
        for _ in range(lengths[i]):
            # Terms are hashes already, evenly distributed.
            slot = np.int64(terms[at] & np.uint64(mask))
            while slots[slot] >= 0 and keys[slots[slot]] != terms[at]:
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = count
                keys[count] = terms[at]
                last[count] = -1
                count += 1
            k = slots[slot]
            number[at] = k
            texts[k] += np.int64(last[k] != i)
            last[k] = i
            at += 1
    order = np.argsort(keys[:count])
    bounds = np.zeros(count + 1, np.int64)
    free = np.empty(count, np.int64)
    for i in range(count):
        free[order[i]] = bounds[i]
        bounds[i + 1] = bounds[i] + texts[order[i]]
    packed = np.empty(bounds[count], np.uint64)
    last[:count] = -1
    at = 0
    for i in range(lengths.shape[0]):
        alone = np.uint64(first + i) << np.uint64(16) | np.uint64(1)
        for _ in range(lengths[i]):
            k = number[at]
            if last[k] != i:
                last[k] = i
                packed[free[k]] = alone
                free[k] += 1
            elif packed[free[k] - 1] & np.uint64(MAX_COUNT) < np.uint64(MAX_COUNT):
                packed[free[k] - 1] += np.uint64(1)
            at += 1
    return Postings(keys[order], bounds, packed)


@njit
def merged(older: Postings, newer: Postings) -> Postings:
    """Merge two sets of postings into a new one. All rows of `older` are below those of `newer`."""
    size_a, size_b = older.keys.shape[0], newer.keys.shape[0]
    keys = np.empty(size_a + size_b, np.uint64)
    bounds = np.zeros(keys.shape[0] + 1, np.int64)
    packed = np.empty(older.packed.shape[0] + newer.packed.shape[0], np.uint64)
    count = a = b = 0
    while a < size_a or b < size_b:
        is_older = b == size_b or (a < size_a and older.keys[a] <= newer.keys[b])
        key = older.keys[a] if is_older else newer.keys[b]
        end = bounds[count]
        if is_older:
            end = _copy_term(older, a, packed, end)
            a += 1
        if b < size_b and newer.keys[b] == key:
            end = _copy_term(newer, b, packed, end)
            b += 1
        keys[count] = key
        count += 1
        bounds[count] = end
    return Postings(keys[:count].copy(), bounds[: count + 1].copy(), packed)


@inlined
def _copy_term(postings: Postings, term: int, packed: U64, end: int) -> int:
    """Copy the postings of a term to packed[end] and on; return the index after the last one."""
    for p in range(postings.at[term], postings.at[term + 1]):
        packed[end] = postings.packed[p]
        end += 1
    return end


@njit
def of_terms(keys: U64, levels: tuple[Postings, Postings, Postings]) -> tuple[I64, I32, U16]:
    """Return the postings of terms, from all levels of a tail.

    Args:
        keys: [n] the hashes of the terms, in any order.
        levels: the rows of a level are above those of the previous one.

    Returns:
        (bounds [n + 1], texts, counts): term i has the entries bounds[i] to bounds[i + 1], rows
        ascending.
    """
    found = np.empty((keys.shape[0], 3), np.int64)
    bounds = np.zeros(keys.shape[0] + 1, np.int64)
    for i in range(keys.shape[0]):
        bounds[i + 1] = bounds[i]
        for j in range(3):
            level = levels[j]
            at = np.searchsorted(level.keys, keys[i])
            found[i, j] = -1
            if at < level.keys.shape[0] and level.keys[at] == keys[i]:
                found[i, j] = at
                bounds[i + 1] += level.at[at + 1] - level.at[at]
    texts = np.empty(bounds[-1], np.int32)
    counts = np.empty(bounds[-1], np.uint16)
    size = 0
    for i in range(keys.shape[0]):
        for j in range(3):
            level = levels[j]
            at = found[i, j]
            if at >= 0:
                for p in range(level.at[at], level.at[at + 1]):
                    texts[size] = level.packed[p] >> np.uint64(16)
                    counts[size] = level.packed[p] & np.uint64(MAX_COUNT)
                    size += 1
    return bounds, texts, counts
