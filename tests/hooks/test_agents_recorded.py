"""Recorded events of five coding agents: what is understood, and the form of the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError

from tests.daemons import serving
from tests.hooks.agents_recorded import (
    COMPACT,
    END,
    OTHER,
    PROMPT,
    RECORDED,
    RESPONSE,
    START,
    STOP,
    Recorded,
    added,
    check,
)
from tests.hooks.hook_helpers import Machine, texts_below, until
from vikingd.client import Client
from vikingd.hooks.agent_events import AgentEvent, EventKind

AGENTS = ("claude-code", "codex", "gemini", "cursor", "opencode")
KINDS = {
    "SessionStart": START,
    "UserPromptSubmit": PROMPT,
    "Stop": STOP,
    "StopFailure": STOP,
    "PreCompact": COMPACT,
    "SessionEnd": END,
    "BeforeAgent": PROMPT,
    "AfterAgent": STOP,
    "PreCompress": COMPACT,
    "sessionStart": START,
    "beforeSubmitPrompt": PROMPT,
    "afterAgentResponse": RESPONSE,
    "stop": STOP,
    "preCompact": COMPACT,
    "sessionEnd": END,
    "start": START,
    "prompt": PROMPT,
    "compact": COMPACT,
    "end": END,
}
ASKED, ANSWERED = "Which tea do I like?", "Oolong it is."


def protocol(agent: str) -> Any:
    """Return the module that speaks to an agent."""
    return import_module(f"vikingd.hooks.protocols.{agent.replace('-', '_')}")


def parsed(recorded: Recorded) -> AgentEvent:
    """Return the event as the hook understands it."""
    event = protocol(recorded.agent).parse(recorded.given, "".join(recorded.arguments[1:]))
    assert isinstance(event, AgentEvent)
    return event


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one.id)
def test_an_event_is_understood(recorded: Recorded) -> None:
    """Each event has its kind, its session, its directory, and the words of its side alone."""
    event = parsed(recorded)
    assert event.kind is KINDS.get(recorded.name, OTHER)
    assert (event.agent, event.directory) == (recorded.agent, "/home/ana/lantern")
    given = recorded.given
    named = [given.get(key) for key in ("session_id", "conversation_id", "session")]
    assert event.session in filter(None, named)
    assert event.prompt == (ASKED if event.kind is PROMPT else "")
    if event.kind is START:
        assert event.source == given.get("source", "startup")
    if event.kind is RESPONSE or (event.kind is STOP and recorded.agent in ("gemini", "opencode")):
        assert event.response == ANSWERED


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: one.id)
def test_an_answer_has_the_form_that_the_agent_documents(recorded: Recorded) -> None:
    """The empty answer is valid at each event, and so is a text at those that take one."""
    event, render = parsed(recorded), protocol(recorded.agent).render
    check(recorded, render(event, ""))
    assert added(recorded.agent, render(event, "")) == ""
    if event.kind in protocol(recorded.agent).ADDS_AT:
        text = 'Likes "oolong".\n| 乌龙茶 </hook_context> \u2028 \x07'
        check(recorded, render(event, text))
        assert added(recorded.agent, render(event, text)) == text
    elif recorded.agent == "cursor":
        assert render(event, "text") == render(event, "")


def test_agents_take_memories_at_a_start_and_but_one_at_a_prompt() -> None:
    """The documents of Cursor have no field for a text at a prompt."""
    for agent in AGENTS:
        takes = {START} if agent == "cursor" else {START, PROMPT}
        assert takes == protocol(agent).ADDS_AT


@pytest.mark.parametrize("agent", AGENTS)
def test_a_prompt_that_takes_no_text_asks_for_none(agent: str, tmp_path: Path) -> None:
    """Nothing is recalled, so nothing counts as given; a recall would fail without a daemon."""
    machine = Machine(tmp_path, f"unix:{tmp_path}/none")
    one = next(one for one in RECORDED if one.agent == agent and KINDS.get(one.name) is PROMPT)
    machine.hook(one.text.encode(), *one.arguments)
    assert ("FileNotFoundError" in machine.log) == (PROMPT in protocol(agent).ADDS_AT)


@pytest.mark.deep_after(2)
@pytest.mark.parametrize(
    "recorded", [one for one in RECORDED if one.agent == "claude-code"], ids=lambda one: one.id
)
def test_cursor_runs_the_hooks_of_claude_code_for_nothing(recorded: Recorded) -> None:
    """Its own hooks tell the same, and nothing is committed twice."""
    given = {**recorded.given, "cursor_version": "3.1.0"}
    event = protocol("claude-code").parse(given, "")
    assert event.kind is OTHER
    assert protocol("claude-code").render(event, "") == ""


def test_the_schemas_refuse_answers_of_another_event() -> None:
    """A schema tells an answer from that of another event, or of another agent."""
    start, stop = (
        next(one for one in RECORDED if one.agent == "codex" and one.name == name)
        for name in ("SessionStart", "Stop")
    )
    right = protocol("codex").render(parsed(start), "text")
    check(start, right)
    for recorded, answer in (
        (stop, right),
        (start, right.replace("SessionStart", "UserPromptSubmit")),
        (start, '{"additional_context": "text"}'),
    ):
        with pytest.raises(ValidationError):
            check(recorded, answer)


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_the_words_of_a_recorded_transcript(agent: str) -> None:
    """Of the transcript of a turn the words of both sides are read, and nothing that was added."""
    path = Path(__file__).with_name("recorded") / "transcripts" / f"{agent}.jsonl"
    records = map(json.loads, path.read_text("utf-8").splitlines())
    found = [one for one in map(protocol(agent).message, records) if one]
    assert [(one.role, one.text) for one in found] == [("user", ASKED), ("assistant", ANSWERED)]
    assert all(one.time > 1_790_000_000 for one in found)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ('"Say \\"oolong\\" now"', 'Say "oolong" now'),
        ('"one" and "two"', '"one" and "two"'),
        ('"', '"'),
    ],
)
def test_a_quoted_argument_of_opencode_is_its_words(prompt: str, words: str) -> None:
    """The quotes that `opencode run` puts around an argument are not the user's."""
    given = {"session": "ses_1", "directory": "/", "prompt": prompt}
    assert protocol("opencode").parse(given, "prompt").prompt == words


