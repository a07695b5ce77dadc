"""Positions in a scope: base rows of its range have the first numbers, all tail rows the next."""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import I32, U8, Directories, Files, Scope, Search


@inlined
def place(row: int, low: int, high: int, base: int) -> int:
    """Return the position of a row in the scope; the base rows [low, high) come first.

    `base` is the number of base rows; rows from there on are the tail.
    """
    if row < base:
        return row - low
    return high - low + row - base


@inlined
def row_at(position: int, low: int, high: int, base: int) -> int:
    """Return the row at a position; the inverse of `place`."""
    if position < high - low:
        return position + low
    return position - (high - low) + base


@njit
def tail_directories(directories: Directories, scope: Scope) -> U8:
    """Return uint8 [D - Db]: for each directory of the tail 1 if it is living and in the scope."""
    inside = np.zeros(directories.parent.shape[0] - scope.base_dirs, np.uint8)
    for i in range(inside.shape[0]):
        row = scope.base_dirs + i
        if directories.tombstoned[row] > scope.revision and (
            row == scope.root or directory_inside(directories.parent[row], inside, scope)
        ):
            inside[i] = 1
    return inside


@inlined
def directory_inside(row: int, tail_inside: U8, scope: Scope) -> bool:
    """Return True if a directory is in the scope; `tail_inside` is from `tail_directories`."""
    if row < scope.base_dirs:
        return scope.dir_low <= row < scope.dir_high
    return tail_inside[row - scope.base_dirs] == 1


@inlined
def living_file(file: int, chain: I32, files: Files, revision: int) -> int:
    """Return the first living file along a chain that begins with `file`; -1 for none.

    `chain` is files.next or files.previous.
    """
    while file >= 0 and (file >= files.tombstoned.shape[0] or files.tombstoned[file] <= revision):
        file = chain[file]
    return file


@inlined
def list_files(directory: int, unchanged: bool, search: Search) -> int:
    """Write the positions of a directory's living files to scratch.listed, by name.

    With `unchanged`, the subtree must be as it was when the base was written: its files are one
    range of rows then, and the chain need not be followed. Returns the number of files.
    """
    tree, scope, listed = search.tree, search.scope, search.scratch.listed
    if unchanged:
        first, last = tree.directories.files[directory], tree.directories.files[directory + 1]
        for i in range(last - first):
            listed[i] = first - scope.file_low + i
        return np.int64(last - first)
    count = np.int64(0)
    files = tree.files
    file = living_file(tree.directories.first_file[directory], files.next, files, scope.revision)
    while file >= 0:
        listed[count] = place(file, scope.file_low, scope.file_high, scope.base_files)
        count += 1
        file = living_file(files.next[file], files.next, files, scope.revision)
    return count
