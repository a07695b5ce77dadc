"""The store: one directory on disk, one process that writes it."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from pathlib import Path
from types import NoneType
from typing import Any

from vikingd.domain.changes import Change, Committed, Once
from vikingd.domain.contexts import Prepared
from vikingd.domain.errors import DiskFull, StoreDamaged, StoreMismatch, TooLarge
from vikingd.domain.uri import ROOT
from vikingd.ingest.masks import Masked
from vikingd.memory.model import Rewrite
from vikingd.store import identity
from vikingd.store.backup import remove_leftovers
from vikingd.store.check import Check
from vikingd.store.faults import REMEDY, damaged, failing, told
from vikingd.store.identity import History, Point
from vikingd.store.in_place import InPlace
from vikingd.store.lock import held
from vikingd.store.reads import Reads
from vikingd.store.reserve import Reserve
from vikingd.store.restore import check_restored
from vikingd.store.schema import DATABASE, connect, migrate, transaction
from vikingd.store.subtree import CHARACTERS
from vikingd.store.transaction import EMPTY_DIRECTORY
from vikingd.store.writer import CLEAN, OnCommit, Writer

MAX_PUT = 65_536
"""Contexts, passages and long texts that one call writes, see subtree.CHARACTERS."""

# What others count as, which is not known before they are run; see Writer.submit.
_DELETE, _MOVE, _PART = 512, 2048, 2048
_NOT_OPENED = "the store could not be opened"
_ROOT_ROW = """
INSERT INTO contexts (uri, is_directory, revision, content_hash, time, created_at, updated_at,
    title, abstract, metadata, overview, content)
