"""A store: one directory on disk, written by one process."""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path

from vikingd.domain.changes import Change, Committed, Once
from vikingd.domain.contexts import Prepared
from vikingd.domain.errors import DiskFull, StoreDamaged, TooLarge
from vikingd.domain.rights import LOCAL, Caller
from vikingd.ingest.masks import Masked
from vikingd.memory.model import Rewrite
from vikingd.store import identity
from vikingd.store.backup import check_restored, remove_leftovers
from vikingd.store.check import Check
from vikingd.store.directory import OpenFiles, Reserve, hold_lock
from vikingd.store.faults import REMEDY, domain_errors, store_damaged, to_domain_error
from vikingd.store.identity import History, Point
from vikingd.store.reads import Reads
from vikingd.store.schema import CACHE_KIB, DATABASE, connect, migrate, transaction
from vikingd.store.state import adopt
from vikingd.store.writer import OnCommit, Writer
from vikingd.store.writes.contexts import link, put, unlink
from vikingd.store.writes.memories import reinforce, rewrite, rewrite_holders, run_once, touch
from vikingd.store.writes.subtrees import CHARACTERS, delete, move
from vikingd.store.writes.vectors import drop_vectors, fill

MAX_PUT = 65_536
"""Contexts, passages and long texts that one call writes, see CHARACTERS."""

# Sizes of writes whose real size is unknown before they run; see Writer.submit.
_DELETE_SIZE, _MOVE_SIZE, _DROP_SIZE = 512, 2048, 2048
_NOT_OPENED = "the store could not be opened"
_MARK_INTERVAL = 30.0  # seconds at least between two marks

_log = logging.getLogger(__name__)


