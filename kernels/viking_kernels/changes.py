"""Writing side: what a commit's texts change in the numbers of the directories above them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import (
    COUNTS,
    DOCUMENT_LENGTH,
    F32,
    I32,
    I64,
    OWN_LENGTH,
    OWN_TEXT,
    SCRIPTS,
    TEXT_LENGTH,
    TEXTS,
)

FIXED_POINT = 2.0**32
"""Sums of vectors are int64 in units of 2^-32: exact, so that their order does not matter."""


@njit
def touched_directories(parents: I32, rows: I32) -> I32:
    """The directories `rows` with all above them, each once, rising."""
    seen = np.zeros(parents.shape[0], np.bool_)
    count = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        while row >= 0 and not seen[row]:
            seen[row] = True
            count += 1
            row = parents[row]
    found = np.empty(count, np.int32)
    count = 0
    for row in range(seen.shape[0]):
        if seen[row]:
            found[count] = row
            count += 1
    return found


class Above(NamedTuple):
    """The way up from a directory, and where the numbers of each stand."""

    parent: I32  # [D] -1 for the root
    slot: I32  # [D]


@njit
def count_nodes(above: Above, counts: I64, nodes: I32) -> None:
    """Counts files and directories in the directories above them.

    `nodes` is [n, 3]: directory (itself for a directory), sign, column (FILES or DIRECTORIES).
    """
    for i in range(nodes.shape[0]):
        row = nodes[i, 0]
        while row >= 0:
            counts[above.slot[row], nodes[i, 2]] += nodes[i, 1]
            row = above.parent[row]


@njit
def count_texts(above: Above, counts: I64, texts: I32) -> None:
    """Counts texts in the directories above them.

    `texts` is [n, 5]: directory (itself for its abstract), sign, script, length in terms, and 1
    for a file's text or 0 for a directory's abstract.
    """
    for i in range(texts.shape[0]):
        sign = np.int64(texts[i, 1])
        length = sign * texts[i, 3]
        own = texts[i, 0]
        parent = above.parent[own]
        documents = 1
        counts[above.slot[own], OWN_LENGTH] += length
        if texts[i, 4] == 0:
            counts[above.slot[own], OWN_TEXT] += sign
        row = own
        while row >= 0:
            slot = above.slot[row]
            counts[slot, TEXTS] += sign
            counts[slot, TEXT_LENGTH] += length
            counts[slot, COUNTS - SCRIPTS + texts[i, 2]] += sign
            if texts[i, 4] == 0 and row == parent:
                # A directory's abstract is part of its parent's document too.
                counts[slot, OWN_LENGTH] += length
                documents = 2
            counts[slot, DOCUMENT_LENGTH] += documents * length
            row = above.parent[row]


@njit
def add_vectors(
    above: Above, mean_slot: I32, offset: int, sums: I64, mean_count: I64, vectors: I32, raw: F32
) -> None:
    """Adds (or takes away) vectors in the sums of the directories above them.

    Args:
        mean_slot: [slots, SCRIPTS]; the means that are met must be fresh copies.
        offset: the mean that row 0 of `sums` and `mean_count` belongs to.
        sums: [means - offset, dim] fixed point.
        mean_count: [means - offset].
        vectors: [n, 3]: directory, sign, script.
        raw: [n, dim] the vectors.
    """
    fixed = np.empty(raw.shape[1], np.int64)
    for i in range(vectors.shape[0]):
        sign = np.int64(vectors[i, 1])
        for j in range(raw.shape[1]):
            fixed[j] = sign * np.int64(np.rint(np.float64(raw[i, j]) * FIXED_POINT))
        row = vectors[i, 0]
        while row >= 0:
            mean = mean_slot[above.slot[row], vectors[i, 2]] - offset
            mean_count[mean] += sign
            for j in range(raw.shape[1]):
                sums[mean, j] += fixed[j]
            row = above.parent[row]


@njit
def means(sums: I64, counts: I64, out: F32) -> None:
    """out[i] = sums[i] / counts[i] as float32 [n, dim]; zeros where nothing is counted."""
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            out[i, j] = (
                np.float32(sums[i, j] / FIXED_POINT / counts[i]) if counts[i] > 0 else np.float32(0)
            )
