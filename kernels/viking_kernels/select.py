"""Choosing the best of many scores, each of which may be off by its bound."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import F32, I32, U8


@njit
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


@njit
def contenders(final: F32, allowed: U8, k: int, threshold: float) -> I32:
    """Positions that may be among the k best scores above a threshold, ties at the k-th included.

    Args:
        final: [2, n]: scores, and how far each may be off.
        allowed: uint8 [n], 0 where a filter forbids; or [0]: nothing is forbidden.
        k: at least 1.
        threshold: at least 0; a score must be able to lie above it.

    Returns:
        int32, rising. Everything whose score could reach the k-th best one's least value.
    """
    n = final.shape[1]
    filtered = allowed.shape[0] > 0
    heap = np.empty(k, np.float32)
    count = 0
    for i in range(n):
        if (not filtered or allowed[i]) and final[0, i] + final[1, i] > threshold:
            least = final[0, i] - final[1, i]
            if count < k or least > heap[0]:
                count = push_smallest(heap, count, least)
    floor = heap[0] if count == k else np.float32(-1.0)
    found = np.empty(n, np.int32)
    size = 0
    for i in range(n):
        if (
            (not filtered or allowed[i])
            and final[0, i] + final[1, i] > threshold
            and final[0, i] + final[1, i] >= floor
        ):
            found[size] = i
            size += 1
    return found[:size]


@njit
def best_positions(scores: F32, k: int) -> I32:
    """Positions of the k best scores (at least 0 counts), best first, ties by position."""
    best = np.empty(k, np.int32)
    count = 0
    for i in range(scores.shape[0]):
        if scores[i] >= 0 and (count < k or scores[i] > scores[best[count - 1]]):
            at = min(count, k - 1)
            while at > 0 and scores[best[at - 1]] < scores[i]:
                best[at] = best[at - 1]
                at -= 1
            best[at] = i
            count = min(count + 1, k)
    return best[:count]
