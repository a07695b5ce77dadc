"""The planner's deadlines, concurrency and circuit breaker."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.answer.intent_helpers import (
    GARBAGE,
    MODEL,
    RULES,
    SESSION,
    TASK,
    Asked,
    completion,
    fell_back,
    in_turn,
    planned,
)
from tests.scripted import Reply, Request
from vikingd.domain.search_query import QueryPlan
from vikingd.models.http.circuit_breaker import FAILURES, Breaker
from vikingd.models.intent.planner import Planner

# Time


class Drip:
    """A server that sends its answer byte by byte, without end."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._send, args=(connection,)))
            self._threads[-1].start()

    def _send(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not self._closing.wait(0.005):
                    connection.sendall(b" ")
            except OSError:
                return

    def close(self) -> None:
        """End all connections."""
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def dripping() -> Iterator[str]:
    """Yield the URL of a server that sends byte by byte."""
    drip = Drip()
    yield drip.url
    drip.close()


@pytest.mark.parametrize("after", [0.0, 60.0], ids=["retry", "headers"])
def test_time_is_kept_whatever_the_server_does(asked: Asked, after: float) -> None:
    """A plan ends in its time when the server is slow, in the first call or the second."""
    slow = Reply(planned().body, after=60.0)
    asked.server.answer = in_turn(slow) if after else in_turn(GARBAGE, slow)
    fell_back(asked.plan(seconds=0.3), "the model did not answer in 0.3 s")
    assert asked.took[-1][0] == "FAILED"


def test_time_is_kept_while_bytes_drip(asked: Asked, dripping: str) -> None:
    """Bytes that keep arriving do not prolong a plan."""
    plan = asked.plan(seconds=0.3, base_url=dripping)
    fell_back(plan, "the model did not answer in 0.3 s")


def test_the_smaller_time_holds(asked: Asked) -> None:
    """The timeout of the setting holds if the caller has more time or no limit."""
    asked.server.answer = in_turn(Reply(after=60.0))
    for seconds in (None, 30.0):
        plan = asked.plan(seconds=seconds, timeout=0.2)
        fell_back(plan, "the model did not answer in 0.2 s")


def test_who_cancels_is_told_and_takes_no_slot_along(asked: Asked) -> None:
    """A cancelled plan raises in its caller and frees its slot for the next plan."""
    arrived = threading.Event()

    def answer(_: Request) -> Reply:
        arrived.set()
        return Reply(after=60.0) if len(asked.server.requests) == 1 else planned()

    asked.server.answer = answer

    async def work(planner: Planner) -> QueryPlan:
        task = asyncio.create_task(planner.plan(TASK, SESSION, None))
        await asyncio.to_thread(arrived.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await planner.plan(TASK, SESSION, None)

    assert asked.run(work, concurrency=1).source is MODEL
    assert [outcome for outcome, _ in asked.took] == ["DONE"]


def test_closing_ends_what_runs(asked: Asked) -> None:
    """Rules make all plans in progress when the planner closes, and all later plans."""
    arrived = threading.Event()

    def answer(_: Request) -> Reply:
        arrived.set()
        return Reply(after=60.0)

    asked.server.answer = answer

    async def work(planner: Planner) -> QueryPlan:
        task = asyncio.create_task(planner.plan(TASK, SESSION, None))
        await asyncio.to_thread(arrived.wait)
        await planner.close()
        return await task

    plan = asked.run(work)
    assert plan.source is RULES
    assert asyncio.run(after_close(asked)).source is RULES


async def after_close(asked: Asked) -> QueryPlan:
    """Return a plan of a planner that is closed."""
    planner = asked.planner()
    await planner.close()
    return await planner.plan(TASK, SESSION, None)


# Many at a time


def test_calls_at_a_time_are_bounded(asked: Asked) -> None:
    """No more calls run at a time than the setting allows."""
    lock, running, most = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def answer(_: Request) -> Reply:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait(10.0)  # no call is answered before two have arrived
        with lock:
            running -= 1
        return planned()

    asked.server.answer = answer

    async def many(planner: Planner) -> list[QueryPlan]:
        return await asyncio.gather(*(planner.plan(TASK, SESSION, None) for _ in range(8)))

    plans = asked.run(many, concurrency=2)
    assert {plan.source for plan in plans} == {MODEL}
    assert most == 2


def test_waiting_for_others_is_time_too(asked: Asked) -> None:
    """A plan that waits too long for a free slot is made by rules, without a call."""
    arrived = threading.Event()

    def answer(_: Request) -> Reply:
        arrived.set()
        return Reply(after=60.0)

    asked.server.answer = answer

    async def work(planner: Planner) -> QueryPlan:
        first = asyncio.create_task(planner.plan(TASK, SESSION, 5.0))
        await asyncio.to_thread(arrived.wait)
        plan = await planner.plan(TASK, SESSION, 0.1)
        first.cancel()
        return plan

    plan = asked.run(work, concurrency=1)
    assert plan.reason.startswith("the model was busy for 0.1 s: planned by rules")
    assert plan.model == "m"
    assert len(asked.server.requests) == 1
    assert asked.took == []


# The breaker


class Clock:
    """A clock that the test sets."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def with_clock(work: Callable[[Planner, Clock], Any]) -> Callable[[Planner], Any]:
    """Return work that gets a planner and the clock of its circuit breaker."""

    def begin(planner: Planner) -> Any:
        clock = Clock()
        planner.model._breaker = Breaker(clock)
        return work(planner, clock)

    return begin


def test_a_model_that_fails_is_left_alone_until_a_call_tries(asked: Asked) -> None:
    """After three failures, no call is made during a pause; a later success ends the failures."""
    asked.server.answer = in_turn(Reply({}, 401))

    async def work(planner: Planner, clock: Clock) -> None:
        for _ in range(FAILURES):
            fell_back(await planner.plan(TASK, SESSION, None), "the model's endpoint answered 401")
        plan = await planner.plan(TASK, SESSION, None)
        why = "the model's endpoint answered 401"
        what = f"the model failed 3 times in a row ({why}); asked again in 5 s"
        assert plan.reason == f"{what}: planned by rules (work to be done)"
        assert plan.model == "m"
        assert len(asked.server.requests) == FAILURES
        clock.now += 6
        asked.server.answer = in_turn(planned())
        assert (await planner.plan(TASK, SESSION, None)).source is MODEL
        assert (await planner.plan(TASK, SESSION, None)).source is MODEL

    asked.run(with_clock(work))


def test_a_pause_that_the_endpoint_asks_for_is_kept(asked: Asked) -> None:
    """The model is not called again before the Retry-After of its endpoint has passed."""
    asked.server.answer = in_turn(Reply({}, 429, {"Retry-After": "30"}), planned())

    async def work(planner: Planner, clock: Clock) -> None:
        fell_back(await planner.plan(TASK, SESSION, None), "the model's endpoint answered 429")
        clock.now += 29
        assert "asked again in 1 s" in (await planner.plan(TASK, SESSION, None)).reason
        assert len(asked.server.requests) == 1
        clock.now += 1
        assert (await planner.plan(TASK, SESSION, None)).source is MODEL

    asked.run(with_clock(work))


@pytest.mark.parametrize("reply", [GARBAGE, Reply(completion(None, refusal="no"))])
def test_garbage_and_refusals_leave_the_model_in_use(asked: Asked, reply: Reply) -> None:
    """Garbage and refusals do not count as failures of the circuit breaker."""

    async def work(planner: Planner, _: Clock) -> QueryPlan:
        asked.server.answer = in_turn(Reply({}, 401))
        for _ in range(FAILURES - 1):
            await planner.plan(TASK, SESSION, None)
        asked.server.answer = in_turn(reply)
        for _ in range(FAILURES):
            await planner.plan(TASK, SESSION, None)
        asked.server.answer = in_turn(planned())
        return await planner.plan(TASK, SESSION, None)

    plan: QueryPlan = asked.run(with_clock(work))
    assert plan.source is MODEL


@pytest.mark.parametrize(
    ("seconds", "counts"), [(0.1, False), (None, True)], ids=["caller", "setting"]
)
def test_only_a_timeout_of_the_setting_is_a_failure(
    asked: Asked, seconds: float | None, counts: bool
) -> None:
    """A timeout of the setting counts as a failure; a timeout of the caller does not."""
    asked.server.answer = in_turn(Reply(after=60.0))

    async def work(planner: Planner) -> bool:
        for _ in range(FAILURES):
            assert "did not answer" in (await planner.plan(TASK, SESSION, seconds)).reason
        return "3 times in a row" in (await planner.plan(TASK, SESSION, seconds)).reason

    assert asked.run(work, timeout=0.2) is counts


def test_a_trial_whose_caller_goes_away_lets_another_try(asked: Asked) -> None:
    """Only one trial call runs at a time; if its caller leaves, the next plan tries."""
    arrived = threading.Event()

    def hang(_: Request) -> Reply:
        arrived.set()
        return Reply(after=60.0)

    async def work(planner: Planner, clock: Clock) -> QueryPlan:
        for _ in range(FAILURES):
            await planner.plan(TASK, SESSION, None)
        clock.now += 6
        asked.server.answer = hang
        trial = asyncio.create_task(planner.plan(TASK, SESSION, None))
        await asyncio.to_thread(arrived.wait)
        assert "being asked again now" in (await planner.plan(TASK, SESSION, None)).reason
        trial.cancel()
        await asyncio.wait({trial})
        asked.server.answer = in_turn(planned())
        return await planner.plan(TASK, SESSION, None)

    asked.server.answer = in_turn(Reply({}, 401))
    plan: QueryPlan = asked.run(with_clock(work))
    assert plan.source is MODEL
