"""Selection of the best of many scores."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import F32, F64, I32, I64
from viking_kernels.simd_scores import GROUP, trailing_zeros, which_above

_BELOW_ZERO = np.float32(-1e-30)  # scores are at least 0; a negative one stands for none


@inlined
def push_smallest(heap: F32, count: int, value: float) -> int:
    """Add a value to a min-heap that keeps the heap.shape[0] largest values; heap[0] is the least.

    `count` is the number of values in the heap. Returns the new count.
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
def keep_best(rows: I32, scores: F32, count: int, row: int, score: float) -> int:
    """Insert a row into a list of the best, sorted by score, then by row; return the new count."""
    value = np.float32(score)
    at = count
    while at > 0 and (value > scores[at - 1] or (value == scores[at - 1] and row < rows[at - 1])):
        if at < rows.shape[0]:
            rows[at] = rows[at - 1]
            scores[at] = scores[at - 1]
        at -= 1
    if at < rows.shape[0]:
        rows[at] = row
        scores[at] = value
    return min(count + 1, rows.shape[0])


@inlined
def mask_above(scores: F32, first: int, size: int, limit: float) -> int:
    """Return a bit mask of GROUP scores from `first` on: bit i is 1 if scores[first + i] > limit.

    Scores from index `size` on are left out. `lowest` gives the lowest bit that is 1, and `mask &=
    mask - 1` clears it.
    """
    if first + GROUP <= size:
        return which_above(scores, first, limit)
    mask = np.int64(0)
    for i in range(size - first):
        mask |= np.int64(scores[first + i] > limit) << i
    return mask


@inlined
def lowest(mask: int) -> int:
    """Return the index of the lowest bit that is 1."""
    return trailing_zeros(mask)


@njit
def best_positions(scores: F32, k: int) -> I32:
    """Return the indices of the k best scores of at least 0, best first, ties by index."""
    best = np.empty(k, np.int32)
    count = 0
    for first in range(0, scores.shape[0], GROUP):
        limit = scores[best[k - 1]] if count == k else _BELOW_ZERO
        mask = mask_above(scores, first, scores.shape[0], limit)
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
def _comes_before(a: int, b: int, scores: F32 | F64) -> bool:
    """Return True if index a is better than b: a higher score, or an equal score and a < b."""
    return scores[a] > scores[b] or (scores[a] == scores[b] and a < b)


@inlined
def _sink(heap: I32 | I64, count: int, at: int, scores: F32 | F64) -> None:
    """Move the entry at index `at` of a heap down to its place; the best entry is at index 0."""
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


@inlined
def push_queue(queue: I32 | I64, count: int, number: int, scores: F32 | F64) -> int:
    """Add a number to a priority queue, a heap with the best score at index 0; return its size."""
    at = count
    while at > 0 and _comes_before(number, queue[(at - 1) // 2], scores):
        queue[at] = queue[(at - 1) // 2]
        at = (at - 1) // 2
    queue[at] = number
    return count + 1


@inlined
def pop_queue(queue: I32 | I64, count: int, scores: F32 | F64) -> int:
    """Remove the number with the best score and return it; the size is then count - 1."""
    top = queue[0]
    queue[0] = queue[count - 1]
    _sink(queue, count - 1, 0, scores)
    return top


@njit
def best_rows(scores: F64, k: int, threshold: float) -> I64:
    """Return the indices of the k best scores above a threshold, and all that tie with the last.

    The best comes first, equal scores in the order of their indices.
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
        best[count] = pop_queue(heap, waiting, scores)
        count += 1
        waiting -= 1
    return best[:count]


@njit
def sort_rising(values: I32 | I64) -> None:
    """Sort in place, ascending, by heapsort: to compile numba's own sort takes seconds."""
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
