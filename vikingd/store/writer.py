"""Group commit: one thread writes what many ask for, in one transaction at a time.

Another one tells the index of a commit, and then those who asked for it, while the next group is
written.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from queue import Empty, Queue, SimpleQueue

from vikingd.domain.changes import Change, Committed
from vikingd.domain.errors import Corrupt, DiskFull, Overloaded, Stopping, StoreDamaged, VikingError
from vikingd.store.reserve import Reserve
from vikingd.store.schema import transaction
from vikingd.store.transaction import Ids, Transaction
from vikingd.system.priority import let_finds_go_first

Operation = Callable[[Transaction], Committed]
OnCommit = Callable[[list[Change], int], None]
Explain = Callable[[str, BaseException], BaseException]
"""Makes of an error what a caller is told, given the words that it begins with."""

CLEAN = "store.clean"
"""The key of what says whether the last process that wrote came to its end: 1 or 0."""

_NOT_WRITTEN = "the store could not be written"
_NO_ROOM = (
    "the disk is full: only deletes are taken; free some disk, the daemon goes on by itself then"
)
_MAX_GROUP = 1024  # contexts (or other operations) that one commit waits for
_MAX_GROUP_SIZE = 16_384  # see Writer.submit
MAX_WAITING = 65_536
"""Size of what waits at most, see Writer.submit: about what is written in some seconds."""
_RETRY_AFTER = 1.0
# After a smaller one the index is waited for: what costs a commit the same however small it is, is
# then shared by all that was asked for meanwhile.
_LARGE_GROUP = 128


@dataclass(frozen=True, slots=True)
class _Request:
    operation: Operation
    weight: int
    uris: Sequence[str]
    size: int
    frees: bool  # room on the disk
    future: Future[Committed] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Written:
    """Requests that shared a transaction, and what became of each."""

    requests: Sequence[_Request]
    results: Sequence[Committed | BaseException]
    changes: list[Change]
    revision: int  # 0: nothing was committed


class Writer:
    """Runs operations in the order in which they were submitted.

    All operations that wait share one commit and one revision. One that fails is taken back alone.

    Attributes:
        revision: of the last commit, which the index may not have yet.
        dimension: numbers in a vector; None until the first vector is written.
        failure: why no writes are taken any more; "" while they are.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        *,
        revision: int,
        dimension: int | None,
        reserve: Reserve,
        explain: Explain,
    ) -> None:
        self._db = db
        self._reserve = reserve
        self._explain = explain
        self._refusal: VikingError = Corrupt("")
        self._ids = Ids(db)
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        self._submitting = threading.Lock()
        self._writing = threading.Lock()
        self._closed = False
        self._waiting = 0  # size of what is in the queue
        self._threads: list[threading.Thread] = []
        self._written: Queue[_Written | None] = Queue(1)
        self.revision = revision
        self.dimension = dimension
        self.failure = ""

    def refuse(self, error: VikingError) -> None:
        """Takes no more writes; they fail with this error."""
        if not self.failure:
            self._refusal = error
            self.failure = str(error)

    def _refused(self) -> VikingError:
        """The error of a write that is not taken; one for each, for each gets a traceback."""
        return type(self._refusal)(self.failure)

    @property
    def is_full(self) -> bool:
        """Whether the disk is full, so that only what frees room is taken."""
        return not self._reserve.is_held

    def start(self, on_commit: OnCommit) -> None:
        """Begins with what was submitted; `on_commit` hears of a commit before its writers do."""
        self._threads = [
            threading.Thread(target=self._run, name="store-writer", daemon=True),
            threading.Thread(
                target=self._tell, args=(on_commit,), name="index-writer", daemon=True
            ),
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        operation: Operation,
        weight: int = 1,
        uris: Sequence[str] = (),
        size: int = 1,
        *,
        bounded: bool = True,
        frees: bool = False,
    ) -> Future[Committed]:
        """Queues an operation; its future fails with Stopping or `failure` when it can't be run.

        It fails with Overloaded when it is `bounded` and the queue is full; one alone is always
        taken.

        Args:
            operation: what is done in the transaction.
            weight: contexts, or other operations.
            uris: those that it will ask for first.
            size: contexts, passages and long texts; what others must wait for.
            bounded: False for what the daemon itself asks for, one after the other.
            frees: room; such an operation is taken on a full disk.
        """
        request = _Request(operation, weight, uris, size, frees)
        with self._submitting:
            if self.failure:
                request.future.set_exception(self._refused())
            elif self._closed:
                request.future.set_exception(Stopping("the store is closed"))
            elif bounded and self._waiting and self._waiting + size > MAX_WAITING:
                request.future.set_exception(
                    Overloaded(
                        f"writes of {self._waiting:,} contexts and passages wait, at most "
                        f"{MAX_WAITING:,} may: repeat the call later, or send less at a time",
                        _RETRY_AFTER,
                    )
                )
            else:
                self._waiting += size
                self._queue.put(request)
        return request.future

    def execute(self, *statements: tuple[str, tuple[object, ...]]) -> None:
        """Runs statements in a transaction of their own, between two groups.

        Raises:
            StoreFailed, StoreDamaged: nothing of it was written.
        """
        try:
            with self._writing, transaction(self._db):
                for sql, values in statements:
                    self._db.execute(sql, values)
        except sqlite3.Error as error:
            raise self._explain(_NOT_WRITTEN, error) from error

    def close(self) -> None:
        """Ends when all that was submitted is written; without a start, it fails with Stopping."""
        with self._submitting:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        if self._threads and not self.failure:
            with suppress(VikingError):  # the next start takes the end for an unclean one
                self.execute(("UPDATE meta SET value = 1 WHERE key = ?", (CLEAN,)))
        if not self._threads:
            while (request := self._queue.get()) is not None:
                if request.future.set_running_or_notify_cancel():
                    request.future.set_exception(Stopping("the store is closed"))

    def _run(self) -> None:
        let_finds_go_first()
        while group := self._next_group():
            for written in self._commit(group):
                self._written.put(written)
            if sum(request.weight for request in group) < _LARGE_GROUP:
                self._written.join()
        self._written.put(None)

    def _next_group(self) -> list[_Request]:
        """Waits for a request and takes what else there is; empty at the end."""
        group: list[_Request] = []
        weight = size = 0
        while weight < _MAX_GROUP and size < _MAX_GROUP_SIZE:
            try:
                request = self._queue.get(block=not group)
            except Empty:
                break
            if request is None:
                self._queue.put(None)  # the end holds for the next call too
                break
            with self._submitting:
                self._waiting -= request.size
            if request.future.set_running_or_notify_cancel():
                group.append(request)
                weight += request.weight
                size += request.size
        return group

    def _tell(self, on_commit: OnCommit) -> None:
        """Tells of what is written, in its order."""
        let_finds_go_first()
        while (written := self._written.get()) is not None:
            if written.revision and not self.failure:
                try:
                    on_commit(written.changes, written.revision)
                except BaseException as error:
                    told = self._explain(_NOT_WRITTEN, error)
                    what = f"the index could not follow revision {written.revision}: {error!r}"
                    self.refuse(told if isinstance(told, StoreDamaged) else Corrupt(what))
            for request, result in zip(written.requests, written.results, strict=True):
                self._answer(request.future, result)
            self._written.task_done()

    def _answer(self, future: Future[Committed], result: Committed | BaseException) -> None:
        match result:
            case _ if self.failure:
                future.set_exception(self._refused())
            case Committed():
                future.set_result(result)
            case _:
                error = self._explain(_NOT_WRITTEN, result)
                if error is not result:
                    error.__cause__ = result
                future.set_exception(error)

    def _commit(self, group: Sequence[_Request]) -> Iterator[_Written]:
        """Runs a group in one transaction."""
        if self.failure:
            yield _Written(group, [self._refused() for _ in group], [], 0)
            return
        if self.is_full and not all(request.frees for request in group) and not self._make_room():
            yield from self._commit_on_full_disk(group)
            return
        try:
            # All that may want memory stands here: what is not committed can fail, and no more.
            work = Transaction(
                self._db,
                self._ids,
                revision=self.revision + 1,
                dimension=self.dimension,
                now=time.time_ns() // 1000,
            )
            with self._writing, transaction(self._db):
                work.look_up(chain.from_iterable(request.uris for request in group))
                results = [self._attempt(work, request.operation) for request in group]
                work.insert_rows()
                if work.touched:
                    state = {
                        "store.revision": work.revision,
                        "store.dimension": work.dimension,
                        CLEAN: 0,
                    }
                    if work.linked:
                        state["store.linked"] = work.revision
                    self._db.executemany(
                        "UPDATE meta SET value = ?2 WHERE key = ?1", list(state.items())
                    )
                revision = work.revision if work.touched else self.revision
                results = [
                    replace(result, revision=revision) if isinstance(result, Committed) else result
                    for result in results
                ]
        except BaseException as error:
            if len(group) > 1 and not isinstance(error, sqlite3.Error):
                # Of one request, which nobody else shall suffer for: each gets its own commit.
                for request in group:
                    yield from self._commit([request])
            elif not self.is_full and self._needs_room(error) and any(r.frees for r in group):
                self._reserve.release()
                yield from self._commit_on_full_disk(group)
            else:
                yield _Written(group, [error] * len(group), [], 0)
            return
        if work.touched:
            self.revision, self.dimension = work.revision, work.dimension
        yield _Written(group, results, work.changes, work.revision if work.touched else 0)

    def _needs_room(self, error: BaseException) -> bool:
        return isinstance(self._explain(_NOT_WRITTEN, error), DiskFull)

    def _commit_on_full_disk(self, group: Sequence[_Request]) -> Iterator[_Written]:
        """Runs what frees room, each by itself, and refuses the rest."""
        if rest := [request for request in group if not request.frees]:
            yield _Written(rest, [DiskFull(_NO_ROOM) for _ in rest], [], 0)
        for request in group:
            if request.frees:
                yield from self._commit([request])
        self._make_room()

    def _make_room(self) -> bool:
        """Gives the log's room back and takes the reserve again; whether it is held."""
        if not self._reserve.take():
            with suppress(sqlite3.Error), self._writing:
                self._db.execute("PRAGMA busy_timeout = 0")  # no reader is waited for
                try:
                    self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                finally:
                    self._db.execute("PRAGMA busy_timeout = 10000")
            self._reserve.take()
        return self._reserve.is_held

    def _attempt(self, work: Transaction, operation: Operation) -> Committed | BaseException:
        try:
            with work.request():
                return operation(work)
        except BaseException as error:
            # A full disk, say, may have taken back the whole transaction, and so the whole group.
            if not self._db.in_transaction:
                raise
            return error