class Store(Reads):
    """Contexts, texts, vectors and links, durable. Safe for any number of threads.

    A write returns a future. It is done when the commit is on disk and `on_commit` has returned.
    It fails with the fault of the request, or with Overloaded if too many writes wait; then
    nothing of it is written. A new store holds the root `viking://`, at revision 1.

    Args:
        path: the directory of the store; it is made if it is missing.
        model: the name of the model that makes the vectors; "none" for no model.
        dimension: numbers in a vector; None for the dimension of the first vector.
        reembed: if the store has vectors of another model, drop them instead of failing.
        indexed: the point that the index beside the store names.
        accept_loss: accept a store that is older than it was, instead of failing.
        cache_kib: the most memory for pages of the connection that writes.

    Raises:
        StoreDamaged: the database is missing or older than it was, see `identity`.
        StoreInUse: another `Store` has it open, in this process or another one.
        StoreMismatch: its vectors or its schema do not fit.
        StoreFailed: SQLite cannot open it.
    """

    def __init__(
        self,
        path: Path,
        *,
        model: str,
        dimension: int | None,
        reembed: bool = False,
        indexed: Point | None = None,
        accept_loss: bool = False,
        cache_kib: int = CACHE_KIB,
    ) -> None:
        database = path / DATABASE
        super().__init__(database)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path
        self._marking = threading.Lock()
        with domain_errors(_NOT_OPENED, database), ExitStack() as stack:
            stack.enter_context(hold_lock(path))
            check_restored(path)
            remove_leftovers(path)
            known, marked = _history(database), identity.read_mark(path)
            loss = ""
            try:
                if known is None:
                    identity.check_new(path)
                else:
                    known.check(path, marked, indexed)
            except StoreDamaged as error:
                if not accept_loss:
                    raise
                loss = str(error)
                _log.warning("data loss accepted: %s", loss)
            reserve = Reserve(path)

            def open_database() -> None:
                db = self._db = connect(self._database, cache_kib=cache_kib)
                stack.callback(db.close)
                migrate(db)
                revision, size, is_clean = adopt(db, model, dimension, reembed=reembed)
                history = known
                if loss or not (history and history.epochs and history.revision == revision):
                    history = self._begin_epoch(known)
                self._files = OpenFiles(self._database)
                self._writer = Writer(
                    db,
                    self._files,
                    history=history,
                    has_begun=history is not known,
                    is_clean=is_clean,
                    revision=revision,
                    dimension=size,
                    reserve=reserve,
                    explain=self._explain,
                )
                self._check = None if is_clean else Check(self._database, self._note)

            try:
                open_database()
            except sqlite3.Error as error:
                if not (reserve.is_held and self._is_disk_full(error)):
                    raise
                reserve.release()
                open_database()
            if loss:
                identity.forget_index(path)
            self._marked = -math.inf  # the first commit begins an epoch
            if marked != self.point:
                self._mark()
            self._resources = stack.pop_all()

    def _begin_epoch(self, known: History | None) -> History:
        """Return the history with a new epoch; on a full disk the last epoch continues."""
        try:
            with transaction(self._db):
                return identity.begin_epoch(self._db, known)
        except sqlite3.Error as error:
            if known is None or not known.epochs or not self._is_disk_full(error):
                raise
            _log.warning("the disk is full: the last epoch of the store continues")
            return known

    def _is_disk_full(self, error: sqlite3.Error) -> bool:
        return isinstance(to_domain_error("", error, self._database), DiskFull)

    def _explain(self, what: str, error: BaseException) -> BaseException:
        """Return the error for the caller; damage ends all writes."""
        fault = to_domain_error(what, error, self._database)
        if isinstance(fault, StoreDamaged):
            self._note(fault)
        return fault

    def _note(self, damage: StoreDamaged) -> None:
        self._writer.refuse(damage)

    @property
    def point(self) -> Point:
        """The last commit, and the history that it belongs to."""
        return self._history.point

    def why_not(self, point: Point) -> str:
        """Return why an index that was written at a point does not belong here; "" if it does."""
        return self._history.why_not(point)

    @property
    def _history(self) -> History:
        # The first commit begins an epoch before it has its revision. So the revision is read first
        # and is never later than the epoch.
        revision = self._writer.revision
        return self._writer.history._replace(revision=revision)

    def _mark(self) -> None:
        """Write the mark; with an older mark, the next start can miss a loss of newer commits."""
        with self._marking:
            self._marked = time.monotonic()
            try:
                identity.write_mark(self._path, self.point)
            except OSError as error:
                _log.warning("the mark of the store could not be written: %s", error)

    @property
    def revision(self) -> int:
        """The revision of the last commit."""
        return self._writer.revision

    @property
    def dimension(self) -> int | None:
        """Numbers in a vector; None until it is known."""
        return self._writer.dimension

    @property
    def failure(self) -> str:
        """The reason why writes are refused; "" while they are accepted."""
        return self._writer.failure

    @property
    def is_full(self) -> bool:
        """True if the disk is full, so that only deletes are accepted."""
        return self._writer.is_full

    def start(self, on_commit: OnCommit) -> None:
        """Start to write; `on_commit` gets the changes of each commit and its revision.

        One thread calls it for one commit after the other, before the futures of the commit are
        done. The next commit may be written at the same time. If it raises, the store accepts no
        more writes, and `failure` gives the reason.
        """

        def check_and_follow(changes: list[Change], revision: int) -> None:
            if problem := self._files.problem(with_sizes=False):
                raise StoreDamaged(f"{problem}: {REMEDY}")
            on_commit(changes, revision)
            if time.monotonic() - self._marked > _MARK_INTERVAL:
                self._mark()

        self._writer.start(check_and_follow)
        if self._check is not None:
            self._check.start()

    def put(self, contexts: Sequence[Prepared | Masked]) -> Future[Committed]:
        """Write contexts, all or none, and make the missing directories above them.

        Fails with:
            InvalidField: a URI belongs to the other kind of node, is below a file or occurs twice;
                a vector has another dimension; or a draft without a mask would empty a file.
            NotFound: the context of a masked draft does not exist.
            RevisionDiffers: a context has another revision than its draft expects.
            TooLarge: the contexts are too many for one call.
        """
        uris = [context.draft.uri for context in contexts]
        size = sum(map(_size, contexts))
        if size > MAX_PUT and len(contexts) > 1:
            refused: Future[Committed] = Future()
            refused.set_exception(
                TooLarge(
                    f"{len(contexts):,} contexts with {size - len(contexts):,} passages and long "
                    f"texts, one call writes at most {MAX_PUT:,} of these together: send fewer "
                    "contexts at a time",
                    contexts=str(len(contexts)),
                    limit=str(MAX_PUT),
                )
            )
            return refused
        return self._writer.submit(
            lambda work: put(work, contexts), weight=len(contexts), uris=uris, size=size
        )

    def delete(
        self,
        uris: Sequence[str],
        expected_revision: int | None = None,
        *,
        allow_missing: bool = False,
    ) -> Future[Committed]:
        """Remove contexts with their subtrees; `count` is the number of removed contexts.

        Fails with:
            NotFound: a context is missing, and `allow_missing` is not set.
            RevisionDiffers: a context has another revision.
            InvalidField: the root is among them.
            TooLarge: the subtrees are too large for one call.
        """
        return self._writer.submit(
            lambda work: delete(work, uris, expected_revision, allow_missing=allow_missing),
            size=_DELETE_SIZE,
            frees=True,
        )

    def move(
        self, source: str, destination: str, expected_revision: int | None = None
    ) -> Future[Committed]:
        """Rename a subtree; `count` is the number of its contexts.

        Fails with:
            NotFound: the source does not exist.
            AlreadyExists: the destination exists.
            RevisionDiffers: the source has another revision.
            InvalidField: one of the URIs is not possible.
            TooLarge: the subtree is too large for one call.
        """
        return self._writer.submit(
            lambda work: move(work, source, destination, expected_revision), size=_MOVE_SIZE
        )

    def link(self, uri: str, other: str, reason: str) -> Future[Committed]:
        """Link two contexts, or replace the reason; fails with NotFound and InvalidField."""
        return self._writer.submit(lambda work: link(work, uri, other, reason))

    def unlink(self, uri: str, other: str) -> Future[Committed]:
        """Remove a link; fails with NotFound."""
        return self._writer.submit(lambda work: unlink(work, uri, other))

    def rewrite(
        self,
        rewrites: Mapping[str, Rewrite] | Sequence[tuple[str, Rewrite]],
        once: Once | None = None,
    ) -> Future[Committed]:
        """Apply each rewrite to the current state of its memory file, by URI: all or none.

        A sequence may name a file several times; a later rewrite sees the earlier ones.

        With `once`, a repeated request changes nothing, and `reply` is the reply of the first one.
        Fails with the errors of the rewrites and of `put`, and with InvalidField if a different
        request had the same id.
        """
        pairs = list(rewrites.items()) if isinstance(rewrites, Mapping) else rewrites
        return self._writer.submit(
            lambda work: run_once(work, once, lambda: rewrite(work, pairs)),
            uris=[uri for uri, _ in pairs],
        )

    def rewrite_holders(
        self, ids: Sequence[int], change: Rewrite, *, require_all: bool, caller: Caller = LOCAL
    ) -> Future[Committed]:
        """Apply a rewrite to each file that holds one of these memories and may be written.

        Fails as `rewrite`. If `require_all` is set, it fails with NotFound if a memory is missing
        or may not be read, and with PermissionDenied if one may be read, but not written.
        """
        return self._writer.submit(
            lambda work: rewrite_holders(work, ids, change, require_all=require_all, caller=caller)
        )

    def reinforce(
        self, ids: Sequence[int], by: int, once: Once | None = None, caller: Caller = LOCAL
    ) -> Future[Committed]:
        """Raise the reinforcement of memories by their ids.

        For `once` see `rewrite`. Fails with NotFound and PermissionDenied as `rewrite_holders`.
        """
        return self._writer.submit(
            lambda work: run_once(work, once, lambda: reinforce(work, ids, by, caller))
        )

    def touch(self, accesses: Mapping[int, int]) -> Future[Committed]:
        """Add accesses to memories by their ids; `count` is the number of those that exist."""
        return self._writer.submit(lambda work: touch(work, accesses), bounded=False)

    def fill(
        self,
        vectors: Sequence[tuple[int, bytes]],
        digests: Mapping[int, bytes] | None = None,
        meta: Mapping[str, bytes] | None = None,
    ) -> Future[Committed]:
        """Write the vectors of texts by text id; `count` is the number of those that waited.

        `digests` has the digests of those texts, by id, whose vectors equal texts may take. `meta`
        has values for `get_meta`, which are stored in the same commit.
        Fails with InvalidField if a vector has another dimension.
        """
        return self._writer.submit(
            lambda work: fill(work, vectors, digests or {}, meta or {}),
            weight=len(vectors),
            bounded=False,
        )

    def drop_vectors(self, uri: str, after: str = "") -> Future[Committed]:
        """Remove the vectors of one part of a subtree, so that its texts wait for new ones.

        The part begins after the URI `after`, or with the first context. `count` is the number of
        vectors; `last` is `after` of the next part, "" at the end. Fails with NotFound.
        """
        return self._writer.submit(lambda work: drop_vectors(work, uri, after), size=_DROP_SIZE)

    def forget_removals(self, up_to_revision: int) -> None:
        """Drop the removals up to this revision, which `changes_since` then cannot give."""
        self._writer.execute(
            ("DELETE FROM removals WHERE revision <= ?", (up_to_revision,)),
            (
                "UPDATE meta SET value = max(value, ?) WHERE key = 'store.forgotten'",
                (up_to_revision,),
            ),
        )
        self._mark()

    def set_meta(self, key: str, value: bytes) -> None:
        """Store a value under a key that does not begin with "store."; makes no revision."""
        self._writer.execute(("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value)))

    def close(self) -> None:
        """Finish the submitted writes, then release the directory; a second call does nothing."""
        if self._check is not None:
            self._check.stop()
        self._writer.close()
        if not self._closed and self._writer.has_begun:
            self._mark()
        self._close_idle()
        self._resources.close()  # the last connection writes the log into the database


def _size(context: Prepared | Masked) -> int:
    if isinstance(context, Masked):
        return 1 + len(context.cut or ()) + len(context.draft.content) // CHARACTERS
    return 1 + len(context.texts) + sum(len(text.text) for text in context.texts) // CHARACTERS


def _history(database: Path) -> History | None:
    """Return the history of a database; None if there is no database or no store in it.

    Reads only: SQLite deletes a log that does not fit, but it may belong to the right database.
    """
    _finish_rollback(database)
    if not database.exists() or database.stat().st_size == 0:
        return None
    with closing(connect(database, read_only=True)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        try:
            known = identity.history_of(db) if version else None
        except (ValueError, TypeError) as error:
            raise store_damaged("its history cannot be read") from error
    if known is not None:
        _check_log(database, known)
    return known


def _finish_rollback(database: Path) -> None:
    """Take back the first write to a new database, if its process was killed.

    SQLite writes it with a rollback journal, the only time before the log is in use. A read-only
    connection cannot take it back.
    """
    if database.with_name(f"{database.name}-journal").exists():
        with closing(sqlite3.connect(database)) as db:
            db.execute("SELECT count(*) FROM sqlite_master")


def _check_log(database: Path, known: History) -> None:
    """Check that the log belongs to the database; SQLite does not check that.

    `known` is the history that the database has with its log.

    Raises:
        StoreDamaged: they are of two stores, or of two histories of one store.
    """
    log = database.with_name(f"{database.name}-wal")
    if not log.exists() or log.stat().st_size == 0:
        return
    try:
        with closing(connect(database, read_only=True, immutable=True)) as db:
            alone = identity.history_of(db)
    except (sqlite3.Error, ValueError, TypeError):
        return  # without its log a database may be torn, or may have no table yet
    if alone is not None and not known.follows(alone):
        raise StoreDamaged(
            f"{log.name} belongs to another database than {database.name}: the log is of store "
            f"{known.store}, the database of store {alone.store or 'without an id'} or an older "
            f"copy. Put the right {database.name} back, or move {log.name} away to take "
            f"{database.name} without it, or {REMEDY}"
        )
