"""Queues of calls: bounded, fair between callers, with their own threads.

A call is light (short) or heavy (long), see `vikingd.lanes.call_cost`. Each of the two kinds has a
*lane*: a queue with threads of its own. The work of a call is divided into functions, its *pieces*.
A *slot* is the permission to run pieces on the threads of a lane; their number is limited. A heavy
call holds a slot until it ends. A light call holds one for each piece that runs on a thread. A
*turn* is the time in which a thread may work: after 50 ms a piece pauses, so that a piece of
another slot can run.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from contextvars import copy_context
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

from vikingd.domain import cancellation
from vikingd.domain.errors import DeadlinePassed, Overloaded
from vikingd.system.heap import collect_and_trim
from vikingd.system.priorities import lower_writer_priority

_P = ParamSpec("_P")
_T = TypeVar("_T")

LIGHT_THREADS = 2
HEAVY_THREADS = 2
"""The number of pieces that run at the same time if one heavy call runs; with more calls, one.

Each thread that runs Python makes a light call wait for the GIL.
"""

_LIGHT_SLOTS = 8 * LIGHT_THREADS
"""The number of light slots: more than threads, so that a free thread has its next piece."""

_HEAVY_SLOTS = 8
_LIGHT_WAITING, _HEAVY_WAITING = 1024, 128
_SHARE = 2  # one caller may have 1 / _SHARE of the places in a queue and of the slots
_TURN = 0.05  # seconds of a slot's turn, if another slot waits
_LEAST_DELAY, _MOST_DELAY = 0.1, 30.0  # seconds until a refused call may be repeated
_FIRST_GUESS = 0.05  # seconds that a slot is held, until one is measured
_IDLE = 1.0  # seconds without a call until `on_idle` runs
_MEMORY = 0.1  # weight of the newest time in the mean
_MARGIN = 0.1  # seconds at most


class Deadline(Protocol):
    """The time until the caller stops waiting."""

    @property
    def is_admitted(self) -> bool:
        """True after the call had a place in a queue; from then on no queue refuses it."""

    def left(self) -> float | None:
        """Return the seconds left; None without a deadline.

        Raises:
            DeadlinePassed: no time is left.
        """


class QueuedCall(Deadline, Protocol):
    """A call in a queue."""

    name: str
    """The caller's key, or its address without a key; queues are fair between these."""

    is_admitted: bool


def ending_before(deadline: Deadline) -> asyncio.Timeout:
    """Return a timeout that ends shortly before the deadline, so that the caller gets the error."""
    left = deadline.left()
    return asyncio.timeout(None if left is None else left - min(_MARGIN, left / 10))


class _Gone(Exception):
    """The caller does not wait for the piece any more, so the piece is stopped."""


class Turns:
    """Limits how many threads work at the same time: those that have a turn.

    The others wait for theirs, first come, first served.
    """

    def __init__(self, at_once: int) -> None:
        self._lock = threading.Lock()
        self._at_once = at_once
        self._working = 0
        self._waiting: deque[threading.Event] = deque()

    def allow(self, at_once: int) -> None:
        """Set how many threads may work at once. A thread that works already goes on."""
        with self._lock:
            self._at_once = at_once
            self._start_next()

    def take(self) -> None:
        """Wait until this thread may work."""
        with self._lock:
            if self._working < self._at_once and not self._waiting:
                self._working += 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def give(self) -> None:
        """End this thread's turn, so that a waiting thread may work."""
        with self._lock:
            self._working -= 1
            self._start_next()

    def pass_on(self) -> bool:
        """Let a waiting thread work, and wait for the next turn.

        Return True after that; return False at once if no thread waits.
        """
        if not self._waiting:
            return False
        self.give()
        self.take()
        return True

    def _start_next(self) -> None:
        while self._waiting and self._working < self._at_once:
            self._working += 1
            self._waiting.popleft().set()


