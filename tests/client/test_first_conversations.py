"""Conversations and numbers as arguments: what is taken, and the errors that say what to type."""

from __future__ import annotations

from typing import Any

import pytest

from vikingd.client import Client, Session, SessionMessage
from vikingd.client.conversation import session_of

SAID = {"role": "user", "content": "I moved to Lyon."}


@pytest.mark.parametrize(
    "given",
    [
        [SAID],
        (SAID,),
        iter([SAID]),
        SAID,
        {"messages": [SAID]},
        [SessionMessage("user", "I moved to Lyon.")],
        [{**SAID, "name": "ana", "id": 5}],
        [{"role": "user", "content": [{"type": "text", "text": "I moved to Lyon."}]}],
        [{**SAID, "time": "2026-05-01T09:30:00Z"}],
        Session(messages=[SAID]),
    ],
)
def test_the_usual_forms_of_a_conversation_are_taken(given: Any) -> None:
    """Messages as dicts, as models' APIs have them, are a conversation."""
    [message] = session_of(given).messages
    assert (message.role, message.content) == ("user", "I moved to Lyon.")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            {"content": None, "tool_calls": [{"type": "function", "function": {"name": "look"}}]},
            "calls look",
        ),
        ({"content": "", "tool_calls": [{"function": {"name": "look"}}]}, "calls look"),
        (
            {"tool_calls": [{"type": "tool_call", "name": "a"}, {"type": "tool_call"}]},
            "calls a, a tool",
        ),
        ({"content": [{"type": "tool_use", "name": "look", "input": {}}]}, "calls look"),
        (
            {"content": [{"type": "text", "text": "So."}, {"type": "tool_use", "name": "look"}]},
            "So.",
        ),
        ({"content": "So.", "tool_calls": [{"function": {"name": "look"}}]}, "So."),
        ({"content": [{"type": "thinking"}, {"type": "tool_use", "name": "look"}]}, "calls look"),
        ({"content": [{"type": "tool_result", "content": "3"}]}, "has the result of a tool"),
        ({"content": "", "tool_calls": [{"name": "look", "args": {}, "id": "1"}]}, "calls look"),
    ],
)
def test_a_call_of_a_tool_keeps_its_place(message: dict[str, Any], text: str) -> None:
    """A message without a text that calls tools is a message, so that the others keep theirs."""
    session = session_of([{"role": "assistant", **message}, SAID])
    assert [one.content for one in session.messages] == [text, SAID["content"]]


@pytest.mark.parametrize("content", [None, [], [{"type": "image"}], {"type": "tool_use"}, 5])
def test_a_message_without_a_text_or_a_call_is_refused(content: Any) -> None:
    """The error names the message and shows a right one."""
    with pytest.raises(TypeError, match=r"messages\[0\]: content is .*give text"):
        session_of([{"role": "assistant", "content": content, "tool_calls": []}])


def test_the_same_messages_are_the_same_conversation() -> None:
    """A list has no id of its own; its first message gives one, so that its turns are kept once."""
    assert session_of([SAID]).id == session_of([SAID, SAID]).id
    assert session_of([SAID]).id != session_of([{**SAID, "content": "Other."}]).id


def test_messages_as_dicts_are_extracted_and_searched(typed: Client) -> None:
    """Extract and search take them."""
    [memory] = typed.extract([SAID])
    assert memory.text == "The user lives in Lyon."
    assert typed.search("where do I live?", session=[SAID]) is not None


EXAMPLE = '[{"role": "user", "content": "I moved to Lyon."}]'


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (
            "I moved to Lyon.",
            TypeError,
            f"a list of messages, such as session={EXAMPLE}",
        ),
        (5, TypeError, "session is an int (5); give a Session or a list"),
        (None, TypeError, "session is None; give a Session or a list"),
        (["I moved."], TypeError, "messages[0]: it is a str ('I moved.'); give a dict"),
        (
            [{"role": "human", "content": "x"}],
            ValueError,
            "messages[0]: role is 'human', not one",
        ),
        (
            [SAID, {"role": "user", "content": None}],
            TypeError,
            "messages[1]: content is None; give",
        ),
        ([SAID, {"role": "user", "content": " "}], ValueError, "messages[1]: content is empty"),
        ([{"content": "x"}], TypeError, "messages[0]: role is None"),
        ([{**SAID, "time": "noon"}], ValueError, "messages[0]: time is 'noon'; give a datetime"),
        (
            {"foo": 1},
            ValueError,
            "a session has no 'foo'; give a Session or a list",
        ),
    ],
)
def test_what_is_no_conversation_is_refused(
    typed: Client, given: Any, error: type[Exception], said: str
) -> None:
    """The error names the message and shows a right one; extract and search have the same."""
    calls: list[Any] = [typed.extract]
    if given is not None:  # the default of search
        calls.append(lambda session: typed.search("x", session=session))
    for call in calls:
        with pytest.raises(error) as raised:
            call(given)
        assert said in str(raised.value)


def test_a_commit_needs_a_session(typed: Client) -> None:
    """A commit counts what was read, so it takes no list."""
    loose: Any = typed
    with pytest.raises(TypeError, match=r"give a Session, which counts .*=Session\(messages="):
        loose.commit([SAID])


NUMBERS: list[tuple[str, str, dict[str, Any]]] = [
    ("recall", "max_tokens", {"query": "x", "max_tokens": -1}),
    ("recall", "max_tokens", {"query": "x", "max_tokens": 1 << 40}),
    ("recall", "top_k", {"query": "x", "top_k": -3}),
    ("recall", "limit", {"query": "x", "limit": -3}),
    ("find", "limit", {"query": "x", "limit": -1}),
    ("find", "limit", {"query": "x", "limit": 1 << 50}),
    ("find", "min_revision", {"query": "x", "min_revision": -1}),
    ("tree", "depth", {"uri": "viking://", "depth": -2}),
    ("build_context", "max_tokens", {"query": "x", "max_tokens": -5}),
]


@pytest.mark.parametrize(("name", "argument", "given"), NUMBERS)
def test_a_number_out_of_range_is_named(
    typed: Client, name: str, argument: str, given: dict[str, Any]
) -> None:
    """The error has the argument, its value and its range."""
    with pytest.raises(ValueError, match=r"give a number from 0 to [0-9,]+, such as") as raised:
        getattr(typed, name)(**given)
    assert f"{name}(): {argument} is {given[argument]}" in str(raised.value)


def test_other_misfits_are_named(typed: Client) -> None:
    """Ids, weights and text that is not Unicode are told with the argument."""
    loose: Any = typed
    for call, said in (
        (lambda: loose.forget(-1), "ids has -1; give ids of memories, such as 17"),
        (
            lambda: loose.recall("x", weights=(1, 2)),
            "weights is a tuple ((1, 2)); give four",
        ),
        (lambda: loose.recall("x", weights="abcd"), "weights is a str ('abcd'); give four numbers"),
        (lambda: loose.find("a\ud800"), "query: '\\ud800' is not valid Unicode"),
        (lambda: loose.remember("a", "b\ud800"), "memory_type: '\\ud800' is not valid Unicode"),
    ):
        with pytest.raises((TypeError, ValueError)) as raised:
            call()
        assert said in str(raised.value)
