"""The engine: a store, its index and an embedder."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Condition

from vikingd.domain.errors import (
    Corrupt,
    InvalidField,
    ReadOnly,
    RevisionNotReached,
    Stopping,
    StoreAway,
)
from vikingd.domain.store_changes import Change, Committed, Upsert
from vikingd.engine.allowance import EmbeddingLimit
from vikingd.engine.background_descriptions import DescriberState, Describing
from vikingd.engine.canonical_names import rename_contexts
from vikingd.engine.embedding import EmbedderStats, Embedding
from vikingd.engine.index_follower import follower_of, show_nothing
from vikingd.engine.memory_file_migration import split_memories
from vikingd.engine.shared_engine_parts import Shared
from vikingd.engine.store_opening import EngineSettings, Progress, open_index, open_store
from vikingd.index.index import IndexState
from vikingd.index.index_verification import MAX_PROBLEMS, Comparison
from vikingd.index.snapshot import Snapshot
from vikingd.memory.accesses import Accesses
from vikingd.store.damage import Damage
from vikingd.store.history import Point
from vikingd.store.reads import StoreCounts
from vikingd.store.shared_store import SharedStore
from vikingd.store.sqlite.sqlite_reader import StoreReader
from vikingd.store.store_writes import WritableStore

_MAX_ATTEMPTS = 5000  # of `Engine.verify`, to find index and store at the same revision
_PAUSE = 0.002  # seconds between two attempts

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineStats:
    """The state of an engine, for Stats.

    `problem` is the reason why writes are refused; "" while they are accepted.
    """

    revision: int
    counts: StoreCounts
    store_path: str
    started_at: int
    reader: bool
    embedder: EmbedderStats
    describer: DescriberState
    index: IndexState
    problem: str


@dataclass(frozen=True, slots=True)
class Optimized:
    """The result of `Engine.optimize`: the new base of the index, and the freed disk space."""

    generation: int
    base_revision: int
    given_back_bytes: int
    removed_directories: int


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `Engine.verify`: the numbers of compared items, and the differences."""

    ok: bool
    contexts: int
    texts: int
    vectors: int
    problems: tuple[str, ...]
    revision: int


