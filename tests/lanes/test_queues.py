"""Lanes, which are bounded and fair, and drop calls that are cancelled or late."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.patience import SECONDS
from vikingd.domain import cancellation
from vikingd.domain.errors import DeadlinePassed, Overloaded
from vikingd.lanes.call_pools import CallDeadline, Pool
from vikingd.lanes.queues import Lane, Slot


@dataclass
class Call:
    """A call of a client; `until` is its deadline on the clock of `time.monotonic`."""

    name: str
    until: float | None = None
    is_admitted: bool = False

    def left(self) -> float | None:
        """Return the seconds until the deadline."""
        if self.until is None:
            return None
        left = self.until - time.monotonic()
        if left <= 0:
            raise DeadlinePassed("too late")
        return left


def lane(
    slots: int = 1, of_caller: int = 1, waiting: int = 8, threads: int = 0, at_once: int = 1
) -> Lane:
    """Return a lane with a thread for each slot and one piece of work at a time by default."""
    return Lane(
        "heavy",
        threads=threads or slots,
        slots=slots,
        of_caller=of_caller,
        at_once=at_once,
        crowded=at_once,
        waiting=waiting,
    )


async def in_slot(of: Lane, call: Call, function: Callable[..., Any], *args: object) -> Any:
    """Run one piece of work in its own slot."""
    async with Slot(of, call) as slot:
        return await slot.away(function, *args)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test on an event loop."""
    asyncio.run(asyncio.wait_for(main(), SECONDS))


async def busy(of: Lane, go_on: threading.Event) -> asyncio.Task[bool]:
    """Start a call that holds the lane until `go_on` is set."""
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> bool:
        loop.call_soon_threadsafe(begun.set)
        return go_on.wait(SECONDS)

    task = asyncio.create_task(in_slot(of, Call("first"), work))
    await begun.wait()
    return task


def test_callers_take_turns() -> None:
    """A call waits for at most one call of another caller that has sent many."""

    async def main() -> None:
        of, go_on, done = lane(), threading.Event(), list[str]()
        first = await busy(of, go_on)
        flood = [
            asyncio.create_task(in_slot(of, Call("flood"), done.append, f"flood{i}"))
            for i in range(4)
        ]
        await asyncio.sleep(0)
        other = asyncio.create_task(in_slot(of, Call("other"), done.append, "other"))
        await asyncio.sleep(0)
        assert of.waiting == 5
        go_on.set()
        await asyncio.gather(first, other, *flood)
        assert done == ["flood0", "other", "flood1", "flood2", "flood3"]
        assert of.waiting == 0
        of.shutdown()

    run(main)


def test_a_full_queue_refuses_at_once_and_says_when_to_come_again() -> None:
    """A full queue refuses calls with a retry delay, and a caller has half of its places.

    A call that is already admitted is never refused.
    """

    async def main() -> None:
        of, go_on = lane(waiting=4), threading.Event()
        first = await busy(of, go_on)
        waiting = [asyncio.create_task(in_slot(of, Call(name), int)) for name in "aabb"]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="the queue of heavy calls is full") as full:
            await in_slot(of, Call("c"), int)
        assert full.value.retry_after > 0
        under_way = asyncio.create_task(in_slot(of, Call("c", is_admitted=True), int))
        for one in waiting[2:]:
            one.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="2 heavy calls of this connection wait already"):
            await in_slot(of, Call("a"), int)
        assert of.refused == 2
        go_on.set()
        await asyncio.gather(first, under_way, *waiting[:2])
        of.shutdown()

    run(main)


def test_a_deadline_that_passes_in_the_queue_is_told_and_frees_the_place() -> None:
    """A call whose deadline passes in the queue is refused, and its work does not begin."""

    async def main() -> None:
        of, go_on, done = lane(), threading.Event(), list[int]()
        first = await busy(of, go_on)
        with pytest.raises(DeadlinePassed, match="while the call waited among heavy ones"):
            await in_slot(of, Call("late", time.monotonic() + 0.2), done.append, 1)
        assert of.waiting == 0
        go_on.set()
        await first
        await in_slot(of, Call("late"), int)  # the slot is free again
        assert not done
        of.shutdown()

    run(main)


@pytest.mark.parametrize("comes_first", ["cancellation", "turn"])
def test_a_call_that_is_cancelled_as_its_turn_comes_takes_no_slot(comes_first: str) -> None:
    """The turn of a cancelled call goes to the next call, in either order of the two events."""

    async def main() -> None:
        of = lane()
        of._hold("first")
        waiting = [asyncio.create_task(in_slot(of, Call(name), int)) for name in "abcab"]
        await asyncio.sleep(0)
        if comes_first == "turn":
            of.give("first")
        for task in waiting[:3]:
            task.cancel()
        if comes_first == "cancellation":
            of.give("first")
        await asyncio.wait(waiting[:3])
        await asyncio.gather(*waiting[3:])
        assert of.waiting == 0
        await in_slot(of, Call("d"), int)
        of.shutdown()

    run(main)


