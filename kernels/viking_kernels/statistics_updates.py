"""Updates of the counts and vector sums of subtrees by a commit's texts and vectors."""

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

# Columns of `nodes`, `texts` and `vectors` below: one change each.
CHANGED_IN, SIGN = range(2)
NODE_COUNT = 2
TEXT_SCRIPT, TEXT_TERMS, OF_FILE = 2, 3, 4
VECTOR_SCRIPT = 2


@njit
def touched_directories(parents: I32, rows: I32) -> I32:
    """Return the directories `rows` and all directories above them, each once, ascending."""
    seen = np.zeros(parents.shape[0], np.bool_)
    for i in range(rows.shape[0]):
        row = rows[i]
        while row >= 0 and not seen[row]:
            seen[row] = True
            row = parents[row]
    return np.flatnonzero(seen).astype(np.int32)


class Ancestors(NamedTuple):
    """For each directory, its parent and the slot of its statistics."""

    parent: I32  # [D] -1 for the root
    slot: I32  # [D]


@njit
def count_nodes(ancestors: Ancestors, counts: I64, nodes: I32) -> None:
    """Add nodes to the counts of all directories above them, or subtract them.

    `nodes` is [n, 3]: directory (itself for a directory), sign, column (FILES or DIRECTORIES).
    """
    for i in range(nodes.shape[0]):
        row = nodes[i, CHANGED_IN]
        while row >= 0:
            counts[ancestors.slot[row], nodes[i, NODE_COUNT]] += nodes[i, SIGN]
            row = ancestors.parent[row]


@njit
def count_texts(ancestors: Ancestors, counts: I64, texts: I32) -> None:
    """Add texts to the counts of their directory and all directories above, or subtract them.

    `texts` is [n, 5]: directory (itself for its abstract), sign, script, length in terms, and 1 for
    a file's text or 0 for a directory's abstract.
    """
    for i in range(texts.shape[0]):
        sign = np.int64(texts[i, SIGN])
        length = sign * texts[i, TEXT_TERMS]
        directory = texts[i, CHANGED_IN]
        parent = ancestors.parent[directory]
        documents = 1
        counts[ancestors.slot[directory], OWN_LENGTH] += length
        if texts[i, OF_FILE] == 0:
            counts[ancestors.slot[directory], OWN_TEXT] += sign
        row = directory
        while row >= 0:
            slot = ancestors.slot[row]
            counts[slot, TEXTS] += sign
            counts[slot, TEXT_LENGTH] += length
            counts[slot, COUNTS - SCRIPTS + texts[i, TEXT_SCRIPT]] += sign
            if texts[i, OF_FILE] == 0 and row == parent:
                # A directory's abstract is also part of its parent's document.
                counts[slot, OWN_LENGTH] += length
                documents = 2
            counts[slot, DOCUMENT_LENGTH] += documents * length
            row = ancestors.parent[row]


@njit
def add_vectors(
    ancestors: Ancestors,
    centroid_slot: I32,
    offset: int,
    sums: I64,
    centroid_count: I64,
    vectors: I32,
    raw: F32,
) -> None:
    """Add vectors to the sums of their directory and all directories above, or subtract them.

    Args:
        ancestors: the parents and slots of the directories of the tree.
        centroid_slot: [slots, SCRIPTS] the row of each centroid; rows that change must be new
            copies.
        offset: the number of the centroid in row 0 of `sums` and `centroid_count`.
        sums: [centroids - offset, dim] fixed point.
        centroid_count: [centroids - offset] the numbers of vectors.
        vectors: [n, 3]: directory, sign, script.
        raw: [n, dim] the vectors.
    """
    fixed = np.empty(raw.shape[1], np.int64)
    for i in range(vectors.shape[0]):
        sign = np.int64(vectors[i, SIGN])
        for j in range(raw.shape[1]):
            fixed[j] = sign * np.int64(np.rint(np.float64(raw[i, j]) * FIXED_POINT))
        row = vectors[i, CHANGED_IN]
        while row >= 0:
            centroid = centroid_slot[ancestors.slot[row], vectors[i, VECTOR_SCRIPT]] - offset
            centroid_count[centroid] += sign
            for j in range(raw.shape[1]):
                sums[centroid, j] += fixed[j]
            row = ancestors.parent[row]


@njit
def divide_sums(sums: I64, counts: I64, out: F32) -> None:
    """Compute the means out[i] = sums[i] / counts[i], float32 [n, dim]; zeros for a count of 0."""
    for i in range(sums.shape[0]):
        for j in range(sums.shape[1]):
            out[i, j] = (
                np.float32(sums[i, j] / FIXED_POINT / counts[i]) if counts[i] > 0 else np.float32(0)
            )
