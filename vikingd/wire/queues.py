"""Queues of work: bounded, fair between callers, with threads of their own.

Work is light or heavy, and each weight has one lane. Heavy work holds a slot of its lane for the
whole call; a slot's work runs on a thread, in slices, and the slots take turns.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import copy_context
from typing import ParamSpec, Protocol, TypeVar

from vikingd.domain import pace
from vikingd.domain.errors import DeadlinePassed, Overloaded
from vikingd.system.heap import collect_and_trim
from vikingd.system.priority import let_finds_go_first

_P = ParamSpec("_P")
_T = TypeVar("_T")

LIGHT_THREADS = 2
HEAVY_THREADS = 2
"""Pieces of one heavy call that are at work at one time; of several calls one piece is.

Each thread that runs Python makes a light call wait for the interpreter's lock.
"""

_LIGHT_SLOTS = 8 * LIGHT_THREADS
"""More than its threads: one that is done finds the next piece without the event loop."""

_HEAVY_SLOTS = 8
_LIGHT_WAITING, _HEAVY_WAITING = 1024, 128
_SHARE = 2  # one caller may have 1 / _SHARE of the places in a queue, and of the heavy slots
_TURN = 0.05  # seconds after which a slot lets another one work
_LEAST_DELAY, _MOST_DELAY = 0.1, 30.0  # seconds until a refused call may be repeated
_MARGIN = 0.1  # seconds at most before the deadline in which the caller hears why
_FIRST_GUESS = 0.05  # seconds that a piece of work takes, before any is measured
_IDLE = 1.0  # seconds without heavy work after which memory is given back
_MEMORY = 0.1  # weight of the newest one in their mean


class Caller(Protocol):
    """A call as a queue knows it."""

    name: str
    """Who calls: the other end of its connection."""

    is_admitted: bool
    """Whether it had a place before: a call that is under way is not refused any more."""

    def left(self) -> float | None:
        """Seconds until the deadline, None without one.

        Raises:
            DeadlinePassed: there are none.
        """


class _Gone(Exception):
    """Nobody waits for the work any more."""


class Turns:
    """So many threads are at work; the others wait, first come, first served."""

    def __init__(self, at_once: int) -> None:
        self._lock = threading.Lock()
        self._at_once = at_once
        self._working = 0
        self._waiting: deque[threading.Event] = deque()

    def allow(self, at_once: int) -> None:
        """From now on so many threads are at work; what has begun goes on to its next step."""
        with self._lock:
            self._at_once = at_once
            self._start_next()

    def take(self) -> None:
        """Waits for a turn."""
        with self._lock:
            if self._working < self._at_once and not self._waiting:
                self._working += 1
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def give(self) -> None:
        """Ends a turn."""
        with self._lock:
            self._working -= 1
            self._start_next()

    def pass_on(self) -> bool:
        """Ends this turn and waits for the next one; False at once where nobody else waits."""
        if not self._waiting:
            return False
        self.give()
        self.take()
        return True

    def _start_next(self) -> None:
        while self._waiting and self._working < self._at_once:
            self._working += 1
            self._waiting.popleft().set()


class Runner(Protocol):
    """Runs the pieces of a call."""

    is_heavy: bool

    async def here(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Runs what is small in a light call: on the event loop, of a heavy call on a thread."""

    async def away(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Runs a piece on a thread."""


class Lane:
    """Work of one weight.

    Args:
        name: for people: "light" or "heavy".
        threads: what works; of a heavy lane each slot has one.
        slots: pieces of work that a thread has, or that are the next for one.
        of_caller: how many of them one caller may have.
        at_once: how many of them are at work at one time.
        crowded: the same while several slots are held.
        waiting: how many calls may wait for a slot.
        initializer: is called by each thread first.
        on_idle: is called on a thread some time after the last slot is free.
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
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._count = 0
        self._took = _FIRST_GUESS

    @property
    def waiting(self) -> int:
        """How many calls wait for a slot."""
        return self._count

    def slot(self, call: Caller) -> Slot:
        """A slot, which is held within `async with`."""
        return Slot(self, call)

    async def run(
        self, call: Caller, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Runs one piece of work in a slot of its own."""
        async with self.slot(call) as slot:
            return await slot.away(function, *args, **kwargs)

    def shutdown(self) -> None:
        """Drops what waits for a thread; what runs is not waited for."""
        self.pool.shutdown(wait=False, cancel_futures=True)

    async def take(self, call: Caller) -> None:
        """Waits for a slot.

        Raises:
            Overloaded: the queue is full, or the caller's share of it is.
            DeadlinePassed: before the call's turn came.
        """
        left, name = call.left(), call.name
        if self._may_start(name) and not self._count:
            self._hold(name)
            call.is_admitted = True
            return
        waiting = self._waiting.get(name, ())
        if not call.is_admitted:
            if self._count >= self._most_waiting:
                raise self._refusal(f"the queue of {self.name} calls is full")
            if len(waiting) >= self._most_waiting // _SHARE:
                raise self._refusal(
                    f"{len(waiting)} {self.name} calls of this connection wait already"
                )
        call.is_admitted = True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, deque()).append(turn)
        self._count += 1
        self._start_next()
        try:
            seconds = None if left is None else left - min(_MARGIN, left / 10)
            async with asyncio.timeout(seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.give(name)  # it came just as the call went away
            else:
                self._leave(name, turn)
            if isinstance(error, TimeoutError):
                raise DeadlinePassed(
                    f"the deadline passed while the call waited among {self.name} ones"
                ) from None
            raise

    def _refusal(self, why: str) -> Overloaded:
        self.refused += 1
        seconds = (self._count + 1) * self._took / self._slots
        seconds = min(max(seconds, _LEAST_DELAY), _MOST_DELAY)
        return Overloaded(f"{why}: repeat the call after {seconds:.1f} s", seconds, queue=self.name)

    def _may_start(self, name: str) -> bool:
        return self._free > 0 and self._held.get(name, 0) < self._most_of_caller

    def _hold(self, name: str) -> None:
        self._free -= 1
        self._held[name] = self._held.get(name, 0) + 1
        if self._slots - self._free == 2:
            self._turns.allow(self._crowded)

    def took(self, seconds: float) -> None:
        """Notes how long a slot was held."""
        self._took += _MEMORY * (seconds - self._took)

    def give(self, name: str) -> None:
        """Takes a slot back."""
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
            with suppress(RuntimeError):  # the daemon ends
                self.pool.submit(self._on_idle)

    def _leave(self, name: str, turn: asyncio.Future[None]) -> None:
        calls = self._waiting.get(name)
        if calls is not None and turn in calls:
            calls.remove(turn)
            self._count -= 1
            if not calls:
                del self._waiting[name]

    def _start_next(self) -> None:
        """Gives free slots to those who wait: one call of each caller in turn."""
        while self._free:
            name = next(filter(self._may_start, self._waiting), None)
            if name is None:
                return
            calls = self._waiting[name]
            turn = calls.popleft()
            self._count -= 1
            self._waiting.move_to_end(name)
            if not calls:
                del self._waiting[name]
            if not turn.cancelled():  # else its call does not know yet that it is
                self._hold(name)
                turn.set_result(None)


class Slot:
    """A place in a lane, held within `async with`: what it runs are pieces of one call."""

    is_heavy = True

    def __init__(self, lane: Lane, call: Caller) -> None:
        self._lane = lane
        self._call = call
        self._is_gone = False
        self._running: set[Future[object]] = set()
        self._started = 0.0

    async def __aenter__(self) -> Slot:
        await self._lane.take(self._call)
        self._started = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        lane, name = self._lane, self._call.name
        lane.took(time.monotonic() - self._started)
        self._end(lambda: lane.give(name))

    async def away(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Runs a piece on a thread; its steps end it when the call is cancelled or too late."""
        context = copy_context()
        future: Future[_T] = self._lane.pool.submit(
            lambda: self._work(lambda: context.run(function, *args, **kwargs))
        )
        self._running.add(future)  # type: ignore[arg-type]  # what it comes to does not matter
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._is_gone = True
            raise
        finally:
            if future.done():
                self._running.discard(future)

    here = away

    def _end(self, give: Callable[[], None]) -> None:
        """Calls `give` on the event loop when no thread works for the slot any more."""
        running = [future for future in self._running if not future.done()]
        if not running:
            give()
            return
        self._is_gone = True
        loop, left = asyncio.get_running_loop(), len(running)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                give()

        for future in running:
            future.add_done_callback(lambda _: _tell(loop, one_less))

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
            with pace.Looking(look):
                look()
                return function()
        finally:
            turns.give()


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: the daemon ends
        loop.call_soon_threadsafe(function)


class Light:
    """Runs the pieces of a light call: small ones on the event loop, others in the light lane."""

    is_heavy = False

    def __init__(self, lane: Lane, call: Caller) -> None:
        self._lane = lane
        self._call = call

    async def __aenter__(self) -> Light:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def here(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Runs a piece at once."""
        self._call.left()
        return function(*args, **kwargs)

    async def away(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Runs a piece on a thread of the light lane."""
        return await self._lane.run(self._call, function, *args, **kwargs)


class Queues:
    """The two lanes."""

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
            initializer=let_finds_go_first,
            on_idle=collect_and_trim,
        )

    def runner(self, call: Caller, *, heavy: bool) -> AbstractAsyncContextManager[Runner]:
        """Runs the pieces of one call, of a heavy one in a slot that it holds throughout."""
        return self.heavy.slot(call) if heavy else Light(self.light, call)

    def figures(self) -> dict[str, tuple[int, int]]:
        """(calls that wait, calls that were refused) of each lane by name."""
        return {lane.name: (lane.waiting, lane.refused) for lane in (self.light, self.heavy)}

    def shutdown(self) -> None:
        """Ends the lanes; what runs is not waited for."""
        self.light.shutdown()
        self.heavy.shutdown()
