"""The counts and centroids of each directory's subtree, updated by each commit."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from viking_kernels import statistics_updates as kernels
from viking_kernels.arrays import F32, I32, I64, SubtreeStats

from vikingd.index.array_growth import gathered, grown
from vikingd.index.segment.segment_arrays import GrowingArrays, Segment
from vikingd.index.snapshot import Snapshot


class ReusedRows:
    """Allocates row numbers behind the rows of a base, and reuses those that no snapshot shows.

    Rows of the base are never reused.
    """

    def __init__(self, base: int) -> None:
        self.end = base  # the number of rows, with those of the base
        self._base = base
        self._free: I32 = np.zeros(0, np.int32)
        self._replaced: list[I32] = []  # by the present commit
        # (The last snapshot that shows some rows, these rows), in the order of snapshots. Older
        # snapshots show the rows, too, so rows are freed from the left only.
        self._retired: deque[tuple[weakref.ref[Snapshot], I32]] = deque()

    def take(self, count: int) -> I32:
        """Return `count` row numbers, free ones first. No snapshot shows these rows."""
        free = [self._free]
        while self._retired and self._retired[0][0]() is None:
            free.append(self._retired.popleft()[1])
        rows = np.concatenate(free)
        new = np.arange(self.end, self.end + max(count - len(rows), 0), dtype=np.int32)
        self.end += len(new)
        self._free = rows[count:]
        return np.concatenate([rows[:count], new])

    def replace(self, rows: I32) -> None:
        """Mark rows as unused after the current commit: the next snapshot does not show them."""
        self._replaced.append(rows[rows >= self._base])

    def published(self, before: Snapshot) -> None:
        """Free the rows marked by `replace` once `before` and all older snapshots are deleted.

        Args:
            before: the last snapshot that shows the rows.
        """
        if self._replaced:
            self._retired.append((weakref.ref(before), np.concatenate(self._replaced)))
            self._replaced = []


@dataclass(slots=True)
class Delta:
    """The nodes, texts and vectors that a commit adds (sign 1) and removes (sign -1)."""

    nodes: list[tuple[int, int, int]] = field(default_factory=list)  # directory, sign, column
    texts: list[tuple[int, int]] = field(default_factory=list)  # row, sign
    vectors: list[tuple[int, int]] = field(default_factory=list)  # row, sign


class StatsWriter:
    """The counts and centroids of all directories' subtrees.

    Row d of the base has slot d; these slots are mapped and never change. A commit gives each
    directory that it changes a new slot behind them, so a published slot stays as it is. Centroids
    are kept in the same way.
    """

    def __init__(self, base: Segment) -> None:
        self._base = base
        self._base_means = len(base.mean_count)
        self._dimension = int(base.raw.shape[1])
        self._slot: I32 = np.arange(base.sizes.directories, dtype=np.int32)
        self.slots = ReusedRows(base.sizes.directories)
        self._counts, self._mean_slot = base.counts, base.mean_slot
        self.means = ReusedRows(self._base_means)
        self._mean_count = base.mean_count
        self._tail_sum: I64 = np.zeros((0, self._dimension), np.int64)
        self._tail_mean: F32 = np.zeros((0, self._dimension), np.float32)

    def apply(self, delta: Delta, arrays: GrowingArrays, directories: int, raw: F32) -> None:
        """Add a commit to the statistics of the directories that it changes and all above them.

        Args:
            delta: the items that the commit adds and removes.
            arrays: the growing arrays, with the commit's rows.
            directories: the number of directory rows in use.
            raw: [vectors, dim] the vectors of `delta.vectors`.
        """
        nodes = np.array(delta.nodes, np.int32).reshape(-1, 3)
        texts, signs = np.array(delta.texts, np.int64).reshape(-1, 2).T
        with_vector, vector_signs = np.array(delta.vectors, np.int64).reshape(-1, 2).T
        text_dirs, vector_dirs = arrays.text_dir[texts], arrays.text_dir[with_vector]
        affected = np.concatenate([text_dirs, nodes[:, 0], vector_dirs])
        if not len(affected):
            return
        parents = arrays.dir_parent[:directories]
        self._renew_slots(kernels.touched_directories(parents, affected), directories)
        above = kernels.Ancestors(parents, self._slot)
        kernels.count_nodes(above, self._counts, nodes)
        scripts, lengths = arrays.text_script[texts], arrays.text_length[texts]
        of_file = arrays.text_file[texts] >= 0
        counted = np.column_stack([text_dirs, signs, scripts, lengths, of_file])
        kernels.count_texts(above, self._counts, counted.astype(np.int32))
        if len(with_vector):
            scripts = arrays.text_script[with_vector]
            vectors = np.column_stack([vector_dirs, vector_signs, scripts])
            self._sum_vectors(above, vectors.astype(np.int32), raw)

    def _renew_slots(self, touched: I32, directories: int) -> None:
        """Give each of these directories a new slot, with a copy of its counts."""
        there = self.slots.end
        fresh = self.slots.take(len(touched))
        if self.slots.end > len(self._counts):
            room = self.slots.end * 5 // 4 + 256
            self._counts = grown(self._counts[:there], room)
            self._mean_slot = grown(self._mean_slot[:there], room)
        slot = np.full(directories, -1, np.int32)
        slot[: len(self._slot)] = self._slot
        old = slot[touched]
        known = old >= 0
        slot[touched] = fresh
        self._counts[fresh[known]] = self._counts[old[known]]
        self._mean_slot[fresh[known]] = self._mean_slot[old[known]]
        self._counts[fresh[~known]] = 0
        self._mean_slot[fresh[~known]] = -1
        self._slot = slot
        self.slots.replace(old)

    def _sum_vectors(self, above: kernels.Ancestors, vectors: I32, raw: F32) -> None:
        """Add vectors to the sums of all directories above, and compute the new means.

        Args:
            above: the parents and slots of the directories.
            vectors: [n, 3]: directory, sign, script.
            raw: [n, dim] the vectors.
        """
        directories, scripts = vectors[:, 0], vectors[:, 2]
        fresh = []
        for script in np.unique(scripts):
            touched = kernels.touched_directories(above.parent, directories[scripts == script])
            fresh.append(self._renew_means(self._slot[touched], int(script)))
        base = self._base_means
        counts = self._mean_count[base:]
        kernels.add_vectors(above, self._mean_slot, base, self._tail_sum, counts, vectors, raw)
        new = np.concatenate(fresh)
        mean = np.empty((len(new), self._dimension), np.float32)
        kernels.divide_sums(self._tail_sum[new - base], self._mean_count[new], mean)
        self._tail_mean[new - base] = mean

    def _renew_means(self, slots: I32, script: int) -> I32:
        """Copy the vector sum of a script of each slot to a new row; return the new rows."""
        base, there = self._base_means, self.means.end
        fresh = self.means.take(len(slots))
        if self.means.end > len(self._mean_count):
            room = self.means.end * 5 // 4 + 64
            self._mean_count = grown(self._mean_count[:there], room)
            self._tail_sum = grown(self._tail_sum[: there - base], room - base)
            self._tail_mean = grown(self._tail_mean[: there - base], room - base)
        old = self._mean_slot[slots, script]
        known, at = old >= 0, np.maximum(old, 0)
        self._mean_count[fresh] = np.where(known, self._mean_count[at], 0)
        sums = gathered(self._base.mean_sum, self._tail_sum, at)
        sums[~known] = 0
        self._tail_sum[fresh - base] = sums
        self._mean_slot[slots, script] = fresh
        self.means.replace(old)
        return fresh

    def views(self) -> SubtreeStats:
        """Return views of the arrays of statistics, without their unused rows, for a snapshot."""
        base = self._base
        return SubtreeStats(
            self._slot,
            self._counts[: self.slots.end],
            self._mean_slot[: self.slots.end],
            self._mean_count[: self.means.end],
            base.mean,
            base.mean_code,
            base.mean_scale,
            base.mean_square,
            self._tail_mean[: self.means.end - self._base_means],
        )

    def published(self, before: Snapshot) -> None:
        """Free the replaced slots and means once `before` and all older snapshots are deleted."""
        self.slots.published(before)
        self.means.published(before)
