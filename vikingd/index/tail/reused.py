"""Row numbers that commits replace. They are used again when no snapshot shows them."""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np
from viking_kernels.arrays import I32

from vikingd.index.snapshot import Snapshot


class ReusedRows:
    """Row numbers behind those of a base, which stay.

    Attributes:
        end: number of rows, with those of the base.
    """

    def __init__(self, base: int) -> None:
        self.end = base
        self._base = base
        self._free: I32 = np.zeros(0, np.int32)
        self._replaced: list[I32] = []  # by the present commit
        # Rows with the last snapshot that shows them. Snapshots end in any order, but older ones
        # show the rows too. So rows are freed in this order only.
        self._retired: deque[tuple[weakref.ref[Snapshot], I32]] = deque()

    def take(self, count: int) -> I32:
        """Return rows that no snapshot shows."""
        free = [self._free]
        while self._retired and self._retired[0][0]() is None:
            free.append(self._retired.popleft()[1])
        rows = np.concatenate(free)
        new = np.arange(self.end, self.end + max(count - len(rows), 0), dtype=np.int32)
        self.end += len(new)
        self._free = rows[count:]
        return np.concatenate([rows[:count], new])

    def replace(self, rows: I32) -> None:
        """Retire rows; the next snapshot does not show them."""
        self._replaced.append(rows[rows >= self._base])

    def published(self, before: Snapshot) -> None:
        """Keep the retired rows until `before` and all older snapshots are gone."""
        if self._replaced:
            self._retired.append((weakref.ref(before), np.concatenate(self._replaced)))
            self._replaced = []