@pytest.mark.parametrize("why", ["cancelled", "late"])
def test_work_ends_at_its_next_step_when_nobody_waits_for_it(why: str) -> None:
    """Cancelled or late work ends at its next step, and holds its slot until then."""

    async def main() -> None:
        of, ended, begun = lane(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            try:
                while True:
                    cancellation.check()
                    time.sleep(0.001)
            finally:
                ended.set()

        until = time.monotonic() + 0.3 if why == "late" else None
        task = asyncio.create_task(in_slot(of, Call("a", until), work))
        await asyncio.to_thread(begun.wait, SECONDS)
        if why == "cancelled":
            task.cancel()
        with pytest.raises(asyncio.CancelledError if why == "cancelled" else DeadlinePassed):
            await task
        await in_slot(of, Call("b"), int)
        assert ended.is_set()
        of.shutdown()

    run(main)


def test_a_slot_is_held_until_its_thread_is_done() -> None:
    """A slot is held until its thread ends, even if the call is cancelled."""

    async def main() -> None:
        of, go_on = lane(threads=2, at_once=2), threading.Event()
        first = await busy(of, go_on)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(in_slot(of, Call("second"), int))
        await asyncio.sleep(0)
        assert of.waiting == 1
        go_on.set()
        await second
        of.shutdown()

    run(main)


def test_long_work_lets_others_go_on_between_its_slices() -> None:
    """Long work yields between its steps, so that later short work ends first."""

    async def main() -> None:
        of, begun, short = lane(slots=2), threading.Event(), threading.Event()

        def long() -> bool:
            begun.set()
            end = time.monotonic() + SECONDS
            while not short.is_set() and time.monotonic() < end:
                cancellation.check()
            return short.is_set()

        task = asyncio.create_task(in_slot(of, Call("long"), long))
        assert await asyncio.to_thread(begun.wait, SECONDS)
        await in_slot(of, Call("short"), short.set)
        assert await task
        of.shutdown()

    run(main)


def test_one_call_has_all_threads_and_several_share_one() -> None:
    """Pieces of a single call run in parallel; beside another call, one piece runs at a time."""

    async def main() -> None:
        heavy = Lane("heavy", threads=4, slots=4, of_caller=2, at_once=2, crowded=1, waiting=8)
        counting, most, now = threading.Lock(), 0, 0

        def piece() -> None:
            nonlocal most, now
            with counting:
                now += 1
                most = max(most, now)
            time.sleep(0.05)
            with counting:
                now -= 1

        async def call(name: str) -> None:
            async with Slot(heavy, Call(name)) as slot:
                await asyncio.gather(*(slot.away(piece) for _ in range(3)))

        await call("one")
        assert most == 2
        most = 0
        async with Slot(heavy, Call("other")):
            await call("one")
        assert most == 1
        most = 0
        await call("one")
        assert most == 2
        heavy.shutdown()

    run(main)


def test_a_caller_has_no_more_than_its_share_of_the_slots() -> None:
    """A caller that holds its share of the slots waits, and another caller takes a free slot."""

    async def main() -> None:
        of, done = lane(slots=2), list[str]()
        of._hold("many")
        waiting = asyncio.create_task(in_slot(of, Call("many"), done.append, "many"))
        await asyncio.sleep(0)
        await in_slot(of, Call("other"), done.append, "other")
        assert (done, of.waiting) == (["other"], 1)
        of.give("many")
        await waiting
        assert done == ["other", "many"]
        of.shutdown()

    run(main)


def test_a_pool_refuses_what_its_queue_cannot_take() -> None:
    """A full pool refuses calls with a retry delay, except those that are already admitted."""

    async def main() -> None:
        pool, go_on = Pool("store", 1, 2), threading.Event()
        first = [
            asyncio.create_task(pool.run(cast("CallDeadline", Call("a")), go_on.wait, SECONDS))
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="at most 2 may") as refused:
            await pool.run(cast("CallDeadline", Call("b")), bool)
        assert refused.value.retry_after > 0
        admitted = asyncio.create_task(
            pool.run(cast("CallDeadline", Call("c", is_admitted=True)), lambda: "taken")
        )
        await asyncio.sleep(0)
        go_on.set()
        assert await asyncio.gather(*first, admitted) == [True, True, "taken"]
        assert await pool.run(cast("CallDeadline", Call("b")), lambda: "room again") == "room again"
        pool.shutdown()

    run(main)
