"""The call in progress: its deadline, the threads of its work, and waits for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ParamSpec, Protocol, TypeVar

from vikingd.engine import Engine

_P = ParamSpec("_P")
_T = TypeVar("_T")
_MARGIN = 0.1  # seconds at most


class Deadline(Protocol):
    """The time until the caller stops waiting."""

    @property
    def is_admitted(self) -> bool:
        """True once the call had a place in a queue; no queue refuses it after that."""

    def left(self) -> float | None:
        """Return the seconds left; None without a deadline.

        Raises:
            DeadlinePassed: no time is left.
        """


class Runner(Deadline, Protocol):
    """Runs the functions that one call consists of, its pieces, on the event loop or on threads.

    Attributes:
        is_heavy: True for a call of the lane of long calls, whose pieces all run on threads.
        at_once: the most pieces of the call that run at the same time.
    """

    is_heavy: bool
    at_once: int

    async def here(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a short function, and return its result.

        It runs on the event loop if the call is light, on a thread if the call is heavy.
        """

    async def away(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function on a thread, and return its result."""


class Threads(Protocol):
    """Threads for work that waits: on the embedder, on the store."""

    async def embed(self, deadline: Deadline, function: Callable[[str], _T], text: str, /) -> _T:
        """Call `function` with a text, on a thread for texts of its length."""

    async def read(
        self, deadline: Deadline, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run a read of the store."""

    async def prepare(
        self, deadline: Deadline, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run the preparation of a small write."""


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


def ending_before(deadline: Deadline) -> asyncio.Timeout:
    """End a wait a little before the deadline, so that the caller still receives the reason."""
    left = deadline.left()
    return asyncio.timeout(None if left is None else left - min(_MARGIN, left / 10))


class FutureBridge:
    """Delivers thread results to the event loop, in batches.

    All results that are done when the loop looks cost one wake-up. A wake-up may make the thread
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