class Engine:
    """A store with an index that follows its commits, and an embedder for its texts and queries.

    Read the store by `store`, write it by `writable_store`, and answer queries from `snapshot`. A
    reader follows the commits of another process, and refuses writes.

    Args:
        progress: called with a line for each step of a long start.
        shared: the embedder and the metrics, which other engines may use; None: the engine makes
            its own, which `close` closes.
        embedding_limit: returns how many texts the store may embed in a day; None: no limit.

    Attributes:
        store: the store; a StoreReader in a reader.

    Raises:
        StoreInUse: another process writes the store, and this one is not a reader.
        StoreMismatch: the store has vectors of another model, or a reader finds no store.
        EmbedderFailed: the embedder cannot run here.
    """

    def __init__(
        self,
        settings: EngineSettings,
        progress: Progress = show_nothing,
        shared: Shared | None = None,
        embedding_limit: EmbeddingLimit | None = None,
    ) -> None:
        self.settings = settings
        self._started_at = time.time_ns() // 1000
        self._advanced = Condition()
        self._listeners: set[Callable[[], object]] = set()
        with ExitStack() as opened:
            self._own: Shared | None = None
            if shared is None:
                shared = self._own = Shared(settings.embedding, store=settings.store)
                opened.callback(shared.close)
            provider = shared.provider
            self.store: WritableStore | StoreReader = open_store(
                settings, provider, shared.database
            )
            opened.callback(self.store.close)
            prior = shared.prior(self.store, progress)
            self._index = open_index(
                settings,
                self.store,
                provider.model,
                prior,
                shared.metrics.compacted,
                lambda: self._follower.origin,
            )
            self._follower = follower_of(self.store, self._index, read_only=settings.reader)
            self._follower.load(progress)
            self.embedding = Embedding(settings, shared, self.store, progress, embedding_limit)
            self.describing: Describing | None = None
            if shared.describer is not None and isinstance(self.store, WritableStore):
                self.describing = Describing(
                    self.store, shared.describer, settings.describer, shared.metrics
                )
                self._follower.on_foreign_changes = self.describing.changed
            opened.pop_all()
        self._accesses: Accesses | None = None
        if shared.send_accesses is not None:
            self._accesses = Accesses(partial(shared.send_accesses, settings.tenant))
        if isinstance(self.store, WritableStore):
            self.store.start(self._on_commit)
            if isinstance(self.store, SharedStore):
                self.store.listen(self._follow)
            touch = self.store.touch
            self._accesses = Accesses(lambda accesses: touch(accesses).result())
        else:
            self.store.start(self._follow, self._notify)
        self.embedding.start()
        self._drop_damaged_vectors(self._follower.damage.values())
        if isinstance(self.store, WritableStore):
            split_memories(self.store)
            rename_contexts(self.store, lambda: self.snapshot)
        if self.describing is not None:
            self.describing.start()

    def _on_commit(self, changes: list[Change], revision: int) -> None:
        self._follower.take(changes, revision)
        self._notify()
        if any(isinstance(change, Upsert) for change in changes):
            self.embedding.wake()
        if self.describing is not None:
            self.describing.changed(changes)

    def _follow(self) -> None:
        try:
            is_new = self._follower.follow()
        except StoreAway:
            self._notify()  # calls that wait for commits of others fail now
            raise
        if is_new:
            self._notify()
            self.embedding.wake()

    def _notify(self) -> None:
        """Wake the callers of `wait_for_revision`, and call the listeners."""
        with self._advanced:
            self._advanced.notify_all()
        for listener in self._listeners.copy():  # the copy is atomic
            listener()

    # Reading

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot of the index.

        Raises:
            Corrupt: the index is damaged.
            StoreAway: the database was replaced by an older copy, and the index is being rebuilt.
        """
        if rebuild_reason := self._follower.rebuild_reason:
            raise StoreAway(f"the index is built again: {rebuild_reason}; repeat the call later")
        if problem := self._index.damage:
            raise Corrupt(
                f"the index is damaged and answers nothing until it is rebuilt: {problem}"
            )
        return self._index.snapshot

    @property
    def point(self) -> Point:
        """The revision of the snapshot with its store and epoch. The snapshot may soon be newer.

        Raises:
            Corrupt, StoreAway: there is no snapshot, see `snapshot`.
        """
        point = self._follower.point
        _ = self.snapshot
        return point

    def wait_for_revision(self, revision: int, timeout: float | None) -> None:
        """Wait until the snapshot has this revision or a newer one.

        Raises:
            RevisionNotReached: it has not within `timeout` seconds; None waits for ever.
            StoreAway: the database cannot be reached; another node may have the revision.
            Stopping: this reader cannot apply the commits of its store any more.
        """
        with self._advanced:
            self._advanced.wait_for(
                lambda: self.snapshot.revision >= revision or self.is_lost or self.away, timeout
            )
        newest = self.snapshot.revision
        if newest >= revision:
            return
        if self.is_lost:
            raise Stopping(
                f"this process ends at revision {newest}, ask another one: {self.failure()}"
            )
        if away := self.away:
            raise StoreAway(
                f"this node is at revision {newest}, and the database cannot be reached: {away}; "
                "repeat the call later"
            )
        raise RevisionNotReached(
            f"revision {revision} was not reached in time, the newest is {newest}"
        )

    def missing_revision(self) -> int | None:
        """Return the newest committed revision if the snapshot of this reader lacks it, else None.

        The thread that follows the store then looks at once. It is for the event loop.

        Raises:
            StoreMismatch, StoreFailed, Corrupt: the store or the index cannot be used.
        """
        store = self.store
        assert isinstance(store, StoreReader)
        missing = store.missing_revision(self.snapshot.revision)
        if missing is not None:
            store.check_now()
        return missing

    @property
    def away(self) -> str:
        """The reason why commits of other nodes do not arrive now; "" while they do."""
        return self.store.away if isinstance(self.store, SharedStore) else ""

    @contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Call `listener` after each commit during the block, and when no more commits arrive.

        Commits stop when the database cannot be reached, or when a reader cannot apply them. The
        thread that applies commits makes the calls, so a listener must not wait or raise. A commit
        during the beginning of the block may be missed.
        """
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    # Writing

    @property
    def writable_store(self) -> WritableStore:
        """The store, for writes.

        Raises:
            ReadOnly: this is a reader.
        """
        if isinstance(self.store, WritableStore):
            return self.store
        where = self.settings.writer_address
        raise ReadOnly(
            "this process is a reader and changes nothing, send writes to the writer"
            + (f" at {where}" if where else ""),
            **({"writer": where} if where else {}),
        )

    def check_writable(self) -> None:
        """Raise ReadOnly if this is a reader."""
        _ = self.writable_store

    def count_accesses(self, ids: Iterable[int]) -> bool:
        """Count one access of each memory; a thread writes the counts within a second.

        Args:
            ids: the ids of memories; an id that occurs twice counts once, and 0 is ignored.

        Returns:
            False if this process only reads the store, so that nothing is counted.
        """
        if self._accesses is None:
            return False
        self._accesses.count(filter(None, dict.fromkeys(ids)))
        return True

    def add_accesses(self, counts: Mapping[int, int]) -> None:
        """Count the accesses that another process counted, by the ids of memories."""
        if self._accesses is not None:
            self._accesses.add(counts)

    def reembed(self, uri: str, after: str = "") -> Future[Committed]:
        """Remove the vectors of one part of a subtree, so that its texts are embedded again.

        A part has a limited number of vectors. It begins after the URI `after`, or with the first
        context; `last` of the result is the `after` of the next part, "" at the end.

        Raises:
            ReadOnly: this is a reader.
            InvalidField: there is no embedder, so the vectors would be lost.
        """
        store = self.writable_store
        if self.embedding.query_embedder is None:
            raise InvalidField(
                "target_uri", "there is no embedder to make new vectors; configure one first"
            )
        return store.drop_vectors(uri, after)

    def describe(self, uri: str, *, again: bool = False, dry_run: bool = False) -> tuple[int, int]:
        """Queue the contexts of a subtree for descriptions by a model; see `Describing.describe`.

        Raises:
            NotFound: the context does not exist.
            ReadOnly: this is a reader.
            InvalidField: no model is configured.
        """
        self.check_writable()
        if self.describing is None:
            raise InvalidField(
                "target_uri",
                "cannot be described, because no model is configured: set `model` in the section "
                "[describer] of the configuration, or VIKINGD_DESCRIBER__MODEL, and start again",
            )
        return self.describing.describe(uri, again=again, dry_run=dry_run)

    def optimize(self, *, remove_empty_directories: bool = False) -> Optimized:
        """Compact the index now, and return the disk space of deleted contexts to the system.

        Args:
            remove_empty_directories: first delete the directories without files below them.

        Raises:
            ReadOnly: this is a reader.
            DiskFull: the disk has no room for a base.
            Corrupt: the compaction failed for another reason.
            StoreDamaged, StoreFailed: the store cannot be written.
        """
        store = self.writable_store
        removed = store.remove_empty_directories() if remove_empty_directories else 0
        # The base first: once it is on disk, the store deletes old records of removals.
        generation, revision = self._index.compact()
        return Optimized(generation, revision, store.give_back(), removed)

    # State

    def stats(self) -> EngineStats:
        """Return the state of the engine."""
        is_full = isinstance(self.store, WritableStore) and self.store.is_full
        full = "the disk is full: only deletes are accepted" if is_full else ""
        return EngineStats(
            revision=self.store.revision,
            counts=self.store.counts(),
            store_path=self.store.place,
            started_at=self._started_at,
            reader=self.settings.reader,
            embedder=self.embedding.stats(),
            describer=self._describer_state(),
            index=self._index.state(),
            problem=self.store.failure or full,
        )

    def _describer_state(self) -> DescriberState:
        return self.describing.state() if self.describing is not None else DescriberState()

    @property
    def has_work(self) -> bool:
        """True while texts are embedded or described; False if none waits or the models fail."""
        describing = self.describing
        return self.embedding.has_work or (describing is not None and describing.has_work)

    def verify(self) -> VerifyReport:
        """Compare the index with the store at one revision, and each row with its checksum.

        Damaged vectors are removed, so that the texts are embedded again.

        Raises:
            RevisionNotReached: commits came so fast that both never had the same revision.
        """
        for _ in range(_MAX_ATTEMPTS):
            snapshot, damage = self.snapshot, list[Damage]()
            with self.store.at_revision(snapshot.revision, damage.append) as stored:
                if stored is not None:
                    comparison = Comparison(snapshot)
                    comparison.run(*stored)
                    faults = [f"the database: {fault}" for fault in self.store.page_faults()]
                    problems = (*map(str, damage), *faults, *comparison.problems)
                    self._drop_damaged_vectors(damage)
                    return VerifyReport(
                        ok=not problems,
                        contexts=comparison.contexts,
                        texts=comparison.texts,
                        vectors=comparison.vectors,
                        problems=problems[:MAX_PROBLEMS],
                        revision=snapshot.revision,
                    )
            time.sleep(_PAUSE)
        raise RevisionNotReached(
            "there were too many writes: index and store never had the same revision; try again"
        )

    def _drop_damaged_vectors(self, damage: Iterable[Damage]) -> None:
        """Remove damaged vectors, so that the embedder makes them again; do nothing without one."""
        ids = [one.text_id for one in damage if one.text_id]
        can_embed = self.embedding.query_embedder is not None
        if ids and can_embed and isinstance(self.store, WritableStore):
            _log.warning("%d damaged vectors are made again", len(ids))
            self.store.drop_damaged(ids)

    def failure(self) -> str | None:
        """Return the reason why the store or the index cannot be used; None if there is none."""
        return self.store.failure or self._index.check_files() or None

    @property
    def is_lost(self) -> bool:
        """True if this process must end, so that the next start can recover.

        That is so for a reader that cannot apply its store's commits any more, for a writer whose
        index is damaged, and after the tenant was deleted by another node.
        """
        if isinstance(self.store, SharedStore) and self.store.is_gone:
            return True
        if isinstance(self.store, WritableStore):
            return bool(self._index.damage)
        return bool(self.store.failure)

    def close(self, *, compact: bool = False) -> None:
        """Stop the background work, finish the accepted writes, and close the store.

        Args:
            compact: compact the index first, so that the next start loads quickly.
        """
        if self._own is not None:
            self._own.stop()
        if self.describing is not None:
            self.describing.stop()
        self.embedding.stop()
        if self._accesses is not None:
            self._accesses.close()
        if compact:
            self._index.compact_if_large()
        self._index.close()
        try:
            self.store.close()
        finally:
            self._index.forget()  # reference cycles keep an engine, and its maps hold descriptors
            if self._own is not None:
                self._own.close()
