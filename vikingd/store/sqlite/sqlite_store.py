"""A store: one directory on disk, written by one process."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from vikingd.domain.errors import DiskFull, StoreDamaged, StoreInUse, VikingError
from vikingd.domain.store_changes import Change
from vikingd.store.connection import Connection
from vikingd.store.damage import REMEDY, RowDamaged, store_damaged
from vikingd.store.history import History, Point, begin_epoch, history_of
from vikingd.store.sqlite import rollback_detection as identity
from vikingd.store.sqlite.backup import check_restored, remove_leftovers
from vikingd.store.sqlite.database_check import Check
from vikingd.store.sqlite.database_rewrite import convert
from vikingd.store.sqlite.idle_maintenance import IdleMaintenance
from vikingd.store.sqlite.sqlite_connection import SqliteConnection
from vikingd.store.sqlite.sqlite_database import SqliteReads
from vikingd.store.sqlite.sqlite_faults import domain_errors, to_domain_error
from vikingd.store.sqlite.sqlite_schema import CACHE_KIB, DATABASE, connect, migrate
from vikingd.store.sqlite.sqlite_transactions import SqliteCommitting
from vikingd.store.sqlite.store_directory import Reserve, hold_lock
from vikingd.store.store_meta import CLEAN, adopt
from vikingd.store.store_writes import WritableStore
from vikingd.store.writer import OnCommit, Writer
from vikingd.system.open_files import OpenFiles
from vikingd.system.sealed_files import sync
from vikingd.system.wal_frames import log_of

_NOT_OPENED = "the store could not be opened"

_log = logging.getLogger(__name__)


class Store(SqliteReads, WritableStore):
    """Contexts, texts, vectors and links, durable. Safe for any number of threads.

    A write returns a future. It is done when the commit is on disk and `on_commit` has returned.
    It fails with the fault of the request, or with Overloaded if too many writes wait; then
    nothing of it is written. A new store holds the root `viking://`, at revision 1.

    Args:
        path: the directory of the store; it is made if it is missing.
        model: the name of the model that makes the vectors; "none" for no model.
        dimension: numbers in a vector; None for the dimension of the first vector.
        reembed: if the store has vectors of another model, drop them instead of failing.
        indexed: the revision of the index in the directory; None: there is no index.
        accept_loss: accept a database that was replaced by an older copy, instead of failing. Its
            later commits are lost.
        cache_kib: KiB of memory for the page cache of the connection that writes, at most.

    Raises:
        StoreDamaged: the database is missing, or was replaced by an older copy, see
            `rollback_detection`.
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
        self._mark = identity.mark_file(path)
        self._mark_problem = ""
        self._is_started = False
        with domain_errors(_NOT_OPENED, database), ExitStack() as stack:
            stack.enter_context(hold_lock(path))
            check_restored(path)
            remove_leftovers(path)
            marks = self._mark.read()
            known = _history(database, self._mark.floor)
            loss = ""
            try:
                identity.check_log(path)
                if known is None:
                    identity.check_new(path)
                else:
                    identity.check(known, path, marks, indexed)
            except StoreDamaged as error:
                if not accept_loss:
                    raise
                loss = str(error)
                _log.warning("data loss accepted: %s", loss)
            convert(database)
            reserve = Reserve(path, database)

            def open_database() -> None:
                db = self._db = connect(self._database, cache_kib=cache_kib)
                stack.callback(db.close)
                if loss:
                    _empty_ignored_log(db, path)
                migrate(db)
                revision, size, is_clean = adopt(db, model, dimension, reembed=reembed)
                history = known
                if loss or not (history and history.epochs and history.revision == revision):
                    history = self._begin_epoch(known)
                self._files = OpenFiles(self._database)
                self._committing = SqliteCommitting(
                    db,
                    self._files,
                    reserve,
                    history=history,
                    has_begun=history is not known,
                    is_clean=is_clean,
                    revision=revision,
                    dimension=size,
                )
                self._writer = Writer(self._committing, self._explain)
                self._space = IdleMaintenance(
                    self._committing, self._writer, self._sync_mark, self._explain
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
            elif known is not None and known.epochs and not marks:
                how = "damaged" if self._mark.is_damaged else "missing"
                _log.warning(
                    "the mark of the store in %s is %s: an older copy of the store would not have "
                    "been noticed",
                    path,
                    how,
                )
            if loss or not marks or identity.point_of(marks[-1]) != self.point:
                self._begin_mark()
            self._resources = stack.pop_all()

    def _begin_epoch(self, known: History | None) -> History:
        """Begin an epoch and return the history with it; return `known` if the disk is full."""
        try:
            with self._db.transaction():
                return begin_epoch(self._db, known)
        except sqlite3.Error as error:
            if known is None or not known.epochs or not self._is_disk_full(error):
                raise
            _log.warning("the disk is full: the last epoch of the store continues")
            return known

    def _is_disk_full(self, error: sqlite3.Error) -> bool:
        return isinstance(to_domain_error("", error, self._database), DiskFull)

    def _explain(self, what: str, error: BaseException) -> BaseException:
        """Convert an error into a domain error; if it is damage, refuse all further writes."""
        fault = to_domain_error(what, error, self._database)
        if isinstance(fault, StoreDamaged) and not isinstance(fault, RowDamaged):
            self._note(fault)
        return fault

    def _note(self, damage: StoreDamaged) -> None:
        self._writer.refuse(damage)

    @property
    def place(self) -> str:
        """The directory of the store, for messages."""
        return str(self._path)

    @property
    def origin(self) -> tuple[str, str]:
        """The store id and the epoch of the last commit."""
        return self.point[:2]

    @property
    def point(self) -> Point:
        """The last commit: the store's id, its epoch and its revision."""
        return self.history.point

    def why_unusable(self, point: Point) -> str:
        """Return the reason why an index written at this point cannot be used; "" if it can."""
        return self.history.why_unusable(point)

    @property
    def history(self) -> History:
        """The history of the store as this process knows it; nothing is read."""
        # The first commit begins an epoch before it has its revision. So the revision is read first
        # and is never later than the epoch.
        revision = self._committing.revision
        return self._committing.history._replace(revision=revision)

    def read_history(self) -> History:
        """Read the history from the database."""
        with self._snapshot() as db:
            history = history_of(db)
        assert history is not None
        return history

    def _begin_mark(self) -> None:
        """Write the newest revision into the mark at a start, after syncing the log to the disk.

        A killed writer may have left a commit in the log that is not on disk yet. The mark must
        never name a revision that a power failure could still remove.
        """
        with self._marking, self._mark_errors_logged(), suppress(FileNotFoundError):
            sync(log_of(self._database))
        with self._marking, self._mark_errors_logged():
            self._mark.begin(*self.point)

    def _follow_mark(self, *, sync: bool = False) -> None:
        """Write the revision of the last commit into the mark.

        With an older mark, the next start would not notice the loss of this commit.
        """
        with self._marking, self._mark_errors_logged():
            self._mark.write(*self.point)
            if sync:
                self._mark.sync()

    def _sync_mark(self) -> None:
        with self._marking, self._mark_errors_logged():
            self._mark.sync()

    @contextmanager
    def _mark_errors_logged(self) -> Iterator[None]:
        """Catch an OSError of the block, and log once that the mark cannot be written."""
        try:
            yield
            self._mark_problem = ""
        except OSError as error:
            if str(error) != self._mark_problem:
                self._mark_problem = str(error)
                _log.warning(
                    "the mark of the store could not be written, a loss of newer writes would not "
                    "be noticed: %s",
                    error,
                )

    @property
    def revision(self) -> int:
        """The revision of the last commit."""
        return self._committing.revision

    @property
    def dimension(self) -> int | None:
        """The number of components of a vector; None until the first one is written."""
        return self._committing.dimension

    @property
    def is_full(self) -> bool:
        """True if the disk is full, so that only deletes are accepted."""
        return self._committing.is_full

    def start(self, on_commit: OnCommit) -> None:
        """Start to write; `on_commit` gets the changes of each commit and its revision.

        One thread calls it for one commit after the other, before the futures of the commit are
        done. The next commit may be written at the same time. If `on_commit` raises, the store
        accepts no more writes, and `failure` gives the reason.
        """

        def check_and_follow(changes: list[Change], revision: int) -> None:
            if problem := self._files.problem(with_sizes=False):
                raise StoreDamaged(f"{problem}: {REMEDY}")
            on_commit(changes, revision)
            self._follow_mark()
            self._space.note_commit()

        self._is_started = True
        self._writer.start(check_and_follow)
        log = self._database.with_name(f"{self._database.name}-wal")
        if log.exists() and log.stat().st_size:  # a killed process left it
            self._space.note_commit()
        if self._check is not None:
            self._check.start()

    def forget_removals(self, up_to_revision: int) -> None:
        """Delete the records of contexts removed up to this revision.

        An index on disk must have the revision.

        `changes_since` cannot start from an earlier revision afterwards.
        """

        def forget(db: Connection) -> None:
            forgotten = db.get_meta("store.forgotten")["store.forgotten"]
            db.execute("DELETE FROM removals WHERE revision <= ?", (up_to_revision,))
            db.set_meta({"store.forgotten": max(forgotten, up_to_revision)})

        self._writer.run(forget)
        self._follow_mark(sync=True)

    def give_back(self) -> int:
        """Shrink the database by the space of deleted contexts; return the freed bytes."""
        return self._space.give_back_all()

    def _note_clean_end(self) -> None:
        """Mark the database as closed, so that the next start need not check it."""
        is_over = self._writer.failure or self._committing.is_clean or self._closed
        if self._is_started and not is_over:
            with suppress(VikingError):
                self._writer.run(lambda db: db.set_meta({CLEAN: 1}))

    def close(self) -> None:
        """Finish the submitted writes, then release the directory; a second call does nothing."""
        if self._check is not None:
            self._check.stop()
        self._writer.close()
        self._space.stop()
        self._note_clean_end()
        if not self._closed and self._committing.has_begun:
            self._follow_mark(sync=True)
        self._mark.close()
        self._close_idle()
        self._resources.close()  # the last connection writes the log into the database


def _empty_ignored_log(db: SqliteConnection, path: Path) -> None:
    """Empty the write-ahead log after the operator has accepted data loss.

    Otherwise SQLite would overwrite the frames that it ignores from the beginning of the log. The
    next start would find the rest of them and report a loss again.

    Raises:
        StoreInUse: a reader has the database open.
    """
    is_busy, _, _ = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise StoreInUse(f"a reader has the store in {path} open: stop it to accept the loss")


def _history(database: Path, floor: int) -> History | None:
    """Return the history in a database; None if there is no database, or it is empty.

    The database is opened read-only. Otherwise SQLite would delete a write-ahead log that does not
    belong to it, and the log may be right and the database wrong.

    Args:
        database: the file of the database.
        floor: a revision that the database must have even without its log, see `MarkFile.floor`.

    Raises:
        StoreDamaged: the log does not belong to the database, see `_check_log`.
    """
    _finish_rollback(database)
    if not database.exists() or database.stat().st_size == 0:
        return None
    with closing(connect(database, read_only=True)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if not version and db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise store_damaged("it has tables of another program, or lost its schema's number")
        known = history_of(db) if version else None
    if known is not None:
        _check_log(database, known, floor)
    return known


def _finish_rollback(database: Path) -> None:
    """Undo the first write to a new database, if its process was killed during that write.

    Only the first write uses a rollback journal; later ones use the log. A read-only connection
    cannot undo it.
    """
    if database.with_name(f"{database.name}-journal").exists():
        with closing(sqlite3.connect(database)) as db:
            db.execute("SELECT count(*) FROM sqlite_master")


def _check_log(database: Path, known: History, floor: int) -> None:
    """Raise StoreDamaged if the write-ahead log belongs to another database; SQLite does not check.

    Args:
        database: the file of the database.
        known: the history in the database, read together with the log.
        floor: a revision that the database must have even without its log, see `MarkFile.floor`.

    Raises:
        StoreDamaged: database and log are of different stores or histories, or the database is an
            older copy, from before the log began.
    """
    log = log_of(database)
    if not log.exists() or log.stat().st_size == 0:
        return
    try:
        with closing(connect(database, read_only=True, immutable=True)) as db:
            (is_made,) = db.execute(
                "SELECT count(*) FROM sqlite_master WHERE name = 'meta'"
            ).fetchone()
            alone = history_of(db) if is_made else None
    except (sqlite3.Error, StoreDamaged):
        return  # without its log a database may be torn, or may have no table yet
    found = alone.revision if alone is not None else 0
    is_other = alone is not None and not known.follows(alone)
    if not is_other and found < floor:
        raise StoreDamaged(
            f"{database.name} is an older copy than {log.name}: it has revision {found} without "
            f"the log, and the log began after revision {floor}. Put the right {database.name} "
            f"back, or move {log.name} away to take {database.name} without it, or {REMEDY}"
        )
    if alone is not None and is_other:
        raise StoreDamaged(
            f"{log.name} belongs to another database than {database.name}: the log is of store "
            f"{known.store}, the database of store {alone.store or 'without an id'} or an older "
            f"copy. Put the right {database.name} back, or move {log.name} away to take "
            f"{database.name} without it, or {REMEDY}"
        )
