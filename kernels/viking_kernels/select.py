"""Choosing the best of many scores, each of which may be off by its bound."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import F32, F64, I32, I64
from viking_kernels.lanes import GROUP, trailing_zeros, which_above

_BELOW_ZERO = np.float32(-1e-30)  # a score is at least 0, or it is none


@inlined
def push_smallest(heap: F32, count: int, value: float) -> int:
    """Keeps the largest heap.shape[0] values seen, the smallest of them at heap[0].

    `count` is how many the heap holds; returns the new count.
    """
    value32 = np.float32(value)
    if count < heap.shape[0]:
        at = count
        while at > 0 and heap[(at - 1) // 2] > value32:
            heap[at] = heap[(at - 1) // 2]
            at = (at - 1) // 2
        heap[at] = value32
        return count + 1
    if value32 <= heap[0]:
        return count
    at = 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value32:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value32
    return count


@inlined
def above(scores: F32, first: int, size: int, limit: float) -> int:
    """Bit i is 1 where scores[first + i] > limit, for the next GROUP or up to `size`.

    `lowest` tells them one after the other: `mask &= mask - 1` takes that one out.
    """
    if first + GROUP <= size:
        return which_above(scores, first, limit)
    mask = np.int64(0)
    for i in range(size - first):
        mask |= np.int64(scores[first + i] > limit) << i
    return mask


@inlined
def lowest(mask: int) -> int:
    """The number of the lowest bit that is 1."""
    return trailing_zeros(mask)


@njit
def best_positions(scores: F32, k: int) -> I32:
    """Positions of the k best scores (at least 0 counts), best first, ties by position."""
    best = np.empty(k, np.int32)
    count = 0
    for first in range(0, scores.shape[0], GROUP):
        limit = scores[best[k - 1]] if count == k else _BELOW_ZERO
        mask = above(scores, first, scores.shape[0], limit)
        while mask != 0:
            i = first + lowest(mask)
            mask &= mask - 1
            if count < k or scores[i] > scores[best[k - 1]]:
                at = min(count, k - 1)
                while at > 0 and scores[best[at - 1]] < scores[i]:
                    best[at] = best[at - 1]
                    at -= 1
                best[at] = i
                count = min(count + 1, k)
    return best[:count]


@inlined
def _comes_before(a: int, b: int, scores: F64) -> bool:
    """The order of results: the higher score first, then the lower index."""
    return scores[a] > scores[b] or (scores[a] == scores[b] and a < b)


@inlined
def _sink(heap: I64, count: int, at: int, scores: F64) -> None:
    """Lets the entry at a place of a heap with the best on top sink to where it belongs."""
    entry = heap[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _comes_before(heap[child + 1], heap[child], scores):
            child += 1
        if not _comes_before(heap[child], entry, scores):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = entry


@njit
def best_rows(scores: F64, k: int, threshold: float) -> I64:
    """Indices of the k best above a threshold, with all that share the last place.

    Best first, ties by index.
    """
    heap = np.empty(scores.shape[0], np.int64)
    waiting = np.int64(0)
    for i in range(scores.shape[0]):
        if scores[i] > threshold:
            heap[waiting] = i
            waiting += 1
    for at in range(waiting // 2 - 1, -1, -1):
        _sink(heap, waiting, at, scores)
    best = np.empty(waiting, np.int64)
    count = 0
    while waiting > 0 and (count < k or scores[heap[0]] == scores[best[count - 1]]):
        best[count] = heap[0]
        count += 1
        waiting -= 1
        heap[0] = heap[waiting]
        _sink(heap, waiting, 0, scores)
    return best[:count]


@njit
def sort_rising(values: I32 | I64) -> None:
    """Sorts in place, as a heap: numba's own sort takes seconds to compile."""
    count = values.shape[0]
    first = count // 2
    last = count
    while last > 1:
        if first > 0:
            first -= 1
            value = values[first]
        else:
            last -= 1
            value = values[last]
            values[last] = values[0]
        at = first
        while True:
            child = 2 * at + 1
            if child >= last:
                break
            if child + 1 < last and values[child + 1] > values[child]:
                child += 1
            if values[child] <= value:
                break
            values[at] = values[child]
            at = child
        values[at] = value
