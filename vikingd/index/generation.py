"""A base with its tail: takes commits from the one writer, gives snapshots to readers.

A commit appends rows behind the published ends and marks rows as dead from its revision on;
nothing that a published snapshot shows is changed. What the rows point to (chains, a file's
newest text) may lead an older snapshot to rows it must not see yet: it skips them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import (
    F32,
    I8,
    I32,
    NEVER,
    Directories,
    Files,
    SubtreeStats,
    Texts,
    Tree,
    Vectors,
    decode_file,
)

from vikingd.domain import uri as uris
from vikingd.domain.model import Change, Filled, Linked, Remove, Unlinked, Upsert
from vikingd.index import postings, rows
from vikingd.index.base import Stored
from vikingd.index.commit import Commit
from vikingd.index.contents import Contents
from vikingd.index.reuse import ReusedRows
from vikingd.index.rows import grown
from vikingd.index.snapshot import Links, Names, Snapshot
from vikingd.index.vocabulary import Vocabulary

_Array = npt.NDArray[Any]


class Generation:
    """One base and the tail that grows on it."""

    def __init__(self, stored: Stored, prior: F32, room: int, vocabulary: Vocabulary) -> None:
        base = stored.base
        self.vocabulary = vocabulary
        self.number = stored.manifest.generation
        self.base = base
        self.revision = stored.manifest.revision
        self.base_revision = stored.manifest.revision
        self.inverted_file = stored.inverted_file
        self.prior = prior
        self.dir_columns = stored.dir_columns
        self.file_columns = stored.file_columns
        self.names = Names(base)
        self.contents = Contents(base)
        self.links: Links = {}
        self.postings = postings.EMPTY
        self.pending: dict[int, int] = {}  # text id to row, of the texts without their vector
        self.dead_texts = 0
        self.filled_in_base = 0
        self.replaced = 0  # contexts whose row stayed when they were written anew
        self._order: dict[
            int, list[tuple[str, int]]
        ] = {}  # living files by name, where it was needed
        self.dirs, self.files, self.texts = base.sizes
        self.base_dirs, self.base_files, self.base_texts = self.dirs, self.files, self.texts
        self.columns = dict(stored.columns or rows.columns_of(base))
        waiting = (base.text_has_vector == 0) & (base.text_embeddable != 0)
        for row in np.flatnonzero(waiting).tolist():
            self.pending[int(base.text_id[row])] = row
        self.tail_raw: F32 = np.zeros((0, self.dimension), np.float32)
        self.tail_codes: I8 = np.zeros((0, base.codes.shape[1]), np.int8)
        self.tail_scale: F32 = np.zeros(0, np.float32)
        self.tail_error: F32 = np.zeros(0, np.float32)
        self.text_older: I32 = np.zeros(0, np.int32)
        self.dir_older: I32 = np.zeros(0, np.int32)
        self._reserve(room, room, room)
        # The statistics of the base's directories: row d has slot d. They stay as they are, mapped:
        # what changes gets a slot behind them, in a copy that has room. So do means.
        self.slot: I32 = np.arange(self.dirs, dtype=np.int32)
        self.slots = ReusedRows(self.dirs)
        self.counts, self.mean_slot = base.counts, base.mean_slot
        self.means = ReusedRows(len(base.mean_count))
        self.mean_count = base.mean_count
        self.tail_sum = np.zeros((0, self.dimension), np.int64)
        self.tail_mean = np.zeros((0, self.dimension), np.float32)
        self.snapshot = self._publish()

    @property
    def dimension(self) -> int:
        """Numbers in a vector; 0 while it is not known."""
        return int(self.base.raw.shape[1])

    @property
    def tail_texts(self) -> int:
        """Texts in the tail, living or dead."""
        return self.texts - self.base_texts

    @property
    def changed(self) -> int:
        """How much a compaction would fold: texts, or directories and metadata if these are more.

        They grow in memory too where no text changes.
        """
        return max(
            self.tail_texts + self.filled_in_base + self.dead_texts,
            self.dirs - self.base_dirs + self.replaced,
        )

    def _reserve(self, dirs: int, files: int, texts: int) -> None:
        """Makes room behind the ends, in all arrays at once; those of a mapped base may have it.

        An older snapshot's views stay one whole then: the rows that a chain leads to lie in the
        same allocation as the chain.
        """
        columns, used = self.columns, (self.dirs, self.files, self.texts)
        room = (self.dirs + dirs, self.files + files, self.texts + texts)
        if any(has < needs for has, needs in zip(rows.lengths(columns), room, strict=True)):
            for kinds, kept, size in zip(rows.GROUPS, used, room, strict=True):
                for name in kinds:
                    columns[name] = grown(columns[name][:kept], size)
        room = rows.lengths(columns)
        tail_texts, tail_dirs = room[2] - self.base_texts, room[0] - self.base_dirs
        tail = self.texts - self.base_texts
        self.tail_raw = grown(self.tail_raw[:tail], tail_texts)
        self.tail_codes = grown(self.tail_codes[:tail], tail_texts)
        self.tail_scale = grown(self.tail_scale[:tail], tail_texts)
        self.tail_error = grown(self.tail_error[:tail], tail_texts)
        self.text_older = grown(self.text_older[:tail], tail_texts)
        self.dir_older = grown(self.dir_older[: self.dirs - self.base_dirs], tail_dirs)
        self._room = room

    # Writing

    def apply(self, changes: Sequence[Change], revision: int) -> Snapshot:
        """Takes one commit; returns the snapshot that shows it.

        Raises:
            Corrupt: a change does not fit what is here.
        """
        upserts = [change for change in changes if isinstance(change, Upsert)]
        dirs = sum(change.is_directory for change in upserts)
        texts = sum(len(change.texts) for change in upserts)
        if (
            self.dirs + dirs > self._room[0]
            or self.files + len(upserts) > self._room[1]
            or self.texts + texts > self._room[2]
        ):
            spare = max(self.texts // 4, 1024)
            self._reserve(dirs + spare, len(upserts) + spare, texts + spare)
        commit = Commit(self, revision, self.names.maybe_in_base([c.uri for c in upserts]))
        for change in changes:
            if isinstance(change, Upsert):
                commit.upsert(change)
            elif isinstance(change, Remove):
                commit.remove(change.uri)
            elif isinstance(change, Filled):
                commit.fill(change)
            elif isinstance(change, Linked):
                commit.link(change)
            elif isinstance(change, Unlinked):
                commit.unlink(change)
            else:
                commit.relink(change)
        commit.finish()
        self.revision = revision
        before, self.snapshot = self.snapshot, self._publish()
        self.slots.published(before)
        self.means.published(before)
        return self.snapshot

    def _publish(self) -> Snapshot:
        c, dirs, files, texts = self.columns, self.dirs, self.files, self.texts
        base = self.base
        tail = texts - self.base_texts
        # Chains are handed over with the room behind them: they may begin in rows that this
        # snapshot must not see yet, and lead on from there.
        tree = Tree(
            Directories(
                c["dir_parent"][:dirs],
                base.dir_end,
                base.dir_files,
                base.dir_texts,
                c["dir_died"][:dirs],
                c["dir_first"][:dirs],
                c["dir_tail"][:dirs],
                self.dir_older,
                c["dir_key"][:dirs],
            ),
            Files(
                c["file_dir"][:files],
                c["file_next"],
                c["file_previous"],
                c["file_died"][:files],
                base.file_texts,
                c["file_tail"][:files],
            ),
            Texts(
                c["text_file"][:texts],
                c["text_dir"][:texts],
                c["text_script"][:texts],
                c["text_length"][:texts],
                c["text_ordinal"][:texts],
                c["text_died"][:texts],
                self.text_older,
            ),
        )
        vectors = Vectors(
            base.codes,
            base.scale,
            base.error,
            base.raw,
            self.tail_codes[:tail],
            self.tail_scale[:tail],
            self.tail_error[:tail],
            self.tail_raw[:tail],
            c["vector_at"][:texts],
            base.int4,
        )
        stats = SubtreeStats(
            self.slot,
            self.counts[: self.slots.end],
            self.mean_slot[: self.slots.end],
            self.mean_count[: self.means.end],
            base.mean,
            base.mean_code,
            base.mean_scale,
            base.mean_square,
            self.tail_mean[: self.means.end - len(base.mean_count)],
        )
        return Snapshot(
            self.revision,
            self.number,
            tree,
            vectors,
            stats,
            c["dir_type"][:dirs],
            c["dir_id"][:dirs],
            c["file_id"][:files],
            c["text_id"][:texts],
            c["text_ordinal"][:texts],
            c["text_embeddable"][:texts],
            self.names,
            self.contents,
            self.links,
            self.postings,
            self.dir_columns,
            self.file_columns,
            self.prior,
            self.inverted_file,
        )

    def _directory_uri(self, row: int) -> str:
        parts: list[str] = []
        parents = self.columns["dir_parent"]
        while row != 0:
            parts.append(self.names.directories[row])
            row = int(parents[row])
        return uris.ROOT + "/".join(reversed(parts))

    def _file_uri(self, row: int) -> str:
        return uris.join(
            self._directory_uri(int(self.columns["file_dir"][row])), self.names.files[row]
        )

    def find(self, uri: str) -> int | None:
        """As Snapshot.find, seen by the writer in the middle of a commit."""
        for row in reversed(self.names.tail_rows.get(uri, ())):
            if self._is_alive(row):
                return row
        found = self.names.base_row(uri, self._directory_uri, self._file_uri)
        return found if found is not None and self._is_alive(found) else None

    def _is_alive(self, row: int) -> bool:
        died = (
            self.columns["dir_died"][row]
            if row >= 0
            else self.columns["file_died"][decode_file(row)]
        )
        return bool(died == NEVER)

    def texts_of_file(self, file: int) -> list[int]:
        """Rows of a file's living texts, rising."""
        died = self.columns["text_died"]
        rows: list[int] = []
        if file < self.base_files:
            rows = list(range(*self.base.file_texts[file].tolist()))
        tail: list[int] = []
        row = int(self.columns["file_tail"][file])
        while row >= 0:
            tail.append(row)
            row = int(self.text_older[row - self.base_texts])
        return [r for r in rows + tail[::-1] if died[r] == NEVER]

    def files_by_name(self, directory: int) -> list[tuple[str, int]]:
        """A directory's living files by name; the list is kept up to date from then on."""
        known = self._order.get(directory)
        if known is None:
            known = []
            following, died = self.columns["file_next"], self.columns["file_died"]
            row = int(self.columns["dir_first"][directory])
            while row >= 0:
                if died[row] == NEVER:
                    known.append((self.names.files[row], row))
                row = int(following[row])
            self._order[directory] = known
        return known

    def forget_order(self, directory: int) -> None:
        """Lets go of `files_by_name` of a directory that is gone."""
        self._order.pop(directory, None)

    def raw(self, rows: npt.NDArray[np.int64]) -> F32:
        """[rows, dim] fp32 vectors of texts; meaningless of one that has none."""
        vectors = np.empty((len(rows), self.dimension), np.float32)
        of_base = rows < self.base_texts
        vectors[of_base] = self.base.raw[rows[of_base]]
        vectors[~of_base] = self.tail_raw[rows[~of_base] - self.base_texts]
        return vectors

    def subdirectories(self, row: int) -> list[int]:
        """Rows of a directory's living directories."""
        died = self.columns["dir_died"]
        found: list[int] = []
        if row < self.base_dirs:
            child, end = row + 1, int(self.base.dir_end[row])
            while child < end:
                found.append(child)
                child = int(self.base.dir_end[child])
        child = int(self.columns["dir_tail"][row])
        while child >= 0:
            found.append(child)
            child = int(self.dir_older[child - self.base_dirs])
        return [d for d in found if died[d] == NEVER]
