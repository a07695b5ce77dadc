"""The embedded engine: SQLite for the truth, arrays for the answers, a worker for the vectors.

Everything above it (retrieve, wire) asks for snapshots, texts and writes, and knows none of the
three. A reader is an engine that hears of commits not from its own writer, but from a store that
another process writes; all that answers is the same.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition

import numpy as np
from viking_kernels.arrays import F32, SCRIPTS

from vikingd.domain.errors import (
    Corrupt,
    DiskFull,
    EmbedderFailed,
    InvalidField,
    ReadOnly,
    RevisionNotReached,
    Stopping,
)
from vikingd.domain.model import Backlog, Change, Committed, Once, Prepared, Upsert
from vikingd.index.index import Index, IndexSettings, IndexState
from vikingd.index.segment.disk import manifest_of
from vikingd.index.segment.manifest import Manifest
from vikingd.index.snapshot import Snapshot
from vikingd.index.verify import Comparison
from vikingd.ingest.masks import Masked
from vikingd.memory.accesses import Accesses
from vikingd.memory.model import Rewrite
from vikingd.models.embed.kept import KeptQueries
from vikingd.models.embed.prior import prior_means
from vikingd.models.embed.provider import EmbedSettings, Provider, open_provider
from vikingd.models.embed.query import QueryEmbedder
from vikingd.models.embed.worker import BacklogWorker
from vikingd.store.backup import Backup
from vikingd.store.faults import damaged
from vikingd.store.identity import Point
from vikingd.store.reader import StoreReader
from vikingd.store.store import Store
from vikingd.telemetry.metrics import Metrics

_INDEX = "index"  # directory of the bases, in that of the store
_FEED = 2000
_ATTEMPTS = 10  # of a reader that starts to take what its writer may just be replacing
_PAUSE = 0.05  # seconds before the next one
_MEETINGS = 5000  # looks whether index and store stand at the same revision
_PAUSE_TO_MEET = 0.002  # seconds between two of them
_NAMED = 100  # damaged contexts that a report names

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Where the store lies and how the engine works.

    `exhaustive_texts`: scopes of up to so many texts are scored whole. `reembed`: where the store
    has another model's vectors, drop them. `accept_loss`: take a store that went back as it is.
    `reader`: another process writes the store, and listens on `writer_address` ("": not known).
    """

    path: Path
    embedding: EmbedSettings = field(default_factory=EmbedSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    exhaustive_texts: int = 150_000
    reembed: bool = False
    accept_loss: bool = False
    reader: bool = False
    writer_address: str = ""


@dataclass(frozen=True, slots=True)
class EmbedderStats:
    """The embedding side in numbers; `retry_at` in microseconds since the epoch.

    `backlog_cost` is the work that waits, `rate` the work done in a second; see `Backlog`.
    """

    provider: str
    model: str
    dimension: int
    backlog: int
    embedded: int
    last_error: str
    retry_at: int | None
    query_cache_hits: int
    query_cache_misses: int
    backlog_cost: int
    rate: float
    stalled: str
    reused: int


@dataclass(frozen=True, slots=True)
class EngineStats:
    """The engine in numbers."""

    revision: int
    directories: int
    files: int
    texts: int
    vectors: int
    relations: int
    store_bytes: int
    store_path: str
    started_at: int
    reader: bool
    embedder: EmbedderStats
    index: IndexState
    problem: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was compared between index and store, and what differs."""

    ok: bool
    contexts: int
    texts: int
    vectors: int
    problems: tuple[str, ...]
    revision: int


def _point(manifest: Manifest) -> Point:
    """Where the store stood when a base was written."""
    return Point(manifest.store, manifest.epoch, manifest.revision)


def _indexed(root: Path) -> Point | None:
    """Where the store has been, as the index beside it tells."""
    manifest = manifest_of(root)
    # One of revision 0 is of a feed that was broken off.
    return _point(manifest) if manifest and manifest.store and manifest.revision else None


def _silent(_: str) -> None:
    """No progress is shown."""


class Engine:
    """Opens a store, loads or rebuilds its index, and keeps both in step.

    Args:
        settings: see EngineSettings.
        progress: is told in a few words what a long start is doing.
        metrics: is told what compactions and query vectors take, and shows backlog and cache.

    Raises:
        StoreInUse: another process writes the store, and this one is no reader.
        StoreMismatch: the store's vectors are of another model, or a reader finds no store.
        EmbedderFailed: the embedder can't run here.
    """

    def __init__(
        self,
        settings: EngineSettings,
        progress: Callable[[str], None] = _silent,
        metrics: Metrics | None = None,
    ) -> None:
        metrics = metrics or Metrics()
        self.settings = settings
        self._started_at = time.time_ns() // 1000
        self._provider: Provider = open_provider(settings.embedding)
        self._advanced = Condition()
        self._listeners: set[Callable[[], object]] = set()
        with ExitStack() as opened:
            opened.callback(self._provider.close)
            model, dimension = self._provider.model, self._provider.dimension
            self.store: Store | StoreReader = (
                StoreReader(settings.path, model=model, dimension=dimension)
                if settings.reader
                else Store(
                    settings.path,
                    model=model,
                    dimension=dimension,
                    reembed=settings.reembed,
                    indexed=_indexed(settings.path / _INDEX),
                    accept_loss=settings.accept_loss,
                )
            )
            opened.callback(self.store.close)
            self._index = Index(
                settings.path / _INDEX,
                model,
                self._prior(progress),
                settings.index,
                written=self._on_base,
                read_only=settings.reader,
                compacted=metrics.compacted,
                origin=self.store.point[:2] if isinstance(self.store, Store) else ("", ""),
                why_not=self._why_not,
            )
            self._load(progress)
            self.query_embedder: QueryEmbedder | None = None
            self._kept_queries: KeptQueries | None = None
            self._worker: BacklogWorker | None = None
            if dimension is not None:
                self.query_embedder = QueryEmbedder(
                    self._provider, settings.embedding.query_cache, took=metrics.embedded
                )
                if settings.embedding.keep_queries:
                    self._kept_queries = KeptQueries(
                        settings.path,
                        self.query_embedder,
                        model,
                        dimension,
                        read_only=settings.reader,
                    )
                self._warm(progress)
                if isinstance(self.store, Store):
                    self._worker = BacklogWorker(settings.embedding, self.store, dimension)
            metrics.follow(lambda: self._backlog().texts, self._query_cache)
            opened.pop_all()
        self._accesses: Accesses | None = None
        if isinstance(self.store, Store):
            self.store.start(self._on_commit)
            self._accesses = Accesses(self._write_accesses)
        else:
            self.store.start(self._follow, self._tell)
        if self._worker is not None:
            self._worker.start()
            self._worker.wake()

    def _prior(self, progress: Callable[[str], None]) -> F32:
        """[SCRIPTS, dim] the model's mean of each script, made once a store."""
        dimension = self._provider.dimension or self.store.dimension or 0
        if self._provider.dimension is None:
            return np.zeros((SCRIPTS, dimension), np.float32)
        key = f"prior/{self._provider.model}/{dimension}"
        known = self.store.get_meta(key)
        if known is None:
            try:
                known = prior_means(self._provider).astype("<f4").tobytes()
            except EmbedderFailed as error:
                progress(f"the model's prior is missing until the next start: {error}")
                return np.zeros((SCRIPTS, dimension), np.float32)
            if isinstance(self.store, Store):
                try:
                    self.store.set_meta(key, known)
                except DiskFull as error:
                    progress(f"the model's prior is made again by the next start: {error}")
        return np.frombuffer(known, "<f4").reshape(SCRIPTS, dimension).astype(np.float32)

    def _warm(self, progress: Callable[[str], None]) -> None:
        """The first text takes a model longer than the others."""
        try:
            self._provider.embed_query("a first question")
        except EmbedderFailed as error:
            progress(f"queries are answered by text alone for now: {error}")

    def _why_not(self, manifest: Manifest) -> str:
        """Why a base is not one of this store; "" if it is, or is none at all."""
        return self.store.why_not(_point(manifest)) if manifest.revision else ""

    def _load(self, progress: Callable[[str], None]) -> None:
        attempts = _ATTEMPTS if self.settings.reader else 1
        for attempt in range(attempts):
            try:
                if not self._load_base(progress):
                    self._rebuild(progress)
                return
            except Corrupt as error:
                problem = error
            if attempt < attempts - 1:
                time.sleep(_PAUSE)
        self._index.rebuilt = str(problem)
        _log.warning("the index is made anew from the store: %s", problem)
        try:
            self._rebuild(progress)
        except Corrupt as error:  # it stands in the store
            raise damaged(str(error)) from error

    def _load_base(self, progress: Callable[[str], None] = _silent) -> bool:
        """Takes the base on disk with all that has changed since; False: there is none."""

        def changes_since(revision: int) -> tuple[list[Change], int]:
            changes, now = self.store.changes_since(revision, with_links=True)
            if now > revision:
                progress(f"taking {len(changes)} changes since the index was written")
            return changes, now

        return self._index.load(changes_since)

    def _rebuild(self, progress: Callable[[str], None]) -> None:
        store, index = self.store, self._index
        index.clear()
        before = store.revision
        fed: list[Change] = []
        count = 0
        for context in store.scan():
            fed.append(context)
            if len(fed) == _FEED:
                count += len(fed)
                progress(f"indexing: {count} contexts")
                index.apply(fed, 0)  # a base that is written meanwhile has not yet all of it
                fed = []
        # What a reader's writer commits meanwhile may come a second time, which changes nothing.
        changes, revision = store.changes_since(before, with_links=True)
        index.apply([*fed, *changes], revision)
        if (count or index.rebuilt) and not self.settings.reader:
            try:
                index.compact()
            except DiskFull as error:
                progress(f"{error}; the index is kept in memory until there is room")
            except Corrupt:
                pass  # it is logged, and the index in memory is whole

    def _on_base(self, revision: int) -> None:
        if isinstance(self.store, Store):
            self.store.forget_removals(revision)

    def _follow(self) -> None:
        """Takes what the writer has committed.

        Raises:
            Corrupt: among others, when the writer has just replaced the base that was read, or
                forgotten what was asked for because a newer one is there.
        """
        store, index = self.store, self._index
        revision = store.revision  # asked for in any case: it fails when the model is another one
        if not (index.is_replaced() or index.is_broken) or not self._load_base():
            known = index.snapshot.revision
            if index.is_broken:
                index.rebuilt = index.damage or index.rebuilt
                self._rebuild(_silent)
            elif revision == known:
                return
            else:
                index.apply(*store.changes_since(known))
        self._tell()

    def _on_commit(self, changes: list[Change], revision: int) -> None:
        self._index.apply(changes, revision)
        self._tell()
        if self._worker is not None and any(isinstance(c, Upsert) for c in changes):
            self._worker.wake()

    def _tell(self) -> None:
        """Tells all who wait that the snapshot is another one, or that no other one comes."""
        with self._advanced:
            self._advanced.notify_all()
        for listener in self._listeners.copy():  # made at once, without a lock
            listener()

    # Reading

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot.

        Raises:
            Corrupt: the base below it was found damaged.
        """
        if problem := self._index.damage:
            raise Corrupt(f"the index is damaged and answers nothing until it is mended: {problem}")
        return self._index.snapshot

    @property
    def dimension(self) -> int | None:
        """Numbers in a vector; None while that is not known."""
        return self.store.dimension

    def wait_for_revision(self, revision: int, timeout: float | None) -> None:
        """Returns when the snapshot has reached a revision.

        Raises:
            RevisionNotReached: it did not within `timeout` seconds (None: for ever).
            Stopping: it never will, for this reader can't follow its store any more.
        """
        with self._advanced:
            self._advanced.wait_for(
                lambda: self.snapshot.revision >= revision or self.is_lost, timeout
            )
        newest = self.snapshot.revision
        if newest < revision and self.is_lost:
            raise Stopping(
                f"this process ends at revision {newest}, ask another one: {self.failure()}"
            )
        if newest < revision:
            raise RevisionNotReached(
                f"revision {revision} was not reached in time, the newest is {newest}"
            )

    @contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Within it `listener` is called after each commit, by the thread that took the commit.

        Also when this reader is lost. It must neither wait nor raise. A commit that is taken while
        this begins may pass it by.
        """
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    @contextmanager
    def waiting_for_vectors(self, text_ids: Sequence[int]) -> Iterator[None]:
        """Within it a call waits for the vectors of these texts, which are made before others."""
        with self._worker.asked_for(text_ids) if self._worker is not None else nullcontext():
            yield

    # Writing

    @property
    def _writable(self) -> Store:
        """The store to write to.

        Raises:
            ReadOnly: this is a reader.
        """
        if isinstance(self.store, Store):
            return self.store
        where = self.settings.writer_address
        raise ReadOnly(
            "this process is a reader and changes nothing, send writes to the writer"
            + (f" at {where}" if where else ""),
            **({"writer": where} if where else {}),
        )

    def put(self, contexts: Sequence[Prepared | Masked]) -> Future[Committed]:
        """Writes contexts or some of their fields, all or nothing."""
        return self._writable.put(contexts)

    def delete(
        self,
        uris: Sequence[str],
        expected_revision: int | None = None,
        *,
        allow_missing: bool = False,
    ) -> Future[Committed]:
        """Removes contexts with all below them."""
        return self._writable.delete(uris, expected_revision, allow_missing=allow_missing)

    def move(
        self, source: str, destination: str, expected_revision: int | None = None
    ) -> Future[Committed]:
        """Renames a context with all below it."""
        return self._writable.move(source, destination, expected_revision)

    def link(self, uri: str, other: str, reason: str) -> Future[Committed]:
        """Links two contexts."""
        return self._writable.link(uri, other, reason)

    def unlink(self, uri: str, other: str) -> Future[Committed]:
        """Takes a link back."""
        return self._writable.unlink(uri, other)

    def rewrite(
        self, rewrites: Mapping[str, Rewrite], once: Once | None = None
    ) -> Future[Committed]:
        """Lets each of `rewrites` decide what becomes of the file of memories with its URI."""
        return self._writable.rewrite(rewrites, once)

    def check_writable(self) -> None:
        """Raises ReadOnly where this is a reader."""
        _ = self._writable

    def rewrite_holders(
        self, ids: Sequence[int], rewrite: Rewrite, *, all_there: bool
    ) -> Future[Committed]:
        """Lets `rewrite` decide what becomes of each file in which one of these memories stands."""
        return self._writable.rewrite_holders(ids, rewrite, all_there=all_there)

    def reinforce(self, ids: Sequence[int], by: int, once: Once | None = None) -> Future[Committed]:
        """Raises the reinforcement of memories by their ids."""
        return self._writable.reinforce(ids, by, once)

    def count_accesses(self, ids: Iterable[int]) -> bool:
        """Counts one access of each memory, written within a second; a reader counts none."""
        if self._accesses is None:
            return False
        self._accesses.count(ids)
        return True

    def _write_accesses(self, accesses: Mapping[int, int]) -> None:
        self._writable.touch(accesses).result()

    def embed_document(self, text: str) -> F32 | None:
        """The unit vector of a text as the index would have it; None without an embedder.

        Raises:
            EmbedderFailed: it did.
        """
        if self._provider.dimension is None:
            return None
        (vector,) = self._provider.embed_documents([text])
        return np.asarray(vector, np.float32)

    @property
    def model(self) -> str:
        """The embedder's model, by its name."""
        return self._provider.model

    def reembed(self, uri: str, after: str = "") -> Future[Committed]:
        """Drops vectors of a part of a subtree, so that the worker makes them anew.

        See Store.drop_vectors.

        Raises:
            InvalidField: there is no embedder, so that they would be lost.
        """
        store = self._writable
        if self.query_embedder is None:
            raise InvalidField("target_uri", "there is no embedder to make its vectors anew")
        return store.drop_vectors(uri, after)

    # Admin

    def stats(self) -> EngineStats:
        """The engine in numbers."""
        counts = self.store.counts()
        worker = self._worker.state() if self._worker is not None else None
        hits, misses = self._query_cache()
        backlog = self._backlog()
        embedder = EmbedderStats(
            self._provider.name,
            self._provider.model,
            self.dimension or 0,
            backlog.texts,
            worker.embedded if worker is not None else 0,
            self.embedder_state() or (worker.skipped if worker is not None else ""),
            worker.retry_at if worker is not None else None,
            hits,
            misses,
            backlog.cost,
            worker.rate if worker is not None else 0.0,
            worker.stalled if worker is not None else "",
            worker.reused if worker is not None else 0,
        )
        return EngineStats(
            self.store.revision,
            counts.directories,
            counts.files,
            counts.texts,
            counts.vectors,
            counts.relations,
            counts.bytes,
            str(self.settings.path),
            self._started_at,
            self.settings.reader,
            embedder,
            self._index.state(),
            self._problem(),
        )

    def _problem(self) -> str:
        """Why writes are refused; "" while they are not."""
        is_full = isinstance(self.store, Store) and self.store.is_full
        return self.store.failure or ("the disk is full: only deletes are taken" * is_full)

    def _backlog(self) -> Backlog:
        """Texts that wait for their vector; none where nothing makes vectors."""
        return self.store.backlog_size() if self.query_embedder is not None else Backlog(0, 0)

    def _query_cache(self) -> tuple[int, int]:
        """(hits, misses)."""
        queries = self.query_embedder
        return (queries.hits, queries.misses) if queries is not None else (0, 0)

    def verify(self) -> VerifyReport:
        """Compares index and store, row by row, at one revision, and contexts with their checksums.

        Raises:
            RevisionNotReached: commits came so fast that the two never stood at the same one.
        """
        for _ in range(_MEETINGS):
            snapshot = self.snapshot
            with self.store.standing_at(snapshot.revision) as stored:
                if stored is not None:
                    comparison = Comparison(snapshot)
                    comparison.run(*stored)
                    problems = comparison.problems + [
                        f"{uri} is not as it was written" for uri in self.store.altered(_NAMED)
                    ]
                    return VerifyReport(
                        not problems,
                        comparison.contexts,
                        comparison.texts,
                        comparison.vectors,
                        tuple(problems),
                        snapshot.revision,
                    )
            time.sleep(_PAUSE_TO_MEET)
        raise RevisionNotReached(
            "index and store never stood at the same revision for all the writes; ask again"
        )

    def backup(self, check: Callable[[], None]) -> Backup:
        """A copy of the store as it stands now; it is to be closed.

        `check` is called now and then while it is made, and raises to break it off.

        Raises:
            DiskFull: the disk has no room for it.
        """
        return self.store.backup(check)

    def optimize(self) -> tuple[int, int]:
        """Compacts the index now; (generation, revision of its base).

        Raises:
            DiskFull: the disk has no room for a base.
            Corrupt: it failed for another reason.
        """
        self.check_writable()
        return self._index.compact()

    def failure(self) -> str | None:
        """Why the engine must not serve any more; None when all is well."""
        return self.store.failure or self._index.look() or None

    @property
    def is_lost(self) -> bool:
        """Whether this process has to end.

        It is a reader that can't follow its store any more, or a writer whose index was found
        damaged, which the next start makes anew.
        """
        return bool(self.store.failure if self.settings.reader else self._index.damage)

    def embedder_state(self) -> str | None:
        """Why no text is embedded now; None when all is well, but for texts that are skipped."""
        worker = self._worker.state().last_error if self._worker is not None else None
        query = self.query_embedder.last_error if self.query_embedder is not None else None
        return worker or query or None

    def close(self) -> None:
        """Stops worker and embedder, finishes the writes that were taken, lets the store go."""
        if self._worker is not None:
            self._worker.stop()
        if self._kept_queries is not None:
            self._kept_queries.close()
        if self._accesses is not None:
            self._accesses.close()
        self._index.close()
        self.store.close()
        self._provider.close()
