"""The index: it applies commits, publishes snapshots, compacts, and is stored on disk."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from viking_kernels.arrays import F32

from vikingd.domain.errors import Corrupt, DiskFull
from vikingd.domain.store_changes import Change, Filled, Upsert
from vikingd.index.compaction import compacted
from vikingd.index.compaction_worker import CompactionWorker
from vikingd.index.ivf import InvertedFile
from vikingd.index.lexicon.vocabulary import Vocabulary
from vikingd.index.metadata.columns import Columns
from vikingd.index.old_bases import OldBases
from vikingd.index.segment import disk as bases
from vikingd.index.segment.disk import Base
from vikingd.index.segment.manifest import Manifest
from vikingd.index.segment.segment_arrays import Segment, empty, widened
from vikingd.index.segment.segment_files import Files
from vikingd.index.settings import IndexSettings
from vikingd.index.snapshot import Snapshot
from vikingd.index.tail.tail import Tail
from vikingd.system.priorities import lower_writer_priority

_WORTH_FOLDING = 64  # rows in the tail
_SMALL_ROOM = 256  # rows of a new tail in an index of many; it grows

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexState:
    """The size and the state of an index, for statistics."""

    generation: int  # number of the base
    base_revision: int  # newest commit in the base
    base_texts: int  # living or dead
    tail_texts: int  # living or dead
    dead_texts: int  # in both
    compacting: bool  # a compaction runs
    bytes_on_disk: int  # size of the base
    problem: str  # why the last compaction failed; "" if it did not
    rebuilt: str  # why the index was built again from the store; "" if it was not
    old_bases: int  # that were replaced and are still open


class Index:
    """Applies commits of one writer, publishes snapshots to readers, compacts in the background.

    A compaction makes a new base from a snapshot, while commits go on into the old tail. The
    commits since that snapshot are kept, and applied again to a new tail before it replaces the old
    one.

    Attributes:
        snapshot: the newest snapshot; one reference, no lock.
        damage: the reason why the snapshot must not be used, found by `check_files`; else "".
        rebuilt: why the index was built again from the store; "" if it was not.
    """

    def __init__(
        self,
        root: Path,
        model: str,
        prior: F32,
        settings: IndexSettings,
        *,
        written: Callable[[int], None] = lambda _: None,
        read_only: bool = False,
        compacted: Callable[[float], None] = lambda _: None,
        origin: Callable[[], tuple[str, str]] = lambda: ("", ""),
        why_unusable: Callable[[Manifest], str] = lambda _: "",
        small: bool = False,
    ) -> None:
        """Make an empty index.

        Args:
            root: the directory of the bases.
            model: the name of the embedding model.
            prior: [SCRIPTS, dim] the model's mean vector of each script.
            settings: when to compact.
            written: called with the revision of each base that is on disk.
            read_only: True if another process writes the bases.
            compacted: called with the seconds of each compaction that succeeded.
            origin: returns the id and the epoch of the store, to be written into each base.
            why_unusable: returns the reason why a base on disk cannot be used, or "".
            small: True for one of many indexes: its tail begins with little memory.
        """
        self._root = root
        self._model = model
        self._prior = prior
        self._settings = settings
        self._vocabulary = Vocabulary()
        self._written = written
        self._compacted = compacted
        self._read_only = read_only
        self._origin = origin
        self._why_unusable = why_unusable
        self._most_room = _SMALL_ROOM if small else None
        self._checking: threading.Thread | None = None  # reads the large files
        self.damage = ""
        self._damaged: Tail | None = None  # must not be shown any more
        self.rebuilt = ""
        self._stamp: tuple[int, int] | None = None  # of the base that was loaded or is unusable
        self._lock = threading.Lock()  # held by the writer for a commit, never by a reader
        # The commits since a compaction began; None while none runs.
        self._since: list[tuple[Sequence[Change], int]] | None = None
        self._worker = CompactionWorker(self._compact)
        self._is_torn = False  # a commit was taken only in part
        self._bytes = 0
        self._old = OldBases()
        self._tail = self._empty(prior.shape[1])
        self.snapshot = self._tail.snapshot

    def _publish(self) -> None:
        """Publish the tail's snapshot to readers, unless a rebuild is not complete yet."""
        if self._tail.revision:
            shown = self.snapshot
            if shown.base is not self._tail.base.segment:
                self._old.add(shown.generation, shown.base)
            self.snapshot = self._tail.snapshot
            if self._tail is not self._damaged:
                self.damage = ""

    def check_files(self) -> str:
        """Set and return `damage`, after a check whether a mapped file was truncated."""
        tail = self._tail
        files = tail.base.files
        if files is not None and not self.damage and (problem := files.truncated_file()):
            self._condemn(problem, tail)
        return self.damage

    def _condemn(self, problem: str, tail: Tail) -> None:
        """Set `damage`, and mark the base on disk as damaged, so that it is never loaded again.

        Nothing happens if another base has replaced it.
        """
        with self._lock:
            if tail.base is not self._tail.base:
                return  # another base has replaced it
            self._damaged, self.damage = self._tail, problem
        _log.error("the index is damaged and not used any more: %s", problem)
        if self._read_only:
            return
        try:
            bases.condemn(self._root, tail.base.manifest.generation, problem)
        except OSError as error:
            _log.error("the damage could not be noted: %s", error)

    def _check_files(self, tail: Tail, files: Files) -> None:
        lower_writer_priority()
        if problem := files.check():
            self._condemn(problem, tail)

    def load(
        self,
        changes_since: Callable[[int], tuple[Sequence[Change], int]] = lambda known: ([], known),
    ) -> bool:
        """Load the base on disk, and apply the changes since it was written.

        Readers see the old snapshot until the last change is applied. A base of revision 0 is not
        used, because it is from an interrupted rebuild; nor is one from before the first vector.

        Args:
            changes_since: returns the changes since a revision, and the newest revision.

        Returns:
            False if there is no usable base. The caller must then apply all contexts of the store.

        Raises:
            Corrupt: the base is damaged. To repair the index, call `clear` and apply all contexts
                of the store.
        """
        stamp = bases.stamp(self._root)
        if self.damage and stamp == self._stamp:
            return False
        base = bases.load(self._root, self._why_unusable)
        if base is None:
            return False
        manifest = base.manifest
        if self._prior.shape[1] == 0:
            self._prior = np.zeros((self._prior.shape[0], manifest.dimension), np.float32)
        if manifest.revision == 0 or manifest.dimension == 0 < self._prior.shape[1]:
            self._stamp = stamp
            return False
        if (manifest.model, manifest.dimension) != (self._model, self._prior.shape[1]):
            raise Corrupt(f"the base is of {manifest.model} with {manifest.dimension} dimensions")
        changes, revision = changes_since(manifest.revision)
        self._tail = self._apply_to(self._tail_of(base), changes, revision)
        self._publish()
        self._bytes = base.size
        self._stamp = stamp
        self._is_torn = False
        self._old.log_if_many()
        if base.files is not None:
            self._checking = threading.Thread(
                target=self._check_files,
                args=(self._tail, base.files),
                name="index-check",
                daemon=True,
            )
            self._checking.start()
        return True

    def is_replaced(self) -> bool:
        """Return True if another process has written a base since the last `load` or `clear`."""
        return bases.stamp(self._root) != self._stamp

    @property
    def is_broken(self) -> bool:
        """True if no commit can be applied: the index is damaged or incomplete."""
        return bool(self.damage) or self._is_torn or self._tail.revision < self.snapshot.revision

    def clear(self) -> None:
        """Begin a rebuild: drop all rows from memory. The base on disk stays.

        The caller then applies all contexts of the store, in several calls of `apply` with revision
        0 and a last one with the store's revision. Until then, readers see the old snapshot.
        """
        self._stamp = bases.stamp(self._root)
        self._tail = self._empty(self._prior.shape[1])
        self._is_torn = False

    def apply(self, changes: Sequence[Change], revision: int) -> None:
        """Apply one commit and publish a new snapshot; start a compaction if the tail is large.

        Args:
            changes: the changes of the commit, in order.
            revision: the revision of the commit; 0 within a rebuild, see `clear`.

        Raises:
            Corrupt: a change does not fit the rows of the index.
        """
        with self._lock:
            if self._is_torn:
                raise Corrupt("an earlier commit was taken only in part")
            if self._since is not None:
                self._since.append((changes, revision))
            self._is_torn = True
            self._tail = self._apply_to(self._tail, changes, revision)
            self._publish()
            self._is_torn = False
        is_due = self._tail.changed >= self._least_changed(self._tail.base.segment)
        if is_due and not self._read_only and self._worker.may_start:
            self._worker.start()

    def _apply_to(self, tail: Tail, changes: Sequence[Change], revision: int) -> Tail:
        """Apply a commit to a tail and return that tail.

        The first vector of an index sets the dimension. A commit with it is applied to a new tail
        with the same rows, which is returned.
        """
        if tail.snapshot.dimension == 0:
            dimension = next((n for n in map(_dimension, changes) if n), 0)
            if dimension:
                tail = self._with_dimension(tail, dimension)
        tail.apply(changes, revision)
        return tail

    def _empty(self, dimension: int) -> Tail:
        manifest = Manifest(0, 0, dimension, self._model)
        return self._tail_of(Base(empty(dimension), Columns(), Columns(), manifest))

    def _tail_of(self, base: Base) -> Tail:
        return Tail(base, self._prior, self._room(base.segment), self._vocabulary)

    def _least_changed(self, base: Segment) -> int:
        """Return the number of changed rows in the tail at which a compaction starts."""
        return max(self._settings.compact_min, int(base.sizes.texts * self._settings.compact_ratio))

    def _room(self, base: Segment) -> int:
        """Return the number of rows for which a new tail reserves memory.

        It is twice the size at which a compaction starts, because the tail grows during it.
        """
        room = 2 * self._least_changed(base)
        return room if self._most_room is None else min(room, self._most_room)

    def _with_dimension(self, tail: Tail, dimension: int) -> Tail:
        """Return a new tail with the same rows, and with space for vectors of this dimension."""
        if self.damage:
            raise Corrupt(self.damage)
        snapshot = tail.snapshot
        segment, dirs, files = compacted(snapshot)
        self._prior = np.zeros((self._prior.shape[0], dimension), np.float32)
        manifest = Manifest(snapshot.generation, snapshot.revision, dimension, self._model)
        wider = self._tail_of(Base(widened(segment, dimension), dirs, files, manifest))
        wider.apply(snapshot.linked(), snapshot.revision)
        self._since = None
        return wider

    def _compact(self) -> None:
        try:
            self._replace_base()
        finally:
            with self._lock:
                self._since = None
        self._old.log_if_many()

    def _replace_base(self) -> None:
        started = time.perf_counter()
        if self._checking is not None:
            self._checking.join()  # a damaged base must not be written again
        if self.damage:
            raise Corrupt(self.damage)
        with self._lock:
            self._since = []
            snapshot = self._tail.snapshot
        folded = self._new_base(snapshot)
        path = bases.save(self._root, folded, self._room(folded.segment))
        base = bases.load(self._root)
        if base is None:
            raise Corrupt(f"{path} was removed")
        if base.files is not None and (problem := base.files.check()):
            raise Corrupt(problem)
        fresh = self._tail_of(base)
        fresh.apply(snapshot.linked(), snapshot.revision)
        if not self._catch_up(fresh):
            return
        self._bytes = base.size
        bases.remove_others(self._root, path)
        self._written(snapshot.revision)
        self._compacted(time.perf_counter() - started)

    def _catch_up(self, fresh: Tail) -> bool:
        """Apply the commits since the compaction began to a new tail, and publish that tail.

        Returns False, without publishing, if the first vector arrived meanwhile: the new base has
        no space for vectors.
        """
        while True:
            with self._lock:
                if self._since is None:
                    return False
                waiting, self._since = self._since, []
                if len(waiting) <= 1:
                    for changes, revision in waiting:
                        fresh.apply(changes, revision)
                    self._tail = fresh
                    self._publish()
                    self._since = None
                    return True
            for changes, revision in waiting:
                fresh.apply(changes, revision)

    def _new_base(self, snapshot: Snapshot) -> Base:
        """Return a new base with everything that a snapshot shows."""
        segment, dirs, files = compacted(snapshot)
        rows = np.flatnonzero(segment.text_has_vector)
        is_large = len(rows) >= self._settings.ivf_rows
        inverted = InvertedFile.build(segment.raw, rows) if is_large else None
        manifest = Manifest(
            snapshot.generation + 1,
            snapshot.revision,
            snapshot.dimension,
            self._model,
            *self._origin(),
        )
        return Base(segment, dirs, files, manifest, inverted)

    def compact(self) -> tuple[int, int]:
        """Compact now, and wait for the end. Return (generation, revision) of the new base.

        Raises:
            DiskFull: the disk is full.
            Corrupt: the compaction failed otherwise.
        """
        self._worker.run()
        manifest = self._tail.base.manifest
        return manifest.generation, manifest.revision

    def state(self) -> IndexState:
        """Return the size and the state of the index."""
        tail = self._tail
        return IndexState(
            generation=tail.base.manifest.generation,
            base_revision=tail.base.manifest.revision,
            base_texts=tail.base.segment.sizes.texts,
            tail_texts=tail.texts,
            dead_texts=tail.rows.dead_texts,
            compacting=self._worker.is_running,
            bytes_on_disk=self._bytes,
            problem=self._worker.problem,
            rebuilt=self.rebuilt,
            old_bases=self._old.count(),
        )

    def compact_if_large(self) -> None:
        """Compact now, unless the tail is small, so that the next start loads quickly.

        A failure is logged, not raised. Loading 100 contexts takes a quarter of the time of
        indexing them.
        """
        tail = self._tail
        least = max(_WORTH_FOLDING, tail.base.segment.sizes.texts // 16)
        if tail.changed >= least and not (self._read_only or self.is_broken):
            with suppress(Corrupt, DiskFull):
                self._worker.run()

    def forget(self) -> None:
        """Release all memory of the index, after `close`. The snapshot is empty then."""
        self._vocabulary = Vocabulary()
        self._tail = self._empty(0)
        self.snapshot = self._tail.snapshot

    def close(self) -> None:
        """Wait until a running compaction has ended; no further one starts."""
        self._worker.close()


def _dimension(change: Change) -> int:
    """Return the dimension of the vectors in a change; 0 for a change without vectors."""
    if isinstance(change, Filled):
        return len(change.vector) // 4
    if isinstance(change, Upsert):
        return next((len(text.vector) // 4 for text in change.texts if text.vector), 0)
    return 0