FIELDS = {
    "claude-code": ("session_id", "cwd", "transcript_path"),
    "codex": ("session_id", "cwd"),
    "gemini": ("session_id", "cwd"),
    "cursor": ("conversation_id", "workspace_roots"),
    "opencode": ("session", "directory"),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_field_of_another_form_is_refused(agent: str) -> None:
    """An event whose field has another type raises, so the hook answers nothing and says why."""
    for recorded in (one for one in RECORDED if one.agent == agent):
        name = "".join(recorded.arguments[1:])
        for field in FIELDS[agent]:
            with pytest.raises(ValueError, match=field):
                protocol(agent).parse({**recorded.given, field: [5]}, name)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Yield the address of a daemon that knows something of the user."""
    with serving("--provider", "none") as where:
        with Client(where) as client:
            client.remember("Likes oolong.", "preferences")
        yield where


@pytest.mark.deep_after(5)
@pytest.mark.parametrize(
    "recorded",
    sorted(RECORDED, key=lambda one: (KINDS.get(one.name) is not START, one.variant)),
    ids=lambda one: one.id,
)
def test_a_recorded_event_is_answered(recorded: Recorded, address: str, tmp_path: Path) -> None:
    """The process gives memories at a start, and without a daemon the empty answer."""
    machine = Machine(tmp_path, address)
    said = recorded.text.encode()
    answer = machine.hook(said, *recorded.arguments)
    check(recorded, answer)
    if parsed(recorded).kind is START:
        assert "Likes oolong." in added(recorded.agent, answer)
    away = machine.hook(said, *recorded.arguments, address=f"unix:{tmp_path}/none")
    check(recorded, away)
    assert added(recorded.agent, away) == ""
    assert machine.hook(said, *recorded.arguments, VIKINGD_HOOKS="off") == away


TURNS = {
    "gemini": ("SessionStart.startup", "BeforeAgent.first", "AfterAgent"),
    "cursor": ("sessionStart", "beforeSubmitPrompt", "afterAgentResponse", "stop.completed"),
    "opencode": ("start.startup", "prompt", "stop"),
}


@pytest.mark.parametrize("agent", TURNS)
def test_a_turn_is_committed(agent: str, address: str, tmp_path: Path) -> None:
    """Of a turn the words of both sides reach the memory, once, and nothing that was added."""
    machine = Machine(tmp_path, address)
    names = {
        ".".join(filter(None, (one.name, one.variant))): one
        for one in RECORDED
        if one.agent == agent
    }
    for name in TURNS[agent]:
        one = names[name]
        session = f"{agent}-session".encode()
        for old in ("session_id", "conversation_id", "session"):
            if old in one.given:
                said = one.text.encode().replace(str(one.given[old]).encode(), session)
        machine.hook(said.replace(b"Which tea do I like?", b"I moved to Lyon."), *one.arguments)
    machine.wait()
    until(lambda: "Lyon" in str(texts_below(address, "viking://")), lambda: machine.log)
    episodes = [
        text for uri, text in texts_below(address, "viking://").items() if f"{agent}-session" in uri
    ]
    told = "\n".join(episodes)
    assert told.count("I moved to Lyon.") == 1
    assert told.count(ANSWERED) == 1
    assert "Is a pilot" not in told


def test_kinds_are_all_recorded() -> None:
    """Each agent has a recorded event of each kind that it has."""
    for agent in AGENTS:
        kinds = {parsed(one).kind for one in RECORDED if one.agent == agent}
        assert kinds >= {START, PROMPT, STOP, COMPACT, END}
    assert EventKind.RESPONSE in {parsed(one).kind for one in RECORDED if one.agent == "cursor"}
