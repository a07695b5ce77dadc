"""Planning with a model that answers, refuses, fails or returns garbage."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.answer.intent_helpers import (
    BY_MODEL,
    GARBAGE,
    MODEL,
    NONE,
    PLANNED,
    RULES,
    SESSION,
    TASK,
    Asked,
    completion,
    fell_back,
    in_turn,
    planned,
)
from tests.scripted import Reply, Request, ScriptedServer
from vikingd.domain.contexts import ContextType
from vikingd.domain.search_query import QueryPlan, SearchSession, TypedQuery
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.intent.planner import Planner
from vikingd.models.intent.planner_question import RESPONSE_FORMAT

# The source of a plan


def test_without_a_session_nobody_plans(asked: Asked) -> None:
    """Without a session the query is searched as it is, and no model is called."""
    for session in (SearchSession(), SearchSession(" \n")):
        plan = asked.plan("hi there!", session)
        assert plan == QueryPlan(
            NONE,
            "no session: the query is searched as it stands",
            (TypedQuery("hi there!", ContextType.UNSPECIFIED, priority=1),),
        )
    assert asked.server.requests == []


def test_the_model_plans(asked: Asked) -> None:
    """The model plans in one call with two messages and bounds, and its time is reported."""
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
    """The notes of a plan name the cut of the session and the dropped queries."""
    asked.server.answer = in_turn(planned(PLANNED, PLANNED))
    plan = asked.plan(session=SearchSession("x" * 30_001))
    assert len(plan.notes) == 2
    assert "summary" in plan.notes[0]
    assert plan.notes[1] == "query 2 was dropped: another asks the same"


def test_an_empty_plan_is_a_plan(asked: Asked) -> None:
    """An empty plan of the model is a valid plan."""
    asked.server.answer = in_turn(Reply(completion('{"queries": []}')))
    assert asked.plan() == QueryPlan(MODEL, "nothing to look up", (), (), "m")


def test_without_a_model_rules_plan_and_its_client_is_not_loaded() -> None:
    """Without a model, rules plan, and the library of the model's client is not imported."""
    code = (
        "import asyncio, sys\n"
        "from vikingd.models.intent.planner import Planner, PlannerSettings\n"
        "from vikingd.domain.search_query import SearchSession\n"
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
    """Without time left, no model is called, and rules plan."""
    for seconds in (0.0, -1.0):
        plan = asked.plan(seconds=seconds)
        assert plan.reason.startswith("no time was left for the model: planned by rules")
        assert (plan.source, plan.model) == (RULES, "m")
    assert asked.server.requests == []


# Garbage and refusals


def changed(**fields: Any) -> Reply:
    """Return a completion with other fields at its top level."""
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


@pytest.mark.deep_after(6)
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_after_garbage_the_model_is_asked_once_more(asked: Asked, odd: Reply) -> None:
    """An answer that is no plan leads to one more call, then to rules."""
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
    """A refusal of the model leads to rules without another call."""
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
    """A redirect is not followed, so the session goes only to the configured endpoint."""
    with ScriptedServer(in_turn(planned())) as other:
        asked.server.answer = in_turn(Reply({}, status, {"Location": f"{other.url}/v1/x"}))
        fell_back(asked.plan(), f"the model's endpoint answered {status}")
        assert other.requests == []


# Parameters that a server does not support


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_server_without_schemas_is_asked_without_and_that_is_remembered(
    asked: Asked, status: int
) -> None:
    """A server that refuses a JSON schema is called without it, for this and later plans."""

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
    """A server that refuses the temperature is called without it, but with the schema."""

    def answer(request: Request) -> Reply:
        known = "temperature" not in request.json
        return planned() if known else Reply({"error": {"param": "temperature"}}, 400)

    asked.server.answer = answer
    assert asked.plan().source is MODEL
    assert "response_format" in asked.server.requests[1].json


def test_what_helps_nothing_is_not_remembered(asked: Asked) -> None:
    """The next plan uses the schema again after a call without the schema fails too."""
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
    """Return the HTTP date `seconds` from now."""
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.deep_after(3)
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
    """Overload, a server error or a broken connection leads to one more call."""
    asked.server.answer = in_turn(failure, planned())
    assert asked.plan().queries == BY_MODEL
    assert [outcome for outcome, _ in asked.took] == ["FAILED", "DONE"]


@pytest.mark.parametrize(
    "failure",
    [
        Reply({}, 429, {"Retry-After": "30"}),
        Reply({}, 429, {"Retry-After": "3"}),  # too long for a plan of 5 seconds
        Reply({}, 503, {"Retry-After": http_date(86_400)}),
        Reply({}, 401),
        Reply({}, 403),
        Reply({}, 413),
    ],
    ids=["long", "too long", "date", "401", "403", "413"],
)
def test_after_a_failure_that_stays_it_is_not(asked: Asked, failure: Reply) -> None:
    """A client error or a long Retry-After leads to rules without another call."""
    asked.server.answer = in_turn(failure)
    fell_back(asked.plan(timeout=5.0), f"the model's endpoint answered {failure.status}")
    assert len(asked.server.requests) == 1


@pytest.mark.parametrize("failure", [Reply({}, 500), Reply({}, 429, {"Retry-After": "0"})])
def test_it_is_asked_once_more_and_no_more(asked: Asked, failure: Reply) -> None:
    """A failure that lasts leads to two calls at most."""
    asked.server.answer = in_turn(failure)
    fell_back(asked.plan(), f"the model's endpoint answered {failure.status}")
    assert len(asked.server.requests) == 2


def test_a_short_time_leaves_none_for_another_call(asked: Asked) -> None:
    """A plan with little time left does not retry a failed call."""
    asked.server.answer = in_turn(Reply({}, 500), planned())
    fell_back(asked.plan(seconds=0.35), "the model's endpoint answered 500")
    assert len(asked.server.requests) == 1


def test_garbage_and_a_failure_have_one_more_call_each(asked: Asked) -> None:
    """One plan retries garbage once and a failure once, but neither twice."""
    asked.server.answer = in_turn(GARBAGE, Reply(reset=True), planned())
    assert asked.plan().source is MODEL
    asked.server.answer = in_turn(Reply(reset=True), GARBAGE, Reply(reset=True), planned())
    assert asked.plan().source is RULES


def test_an_endpoint_that_is_not_there(asked: Asked) -> None:
    """A refused connection is named in the reason, and rules plan."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    plan = asked.plan(base_url=f"http://127.0.0.1:{port}/v1")
    fell_back(plan, "the model's endpoint could not be reached (ConnectError)")


# Keys


def test_the_key_goes_to_the_endpoint_and_nowhere_else(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The key is sent to the endpoint, and no plan, log or setting shows a key or a password."""
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
    """An endpoint on another machine needs a key; an invalid base URL is refused."""
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
