"""Compaction: the rows of a snapshot in depth-first order, and their statistics."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import (
    COUNTS,
    F32,
    I32,
    I64,
    OWN_LENGTH,
    OWN_TEXT,
    SCRIPTS,
    TEXT_LENGTH,
    TEXTS,
    U8,
    U16,
    Tree,
)
from viking_kernels.statistics_updates import FIXED_POINT


@njit
def order_files(tree: Tree, revision: int, directories: I32) -> tuple[I32, I32]:
    """Return the living files of directories: directory by directory, sorted by name.

    Returns:
        (rows, starts): files of directories[i] are rows[starts[i] : starts[i + 1]].
    """
    files = tree.files.directory.shape[0]
    rows = np.empty(files, np.int32)
    starts = np.zeros(directories.shape[0] + 1, np.int32)
    count = 0
    for i in range(directories.shape[0]):
        file = tree.directories.first_file[directories[i]]
        while file >= 0:
            if file < files and tree.files.tombstoned[file] > revision:
                rows[count] = file
                count += 1
            file = tree.files.next[file]
        starts[i + 1] = count
    return rows[:count].copy(), starts


@njit
def order_texts(
    tree: Tree, revision: int, abstracts: I32, files: I32, file_starts: I32, base_texts: int
) -> tuple[I32, I32, I32]:
    """Return the living texts of directories: for each its abstract, then its files' texts.

    Args:
        abstracts: [directories] the rows of the directories' abstracts, -1 none.
        files, file_starts: the results of `order_files`.
        base_texts: the number of base texts.

    Returns:
        (rows; index of the first text by directory; [files, 2] first text and one past the last by
        file, because the abstract of the next directory may follow a file).
    """
    texts = tree.texts.file.shape[0]
    rows = np.empty(texts, np.int32)
    dir_starts = np.zeros(abstracts.shape[0] + 1, np.int32)
    file_ranges = np.zeros((files.shape[0], 2), np.int32)
    count = 0
    for i in range(abstracts.shape[0]):
        if abstracts[i] >= 0:
            rows[count] = abstracts[i]
            count += 1
        for f in range(file_starts[i], file_starts[i + 1]):
            file = files[f]
            file_ranges[f, 0] = count
            if file < tree.files.texts.shape[0]:
                for text in range(tree.files.texts[file, 0], tree.files.texts[file, 1]):
                    if tree.texts.tombstoned[text] > revision:
                        rows[count] = text
                        count += 1
            first = count
            text = tree.files.newest[file]
            while text >= 0:
                if text < texts and tree.texts.tombstoned[text] > revision:
                    rows[count] = text
                    count += 1
                text = tree.texts.older[text - base_texts]
            # The chain leads from the newest to the oldest.
            low, high = first, count - 1
            while low < high:
                rows[low], rows[high] = rows[high], rows[low]
                low += 1
                high -= 1
            file_ranges[f, 1] = count
        dir_starts[i + 1] = count
    return rows[:count].copy(), dir_starts, file_ranges


@njit
def gather_strings(at: I64, data: U8, tail_at: I64, tail: U8, rows: I32) -> tuple[I64, U8]:
    """Copy the strings of some rows into one array; return (bounds, bytes).

    String r of the base is data[at[r] : at[r + 1]]. The strings of later rows are in `tail_at` and
    `tail`, in the same form. String i of the result is bytes[bounds[i] : bounds[i + 1]].
    """
    base = at.shape[0] - 1
    bounds = np.zeros(rows.shape[0] + 1, np.int64)
    for i in range(rows.shape[0]):
        row = rows[i]
        if row < base:
            bounds[i + 1] = bounds[i] + at[row + 1] - at[row]
        else:
            bounds[i + 1] = bounds[i] + tail_at[row - base + 1] - tail_at[row - base]
    out = np.empty(bounds[rows.shape[0]], np.uint8)
    for i in range(rows.shape[0]):
        row = rows[i]
        # LLVM makes a copy of these loops. For a slice assignment, numba would also compile the
        # code of an error message.
        if row < base:
            for j in range(bounds[i + 1] - bounds[i]):
                out[bounds[i] + j] = data[at[row] + j]
        else:
            for j in range(bounds[i + 1] - bounds[i]):
                out[bounds[i] + j] = tail[tail_at[row - base] + j]
    return bounds, out


@njit
def merge_postings(
    starts: I64,
    ends: I64,
    base_text: I32,
    base_tf: U16,
    tail_text: I32,
    tail_tf: U16,
    renamed: I32,
) -> tuple[I64, I32, U16]:
    """Merge the postings of base and tail into one list per term, without tombstoned texts.

    Args:
        starts: [terms, 2] first base and first tail posting of each term.
        ends: [terms, 2] one past the last.
        base_text: texts of the base postings, rising within a term; renaming keeps their order.
        base_tf: their tf.
        tail_text: texts of the tail postings, renamed and sorted.
        tail_tf: their tf.
        renamed: [T] new row of each old one, -1 if tombstoned.

    Returns:
        (bounds [terms + 1], texts, tfs).
    """
    bounds = np.zeros(starts.shape[0] + 1, np.int64)
    size = base_text.shape[0] + tail_text.shape[0]
    texts = np.empty(size, np.int32)
    tfs = np.empty(size, np.uint16)
    count = 0
    for i in range(starts.shape[0]):
        a, a_end = starts[i, 0], ends[i, 0]
        b, b_end = starts[i, 1], ends[i, 1]
        while a < a_end or b < b_end:
            if a < a_end and renamed[base_text[a]] < 0:
                a += 1
            elif b >= b_end or (a < a_end and renamed[base_text[a]] < tail_text[b]):
                texts[count] = renamed[base_text[a]]
                tfs[count] = base_tf[a]
                a += 1
                count += 1
            else:
                texts[count] = tail_text[b]
                tfs[count] = tail_tf[b]
                b += 1
                count += 1
        bounds[i + 1] = count
    return bounds, texts[:count].copy(), tfs[:count].copy()


@njit
def sum_up(parents: I32, counts: I64) -> None:
    """Add the counts [D, n] of each directory to those of all directories above it.

    On return each row is the sum over its subtree. Rows must be in depth-first order.
    """
    for row in range(parents.shape[0] - 1, 0, -1):
        for j in range(counts.shape[1]):
            counts[parents[row], j] += counts[row, j]


@njit
def sum_vectors(
    parents: I32,
    centroid_slot: I32,
    centroids: int,
    text_dir: I32,
    text_script: U8,
    has_vector: U8,
    raw: F32,
) -> I64:
    """Return [centroids, dim], the sum of the vectors of each subtree and script, in fixed point.

    `centroid_slot` [D, SCRIPTS] has the row of the sum of each directory and script, -1 if it has
    no vector.
    """
    dimension = raw.shape[1]
    sums = np.zeros((centroids, dimension), np.int64)
    for text in range(text_dir.shape[0]):
        if has_vector[text]:
            row = centroid_slot[text_dir[text], text_script[text]]
            for j in range(dimension):
                sums[row, j] += np.int64(np.rint(np.float64(raw[text, j]) * FIXED_POINT))
    for directory in range(parents.shape[0] - 1, 0, -1):
        for script in range(SCRIPTS):
            row = centroid_slot[directory, script]
            if row >= 0:
                parent_row = centroid_slot[parents[directory], script]
                for j in range(dimension):
                    sums[parent_row, j] += sums[row, j]
    return sums


@njit
def own_counts(
    text_dir: I32, text_file: I32, text_length: I32, text_script: U8, parents: I32
) -> I64:
    """Return the counts [D, COUNTS] of each directory alone, without its subdirectories."""
    counts = np.zeros((parents.shape[0], COUNTS), np.int64)
    for text in range(text_dir.shape[0]):
        directory = text_dir[text]
        length = np.int64(text_length[text])
        counts[directory, TEXTS] += 1
        counts[directory, TEXT_LENGTH] += length
        counts[directory, OWN_LENGTH] += length
        counts[directory, COUNTS - SCRIPTS + text_script[text]] += 1
        if text_file[text] < 0:
            counts[directory, OWN_TEXT] += 1
            if parents[directory] >= 0:
                counts[parents[directory], OWN_LENGTH] += length
    return counts
