"""Planning with a model that answers, fails, misbehaves or takes too long."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from intent_helpers import PLANNED, SESSION, TASK, Asked, completion, in_turn, planned
from scripted import Reply, Request, ScriptedServer

from vikingd.domain.model import ContextType
from vikingd.domain.query import PlanSource, QueryPlan, SearchSession, TypedQuery
from vikingd.models.http.circuit_breaker import FAILURES, Breaker
from vikingd.models.intent.planner import Planner
from vikingd.models.intent.prompt import RESPONSE_FORMAT
from vikingd.models.intent.settings import PlannerSettings

MODEL, RULES, NONE = PlanSource.MODEL, PlanSource.RULES, PlanSource.NONE
SKILL, RESOURCE = ContextType.SKILL, ContextType.RESOURCE

BY_MODEL = (TypedQuery("Create RFC document", SKILL, "to write it", 1),)
BY_RULES = [(SKILL, TASK, 1), (RESOURCE, TASK, 3)]
GARBAGE = Reply(completion("Sure, here is the plan!"))
NO_SCHEMA = Reply({"error": {"message": "response_format is not supported"}}, 400)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def asked() -> Iterator[Asked]:
    """A server that plans."""
    with ScriptedServer(in_turn(planned())) as server:
        yield Asked(server)


def fell_back(plan: QueryPlan, reason: str) -> None:
    """Asserts that rules planned, for this reason, after the model was asked."""
    assert plan.source is RULES
    assert plan.reason == f"{reason}: planned by rules (work to be done)"
    assert [(q.context_type, q.query, q.priority) for q in plan.queries] == BY_RULES
    assert plan.model == "m"


# Who plans


def test_without_a_session_nobody_plans(asked: Asked) -> None:
    """Also a greeting is searched as it stands then, and no call is made."""
    for session in (SearchSession(), SearchSession(" \n")):
        plan = asked.plan("hi there!", session)
        assert plan == QueryPlan(
            NONE,
            "no session: the query is searched as it stands",
            (TypedQuery("hi there!", ContextType.UNSPECIFIED, priority=1),),
        )
    assert asked.server.requests == []


def test_the_model_plans(asked: Asked) -> None:
    """One call with two messages and bounds; its plan is returned, its time told."""
    plan = asked.plan()
    assert plan == QueryPlan(MODEL, "because", BY_MODEL, (), "m")
    (request,) = asked.server.requests
    assert request.path == "/v1/chat/completions"
    body = request.json
    assert [message["role"] for message in body.pop("messages")] == ["system", "user"]
    assert body == {
        "model": "m",
        "temperature": 0,
        "max_tokens": 2048,
        "response_format": RESPONSE_FORMAT,
    }
    assert RESPONSE_FORMAT["json_schema"]["strict"] is True
    ((outcome, seconds),) = asked.took
    assert outcome == "DONE"
    assert 0 < seconds < 5


def test_notes_of_the_session_and_of_the_plan_are_told_together(asked: Asked) -> None:
    """What was cut before the call and what was dropped after it."""
    asked.server.answer = in_turn(planned(PLANNED, PLANNED))
    plan = asked.plan(session=SearchSession("x" * 30_001))
    assert len(plan.notes) == 2
    assert "summary" in plan.notes[0]
    assert plan.notes[1] == "query 2 was dropped: another asks the same"


def test_an_empty_plan_is_a_plan(asked: Asked) -> None:
    """A model may find that nothing is needed."""
    asked.server.answer = in_turn(Reply(completion('{"queries": []}')))
    assert asked.plan() == QueryPlan(MODEL, "nothing to look up", (), (), "m")


def test_without_a_model_rules_plan_and_its_client_is_not_loaded() -> None:
    """The library of the model's client costs nothing where there is no model."""
    code = (
        "import asyncio, sys\n"
        "from vikingd.models.intent.planner import Planner, PlannerSettings\n"
        "from vikingd.domain.query import SearchSession\n"
        "plan = Planner(PlannerSettings()).plan('thanks!', SearchSession('s' * 30_001), 1.0)\n"
        "print(asyncio.run(plan))\n"
        "assert 'openai' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no model is configured: planned by rules (chit-chat: nothing to look up)" in done.stdout
    assert "queries=()" in done.stdout
    assert "the first 1 were left out" in done.stdout
    assert "model=''" in done.stdout


def test_without_time_the_model_is_not_asked(asked: Asked) -> None:
    """A deadline that has passed makes no call."""
    for seconds in (0.0, -1.0):
        plan = asked.plan(seconds=seconds)
        assert plan.reason.startswith("no time was left for the model: planned by rules")
        assert (plan.source, plan.model) == (RULES, "m")
    assert asked.server.requests == []


# Garbage and refusals


def changed(**fields: Any) -> Reply:
    """A completion with other fields at its top."""
    return Reply({**completion("{}"), **fields})


ODD = {
    "prose": GARBAGE,
    "html": Reply(b"<html><body>It works!</body></html>"),
    "nothing": Reply(b""),
    "not utf-8": Reply(b"\xff\xfe\x00"),
    "truncated json": Reply(json.dumps(completion("{}")).encode()[:-5]),
    "cut off": Reply(completion('{"queries": []}', finish_reason="length")),
    "empty": Reply(completion("")),
    "blank": Reply(completion(" \n")),
    "no content": Reply(completion(None)),
    "tool call": Reply(completion(None, tool_calls=[{"id": "1"}], finish_reason="tool_calls")),
    "content is a list": Reply(completion([{"type": "text", "text": '{"queries": []}'}])),
    "huge": Reply(completion('{"queries": []' + " " * (64 << 10) + "}")),
    "huger": Reply(json.dumps(completion('{"queries": []}')).encode() + b" " * (2 << 20)),
    "a huge refusal": Reply(b" " * (2 << 20), 401),
    "no choices": changed(choices=[]),
    "choices are none": changed(choices=None),
    "choices are text": changed(choices="{}"),
    "choice is null": changed(choices=[None]),
    "no message": changed(choices=[{"index": 0}]),
    "message is text": changed(choices=[{"message": "{}"}]),
    "an error all the same": Reply({"error": {"message": "overloaded"}}),
    "a list": Reply([completion("{}")]),
    "wrong shape": Reply(completion('{"queries": {"query": "a"}}')),
    "nothing usable": planned({"query": "a", "context_type": "tool"}),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_after_garbage_the_model_is_asked_once_more(asked: Asked, odd: Reply) -> None:
    """Whatever is no plan has one more call, and then rules plan."""
    asked.server.answer = in_turn(odd, planned(), odd)

    async def twice(planner: Planner) -> list[QueryPlan]:
        return [await planner.plan(TASK, SESSION, None) for _ in range(2)]

    first, second = asked.run(twice)
    assert (first.source, first.queries) == (MODEL, BY_MODEL)
    fell_back(second, second.reason.partition(": planned")[0])
    assert second.reason.startswith("the model's answers can't be used (")
    assert len(asked.server.requests) == 4
    assert [outcome for outcome, _ in asked.took] == ["FAILED", "DONE", "FAILED", "FAILED"]


def test_a_refusal_is_not_asked_again(asked: Asked) -> None:
    """The same question would be refused again."""
    for reply in (
        Reply(completion(None, refusal="I can't help with that.")),
        Reply(completion("{", finish_reason="content_filter")),
    ):
        asked.server.requests.clear()
        asked.server.answer = in_turn(reply)
        fell_back(asked.plan(), "the model refused")
        assert len(asked.server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(asked: Asked, status: int) -> None:
    """The session goes to the endpoint that was named, and to no other."""
    with ScriptedServer(in_turn(planned())) as other:
        asked.server.answer = in_turn(Reply({}, status, {"Location": f"{other.url}/v1/x"}))
        fell_back(asked.plan(), f"the model's endpoint answered {status}")
        assert other.requests == []


# What a server does not know


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_server_without_schemas_is_asked_without_and_that_is_remembered(
    asked: Asked, status: int
) -> None:
    """Only the first plan pays for it."""

    def answer(request: Request) -> Reply:
        return Reply({}, status) if "response_format" in request.json else planned()

    asked.server.answer = answer

    async def twice(planner: Planner) -> list[QueryPlan]:
        return [await planner.plan(TASK, SESSION, None) for _ in range(2)]

    assert [plan.source for plan in asked.run(twice)] == [MODEL, MODEL]
    with_schema = ["response_format" in request.json for request in asked.server.requests]
    assert with_schema == [True, False, False]
    assert asked.server.requests[1].json["temperature"] == 0


def test_a_model_without_temperature_is_asked_without_and_with_the_schema(asked: Asked) -> None:
    """Only what the endpoint names is left out."""

    def answer(request: Request) -> Reply:
        known = "temperature" not in request.json
        return planned() if known else Reply({"error": {"param": "temperature"}}, 400)

    asked.server.answer = answer
    assert asked.plan().source is MODEL
    assert "response_format" in asked.server.requests[1].json


def test_what_helps_nothing_is_not_remembered(asked: Asked) -> None:
    """An endpoint that was wrong altogether for a while keeps its schema."""
    asked.server.answer = in_turn(Reply({}, 404), Reply({}, 404), planned())

    async def twice(planner: Planner) -> list[QueryPlan]:
        return [await planner.plan(TASK, SESSION, None) for _ in range(2)]

    first, second = asked.run(twice)
    fell_back(first, "the model's endpoint answered 404")
    assert second.source is MODEL
    with_schema = ["response_format" in request.json for request in asked.server.requests]
    assert with_schema == [True, False, True]


# Failures


def http_date(seconds: float) -> str:
    """So many seconds from now."""
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    "failure",
    [
        Reply({}, 429, {"Retry-After": "0.05"}),
        Reply({}, 429, {"Retry-After": "0"}),
        Reply({}, 503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        Reply({}, 500),
        Reply({}, 529, {"Retry-After": "nan"}),
        Reply({}, 500, {"Retry-After": "soon"}),
        Reply(reset=True),
        Reply(planned().body, cut=20),
    ],
    ids=["short", "now", "past date", "500", "nan", "no time", "reset", "cut"],
)
def test_after_a_failure_that_passes_the_model_is_asked_once_more(
    asked: Asked, failure: Reply
) -> None:
    """Overload, server errors and broken connections, after the time that was asked for."""
    asked.server.answer = in_turn(failure, planned())
    assert asked.plan().queries == BY_MODEL
    assert [outcome for outcome, _ in asked.took] == ["FAILED", "DONE"]


@pytest.mark.parametrize(
    "failure",
    [
        Reply({}, 429, {"Retry-After": "30"}),
        Reply({}, 429, {"Retry-After": "3"}),  # of 5 seconds, so it doesn't fit well
        Reply({}, 503, {"Retry-After": http_date(86_400)}),
        Reply({}, 401),
        Reply({}, 403),
        Reply({}, 413),
    ],
    ids=["long", "too long", "date", "401", "403", "413"],
)
def test_after_a_failure_that_stays_it_is_not(asked: Asked, failure: Reply) -> None:
    """Nor where the time that was asked for leaves too little."""
    asked.server.answer = in_turn(failure)
    fell_back(asked.plan(timeout=5.0), f"the model's endpoint answered {failure.status}")
    assert len(asked.server.requests) == 1


@pytest.mark.parametrize("failure", [Reply({}, 500), Reply({}, 429, {"Retry-After": "0"})])
def test_it_is_asked_once_more_and_no_more(asked: Asked, failure: Reply) -> None:
    """Two calls at most for a failure."""
    asked.server.answer = in_turn(failure)
    fell_back(asked.plan(), f"the model's endpoint answered {failure.status}")
    assert len(asked.server.requests) == 2


def test_a_short_time_leaves_none_for_another_call(asked: Asked) -> None:
    """A wait must leave as much as it takes."""
    asked.server.answer = in_turn(Reply({}, 500), planned())
    fell_back(asked.plan(seconds=0.35), "the model's endpoint answered 500")
    assert len(asked.server.requests) == 1


def test_garbage_and_a_failure_have_one_more_call_each(asked: Asked) -> None:
    """They may meet in one plan, but neither twice."""
    asked.server.answer = in_turn(GARBAGE, Reply(reset=True), planned())
    assert asked.plan().source is MODEL
    asked.server.answer = in_turn(Reply(reset=True), GARBAGE, Reply(reset=True), planned())
    assert asked.plan().source is RULES


def test_an_endpoint_that_is_not_there(asked: Asked) -> None:
    """A refused connection is told as such."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    plan = asked.plan(base_url=f"http://127.0.0.1:{port}/v1")
    fell_back(plan, "the model's endpoint could not be reached (ConnectError)")


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
        """Ends all connections."""
        self._closing.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def dripping() -> Iterator[str]:
    """The URL of a server that sends byte by byte."""
    drip = Drip()
    yield drip.url
    drip.close()


def overrun(asked: Asked, limit: float, **changes: Any) -> tuple[float, QueryPlan]:
    """By how many seconds a plan passes its time, at best of three."""

    async def measure(planner: Planner) -> tuple[float, QueryPlan]:
        started = time.perf_counter()
        plan = await planner.plan(TASK, SESSION, limit)
        return time.perf_counter() - started - limit, plan

    async def best(planner: Planner) -> tuple[float, QueryPlan]:
        return min([await measure(planner) for _ in range(3)], key=lambda measured: measured[0])

    return asked.run(best, **changes)


@pytest.mark.parametrize("after", [0.0, 60.0], ids=["retry", "headers"])
def test_time_is_kept_whatever_the_server_does(asked: Asked, after: float) -> None:
    """A plan returns within 50 ms of its time, in the first call and in the second."""
    slow = Reply(planned().body, after=60.0)
    asked.server.answer = in_turn(slow) if after else in_turn(GARBAGE, slow)
    late, plan = overrun(asked, 0.3)
    assert 0 <= late < 0.05
    fell_back(plan, "the model did not answer in 0.3 s")
    assert asked.took[-1][0] == "FAILED"
    assert 0 < asked.took[-1][1] <= 0.35


def test_time_is_kept_while_bytes_drip(asked: Asked, dripping: str) -> None:
    """Bytes that arrive all the time prolong nothing."""
    late, plan = overrun(asked, 0.3, base_url=dripping)
    assert 0 <= late < 0.05
    fell_back(plan, "the model did not answer in 0.3 s")


def test_the_smaller_time_holds(asked: Asked) -> None:
    """The setting bounds callers that have more time, or all of it."""
    asked.server.answer = in_turn(Reply(after=60.0))
    for seconds in (None, 30.0):
        plan = asked.plan(seconds=seconds, timeout=0.2)
        fell_back(plan, "the model did not answer in 0.2 s")


def test_who_cancels_is_told_and_takes_no_slot_along(asked: Asked) -> None:
    """A caller that goes away leaves the planner as it was."""
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
    """Plans that are under way, and later ones, are made by rules."""
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
    """A plan of a planner that is closed."""
    planner = asked.planner()
    await planner.close()
    return await planner.plan(TASK, SESSION, None)


# Many at a time


def test_calls_at_a_time_are_bounded(asked: Asked) -> None:
    """As many calls as the setting says are made at a time, and not one more."""
    lock, running, most = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def answer(_: Request) -> Reply:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        both.wait(10.0)  # nobody is answered before two are there
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
    """A plan that never had its turn says so, and was not asked."""
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
    """Seconds that pass when the test says so."""

    now = 100.0

    def __call__(self) -> float:
        """Now."""
        return self.now


def with_clock(work: Callable[[Planner, Clock], Any]) -> Callable[[Planner], Any]:
    """Some work with a planner whose pauses pass when the test says so."""

    def begin(planner: Planner) -> Any:
        clock = Clock()
        planner._breaker = Breaker(clock)
        return work(planner, clock)

    return begin


def test_a_model_that_fails_is_left_alone_until_a_call_tries(asked: Asked) -> None:
    """During the pause there is no call; after it one that works ends it."""
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
    """From its first answer of that kind on."""
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
    """A model that answers is there, whatever it answers."""

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
    """A caller in a hurry says nothing of the model."""
    asked.server.answer = in_turn(Reply(after=60.0))

    async def work(planner: Planner) -> bool:
        for _ in range(FAILURES):
            assert "did not answer" in (await planner.plan(TASK, SESSION, seconds)).reason
        return "3 times in a row" in (await planner.plan(TASK, SESSION, seconds)).reason

    assert asked.run(work, timeout=0.2) is counts


def test_a_trial_whose_caller_goes_away_lets_another_try(asked: Asked) -> None:
    """While one call tries the others don't; when its caller leaves, the next one does."""
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


# Keys


def test_the_key_goes_to_the_endpoint_and_nowhere_else(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No plan, log or setting has a key or a password, whatever the endpoint echoes."""
    monkeypatch.setenv("SOME_KEY", "sk-secret-1")
    asked.plan(key_env="SOME_KEY")
    assert asked.server.requests[0].headers["authorization"] == "Bearer sk-secret-1"
    url = asked.server.url.replace("//", "//me:hunter2@") + "/v1"
    failures = [
        Reply({"error": {"message": "Incorrect API key: sk-secret-1"}}, 401),
        Reply({"error": {"message": "sk-secret-1"}}, 400),
        Reply(completion("sk-secret-1")),
        Reply(completion(None, refusal="sk-secret-1")),
        Reply(reset=True),
    ]
    caplog.set_level("DEBUG", "vikingd")
    told = []
    for failure in failures:
        asked.server.answer = in_turn(failure)
        told.append(asked.plan(base_url=url, key_env="SOME_KEY"))
    monkeypatch.setenv("SOME_KEY", "sk-secret-1-\u00fc\n")  # no header can hold it
    told.append(asked.plan(base_url=url, key_env="SOME_KEY"))
    assert {plan.source for plan in told} == {RULES}
    for text in (repr(told), caplog.text, repr(asked.settings(key_env="SOME_KEY"))):
        assert "sk-secret" not in text
        assert "hunter2" not in text


def test_a_model_elsewhere_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this machine's endpoints need none; a base URL must be one."""
    for url in ("", "https://models.example/v1", "http://localhost.example/v1", "http://10.0.0.1"):
        with pytest.raises(ValueError, match="OPENAI_API_KEY"):
            Planner(PlannerSettings(base_url=url, model="m"))
    for url in ("http://127.1.2.3/v1", "http://localhost:1/v1", "https://[::1]:8080"):
        assert PlannerSettings(base_url=url, model="m").key() == "none"
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    assert PlannerSettings(model="m").key() == "sk"
    for url in ("models.example/v1", "ftp://127.0.0.1", "http://", "http://[::1", "http://a:b"):
        with pytest.raises(ValueError, match="base_url"):
            PlannerSettings(base_url=url).key()
