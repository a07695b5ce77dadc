"""What the handlers share: the deadline of a call, and the threads that its work runs on."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import grpc
from google.protobuf.message import Message

from vikingd.domain.errors import DeadlinePassed, Overloaded
from vikingd.domain.find import Gathered
from vikingd.engine import Engine
from vikingd.system.priority import let_finds_go_first
from vikingd.wire.queues import Queues, Runner

_P = ParamSpec("_P")
_T = TypeVar("_T")
_M = TypeVar("_M", bound=Message)
CallContext: TypeAlias = grpc.aio.ServicerContext[Any, Any]
_MARGIN = 0.1  # seconds at most
_RETRY_AFTER = 1.0  # seconds


class Deadline:
    """When the caller stops waiting, and who that is.

    Attributes:
        name: the other end of the connection.
        is_admitted: whether the call had a place in a queue; it is not refused any more then.
    """

    def __init__(self, context: CallContext) -> None:
        self.name: str = context.peer()  # while the call lasts: gRPC crashes when asked later
        self.is_admitted = False
        remaining = context.time_remaining()
        self._at = None if remaining is None else time.monotonic() + remaining

    def left(self) -> float | None:
        """Seconds left, None for a caller without a deadline.

        Raises:
            DeadlinePassed: when there are none; work is not begun then.
        """
        if self._at is None:
            return None
        left = self._at - time.monotonic()
        if left <= 0:
            raise DeadlinePassed("the deadline of the call has passed")
        return left


class Pool(ThreadPoolExecutor):
    """Threads that take a bounded number of calls, those that run included.

    Args:
        name: for people.
        threads: their number.
        most: calls that `on` takes at one time; 0 takes all, for work of calls that cannot be
            refused any more.
        initializer: is called by each thread first.
    """

    def __init__(
        self, name: str, threads: int, most: int, initializer: Callable[[], None] | None = None
    ) -> None:
        super().__init__(threads, name, initializer)
        self._name = name
        self._most = most
        self._taken = 0

    @contextmanager
    def place(self, deadline: Deadline) -> Iterator[None]:
        """Hold a place for a call; on the event loop alone.

        Raises:
            Overloaded: no place is left, and the call had none in another queue before.
        """
        if self._most and self._taken >= self._most and not deadline.is_admitted:
            raise Overloaded(
                f"{self._taken:,} calls wait for the threads of {self._name}, at most "
                f"{self._most:,} may: repeat the call after {_RETRY_AFTER:g} s",
                _RETRY_AFTER,
                queue=self._name,
            )
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


class Threads:
    """The pools; a call that is cancelled while it queues for one never runs.

    Args:
        embedders: queries that are embedded at a time; as many short ones beside them.
    """

    def __init__(self, embedders: int = 4) -> None:
        self.queues = Queues()
        self.embedding = Pool("embed-query", embedders, 1024)
        self.embedding_short = Pool("embed-short-query", embedders, 1024)
        self.store = Pool("store", 4, 1024)
        self.preparing = Pool("prepare", 1, 0, let_finds_go_first)  # bounds its bytes itself
        self.preparing_small = Pool("prepare-small", 1, 0, let_finds_go_first)  # likewise
        self.admin = Pool("admin", 2, 64)
        self.backlog = Pool("backlog", 2, 0)  # its calls have written already
        self.backup = Pool("backup", 1, 0, let_finds_go_first)  # one call at a time

    def shutdown(self) -> None:
        """Drops what queues; what runs is not waited for."""
        for pool in vars(self).values():
            if isinstance(pool, Queues):
                pool.shutdown()
            else:
                pool.shutdown(wait=False, cancel_futures=True)


async def on(
    pool: Pool,
    deadline: Deadline,
    function: Callable[_P, _T],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """Runs `function` on a thread of `pool`, unless the deadline passes before its turn.

    Raises:
        Overloaded: too many calls wait for the pool.
    """

    def run() -> _T:
        deadline.left()
        return function(*args, **kwargs)

    with pool.place(deadline):
        return await asyncio.get_running_loop().run_in_executor(pool, run)


class Weighed(Protocol):
    """Work that knows whether it is light."""

    @property
    def is_light(self) -> bool:
        """Whether it takes less time than handing it to a thread does."""


async def work_on(
    what: Weighed, run: Runner, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """Runs a part of some work: where it stands if call and work are light, else on a thread."""
    if what.is_light:
        return await run.here(function, *args, **kwargs)
    return await run.away(function, *args, **kwargs)


def as_sent(reply: _M, gathered: Gathered | None = None) -> _M:
    """Encodes a reply where it is made; the boundary sends the bytes as they are.

    `gathered` is a part of the reply that is encoded already.
    """
    data = reply.SerializeToString()
    return cast("_M", data if gathered is None else gathered.data + data)


class Arrivals:
    """Brings what futures of other threads come to onto the event loop.

    All that are done by the time the loop looks cost one wake-up, which may make the thread that
    wakes wait for the GIL.
    """

    def __init__(self) -> None:
        self._arrived: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    async def of(self, future: Future[_T]) -> _T:
        """What a future comes to. A caller that goes away does not cancel it."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Future[_T]] = loop.create_future()

        def arrive(done: Future[_T]) -> None:
            self._arrived.append((waiter, done))
            if not self._woken:
                self._woken = True
                loop.call_soon_threadsafe(self._deliver)

        future.add_done_callback(arrive)
        return (await waiter).result()  # asyncio.Future does not take every error

    def _deliver(self) -> None:
        self._woken = False  # first, so that what arrives meanwhile wakes again
        while self._arrived:
            waiter, done = self._arrived.popleft()
            if not waiter.cancelled():
                waiter.set_result(done)


async def revision_reached(engine: Engine, revision: int, deadline: Deadline) -> None:
    """Waits until the engine answers from `revision` or a later one.

    Raises:
        RevisionNotReached: when it does not within the deadline.
        Stopping: when it never will, for this reader can't follow its store any more.
    """
    if revision <= engine.snapshot.revision:
        return
    loop, decided = asyncio.get_running_loop(), asyncio.Event()

    def look() -> None:
        if revision <= engine.snapshot.revision or engine.is_lost:
            loop.call_soon_threadsafe(decided.set)

    with engine.listening(look), suppress(TimeoutError):
        look()  # a commit may have come before the listener did
        async with _ahead_of(deadline):
            await decided.wait()
    engine.wait_for_revision(revision, 0)  # says why, if it is not reached


async def vectors_there(
    engine: Engine, threads: Threads, text_ids: tuple[int, ...], deadline: Deadline
) -> int:
    """Waits until these texts have their vectors or are gone, in the index too.

    Returns:
        The revision at which it is so; 0 without texts.

    Raises:
        DeadlinePassed: when they do not within the deadline.
    """
    if not text_ids:
        return 0
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    with (
        engine.listening(lambda: loop.call_soon_threadsafe(changed.set)),
        engine.waiting_for_vectors(text_ids),
    ):
        try:
            async with _ahead_of(deadline):
                while True:
                    waiting, revision = await on(
                        threads.backlog, deadline, engine.store.waiting, text_ids
                    )
                    if not waiting and revision <= engine.snapshot.revision:
                        return revision
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            raise DeadlinePassed(
                "the contexts are written, but not all have their vector yet"
            ) from None


def _ahead_of(deadline: Deadline) -> asyncio.Timeout:
    """Ends what waits a little before the deadline, so that the caller hears why."""
    left = deadline.left()
    return asyncio.timeout(None if left is None else left - min(_MARGIN, left / 10))
