"""Group commit: one thread writes the requests of many callers, in one transaction at a time.

A second thread passes each commit to the index and then completes its futures, while the first one
writes the next group.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain
from queue import Empty, Queue, SimpleQueue
from typing import NamedTuple, TypeVar

from vikingd.domain.errors import Corrupt, DiskFull, Overloaded, Stopping, StoreDamaged, VikingError
from vikingd.domain.store_changes import Change, Committed
from vikingd.store.connection import Connection
from vikingd.store.damage import RowDamaged
from vikingd.store.writes.transaction import Ids, Transaction
from vikingd.system.priorities import lower_writer_priority

Operation = Callable[[Transaction], Committed]
OnCommit = Callable[[list[Change], int], None]
Explain = Callable[[str, BaseException], BaseException]
"""A function that converts an error of the database; its first argument begins the message."""

_T = TypeVar("_T")

_NOT_WRITTEN = "the store could not be written"
_NO_ROOM = (
    "the disk is full: only deletes are accepted; free some disk, then writes are accepted again"
)
_MAX_GROUP = 1024  # contexts (or other operations) of one commit
_MAX_GROUP_SIZE = 16_384  # see Writer.submit
MAX_WAITING = 65_536
"""The largest size of the waiting writes, see Writer.submit; about some seconds of work."""
_RETRY_AFTER = 1.0  # seconds
# Smaller groups wait for the index, so that more requests share the fixed cost of a commit.
_LARGE_GROUP = 128


@dataclass(frozen=True, slots=True)
class _Request:
    operation: Operation
    weight: int
    uris: Sequence[str]
    size: int
    frees: bool  # whether it frees room on the disk
    future: Future[Committed] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Written:
    """The requests of one transaction, each with its result, and the changes for the index."""

    requests: Sequence[_Request]
    results: Sequence[Committed | BaseException]
    changes: list[Change]
    revision: int  # 0 if nothing was committed


class Begun(NamedTuple):
    """An open transaction: its connection, the sources of new ids, the revision before it.

    `now` is the time in microseconds since the epoch by the database's clock; None: use the clock
    of this machine.
    """

    db: Connection
    ids: Ids
    revision: int
    dimension: int | None
    now: int | None = None


class Committing(ABC):
    """The way in which a store opens and commits its transactions, one at a time.

    Attributes:
        failures: the exception types that the database raises.
        revision: the revision of the last commit, which the index may not have yet.
        dimension: numbers in a vector; None until the first vector is written.
    """

    failures: tuple[type[BaseException], ...] = ()

    def __init__(self, revision: int, dimension: int | None) -> None:
        self.revision = revision
        self.dimension = dimension

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Begun]:
        """Open a transaction for the block and commit it; roll back if the block raises."""

    @abstractmethod
    def write_state(self, state: Mapping[str, object]) -> None:
        """Write these values of the table `meta` within the open transaction."""

    @property
    def is_full(self) -> bool:
        """True if the disk is full, so that only operations that free disk space are accepted."""
        return False

    def release(self) -> None:
        """Give up the reserved disk space, so that operations that free space can run."""
        return

    def make_room(self) -> bool:
        """Try to reserve disk space again. Return True if all operations can be accepted."""
        return True


class Writer:
    """A queue of write operations, and the threads that run them in order.

    All waiting operations share one commit and one revision. If an operation fails, only its own
    changes are undone.

    Attributes:
        failure: the reason why writes are refused; "" while they are accepted.
    """

    def __init__(self, committing: Committing, explain: Explain) -> None:
        self._committing = committing
        self._explain = explain
        self._refusal: VikingError = Corrupt("")
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        self._submitting = threading.Lock()
        self._writing = threading.Lock()
        self._closed = False
        self._waiting = 0  # size of the queued requests
        self._on_commit: OnCommit | None = None
        self._threads: list[threading.Thread] = []
        self._written: Queue[_Written | None] = Queue(1)
        self.failure = ""

    def refuse(self, error: VikingError) -> None:
        """Refuse all further writes with this error; the first call counts."""
        if not self.failure:
            self._refusal = error
            self.failure = str(error)

    def _refused(self) -> VikingError:
        """Return a new copy of the error for refused writes, so that each has its own traceback."""
        return type(self._refusal)(self.failure)

    def start(self, on_commit: OnCommit) -> None:
        """Run the queued operations, and call `on_commit` after each commit.

        The futures of a commit complete after `on_commit` has returned. The threads start with the
        first operation, because most stores are only read.
        """
        with self._submitting:
            self._on_commit = on_commit
            if not self._queue.empty():
                self._start_threads(on_commit)

    def _start_threads(self, on_commit: OnCommit) -> None:
        self._threads = [
            threading.Thread(target=self._run, name="store-writer", daemon=True),
            threading.Thread(
                target=self._publish, args=(on_commit,), name="index-writer", daemon=True
            ),
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        operation: Operation,
        *,
        weight: int = 1,
        uris: Sequence[str] = (),
        size: int = 1,
        bounded: bool = True,
        frees: bool = False,
    ) -> Future[Committed]:
        """Queue an operation and return its future.

        The future fails with Stopping if the store is closed, with the reason in `failure` if
        writes are refused, and with Overloaded if the operation is `bounded` and the queue is full.
        An empty queue accepts an operation of any size.

        Args:
            weight: the number of changes, such as contexts; it bounds a commit.
            uris: the URIs of contexts that the operation needs; a commit looks up those of all its
                operations at once.
            size: the number of contexts, passages and long texts; it bounds the queue and a commit.
            bounded: False for the daemon's own operations, of which one waits at a time.
            frees: True if it frees disk space; such an operation is accepted on a full disk.
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
                        f"writes of {self._waiting:,} contexts and passages wait, the limit is "
                        f"{MAX_WAITING:,}: repeat the call later, or send less at a time",
                        _RETRY_AFTER,
                    )
                )
            else:
                if self._on_commit is not None and not self._threads:
                    self._start_threads(self._on_commit)
                self._waiting += size
                self._queue.put(request)
        return request.future

    def run(self, operation: Callable[[Connection], object]) -> None:
        """Run an operation now in its own transaction, while no other transaction is open.

        Raises:
            StoreFailed, StoreDamaged: nothing was written.
        """
        try:
            with self._writing, self._committing.transaction() as begun:
                operation(begun.db)
        except StoreDamaged as error:
            self.refuse(error)
            raise
        except self._committing.failures as error:
            raise self._explain(_NOT_WRITTEN, error) from error

    def run_between(self, work: Callable[[], _T]) -> _T:
        """Run a function between two transactions, on the caller's thread; return its result.

        Raises:
            VikingError: writes are refused; the function was not called.
        """
        with self._writing:
            if self.failure:
                raise self._refused()
            return work()

    def close(self) -> None:
        """Run the queued operations, then stop; without `start`, fail them with Stopping."""
        with self._submitting:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        if not self._threads:
            while (request := self._queue.get()) is not None:
                if request.future.set_running_or_notify_cancel():
                    request.future.set_exception(Stopping("the store is closed"))

    def _run(self) -> None:
        lower_writer_priority()
        while group := self._next_group():
            for written in self._commit(group):
                self._written.put(written)
            if sum(request.weight for request in group) < _LARGE_GROUP:
                self._written.join()
        self._written.put(None)

    def _next_group(self) -> list[_Request]:
        """Wait for a request; return it and others that are queued, [] if the queue is closed."""
        group: list[_Request] = []
        weight = size = 0
        while weight < _MAX_GROUP and size < _MAX_GROUP_SIZE:
            try:
                request = self._queue.get(block=not group)
            except Empty:
                break
            if request is None:
                self._queue.put(None)  # the next call must find the end too
                break
            with self._submitting:
                self._waiting -= request.size
            if request.future.set_running_or_notify_cancel():
                group.append(request)
                weight += request.weight
                size += request.size
        return group

    def _publish(self, on_commit: OnCommit) -> None:
        """Pass each commit to `on_commit`, then complete its futures, in the order of commits."""
        lower_writer_priority()
        while (written := self._written.get()) is not None:
            if written.revision and not self.failure:
                try:
                    on_commit(written.changes, written.revision)
                except BaseException as error:
                    fault = self._explain(_NOT_WRITTEN, error)
                    what = f"the index could not take revision {written.revision}: {error!r}"
                    self.refuse(fault if isinstance(fault, StoreDamaged) else Corrupt(what))
            for request, result in zip(written.requests, written.results, strict=True):
                if self.failure:
                    request.future.set_exception(self._refused())
                elif isinstance(result, Committed):
                    request.future.set_result(result)
                else:
                    fault = self._explain(_NOT_WRITTEN, result)
                    if fault is not result:
                        fault.__cause__ = result
                    request.future.set_exception(fault)
            self._written.task_done()

    def _commit(self, group: Sequence[_Request]) -> Iterator[_Written]:
        """Run a group of requests in one transaction, and yield what was written.

        If a request makes the transaction fail, each one is run again in a transaction of its own.
        """
        if self.failure:
            yield _Written(group, [self._refused() for _ in group], [], 0)
            return
        committing = self._committing
        if (
            committing.is_full
            and not all(request.frees for request in group)
            and not self._make_room()
        ):
            yield from self._commit_on_full_disk(group)
            return
        try:
            # Every step that may need memory is here, before the commit: it can still fail.
            with self._writing, committing.transaction() as begun:
                work = Transaction(
                    begun.db,
                    begun.ids,
                    revision=begun.revision + 1,
                    dimension=begun.dimension,
                    now=begun.now,
                )
                work.look_up(chain.from_iterable(request.uris for request in group))
                results = [self._attempt(work, request.operation) for request in group]
                work.insert_rows()
                if work.touched:
                    state = {"store.revision": work.revision, "store.dimension": work.dimension}
                    if work.linked:
                        state["store.linked"] = work.revision
                    committing.write_state(state)
                revision = work.revision if work.touched else begun.revision
                results = [
                    replace(result, revision=revision) if isinstance(result, Committed) else result
                    for result in results
                ]
        except BaseException as error:
            if isinstance(error, StoreDamaged) and not isinstance(error, RowDamaged):
                self.refuse(error)
            if len(group) > 1 and not isinstance(error, committing.failures):
                # One request failed the group; retry each alone.
                for request in group:
                    yield from self._commit([request])
            elif (
                not committing.is_full
                and isinstance(self._explain(_NOT_WRITTEN, error), DiskFull)
                and any(request.frees for request in group)
            ):
                committing.release()
                yield from self._commit_on_full_disk(group)
            else:
                yield _Written(group, [error] * len(group), [], 0)
            return
        if work.touched:
            committing.revision, committing.dimension = work.revision, work.dimension
        yield _Written(group, results, work.changes, work.revision if work.touched else 0)

    def _commit_on_full_disk(self, group: Sequence[_Request]) -> Iterator[_Written]:
        """Run the requests that free disk space, each in its own commit; refuse the others."""
        if rest := [request for request in group if not request.frees]:
            yield _Written(rest, [DiskFull(_NO_ROOM) for _ in rest], [], 0)
        for request in group:
            if request.frees:
                yield from self._commit([request])
        self._make_room()

    def _make_room(self) -> bool:
        with self._writing:
            return self._committing.make_room()

    @staticmethod
    def _attempt(work: Transaction, operation: Operation) -> Committed | BaseException:
        try:
            with work.request():
                return operation(work)
        except BaseException as error:
            # The database may have ended the whole transaction, for example on a full disk.
            if not work.is_open:
                raise
            return error
