"""Updates of the index by the commits of its store."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from vikingd.domain.errors import Corrupt, DiskFull, StoreAway
from vikingd.domain.store_changes import Change
from vikingd.engine.store_opening import Progress
from vikingd.index.index import Index
from vikingd.store.damage import Damage, store_damaged
from vikingd.store.history import Point
from vikingd.store.shared_store import SharedStore
from vikingd.store.sqlite.sqlite_reader import StoreReader
from vikingd.store.store_writes import WritableStore

_SCAN_BATCH = 2000  # contexts that are indexed at a time
_READER_ATTEMPTS = 10  # to load a base that the writer may just be replacing
_PAUSE = 0.05  # seconds between two attempts

_log = logging.getLogger(__name__)


def show_nothing(_: str) -> None:
    """Do nothing; a `progress` function for callers that show no progress."""


class IndexFollower:
    """Loads or rebuilds the index of a store at the start, then applies each commit to it.

    Args:
        store: the store.
        index: the index to load and update.
        read_only: True if another process writes the store and the base of the index.

    Attributes:
        damage: the damaged rows found while indexing, by message, so that each is logged once.
        on_foreign_changes: called with the changes of commits that were not passed to `take`; with
            None if the index was built again, so that the changes are not known.
    """

    def __init__(
        self, store: WritableStore | StoreReader, index: Index, *, read_only: bool
    ) -> None:
        self._store = store
        self._index = index
        self._read_only = read_only
        self.damage: dict[str, Damage] = {}
        self.on_foreign_changes: Callable[[Sequence[Change] | None], None] = lambda _: None

    rebuild_reason = ""

    def found(self, damage: Damage) -> None:
        """Record a damaged row, which the index leaves out; log each damage once."""
        if str(damage) not in self.damage:
            self.damage[str(damage)] = damage
            _log.error("%s", damage)

    @property
    def origin(self) -> tuple[str, str]:
        """The store id and the epoch for the next base; ("", "") in a reader."""
        store = self._store
        return store.point[:2] if isinstance(store, WritableStore) else ("", "")

    @property
    def point(self) -> Point:
        """The revision of the snapshot with its store and epoch. The snapshot may soon be newer."""
        history = self._store.history
        return history.at(min(self._index.snapshot.revision, history.revision))

    def take(self, changes: list[Change], revision: int) -> None:
        """Apply a commit of this process to the index."""
        self._index.apply(changes, revision)

    def load(self, progress: Progress) -> None:
        """Load the index from disk and apply all later changes; if that fails, rebuild the index.

        Args:
            progress: called with lines for the operator.

        Raises:
            StoreDamaged: the rebuild failed too, so the store itself is damaged.
        """
        attempts = _READER_ATTEMPTS if self._read_only else 1
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
        _log.warning("the index is rebuilt from the store: %s", problem)
        try:
            self._rebuild(progress)
        except Corrupt as error:
            raise store_damaged(str(error)) from error

    def follow(self) -> bool:
        """Apply new commits of the process that writes the store; return False if there are none.

        Raises:
            Corrupt: the changes since the last revision cannot be read. For example, the writer has
                just replaced the base, or no longer keeps the removals of that time.
        """
        store, index = self._store, self._index
        revision = store.revision  # always read: it fails if the store has another model now
        if (index.is_replaced() or index.is_broken) and self._load_base():
            return True
        known = index.snapshot.revision
        if index.is_broken:
            index.rebuilt = index.damage or index.rebuilt
            self._rebuild(show_nothing)
        elif revision == known:
            return False
        else:
            index.apply(*store.changes_since(known, found=self.found))
        return True

    def _load_base(self, progress: Progress = show_nothing) -> bool:
        """Load the index from disk and apply all later changes; return False if there is none."""

        def changes_since(revision: int) -> tuple[list[Change], int]:
            changes, now = self._store.changes_since(revision, with_links=True, found=self.found)
            if now > revision:
                progress(f"indexing {len(changes)} changes since the index was written")
            return changes, now

        return self._index.load(changes_since)

    def _rebuild(self, progress: Progress) -> None:
        """Drop the index, index all contexts of the store, and write a new base."""
        store, index = self._store, self._index
        index.clear()
        before = store.read_history().revision  # the last own commit may be lost
        batch: list[Change] = []
        count = 0
        self.damage.clear()
        for context in store.scan(self.found):
            batch.append(context)
            if len(batch) == _SCAN_BATCH:
                count += len(batch)
                progress(f"indexing: {count} contexts")
                index.apply(batch, 0)  # revision 0: a base written now is incomplete
                batch = []
        # A reader's writer may commit during the scan; such a change may come twice, without harm.
        changes, revision = store.changes_since(before, with_links=True, found=self.found)
        index.apply([*batch, *changes], revision)
        if (count or index.rebuilt) and not self._read_only:
            try:
                index.compact()
            except DiskFull as error:
                progress(f"{error}; the index stays in memory until there is room")
            except Corrupt:
                pass  # the index logged it, and the index in memory is complete


def follower_of(
    store: WritableStore | StoreReader, index: Index, *, read_only: bool
) -> IndexFollower:
    """Return a NodeFollower for a database that several daemons write, else an IndexFollower."""
    if isinstance(store, SharedStore):
        return NodeFollower(store, index)
    return IndexFollower(store, index, read_only=read_only)


class NodeFollower(IndexFollower):
    """Keeps the index of one of several daemons (nodes) that write the same database up to date.

    It applies the commits of this daemon and of the others in order. If the database was replaced
    by an older state of itself, the index is built again.

    Attributes:
        rebuild_reason: the reason why the index must be rebuilt before its next use; "" for none.
    """

    def __init__(self, store: SharedStore, index: Index) -> None:
        super().__init__(store, index, read_only=False)
        self._nodes = store
        self._lock = threading.Lock()
        self._point = store.point
        self.rebuild_reason = ""

    @property
    def origin(self) -> tuple[str, str]:
        """The store id and the epoch for the next base."""
        return self._point[:2]

    @property
    def point(self) -> Point:
        """The revision of the snapshot with its store and epoch. The snapshot may soon be newer."""
        return self._point

    def load(self, progress: Progress) -> None:
        """Load the index from disk, or rebuild it, as `IndexFollower.load`."""
        super().load(progress)
        self._point = self._nodes.read_history().at(self._index.snapshot.revision)

    def take(self, changes: list[Change], revision: int) -> None:
        """Apply a commit of this daemon, after all earlier commits of other daemons.

        If the database cannot be read now, nothing is applied, and the next `follow` applies all.
        That is no error, because the commit is durable already.
        """
        with self._lock, suppress(StoreAway):
            store, epoch = self._nodes.origin
            if self._point == (store, epoch, revision - 1):
                self._index.apply(changes, revision)
                self._point = Point(store, epoch, revision)
            elif self._point[:2] != (store, epoch) or self._point.revision < revision:
                self._catch_up()

    def follow(self) -> bool:
        """Apply new commits of all daemons; return False if there are none."""
        with self._lock:
            return self._catch_up()

    def _catch_up(self) -> bool:
        try:
            news = self._nodes.news(self._point, self.found)
        except Corrupt as error:  # this node was away for too long
            _log.warning("the index is built again: %s", error)
            news = None
        else:
            if news is None:
                self.rebuild_reason = (
                    f"the database went back, revision {self._point.revision} is lost"
                )
                _log.warning("the index is built again: %s", self.rebuild_reason)
        if news is None:
            self._rebuild(show_nothing)
            self._point = self._nodes.read_history().at(self._index.snapshot.revision)
            self.rebuild_reason = ""
            self.on_foreign_changes(None)
            return True
        if news.point == self._point:
            return False
        if news.changes or news.point.revision > self._index.snapshot.revision:
            self._index.apply(news.changes, news.point.revision)
        self._point = news.point
        self.on_foreign_changes(news.changes)
        return True
