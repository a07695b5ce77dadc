"""The plain scores of a whole scope, kept for the walk of a reranker."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import Scratch, decode_file, encode_file, is_file

from vikingd.answer.find import Find
from vikingd.answer.trace import Scored, directory_parts, directory_scores
from vikingd.domain.find import ScoreParts

Row = int
"""A node, see viking_kernels.arrays.encode_file."""

_Rows = npt.NDArray[np.int64]


class Scores:
    """The scores of a find, for the rows of its snapshot that are alive and in the scope.

    Args:
        find: its answer has just been made.
        scored: its scores.
        scratch: its scratch; copied, because the next find overwrites it.
    """

    def __init__(self, find: Find, scored: Scored, scratch: Scratch) -> None:
        self._snapshot = snapshot = find.snapshot
        self._scope = scope = find.scope
        self._found = scored.found._replace(directories=scored.found.directories.copy())
        self.chosen: tuple[Row, ...] = tuple(hit.row for hit in scored.chosen)
        tree = snapshot.tree

        scores = directory_scores(self._found)
        own, final = scores.own, scores.final
        dirs = _rows(
            scope.dir_low, scope.dir_high, scope.base_dirs, len(tree.directories.tombstoned)
        )
        inside = own[: len(dirs)] >= 0
        self._dirs, self._dir_own, self._dir_final = dirs[inside], own[inside], final[inside]
        self._dir_parent = tree.directories.parent[self._dirs]
        allowed = find.allowed(files=False)
        self._dir_allowed = allowed[inside] if len(allowed) else np.ones(len(self._dirs), np.uint8)

        files = _rows(scope.file_low, scope.file_high, scope.base_files, len(tree.files.tombstoned))
        wanted = tree.files.tombstoned[files] > scope.revision
        allowed = find.allowed(files=True)
        if len(allowed):
            wanted &= allowed.astype(bool)
        self._files = files[wanted]
        self._file_own = scratch.file_scores[: len(files)][wanted]
        self._file_directory = tree.files.directory[self._files]

    def of(self, row: Row) -> float:
        """Return the node score of a row that is in the scope and allowed."""
        if is_file(row):
            return float(self._file_own[np.searchsorted(self._files, decode_file(row))])
        return float(self._dir_own[np.searchsorted(self._dirs, row)])

    def weight(self, parent: Row) -> float:
        """Return the weight of a directory's final score for its children."""
        weights = self._found.weights
        return weights.below_root if parent == self._scope.root else weights.parent

    @property
    def greatest_weight(self) -> float:
        """The greatest such weight in the scope."""
        return self._found.weights.parent

    def best_directories(self, count: int) -> list[Row]:
        """Return the best directories by final score, ties by row."""
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
        """Return the children of some directories.

        Args:
            directories: opened together.
            count: children to return, at most.
            files: whether files are wanted, too.
            known: rows to leave out.
            first: rows to return before others, whatever their score.

        Returns:
            (the best by node score, ties by row; the number of all)
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
        """Return whether the filters allow a directory."""
        return bool(self._dir_allowed[np.searchsorted(self._dirs, directory)])

    def directory_parts(self, directory: Row) -> ScoreParts:
        """Return the parts of a directory's score."""
        return directory_parts(self._snapshot, self._scope, self._found, directory)


def _rows(low: int, high: int, base: int, count: int) -> _Rows:
    """Return the rows of a scope's arrays, in rising order."""
    return np.concatenate([np.arange(low, high), np.arange(base, count)])