class Lane:
    """A queue of calls of one weight, with its threads.

    Args:
        name: the name in errors, "light" or "heavy".
        threads: the number of threads; a heavy lane has one for each slot.
        slots: the number of slots; each is held by one piece (heavy: by one call).
        of_caller: how many slots one caller may hold.
        at_once: how many pieces run at the same time while one slot is held.
        crowded: how many pieces run at the same time while several slots are held.
        waiting: how many calls may wait for a slot.
        initializer: runs first on each thread.
        on_idle: called on a thread after no slot was held for some time.

    Attributes:
        waiting: the number of calls that wait for a slot.
        refused: the number of calls refused so far.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        slots: int,
        of_caller: int,
        at_once: int,
        crowded: int,
        waiting: int,
        initializer: Callable[[], None] | None = None,
        on_idle: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.pool = ThreadPoolExecutor(threads, name, initializer)
        self.refused = 0
        self._on_idle = on_idle
        self._tidying: asyncio.TimerHandle | None = None
        self._turns = Turns(at_once)
        self._at_once, self._crowded = at_once, crowded
        self._most_waiting = waiting
        self._slots = self._free = slots
        self._most_of_caller = of_caller
        self._held: dict[str, int] = {}  # slots by caller
        # Callers in the order of their turns; each with its calls, first come, first served.
        self._queue: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.waiting = 0
        self._took = _FIRST_GUESS

    def shutdown(self) -> None:
        """Drop the pieces that wait for a thread. Running pieces continue in the background."""
        self.pool.shutdown(wait=False, cancel_futures=True)

    async def take(self, call: QueuedCall) -> None:
        """Wait for a slot.

        Raises:
            Overloaded: the queue, or the caller's share of it, is full.
            DeadlinePassed: the deadline passed before the call had a slot.
        """
        call.left()
        name = call.name
        if self._may_start(name) and not self.waiting:
            self._hold(name)
            call.is_admitted = True
            return
        waiting = self._queue.get(name, ())
        if not call.is_admitted:
            if self.waiting >= self._most_waiting:
                raise self._refusal(f"the queue of {self.name} calls is full")
            if len(waiting) >= self._most_waiting // _SHARE:
                raise self._refusal(
                    f"{len(waiting)} {self.name} calls of this connection wait already"
                )
        call.is_admitted = True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.setdefault(name, deque()).append(turn)
        self.waiting += 1
        self._start_next()
        try:
            async with ending_before(call):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.give(name)  # the slot came just as the call went away
            else:
                self._leave(name, turn)
            if isinstance(error, TimeoutError):
                raise DeadlinePassed(
                    f"the deadline passed while the call waited among {self.name} ones"
                ) from None
            raise

    def _refusal(self, why: str) -> Overloaded:
        self.refused += 1
        seconds = (self.waiting + 1) * self._took / self._slots
        seconds = min(max(seconds, _LEAST_DELAY), _MOST_DELAY)
        return Overloaded(f"{why}: repeat the call after {seconds:.1f} s", seconds, queue=self.name)

    def _may_start(self, name: str) -> bool:
        return self._free > 0 and self._held.get(name, 0) < self._most_of_caller

    def _hold(self, name: str) -> None:
        self._free -= 1
        self._held[name] = self._held.get(name, 0) + 1
        if self._slots - self._free == 2:
            self._turns.allow(self._crowded)

    def count_held(self, seconds: float) -> None:
        """Add the seconds for which a slot was held to the mean that estimates waits."""
        self._took += _MEMORY * (seconds - self._took)

    def give(self, name: str) -> None:
        """Free a slot of the caller with this name, and start waiting calls."""
        self._free += 1
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]
        self._start_next()
        if self._slots - self._free < 2:
            self._turns.allow(self._at_once)
        if not self._held and self._on_idle is not None and self._tidying is None:
            self._tidying = asyncio.get_running_loop().call_later(_IDLE, self._tidy)

    def _tidy(self) -> None:
        self._tidying = None
        if not self._held and self._on_idle is not None:
            with suppress(RuntimeError):  # the daemon stops
                self.pool.submit(self._on_idle)

    def _leave(self, name: str, turn: asyncio.Future[None]) -> None:
        calls = self._queue.get(name)
        if calls is not None and turn in calls:
            calls.remove(turn)
            self.waiting -= 1
            if not calls:
                del self._queue[name]

    def _start_next(self) -> None:
        """Give free slots to waiting calls, by callers in turn."""
        while self._free:
            name = next(filter(self._may_start, self._queue), None)
            if name is None:
                return
            calls = self._queue[name]
            turn = calls.popleft()
            self.waiting -= 1
            self._queue.move_to_end(name)
            if not calls:
                del self._queue[name]
            if not turn.cancelled():  # a cancelled call may not have left the queue yet
                self._hold(name)
                turn.set_result(None)


class _BaseRunner:
    """The base class of runners, which run the pieces of one call in one lane."""

    def __init__(self, lane: Lane, call: QueuedCall) -> None:
        self._lane = lane
        self._call = call

    @property
    def is_admitted(self) -> bool:
        """True after the call had a place in a queue."""
        return self._call.is_admitted

    def left(self) -> float | None:
        """Return the seconds until the deadline; see Deadline."""
        return self._call.left()


class Slot(_BaseRunner):
    """A slot of a lane, held within `async with`, that runs the pieces of one call on threads.

    Runners have two methods for pieces: `here` for short ones, which a SlotPerPiece runs on the
    event loop, and `away` for longer ones. In a Slot both use a thread, since this is the runner of
    heavy calls, whose short pieces would hold up the event loop, too.
    """

    is_heavy = True
    at_once = HEAVY_THREADS  # the most pieces that run at the same time

    def __init__(self, lane: Lane, call: QueuedCall) -> None:
        super().__init__(lane, call)
        self._is_gone = False
        self._running: set[Future[object]] = set()
        self._started = 0.0

    async def __aenter__(self) -> Slot:
        await self._lane.take(self._call)
        self._started = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Free the slot when no piece of the call runs on a thread any more."""
        lane, name = self._lane, self._call.name
        lane.count_held(time.monotonic() - self._started)
        running = [future for future in tuple(self._running) if not future.done()]
        if not running:
            lane.give(name)
            return
        self._is_gone = True
        loop, left = asyncio.get_running_loop(), len(running)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                lane.give(name)

        def tell(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: the daemon stops
                loop.call_soon_threadsafe(one_less)

        for future in running:
            future.add_done_callback(tell)

    async def away(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a piece on a thread. It stops if the call is cancelled or its deadline passes."""
        context = copy_context()
        future: Future[_T] = self._lane.pool.submit(
            lambda: self._work(lambda: context.run(function, *args, **kwargs))
        )
        self._running.add(future)  # type: ignore[arg-type]  # its result is not read
        # A future that stays would hold the error of a cancelled piece, and so its frames.
        future.add_done_callback(self._running.discard)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._is_gone = True
            raise
        finally:
            del future  # it holds the error, whose traceback holds this frame

    here = away

    def _work(self, function: Callable[[], _T]) -> _T:
        turns = self._lane._turns
        turns.take()
        until = time.monotonic() + _TURN

        def look() -> None:
            nonlocal until
            if self._is_gone:
                raise _Gone
            self._call.left()
            if time.monotonic() > until:
                turns.pass_on()
                until = time.monotonic() + _TURN

        try:
            with cancellation.Checking(look):
                look()
                return function()
        finally:
            turns.give()


class SlotPerPiece(_BaseRunner):
    """A runner that holds no slot between pieces.

    Short pieces run on the event loop, and each other piece runs on a thread in a slot of its own.
    """

    is_heavy = False
    at_once = LIGHT_THREADS  # the most pieces that run at the same time

    async def here(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a piece on the event loop."""
        self._call.left()
        return function(*args, **kwargs)

    async def away(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a piece on a thread, with a slot that is held for this piece alone."""
        async with Slot(self._lane, self._call) as slot:
            return await slot.away(function, *args, **kwargs)


Runner: TypeAlias = Slot | SlotPerPiece
"""The runner of a call's pieces: `here` runs short ones, `away` runs longer ones on a thread."""


class Queues:
    """The light and the heavy lane."""

    def __init__(self) -> None:
        self.light = Lane(
            "light",
            threads=LIGHT_THREADS,
            slots=_LIGHT_SLOTS,
            of_caller=_LIGHT_SLOTS // _SHARE,
            at_once=LIGHT_THREADS,
            crowded=LIGHT_THREADS,
            waiting=_LIGHT_WAITING,
        )
        self.heavy = Lane(
            "heavy",
            threads=_HEAVY_SLOTS,
            slots=_HEAVY_SLOTS,
            of_caller=_HEAVY_SLOTS // _SHARE,
            at_once=HEAVY_THREADS,
            crowded=1,
            waiting=_HEAVY_WAITING,
            initializer=lower_writer_priority,
            on_idle=collect_and_trim,
        )

    def runner(self, call: QueuedCall, *, heavy: bool) -> AbstractAsyncContextManager[Runner]:
        """Return a runner for the pieces of a call. A heavy call holds one slot until it ends."""
        return Slot(self.heavy, call) if heavy else nullcontext(SlotPerPiece(self.light, call))

    def heavy_pieces(self, call: QueuedCall) -> Runner:
        """Return a runner that takes a slot of the heavy lane for each piece of a call (`away`).

        It is for a call that waits between its pieces. Other calls can use the slot meanwhile. A
        heavy call by `runner` keeps one slot until it ends.
        """
        return SlotPerPiece(self.heavy, call)

    def figures(self) -> dict[str, tuple[int, int]]:
        """Return by lane name (calls that wait now, calls refused so far)."""
        return {lane.name: (lane.waiting, lane.refused) for lane in (self.light, self.heavy)}

    def shutdown(self) -> None:
        """End the lanes. Running pieces go on in the background."""
        self.light.shutdown()
        self.heavy.shutdown()
