"""Choosing the best of many scores, each of which may be off by its bound."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import F32, F64, I32, I64


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


GROUP = 64
"""Scores that are looked at, or passed over, together."""


@inlined
def any_above(scores: F32, first: int, limit: float) -> bool:
    """Whether one of scores[first : first + GROUP] is above a limit; without branches, for SIMD."""
    above = np.int32(0)
    group = scores[first : first + GROUP]
    for i in range(group.shape[0]):
        above = np.int32(above + np.int32(group[i] > limit))
    return above > 0


@njit
def best_positions(scores: F32, k: int) -> I32:
    """Positions of the k best scores (at least 0 counts), best first, ties by position."""
    best = np.empty(k, np.int32)
    count = 0
    for first in range(0, scores.shape[0], GROUP):
        if count == k and not any_above(scores, first, scores[best[k - 1]]):
            continue
        for i in range(first, min(first + GROUP, scores.shape[0])):
            if scores[i] >= 0 and (count < k or scores[i] > scores[best[count - 1]]):
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
