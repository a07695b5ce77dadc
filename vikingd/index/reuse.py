"""Rows of numbers that commits replace, used again when no snapshot shows them any more."""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np
from viking_kernels.arrays import I32

from vikingd.index.snapshot import Snapshot


class ReusedRows:
    """Numbers of rows behind those of a base, which stay.

    Attributes:
        end: how many rows there are, the base's among them.
    """

    def __init__(self, base: int) -> None:
        self.end = base
        self._base = base
        self._free: I32 = np.zeros(0, np.int32)
        self._replaced: list[I32] = []  # by the commit that is being taken
        # Each with the last snapshot that shows it; these come to their ends in any order, but a
        # row is shown by older ones too.
        self._retired: deque[tuple[weakref.ref[Snapshot], I32]] = deque()

    def take(self, count: int) -> I32:
        """So many rows that no snapshot shows."""
        free = [self._free]
        while self._retired and self._retired[0][0]() is None:
            free.append(self._retired.popleft()[1])
        rows = np.concatenate(free)
        new = np.arange(self.end, self.end + max(count - len(rows), 0), dtype=np.int32)
        self.end += len(new)
        self._free = rows[count:]
        return np.concatenate([rows[:count], new])

    def replace(self, rows: I32) -> None:
        """Rows that the next snapshot will not show."""
        self._replaced.append(rows[rows >= self._base])

    def published(self, before: Snapshot) -> None:
        """What was replaced is shown no longer, but by `before` and older snapshots."""
        if self._replaced:
            self._retired.append((weakref.ref(before), np.concatenate(self._replaced)))
            self._replaced = []
