"""A store that another process writes: opened read-only, and watched."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from vikingd.domain.errors import StoreMismatch
from vikingd.store import identity
from vikingd.store.faults import failing
from vikingd.store.identity import History, Point
from vikingd.store.reads import Reads
from vikingd.store.schema import DATABASE, MIGRATIONS, connect
from vikingd.store.store import fits, named

_INTERVAL = 0.01  # seconds between two looks for commits
_LOOKS = 100  # after so many, what no commit tells of is looked for too
_PAUSE = 0.05  # seconds before what could not be taken is tried again
_QUIET = 1.0  # seconds of that before it is logged: a base may just be replaced
_PATIENCE = 30.0  # seconds of that until the reader gives up

_log = logging.getLogger(__name__)


class StoreReader(Reads):
    """Reads a store and hears of what another process commits; changes nothing, takes no lock.

    Args:
        path: directory of the store.
        model: name of the model that makes the vectors of queries; "none" for no model.
        dimension: numbers in a vector; None: that of the store.

    Attributes:
        dimension: numbers in a vector; None while the store has none.
        failure: why the store can't be followed any more; "" while it can.

    Raises:
        StoreMismatch: there is no store, or its vectors or its schema do not fit.
        StoreDamaged: the store is older than it was, see `identity`.
        StoreFailed: SQLite can't read it.
    """

    def __init__(self, path: Path, *, model: str, dimension: int | None) -> None:
        database = path / DATABASE
        super().__init__(database)
        if not database.exists():
            raise StoreMismatch(f"there is no store in {path}: `vikingd serve` makes one")
        self._path = path
        self._model = model
        self._given = dimension
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.dimension = dimension
        self.failure = ""
        self._file = os.stat(database)
        self._looking = threading.Lock()
        self._history: History | None = None  # as it was at the last look
        mark = identity.read_mark(path)  # before the database, which may be newer
        with failing("the store could not be opened", database):
            self._db = connect(database, read_only=True)
        try:
            self._look()
            if self._history is not None:
                self._history.check(path, mark, None)
        except BaseException:
            self.close()
            raise

    @property
    def revision(self) -> int:
        """The revision of the last commit.

        Raises:
            StoreMismatch: the vectors are of another model now, or the schema is another one.
        """
        return self._look()

    def why_not(self, point: Point) -> str:
        """Why an index that was written at a point is not one of this store; "" if it is."""
        self._look()
        return self._history.why_not(point) if self._history is not None else ""

    def _look(self) -> int:
        with self._looking:  # so that no look finds less than the one before
            return self._looked()

    def _looked(self) -> int:
        with self._snapshot() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version != len(MIGRATIONS):
                raise StoreMismatch(
                    f"the store has schema {version}, this reader knows {len(MIGRATIONS)}: run "
                    "writer and readers of one version"
                )
            state = dict(db.execute("SELECT key, value FROM meta WHERE key GLOB 'store.*'"))
            history = self._known(state) or identity.history_of(db)
        if not state:
            raise StoreMismatch(f"the store in {self._path} is not made yet")
        if not fits(state, self._model, self._given):
            raise StoreMismatch(
                f"the store has vectors of {named(state['store.model'], state['store.dimension'])},"
                f" this reader is for {named(self._model, self._given)}: start it with the "
                "embedder of the writer"
            )
        before = self._history
        if before and before.store and history and not history.contains(before.point):
            raise StoreMismatch(
                f"the store in {self._path} went back or was replaced: start the reader anew"
            )
        self._history = history
        self.dimension = state["store.dimension"]
        revision: int = state["store.revision"]
        return revision

    def _known(self, state: Mapping[str, Any]) -> History | None:
        """The history, if there is no other epoch than at the last look."""
        known = self._history
        if (
            known is None
            or not state
            or known.point[:2] != (state.get("store.id", ""), state.get("store.epoch", ""))
        ):
            return None
        return known._replace(revision=state["store.revision"])

    def start(self, on_change: Callable[[], None], on_failure: Callable[[], None]) -> None:
        """Begins to watch: calls `on_change` at once, after each commit, and about once a second.

        It is called in a thread of its own, and again when it raises. When nothing but that has
        come of it for half a minute, or with StoreMismatch at once, the watch ends: `failure` says
        why, and `on_failure` is called.
        """
        self._thread = threading.Thread(
            target=self._watch, args=(on_change, on_failure), name="store-reader", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Ends the watch and lets the store go; a second call does nothing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._close_idle()
        self._db.close()

    def _watch(self, on_change: Callable[[], None], on_failure: Callable[[], None]) -> None:
        seen, failing_since, is_told = None, None, False
        for look in count():
            try:
                # It changes with each commit of another connection.
                (version,) = self._db.execute("PRAGMA data_version").fetchone()
                now_and_then = look % _LOOKS == 0
                if now_and_then:
                    self._check_mark()
                if now_and_then and not self._is_there():
                    raise StoreMismatch(
                        f"the store in {self._path} was removed or replaced: start the reader anew"
                    )
                if version != seen or now_and_then:
                    on_change()
                    seen = version
                failing_since, is_told = None, False
            except BaseException as error:
                failing_since = failing_since or time.monotonic()
                lasted = time.monotonic() - failing_since
                if isinstance(error, StoreMismatch) or lasted > _PATIENCE:
                    self.failure = str(error) or repr(error)
                    on_failure()
                    return
                if lasted > _QUIET and not is_told:
                    is_told = True
                    _log.warning("the store can't be followed, trying again: %s", error)
            if self._stop.wait(_INTERVAL if failing_since is None else _PAUSE):
                return

    def _check_mark(self) -> None:
        """Looks whether its writer has gone on with another database, which is not seen here.

        Raises:
            StoreMismatch: it has.
        """
        mark = identity.read_mark(self._path)  # before the database, which may be newer
        self._look()
        if mark is not None and self._history is not None and not self._history.may_contain(mark):
            raise StoreMismatch(
                f"the store in {self._path} went back or was replaced: start the reader anew"
            )

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._database), self._file)
        except FileNotFoundError:
            return False
