"""The index: the present generation, its compaction, its form on disk."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from errno import EDQUOT, ENOSPC
from pathlib import Path

import numpy as np
from viking_kernels.arrays import F32
from viking_kernels.quantize import int4_room
from viking_kernels.simd import padded

from vikingd.domain.changes import Change, Filled, Upsert
from vikingd.domain.errors import Corrupt, DiskFull
from vikingd.index import base as bases
from vikingd.index import ivf
from vikingd.index.columns import Columns
from vikingd.index.compact import compacted
from vikingd.index.files import Files
from vikingd.index.generation import Generation
from vikingd.index.settings import IndexSettings
from vikingd.index.snapshot import Snapshot
from vikingd.index.vocabulary import Vocabulary
from vikingd.system.priority import let_finds_go_first

ChangesSince = Callable[[int], tuple[Sequence[Change], int]]
"""What leads from a revision to the present one, and which that is."""

_PAUSE = 60.0  # seconds at least from a compaction that failed to the next one

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexState:
    """The index in numbers; texts in base and tail living or dead.

    `rebuilt` says why it was made anew from the store; "" if it was not.
    """

    generation: int
    base_revision: int
    base_texts: int
    tail_texts: int
    dead_texts: int
    compacting: bool
    bytes_on_disk: int
    problem: str
    rebuilt: str


class Index:
    """Takes commits from the one writer, hands snapshots to readers, compacts in the background.

    A compaction makes a new base from a snapshot while commits go on into the old generation; the
    commits since that snapshot are kept and taken again by the new one before it is swapped in.
    """

    def __init__(
        self,
        root: Path,
        model: str,
        prior: F32,
        settings: IndexSettings,
        written: Callable[[int], None] = lambda _: None,
        read_only: bool = False,
        compacted: Callable[[float], None] = lambda _: None,
        origin: tuple[str, str] = ("", ""),
        why_not: Callable[[bases.Manifest], str] = lambda _: "",
    ) -> None:
        self._root = root
        self._model = model
        self._prior = prior  # [SCRIPTS, dim]
        self._settings = settings
        self._vocabulary = Vocabulary()
        self._written = written  # is told the revision of each base that is on disk
        self._compacted = compacted  # is told the seconds of each compaction that came to its end
        self._read_only = read_only  # another process writes the bases
        self._origin = origin  # of the bases that are written: id of the store, its epoch
        self._why_not = why_not  # a base on disk is of no use
        self._files: Files | None = None  # of the present base
        self._checking: threading.Thread | None = None  # what of them is large
        self._damage = ""
        self._damaged: Generation | None = None  # the one that must not be shown any more
        self.rebuilt = ""
        self._stamp: tuple[int, int] | None = None  # of the base that was loaded or is no use
        self._lock = threading.Lock()  # held by the writer for a commit, never by a reader
        self._since: list[tuple[Sequence[Change], int]] | None = (
            None  # commits of a compaction's time
        )
        self._worker: threading.Thread | None = None
        self._problem = ""
        self._is_full = False  # the disk, when the last compaction failed
        self._not_before = 0.0  # by time.monotonic; when a compaction may be begun again
        self._broken = False
        self._closing = False
        self._bytes = 0
        self._generation = self._empty(prior.shape[1])
        self._shown = self._generation.snapshot

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot; one reference, no lock."""
        return self._shown

    def _show(self) -> None:
        """Lets readers see the generation, but for one that is not fed all of a store yet."""
        if self._generation.revision:
            self._shown = self._generation.snapshot
            if self._generation is not self._damaged:
                self._damage = ""

    @property
    def damage(self) -> str:
        """Why the snapshot must not be used; "" while it may. As of the last `look`."""
        return self._damage

    def look(self) -> str:
        """Looks whether a file that is mapped was truncated; returns `damage`."""
        files = self._files
        if files is not None and not self._damage and (problem := files.shortened()):
            self._condemn(problem, self._generation)
        return self._damage

    def _condemn(self, problem: str, generation: Generation) -> None:
        """Nothing more is answered from a damaged base, nor is it loaded again."""
        with self._lock:
            if generation.base is not self._generation.base:
                return  # another one has taken its place
            self._damaged, self._damage = self._generation, problem
        _log.error("the index is damaged and used no more: %s", problem)
        if self._read_only:
            return
        try:
            bases.condemn(self._root, generation.number, problem)
        except OSError as error:
            _log.error("the damage could not be noted: %s", error)

    def _check_files(self, generation: Generation, files: Files) -> None:
        let_finds_go_first()
        if problem := files.check():
            self._condemn(problem, generation)

    def load(self, changes_since: ChangesSince = lambda revision: ([], revision)) -> bool:
        """Takes the base on disk with what has changed since; False: everything must be fed in.

        Until all of that is taken, what was there before is shown. A base of revision 0 is what
        became of a feed that was broken off, and no use; nor is one from before the first vector.

        Raises:
            Corrupt: there is one, but it can't be used; feeding everything in mends it.
        """
        stamp = bases.stamp(self._root)
        if self._damage and stamp == self._stamp:
            return False
        found = bases.load(self._root, self._why_not)
        if found is None:
            return False
        stored, size = found
        manifest = stored.manifest
        if self._prior.shape[1] == 0:
            self._prior = np.zeros((self._prior.shape[0], manifest.dimension), np.float32)
        if manifest.revision == 0 or manifest.dimension == 0 < self._prior.shape[1]:
            self._stamp = stamp
            return False
        if (manifest.model, manifest.dimension) != (self._model, self._prior.shape[1]):
            raise Corrupt(f"the base is of {manifest.model} with {manifest.dimension} dimensions")
        changes, revision = changes_since(manifest.revision)
        self._generation = self._with(self._over(stored), changes, revision)
        self._show()
        self._bytes = size
        self._stamp = stamp
        self._broken = False
        self._files = stored.files
        if stored.files is not None:
            self._checking = threading.Thread(
                target=self._check_files,
                args=(self._generation, stored.files),
                name="index-check",
                daemon=True,
            )
            self._checking.start()
        return True

    def is_replaced(self) -> bool:
        """Whether another process has put a new base on disk since the last load or clearing."""
        return bases.stamp(self._root) != self._stamp

    @property
    def is_broken(self) -> bool:
        """Whether a commit or the store was taken by half, so that no other one can follow."""
        return (
            bool(self._damage) or self._broken or self._generation.revision < self._shown.revision
        )

    def clear(self) -> None:
        """Lets go of what was loaded, and leaves the base on disk: everything must be fed in.

        With revision 0 until the last commit of that; what was there before is shown until then.
        """
        self._stamp = bases.stamp(self._root)
        self._files = None
        self._generation = self._empty(self._prior.shape[1])
        self._broken = False

    def apply(self, changes: Sequence[Change], revision: int) -> None:
        """Takes one commit; it is seen by the next reader.

        Raises:
            Corrupt: index and store have come apart.
        """
        with self._lock:
            if self._broken:
                raise Corrupt("an earlier commit was taken by half")
            if self._since is not None:
                self._since.append((changes, revision))
            self._broken = True
            self._generation = self._with(self._generation, changes, revision)
            self._show()
            self._broken = False
        if self._worker is None and not self._closing and self._due():
            self._start()

    def _with(self, old: Generation, changes: Sequence[Change], revision: int) -> Generation:
        """A generation after a commit: the same, unless vectors have a dimension only now."""
        generation = old
        if generation.dimension == 0:
            dimension = next((n for n in map(_dimension, changes) if n), 0)
            if dimension:
                generation = self._widened(generation, dimension)
        generation.apply(changes, revision)
        return generation

    def _empty(self, dimension: int) -> Generation:
        manifest = bases.Manifest(0, 0, dimension, self._model)
        return self._over(
            bases.Stored(bases.empty(dimension), Columns(), Columns(), manifest, None)
        )

    def _over(self, stored: bases.Stored) -> Generation:
        return Generation(stored, self._prior, self._room(stored.base), self._vocabulary)

    def _room(self, base: bases.Base) -> int:
        """Rows that a tail may need until it is folded in: it goes on growing meanwhile."""
        share = int(len(base.text_dir) * self._settings.compact_ratio)
        return 2 * max(self._settings.compact_min, share)

    def _widened(self, generation: Generation, dimension: int) -> Generation:
        """The first vector of a store that had none says how many numbers a vector has."""
        if self._damage:
            raise Corrupt(self._damage)
        snapshot = generation.snapshot
        base, dirs, files = compacted(snapshot)
        texts = len(base.text_dir)
        wide = bases.empty(dimension)
        base = replace(
            base,
            codes=np.zeros((texts, padded(dimension)), np.int8),
            raw=np.zeros((texts, dimension), np.float32),
            mean=wide.mean,
            mean_sum=wide.mean_sum,
            mean_code=wide.mean_code,
            **bases.int4_arrays(int4_room(texts, wide.int4_axis)),
        )
        self._prior = np.zeros((self._prior.shape[0], dimension), np.float32)
        manifest = bases.Manifest(snapshot.generation, snapshot.revision, dimension, self._model)
        wider = self._over(bases.Stored(base, dirs, files, manifest, None))
        wider.apply(snapshot.linked(), snapshot.revision)
        self._since = None
        return wider

    def _due(self) -> bool:
        if self._read_only or time.monotonic() < self._not_before:
            return False
        generation = self._generation
        base = len(generation.base.text_dir)
        return generation.changed >= max(
            self._settings.compact_min, int(base * self._settings.compact_ratio)
        )

    def _start(self) -> None:
        with self._lock:
            if self._worker is not None:
                return
            worker = threading.Thread(target=self._run, name="compaction", daemon=True)
            try:
                worker.start()
            except RuntimeError as error:  # there can be no more threads; commits go on
                self._failed(error)
            else:
                self._worker = worker

    def _run(self) -> None:
        let_finds_go_first()
        try:
            self._compact()
            self._problem = ""
        except BaseException as error:
            self._failed(error)
        finally:
            with self._lock:
                self._since = None
                self._worker = None

    def _failed(self, error: BaseException) -> None:
        """The old generation serves on; what went wrong is shown and tried again when due."""
        self._problem = f"compaction failed: {error}"
        self._is_full = isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT)
        self._not_before = time.monotonic() + _PAUSE
        _log.warning("%s; next try in %g s or later", self._problem, _PAUSE)

    def _compact(self) -> None:
        started = time.perf_counter()
        if self._checking is not None:
            self._checking.join()  # what is damaged is not written again
        if self._damage:
            raise Corrupt(self._damage)
        with self._lock:
            self._since = []
            snapshot = self._generation.snapshot
        manifest = bases.Manifest(
            snapshot.generation + 1,
            snapshot.revision,
            snapshot.dimension,
            self._model,
            *self._origin,
        )
        stored = self._folded(snapshot, manifest)
        path = bases.save(self._root, stored, self._room(stored.base))
        loaded = bases.load(self._root)
        if loaded is None:
            raise Corrupt(f"{path} was removed")
        stored, size = loaded
        if stored.files is not None and (problem := stored.files.check()):
            raise Corrupt(problem)
        fresh = self._over(stored)
        fresh.apply(snapshot.linked(), snapshot.revision)
        while True:
            with self._lock:
                if self._since is None:
                    return  # the dimension became known meanwhile: this base is of another shape
                waiting, self._since = self._since, []
                if len(waiting) <= 1:
                    for changes, revision in waiting:
                        fresh.apply(changes, revision)
                    self._generation = fresh
                    self._show()
                    self._since = None
                    self._files = stored.files
                    break
            for changes, revision in waiting:
                fresh.apply(changes, revision)
        self._bytes = size
        bases.remove_others(self._root, path)
        self._written(snapshot.revision)
        self._compacted(time.perf_counter() - started)

    def _folded(self, snapshot: Snapshot, manifest: bases.Manifest) -> bases.Stored:
        base, dirs, files = compacted(snapshot)
        rows = np.flatnonzero(base.text_has_vector)
        large = len(rows) >= self._settings.ivf_rows
        return bases.Stored(
            base, dirs, files, manifest, ivf.build(base.raw, rows) if large else None
        )

    def compact(self) -> tuple[int, int]:
        """Compacts now and waits for it; (generation, revision of its base)."""
        while self._worker is not None:
            self._join()
        self._start()
        self._join()
        if self._problem:
            raise (DiskFull if self._is_full else Corrupt)(self._problem)
        return self._generation.number, self._generation.base_revision

    def _join(self) -> None:
        if (worker := self._worker) is not None:
            worker.join()

    def state(self) -> IndexState:
        """The index in numbers."""
        g = self._generation
        return IndexState(
            g.number,
            g.base_revision,
            len(g.base.text_dir),
            g.tail_texts,
            g.dead_texts,
            self._worker is not None,
            self._bytes,
            self._problem,
            self.rebuilt,
        )

    def close(self) -> None:
        """Waits for a running compaction; no other one begins."""
        self._closing = True
        self._join()


def _dimension(change: Change) -> int:
    if isinstance(change, Filled):
        return len(change.vector) // 4
    if isinstance(change, Upsert):
        return next((len(text.vector) // 4 for text in change.texts if text.vector), 0)
    return 0
