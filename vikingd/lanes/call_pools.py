"""Pools of threads for the work of gRPC calls, and waits for a revision or for vectors."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ParamSpec, TypeAlias, TypeVar

import grpc

from vikingd.domain.errors import DeadlinePassed, Overloaded
from vikingd.domain.rights import CALLER
from vikingd.engine import Engine
from vikingd.lanes.queues import Deadline, Queues, ending_before
from vikingd.system.priorities import lower_writer_priority

_P = ParamSpec("_P")
_T = TypeVar("_T")
CallContext: TypeAlias = grpc.aio.ServicerContext[Any, Any]
_RETRY_AFTER = 1.0  # seconds

SHORT_TEXT = 200
"""The most characters of a short text, such as a typed question."""


class CallDeadline:
    """The deadline and the caller of a gRPC call; see `Deadline` and `queues.QueuedCall`."""

    def __init__(self, context: CallContext) -> None:
        self.caller = CALLER.get()
        # Read now: gRPC crashes if it is asked after the call.
        self.name: str = self.caller.key or context.peer()
        self.is_admitted = False
        remaining = context.time_remaining()
        self._at = None if remaining is None else time.monotonic() + remaining

    def left(self) -> float | None:
        """Return the seconds left; see `Deadline`."""
        if self._at is None:
            return None
        left = self._at - time.monotonic()
        if left <= 0:
            raise DeadlinePassed("the deadline of the call has passed")
        return left


class Pool(ThreadPoolExecutor):
    """A thread pool with a bounded queue.

    Args:
        name: the name of the pool in errors.
        threads: the number of threads.
        most: the most calls that run or wait at one time; 0: no limit.
        initializer: called first on each thread.
    """

    def __init__(
        self, name: str, threads: int, most: int, initializer: Callable[[], None] | None = None
    ) -> None:
        super().__init__(threads, name, initializer)
        self._name = name
        self._most = most
        self._taken = 0

    async def run(
        self, deadline: Deadline, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run `function` on a thread, unless the deadline passes before its turn.

        Raises:
            Overloaded: the queue is full. A call that already waited in another queue is never
                refused.
            DeadlinePassed: the deadline passed before the turn of the call.
        """
        if self._most and self._taken >= self._most and not deadline.is_admitted:
            raise Overloaded(
                f"{self._taken:,} calls wait for the threads of {self._name}, at most "
                f"{self._most:,} may: repeat the call after {_RETRY_AFTER:g} s",
                _RETRY_AFTER,
                queue=self._name,
            )

        def in_time() -> _T:
            deadline.left()
            try:
                return function(*args, **kwargs)
            except StopIteration as error:  # asyncio.Future takes none: the call would hang
                raise RuntimeError(f"{function!r} ran out of items") from error

        self._taken += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self, in_time)
        finally:
            self._taken -= 1


class Threads:
    """The pools of threads. A call that is cancelled while it waits in a pool never runs.

    Args:
        embedders: the number of threads that embed queries; as many more embed short queries.
    """

    def __init__(self, embedders: int = 4) -> None:
        self.queues = Queues()
        self.embedding = Pool("embed-query", embedders, 1024)
        self.embedding_short = Pool("embed-short-query", embedders, 1024)
        self.store = Pool("store", 4, 1024)
        self.preparing = Pool("prepare", 1, 0, lower_writer_priority)  # Preparing bounds its bytes
        self.preparing_small = Pool("prepare-small", 1, 0, lower_writer_priority)
        self.admin = Pool("admin", 2, 64)
        self.backlog = Pool("backlog", 2, 0)  # for calls that have written already
        self.backup = Pool("backup", 1, 0, lower_writer_priority)  # for one call at a time
        self.read, self.prepare = self.store.run, self.preparing_small.run

    async def embed(self, deadline: Deadline, function: Callable[[str], _T], text: str, /) -> _T:
        """Call `function` with a text on a thread. Short texts have threads of their own."""
        pool = self.embedding_short if len(text) <= SHORT_TEXT else self.embedding
        return await pool.run(deadline, function, text)

    def shutdown(self) -> None:
        """Drop the calls that wait in the pools. Running calls continue in the background."""
        self.queues.shutdown()
        for pool in vars(self).values():
            if isinstance(pool, Pool):
                pool.shutdown(wait=False, cancel_futures=True)


def reply_bytes(most: int) -> int:
    """Return the bytes that the results in a reply of at most `most` bytes may take.

    The rest is for small fields.
    """
    return most * 7 // 8


async def wait_for_vectors(
    engine: Engine, threads: Threads, text_ids: tuple[int, ...], deadline: Deadline
) -> int:
    """Wait until the index has the vectors of these texts, or the texts are removed.

    Returns:
        The revision that has them; 0 without texts.

    Raises:
        DeadlinePassed: some vectors are missing at the deadline.
    """
    if not text_ids:
        return 0
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    with (
        engine.listening(lambda: loop.call_soon_threadsafe(changed.set)),
        engine.embedding.prefer(text_ids),
    ):
        try:
            async with ending_before(deadline):
                while True:
                    waiting, revision = await threads.backlog.run(
                        deadline, engine.store.waiting, text_ids
                    )
                    if not waiting and revision <= engine.snapshot.revision:
                        return revision
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            raise DeadlinePassed(
                "the contexts are written, but not all have their vector yet"
            ) from None


async def wait_for_revision(engine: Engine, revision: int, deadline: Deadline) -> None:
    """Wait until the engine answers from `revision` or a later one.

    Raises:
        RevisionNotReached: the engine did not reach it within the deadline.
        StoreAway: the database cannot be reached; another node may have the revision.
        Stopping: this reader cannot follow its store any more.
    """
    if revision <= engine.snapshot.revision:
        return
    loop, decided = asyncio.get_running_loop(), asyncio.Event()

    def look() -> None:
        if revision <= engine.snapshot.revision or engine.is_lost or engine.away:
            loop.call_soon_threadsafe(decided.set)

    with engine.listening(look), suppress(TimeoutError):
        look()  # a commit may have come before the listener
        async with ending_before(deadline):
            await decided.wait()
    engine.wait_for_revision(revision, 0)  # raises the reason if the revision is not reached


class FutureBridge:
    """Delivers results of threads to the event loop, in batches.

    Results that are ready together wake the loop once. A wake-up is costly, since the thread may
    wait for the GIL.
    """

    def __init__(self) -> None:
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    async def result(self, future: Future[_T]) -> _T:
        """Wait for a future of another thread, and return its result or raise its error.

        The wait has no time limit. A caller that is cancelled leaves the future running.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Future[_T]] = loop.create_future()

        def arrive(done: Future[_T]) -> None:
            self._done.append((waiter, done))
            if not self._woken:
                self._woken = True
                loop.call_soon_threadsafe(self._deliver)

        future.add_done_callback(arrive)
        return (await waiter).result()  # asyncio.Future does not take every error

    def _deliver(self) -> None:
        self._woken = False  # first, so that a result that comes now wakes the loop again
        while self._done:
            waiter, done = self._done.popleft()
            if not waiter.cancelled():
                waiter.set_result(done)