VALUES (?1, 1, 1, ?2, ?3, ?3, ?3, '', '', '{}', '', '')
"""
_TOUCH_WITH_VECTOR = """
UPDATE contexts SET revision = ?
WHERE id IN (SELECT context_id FROM texts WHERE vector IS NOT NULL)
"""
_DROP_VECTORS = (
    "UPDATE texts SET vector = NULL, vector_revision = NULL, digest = NULL WHERE vector NOTNULL"
)
_ANY_VECTOR = "SELECT 1 FROM texts WHERE vector IS NOT NULL LIMIT 1"
_BETWEEN_MARKS = 30.0  # seconds at least

_log = logging.getLogger(__name__)


class Store(Reads):
    """Contexts, texts, vectors and links, durable. Safe for any number of threads.

    A write returns a future: it is done when the commit is on disk and `on_commit` has heard of it,
    or fails with what the request had wrong, or with Overloaded where too much waits, and then
    nothing of it was written. A new store holds the root `viking://`, at revision 1.

    Args:
        path: directory of the store; it is made where it does not exist.
        model: name of the model that makes the vectors; "none" for no model.
        dimension: numbers in a vector; None: that of the first vector.
        reembed: where the store has vectors of another model, drop them instead of refusing.
        indexed: the point that the index beside it tells of.
        accept_loss: take a store that went back as it is, instead of refusing.

    Attributes:
        went_back: what was accepted with `accept_loss`; "" where nothing was lost.

    Raises:
        StoreDamaged: when the database is missing or older than it was, see `identity`.
        StoreInUse: when another `Store` has it open, in this process or another one.
        StoreMismatch: when its vectors or its schema do not fit.
        StoreFailed: when SQLite can't open it.
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
    ) -> None:
        database = path / DATABASE
        super().__init__(database)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path
        self.went_back = ""
        self._marking = threading.Lock()
        with failing(_NOT_OPENED, database), ExitStack() as stack:
            stack.enter_context(held(path))
            check_restored(path)
            remove_leftovers(path)
            known = _history(database)
            if known is not None:
                mark = identity.read_mark(path)
                self._accept(accept_loss, lambda: known.check(path, mark, indexed))
            else:
                self._accept(accept_loss, lambda: identity.check_new(path))
            reserve = Reserve(path)
            try:
                self._open(model, dimension, reserve, stack, known, reembed=reembed)
            except sqlite3.Error as error:
                if not (reserve.is_held and isinstance(told("", error, database), DiskFull)):
                    raise
                reserve.release()
                self._open(model, dimension, reserve, stack, known, reembed=reembed)
            if self.went_back:
                identity.forget_index(path)
            self._mark()
            self._resources = stack.pop_all()

    def _open(
        self,
        model: str,
        dimension: int | None,
        reserve: Reserve,
        stack: ExitStack,
        known: History | None,
        *,
        reembed: bool,
    ) -> None:
        db = self._db = connect(self._database)
        stack.callback(db.close)
        migrate(db)
        revision, dimension, is_clean = _adopt(db, model, dimension, reembed=reembed)
        self._history = self._with_new_epoch(known)
        self._writer = Writer(
            db, revision=revision, dimension=dimension, reserve=reserve, explain=self._told
        )
        self._check = None if is_clean else Check(self._database, self._note)

    def _with_new_epoch(self, known: History | None) -> History:
        """The history from now on; on a full disk the last epoch goes on."""
        try:
            with transaction(self._db):
                return identity.begin_epoch(self._db, known)
        except sqlite3.Error as error:
            is_full = isinstance(told("", error, self._database), DiskFull)
            if known is None or not known.epochs or not is_full:
                raise
            _log.warning("the disk is full: the last epoch of the store goes on")
            return known

    def _accept(self, accept_loss: bool, check: Callable[[], None]) -> None:
        """Lets a check pass that fails, where the loss is accepted."""
        try:
            check()
        except StoreDamaged as error:
            if not accept_loss:
                raise
            self.went_back = str(error)
            _log.warning("data loss accepted: %s", error)

    def _told(self, what: str, error: BaseException) -> BaseException:
        """The error that a caller is told of; damage ends all writes."""
        fault = told(what, error, self._database)
        if isinstance(fault, StoreDamaged):
            self._note(fault)
        return fault

    def _note(self, damage: StoreDamaged) -> None:
        self._writer.refuse(damage)

    @property
    def point(self) -> Point:
        """The last commit, and the history that it belongs to."""
        return self._history._replace(revision=self._writer.revision).point

    def why_not(self, point: Point) -> str:
        """Why an index that was written at a point is not one of this store; "" if it is."""
        return self._history._replace(revision=self._writer.revision).why_not(point)

    def _mark(self) -> None:
        """Writes the mark; without one that is newer the next start knows of less."""
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
        """Numbers in a vector; None until that is known."""
        return self._writer.dimension

    @property
    def failure(self) -> str:
        """Why no more writes are taken; "" while they are."""
        return self._writer.failure

    @property
    def is_full(self) -> bool:
        """Whether the disk is full, so that only deletes are taken."""
        return self._writer.is_full

    def start(self, on_commit: OnCommit) -> None:
        """Begins to write; `on_commit` gets the changes of each commit and its revision.

        It is called in a thread of its own, one commit after the other, before the futures of a
        commit are done, while the next one may be written already. When it
        raises, the store takes no more writes and `failure` says why.
        """
        in_place = InPlace(self._database)

        def marked(changes: list[Change], revision: int) -> None:
            if name := in_place.missing():
                error = f"{name} was deleted or replaced while the daemon had it open: {REMEDY}"
                raise StoreDamaged(error)
            on_commit(changes, revision)
            if time.monotonic() - self._marked > _BETWEEN_MARKS:
                self._mark()

        self._writer.start(marked)
        if self._check is not None:
            self._check.start()

    def put(self, contexts: Sequence[Prepared | Masked]) -> Future[Committed]:
        """Writes contexts, all or nothing; directories above them come into being.

        Fails with InvalidField when a URI stands for the other kind of node, lies below a file or
        is in the batch twice, a vector has not the store's dimension, or a draft without a mask
        would empty a file; with NotFound when a context of a masked draft does not exist; with
        RevisionDiffers when one has not the revision that its draft expects; with TooLarge.
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
        return self._writer.submit(lambda work: work.put(contexts), len(contexts), uris, size)

    def delete(
        self,
        uris: Sequence[str],
        expected_revision: int | None = None,
        *,
        allow_missing: bool = False,
    ) -> Future[Committed]:
        """Removes contexts with all below them; `count` says how many.

        Fails with NotFound unless missing ones are allowed, with RevisionDiffers when one that is
        there has another revision than is expected, with InvalidField for the root, and with
        TooLarge.
        """
        return self._writer.submit(
            lambda work: work.delete(uris, expected_revision, allow_missing=allow_missing),
            size=_DELETE,
            frees=True,
        )

    def move(
        self, source: str, destination: str, expected_revision: int | None = None
    ) -> Future[Committed]:
        """Gives a subtree another name; `count` says how many contexts it has.

        Fails with NotFound, AlreadyExists, with RevisionDiffers when the source has another
        revision than is expected, with InvalidField when one of the names can't be, and with
        TooLarge.
        """
        return self._writer.submit(
            lambda work: work.move(source, destination, expected_revision), size=_MOVE
        )

    def link(self, uri: str, other: str, reason: str) -> Future[Committed]:
        """Links two contexts, or replaces the reason; fails with NotFound and InvalidField."""
        return self._writer.submit(lambda work: work.link(uri, other, reason))

    def unlink(self, uri: str, other: str) -> Future[Committed]:
        """Takes a link back; fails with NotFound."""
        return self._writer.submit(lambda work: work.unlink(uri, other))

    def rewrite(
        self, rewrites: Mapping[str, Rewrite], once: Once | None = None
    ) -> Future[Committed]:
        """Lets each of `rewrites` decide what becomes of the file of memories with its URI.

        A call that is to count `once` is answered by `reply` alone when it comes again. Fails with
        what one of the rewrites raises, with InvalidField when another call had that name, and as
        `put`.
        """
        return self._writer.submit(
            lambda work: work.once(once, lambda: work.rewrite(rewrites)), uris=list(rewrites)
        )

    def rewrite_holders(
        self, ids: Sequence[int], rewrite: Rewrite, *, all_there: bool
    ) -> Future[Committed]:
        """Lets `rewrite` decide what becomes of each file in which one of these memories stands.

        Fails as `rewrite`, and with NotFound when they must be `all_there` and one is not.
        """
        return self._writer.submit(
            lambda work: work.rewrite_holders(ids, rewrite, all_there=all_there)
        )

    def reinforce(self, ids: Sequence[int], by: int, once: Once | None = None) -> Future[Committed]:
        """Raises the reinforcement of memories by their ids; fails with NotFound.

        `once` as in `rewrite`.
        """
        return self._writer.submit(lambda work: work.once(once, lambda: work.reinforce(ids, by)))

    def touch(self, accesses: Mapping[int, int]) -> Future[Committed]:
        """Counts accesses of memories by their ids; `count` says of how many that are there."""
        return self._writer.submit(lambda work: work.touch(accesses), bounded=False)

    def fill(
        self, vectors: Sequence[tuple[int, bytes]], digests: Mapping[int, bytes] | None = None
    ) -> Future[Committed]:
        """Gives texts their vectors, by text id; `count` says how many were waiting still.

        `digests` has those of the texts, by id, whose vectors serve for equal texts too.

        Fails with InvalidField when a vector has not the store's dimension.
        """
        return self._writer.submit(
            lambda work: work.fill(vectors, digests or {}), len(vectors), bounded=False
        )

    def drop_vectors(self, uri: str, after: str = "") -> Future[Committed]:
        """Makes backlog of a part of a subtree's texts; `count` says of how many.

        The part begins behind the URI `after`, "": with the first; `last` is where the next one
        does, "" at the end. Fails with NotFound.
        """
        return self._writer.submit(lambda work: work.drop_vectors(uri, after), size=_PART)

    def forget_removals(self, up_to_revision: int) -> None:
        """Drops what `changes_since` knows of removals up to this revision."""
        self._writer.execute(
            ("DELETE FROM removals WHERE revision <= ?", (up_to_revision,)),
            (
                "UPDATE meta SET value = max(value, ?) WHERE key = 'store.forgotten'",
                (up_to_revision,),
            ),
        )
        self._mark()

    def set_meta(self, key: str, value: bytes) -> None:
        """Stores a value under a key that does not begin with "store."; no revision."""
        self._writer.execute(("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value)))

    def close(self) -> None:
        """Writes what was submitted, then gives the directory free; a second call does nothing."""
        if self._check is not None:
            self._check.stop()
        self._writer.close()
        if not self._closed:
            self._mark()
        self._close_idle()
        self._resources.close()  # the last connection of all writes the log into the database


def _size(context: Prepared | Masked) -> int:
    if isinstance(context, Masked):
        return 1 + len(context.cut or ()) + len(context.draft.content) // CHARACTERS
    return 1 + len(context.texts) + sum(len(text.text) for text in context.texts) // CHARACTERS


def _history(database: Path) -> History | None:
    """The history of a database; None where there is none, or one without a store.

    Read-only: SQLite deletes a log that does not fit, which may be that of the right database.
    """
    if not database.exists() or database.stat().st_size == 0:
        return None
    with closing(connect(database, read_only=True)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        try:
            return identity.history_of(db) if version else None
        except (ValueError, TypeError) as error:
            raise damaged("its history cannot be read") from error


def _adopt(
    db: sqlite3.Connection, model: str, dimension: int | None, *, reembed: bool
) -> tuple[int, int | None, bool]:
    """Makes the store one of this model; its revision, its dimension, whether its end was clean.

    Nothing is written where nothing changes: a full disk does not stop a start.
    """
    stored = dict(db.execute("SELECT key, value FROM meta WHERE key GLOB 'store.*'"))
    statements: list[tuple[str, tuple[object, ...]]] = []
    state = dict(stored)
    if not state:
        statements.append((_ROOT_ROW, (ROOT, EMPTY_DIRECTORY, time.time_ns() // 1000)))
        state = {
            "store.revision": 1,
            "store.forgotten": 0,
            "store.linked": 0,
            "store.model": model,
        }
    _check_state(state)
    revision: int = state["store.revision"]
    old_model, old_dimension = state["store.model"], state.get("store.dimension")
    if fits(state, model, dimension):
        dimension = dimension or old_dimension
    elif reembed:
        revision += 1
        statements += [(_TOUCH_WITH_VECTOR, (revision,)), (_DROP_VECTORS, ())]
    elif old_model != "none" or db.execute(_ANY_VECTOR).fetchone():
        raise StoreMismatch(
            f"the store has vectors of {named(old_model, old_dimension)}, the configuration says "
            f"{named(model, dimension)}: configure the former, or run `vikingd serve --reembed` "
            "to drop the vectors and embed all texts again"
        )
    state.setdefault("store.linked", revision)
    state.setdefault(CLEAN, 0 if stored else 1)
    state |= {"store.revision": revision, "store.model": model, "store.dimension": dimension}
    if state != stored:
        with transaction(db):
            for sql, values in statements:
                db.execute(sql, values)
            db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", state.items())
    return revision, dimension, bool(state[CLEAN])


def _check_state(state: Mapping[str, Any]) -> None:
    """Raises StoreDamaged where the record of the store is not as it was written."""
    kinds = {"revision": int, "forgotten": int, "model": str}
    wrong = [key for key, kind in kinds.items() if type(state.get(f"store.{key}")) is not kind]
    if type(state.get("store.dimension")) not in (int, NoneType):
        wrong.append("dimension")
    if wrong:
        raise damaged(f"its record has no valid {', '.join(wrong)}")


def fits(state: Mapping[str, Any], model: str, dimension: int | None) -> bool:
    """Whether the vectors of a store are those of a model."""
    known = state["store.model"], state.get("store.dimension")
    return known[0] == model and (dimension is None or known[1] in (None, dimension))


def named(model: str, dimension: int | None) -> str:
    """A model for people."""
    return f"{model} ({dimension or 'unknown'} dimensions)"
