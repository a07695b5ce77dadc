"""A read-only store that another process writes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

from vikingd.domain.errors import StoreMismatch
from vikingd.store.history import History, Point, history_of
from vikingd.store.sqlite import rollback_detection as identity
from vikingd.store.sqlite.sqlite_database import SqliteReads
from vikingd.store.sqlite.sqlite_faults import domain_errors
from vikingd.store.sqlite.sqlite_schema import DATABASE, MIGRATIONS, connect
from vikingd.store.store_meta import describe_model, fits

_INTERVAL = 0.01  # seconds between two checks for commits
_INTERVAL_OF_MANY = 0.1  # the same for one of many stores, so that they do not use a processor
_FULL_CHECK_EVERY = 1.0  # seconds; a full check also finds changes that are no commits
_RETRY_PAUSE = 0.05  # seconds before the next attempt after a failure
_QUIET = 1.0  # seconds of failures before a log line: the writer may just replace a base
_PATIENCE = 30.0  # seconds of failures until the reader gives up

_log = logging.getLogger(__name__)


class StoreReader(SqliteReads):
    """A store that another process writes; this one only reads, and takes no lock.

    Args:
        path: the directory of the store.
        model: the name of the model that makes the vectors of queries; "none" for no model.
        dimension: numbers in a vector; None for the dimension of the store.
        is_one_of_many: look for commits ten times a second, not a hundred times.

    Attributes:
        dimension: numbers in a vector; None while the store has no vector.
        failure: the reason why the reader no longer applies new commits; "" while it does.

    Raises:
        StoreMismatch: there is no store, or its vectors or its schema do not fit.
        StoreDamaged: the database was replaced by an older copy, see `rollback_detection`.
        StoreFailed: SQLite cannot read it.
    """

    def __init__(
        self, path: Path, *, model: str, dimension: int | None, is_one_of_many: bool = False
    ) -> None:
        database = path / DATABASE
        super().__init__(database)
        if not database.exists():
            raise StoreMismatch(f"there is no store in {path}: start a writer with `vikingd serve`")
        self._path = path
        self._interval = _INTERVAL_OF_MANY if is_one_of_many else _INTERVAL
        self._model = model
        self._expected_dimension = dimension
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self.dimension = dimension
        self.failure = ""
        self._file = os.stat(database)
        self._reading = threading.Lock()
        self._history: History | None = None  # at the last check
        self._mark = identity.mark_file(path)
        marks = self._mark.read()  # before the database, which may be newer
        with domain_errors("the store could not be opened", database):
            self._db = connect(database, read_only=True)
            self._looks = connect(database, read_only=True)
        self._looked: int | None = None  # the `data_version` whose commits are all followed
        try:
            self._check_state()
            if self._history is not None:
                identity.check(self._history, path, marks)
        except BaseException:
            self.close()
            raise

    @property
    def place(self) -> str:
        """The directory of the store, for messages."""
        return str(self._path)

    @property
    def revision(self) -> int:
        """The newest revision in the database.

        Raises:
            StoreMismatch: the writer has another model or schema now, or the database was replaced
                by an older copy.
        """
        return self._check_state()

    @property
    def history(self) -> History:
        """The history of the store as this process last read it."""
        assert self._history is not None  # there is a store
        return self._history

    def read_history(self) -> History:
        """Read the history from the database.

        Raises:
            StoreMismatch: the database was replaced by another one or by an older copy, so this
                reader must end.
        """
        self._check_state()
        return self.history

    def why_unusable(self, point: Point) -> str:
        """Return the reason why an index written at this point cannot be used; "" if it can."""
        self._check_state()
        return self._history.why_unusable(point) if self._history is not None else ""

    def _check_state(self) -> int:
        """Return the newest revision, after a check of the schema, the model and the history.

        Raises:
            StoreMismatch: this reader cannot read the store any more.
        """
        with self._reading:  # one at a time, so that the revision never goes down
            return self._read_state()

    def _read_state(self) -> int:
        with self._snapshot() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version != len(MIGRATIONS):
                raise StoreMismatch(
                    f"the store has schema {version}, this reader supports {len(MIGRATIONS)}: run "
                    "writer and readers of the same version"
                )
            state = db.get_state()
            before = self._history
            names = (state.get("store.id", ""), state.get("store.epoch", ""))
            if before and state and before.point[:2] == names:  # no new epoch began
                history: History | None = before._replace(revision=state["store.revision"])
            else:
                history = history_of(db)
        if not state:
            raise StoreMismatch(f"the store in {self._path} is not complete yet: try again later")
        if not fits(state, self._model, self._expected_dimension):
            found = describe_model(state["store.model"], state["store.dimension"])
            expected = describe_model(self._model, self._expected_dimension)
            raise StoreMismatch(
                f"the store has vectors of {found}, this reader is for {expected}: start it with "
                "the embedder of the writer"
            )
        if before and before.store and history and not history.contains(before.point):
            raise StoreMismatch(
                f"the store in {self._path} went back or was replaced: restart the reader"
            )
        self._history = history
        self.dimension = state["store.dimension"]
        revision: int = state["store.revision"]
        return revision

    def start(self, on_change: Callable[[], None], on_failure: Callable[[], None]) -> None:
        """Start a thread that calls `on_change` at once, after each commit, and every second.

        If `on_change` raises, it is called again. After 30 seconds of failures, or at once after
        StoreMismatch, the thread sets `failure`, calls `on_failure` and ends.
        """
        self._thread = threading.Thread(
            target=self._watch, args=(on_change, on_failure), name="store-reader", daemon=True
        )
        self._thread.start()

    def missing_revision(self, followed: int) -> int | None:
        """Return the newest committed revision if it is above `followed`, else None.

        Takes some microseconds while nothing is committed. It is for one thread.

        Raises:
            StoreMismatch: the store was replaced, removed, or went back.
            StoreFailed: SQLite cannot read it.
        """
        with domain_errors("the store could not be read", self._database):
            (version,) = self._looks.execute("PRAGMA data_version").fetchone()
        self._check_file()
        if version == self._looked:
            return None
        if (revision := self._check_state()) > followed:  # read after the version
            return revision
        self._looked = version
        return None

    def check_now(self) -> None:
        """Make the thread check for new commits at once."""
        self._wake.set()

    def close(self) -> None:
        """Stop the thread and close the store; a second call does nothing."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self._close_idle()
        self._db.close()
        self._looks.close()

    def _watch(self, on_change: Callable[[], None], on_failure: Callable[[], None]) -> None:
        seen, failing_since, is_logged = None, None, False
        for number in count():
            try:
                # data_version changes with each commit of another connection.
                (version,) = self._db.execute("PRAGMA data_version").fetchone()
                is_full_check = number % round(_FULL_CHECK_EVERY / self._interval) == 0
                if is_full_check:
                    self._check_database()
                if version != seen or is_full_check:
                    on_change()
                    seen = version
                failing_since, is_logged = None, False
            except BaseException as error:
                failing_since = failing_since or time.monotonic()
                lasted = time.monotonic() - failing_since
                if isinstance(error, StoreMismatch) or lasted > _PATIENCE:
                    self.failure = str(error) or repr(error)
                    on_failure()
                    return
                if lasted > _QUIET and not is_logged:
                    is_logged = True
                    _log.warning("the reader cannot follow the store, it tries again: %s", error)
            self._wake.wait(self._interval if failing_since is None else _RETRY_PAUSE)
            self._wake.clear()
            if self._stop.is_set():
                return

    def _check_database(self) -> None:
        """Raise StoreMismatch if the database was removed, or replaced by another or older one.

        Raises:
            StoreMismatch: the writer writes another database.
        """
        marks = self._mark.read()  # before the database, which may be newer
        self._check_state()
        known = self._history
        if known and not all(known.may_contain(identity.point_of(mark)) for mark in marks):
            raise StoreMismatch(
                f"the store in {self._path} went back or was replaced: restart the reader"
            )
        self._check_file()

    def _check_file(self) -> None:
        """Raise StoreMismatch if the file of the database was removed or replaced."""
        try:
            is_same = os.path.samestat(os.stat(self._database), self._file)
        except FileNotFoundError:
            is_same = False
        if not is_same:
            raise StoreMismatch(
                f"the store in {self._path} was removed or replaced: restart the reader"
            )
