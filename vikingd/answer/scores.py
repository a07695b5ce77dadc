"""The scores by meaning and words of a whole scope, kept for a walk that a reranker decides."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import DIRECTORY_FINAL, NODE, Scratch, decode_file, encode_file, is_file

from vikingd.answer.find import Search
from vikingd.answer.trace import Scored, directory_parts
from vikingd.domain.model import ScoreParts

Row = int
"""A node, see viking_kernels.arrays.encode_file."""

_Rows = npt.NDArray[np.int64]


class Scores:
    """What a find left behind; a snapshot's rows that are alive and in the scope.

    Args:
        search: its answer has just been made.
        scored: by it.
        scratch: by it; copied, for the next find overwrites it.
    """

    def __init__(self, search: Search, scored: Scored, scratch: Scratch) -> None:
        self._snapshot = snapshot = search.snapshot
        self._scope = scope = search.scope
        self._found = scored.found._replace(directories=scored.found.directories.copy())
        self.chosen: tuple[Row, ...] = tuple(one.row for one in scored.chosen)
        tree = snapshot.tree

        own, final = self._found.directories[NODE], self._found.directories[DIRECTORY_FINAL]
        dirs = _rows(
            scope.dir_low, scope.dir_high, scope.base_dirs, len(tree.directories.tombstoned)
        )
        inside = own[: len(dirs)] >= 0
        self._dirs, self._dir_own, self._dir_final = dirs[inside], own[inside], final[inside]
        self._dir_parent = tree.directories.parent[self._dirs]
        allowed = search.allowed(files=False)
        self._dir_allowed = allowed[inside] if len(allowed) else np.ones(len(self._dirs), np.uint8)

        files = _rows(scope.file_low, scope.file_high, scope.base_files, len(tree.files.tombstoned))
        wanted = tree.files.tombstoned[files] > scope.revision
        allowed = search.allowed(files=True)
        if len(allowed):
            wanted &= allowed.astype(bool)
        self._files = files[wanted]
        self._file_own = scratch.file_scores[: len(files)][wanted]
        self._file_directory = tree.files.directory[self._files]

    def of(self, row: Row) -> float:
        """The own score of what stands in the scope and is let through."""
        if is_file(row):
            return float(self._file_own[np.searchsorted(self._files, decode_file(row))])
        return float(self._dir_own[np.searchsorted(self._dirs, row)])

    def weight(self, parent: Row) -> float:
        """How much the final score of a directory counts for what stands in it."""
        weights = self._found.weights
        return weights.below_root if parent == self._scope.root else weights.parent

    @property
    def greatest_weight(self) -> float:
        """The most that it counts anywhere in the scope."""
        return self._found.weights.parent

    def best_directories(self, count: int) -> list[Row]:
        """The best by final score; the first of those that score alike."""
        order = np.argsort(-self._dir_final, kind="stable")[:count]
        best: list[int] = self._dirs[order].tolist()
        return best

    def children(
        self,
        directories: Sequence[Row],
        count: int,
        *,
        files: bool,
        known: Collection[Row],
        first: Collection[Row],
    ) -> tuple[list[Row], int]:
        """What stands right in some directories: directories and, if asked for, files.

        Args:
            directories: opened together.
            count: how many to return at most.
            files: whether they are asked for.
            known: are left out.
            first: come first, whatever they score.

        Returns:
            (the best by own score, the first of those that score alike; how many there are)
        """
        inside = np.isin(self._dir_parent, directories) & (self._dirs != self._scope.root)
        rows, own = self._dirs[inside], self._dir_own[inside]
        if files:
            inside = np.isin(self._file_directory, directories)
            rows = np.concatenate([rows, encode_file(self._files[inside])])
            own = np.concatenate([own, self._file_own[inside]])
        new = np.isin(rows, list(known), invert=True)
        rows, own = rows[new], own[new]
        order = np.lexsort((rows, -own, np.isin(rows, list(first), invert=True)))
        best: list[int] = rows[order[:count]].tolist()
        return best, len(rows)

    def allows(self, directory: Row) -> bool:
        """Whether the filters let a directory through."""
        return bool(self._dir_allowed[np.searchsorted(self._dirs, directory)])

    def directory_parts(self, directory: Row) -> ScoreParts:
        """How the score of a directory came about."""
        parts = directory_parts(self._snapshot, self._scope, self._found, directory)
        return ScoreParts(*parts.tolist())


def _rows(low: int, high: int, base: int, count: int) -> _Rows:
    """The rows of a scope's arrays in the order of their positions, which is rising."""
    return np.concatenate([np.arange(low, high), np.arange(base, count)])
