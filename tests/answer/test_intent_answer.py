"""The plan that is read from a model's answer, and the question that the model gets."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import examples
from vikingd.domain.contexts import ContextType
from vikingd.domain.search_query import SearchSession, SessionMessage, TypedQuery
from vikingd.models.chat.chat_question import PROMPT
from vikingd.models.intent.planner_question import SYSTEM, Answer, Garbage, question, read_answer

MEMORY, RESOURCE, SKILL = ContextType.MEMORY, ContextType.RESOURCE, ContextType.SKILL


def asked(query: Any = "q", context_type: Any = "resource", **more: Any) -> dict[str, Any]:
    """Return a query as a model writes it."""
    return {"query": query, "context_type": context_type, "intent": "i", "priority": 1, **more}


def read(*queries: Any, **fields: Any) -> Answer:
    """Return the answer that is read from a plan of these queries."""
    return read_answer(json.dumps({"reason": "because", "queries": queries, **fields}))


def texts(answer: Answer) -> list[str]:
    """Return the texts of the queries."""
    return [query.query for query in answer.queries]


def test_a_plan_is_read_as_it_is() -> None:
    """A well-formed plan is not changed, in any language."""
    answer = read(asked("提取 PDF 表格", "skill"), asked("API 使用指南", priority=2))
    assert answer == Answer(
        "because",
        (TypedQuery("提取 PDF 表格", SKILL, "i", 1), TypedQuery("API 使用指南", RESOURCE, "i", 2)),
        (),
    )


@pytest.mark.parametrize(
    "fence", ["```json\n{}\n```", "```\n{}\n```", "\n {} \n", "```JSON \r\n{}\n```"]
)
def test_one_fence_or_none_may_stand_around_it(fence: str) -> None:
    """One code fence around a plan is removed; fences within the plan are text."""
    plan = json.dumps({"queries": [asked("a ``` b")]})
    assert texts(read_answer(fence.replace("{}", plan))) == ["a ``` b"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sure! {PLAN}",
        "{PLAN} Anything else?",
        "```json\n{PLAN}\n```\nDone.",
        "{PLAN}{PLAN}",
        "<html>busy</html>",
        "{PLAN",
        "[{PLAN}]",
        '"queries"',
        "null",
        "{}",
        '{"queries": {}}',
        '{"queries": "none"}',
        '{"queries": null}',
        '{"queries": [], "x": NaN}',
        "[" * 60_000,
        '{"queries": [' + "9" * 5000 + "]}",
        '{"queries": [{}]}',
        '{"queries": ["create a document"]}',
        '{"queries": [[[]]]}',
        '{"queries": [{"query": "a", "context_type": "tool"}, {"context_type": "skill"}]}',
    ],
)
def test_garbage_is_no_plan(text: str) -> None:
    """Prose around the JSON, other shapes, and huge numbers or depths are refused as garbage."""
    with pytest.raises(Garbage):
        read_answer(text.replace("{PLAN}", json.dumps({"queries": [asked()]})))


def test_no_queries_are_a_plan() -> None:
    """An empty plan is valid: the task needs no context."""
    assert read() == Answer("because", (), ())
    assert read_answer('{"queries": []}') == Answer("nothing to look up", (), ())


def test_what_cannot_be_searched_is_dropped_and_said() -> None:
    """A query that cannot be searched is dropped and named with its number and the reason."""
    answer = read(
        asked("kept"),
        asked("of another type", "tool"),
        asked("of no type", None),
        asked(" \t\n"),
        asked(7),
        "not an object",
        asked("x" * 1001),
        asked("y" * 1000),
        asked("Kept ", "RESOURCE"),
        asked("K E P T"),
        asked("kept", "memory"),
    )
    assert texts(answer) == ["kept", "y" * 1000, "kept"]
    kind = "its type is not memory, resource or skill"
    assert answer.notes == (
        f"query 2 was dropped: {kind}",
        f"query 3 was dropped: {kind}",
        "query 4 was dropped: it has no text",
        "query 5 was dropped: it has no text",
        "query 6 was dropped: it has no text",
        "query 7 was dropped: it has 1,001 characters, more than 1,000",
        "query 9 was dropped: another asks the same",
        "query 10 was dropped: another asks the same",
    )


def test_of_duplicates_the_most_important_stays() -> None:
    """Of queries that differ only in case and white space, the one of best priority stays."""
    answer = read(asked("a b", priority=4), asked("c", priority=2), asked("A  B", priority=1))
    assert [(q.query, q.priority) for q in answer.queries] == [("A  B", 1), ("c", 2)]


@pytest.mark.parametrize("priority", [0, 6, -1, 2.0, 1.5, "1", None, True, [1], 10**30])
def test_a_wrong_priority_is_3_and_said(priority: Any) -> None:
    """A priority that is not an integer from 1 to 5 becomes 3 with a note."""
    answer = read(asked(priority=priority))
    assert answer.queries[0].priority == 3
    assert answer.notes == ("query 1 has no priority from 1 to 5: 3",)


def test_a_missing_priority_is_3_too() -> None:
    """A query without a priority gets priority 3 with a note."""
    answer = read({"query": "q", "context_type": "memory"})
    assert answer.queries == (TypedQuery("q", MEMORY, "", 3),)
    assert len(answer.notes) == 1


def test_the_best_five_stay_in_their_order() -> None:
    """The best five queries by priority stay; those of one priority keep the model's order."""
    given = [asked(f"q{i}", priority=1 + (i + 1) % 2) for i in range(8)]
    answer = read(*given)
    assert texts(answer) == ["q1", "q3", "q5", "q7", "q0"]
    assert answer.notes == ("8 queries were planned: the first 5 by priority stay",)


def test_many_notes_are_told_in_few() -> None:
    """Many dropped queries give ten notes, of which the last counts the rest."""
    answer = read(*[asked("", priority=1)] * 50, *[asked(f"q{i}") for i in range(6)])
    assert len(answer.notes) == 11
    assert answer.notes[9] == "41 more queries were dropped or changed"
    assert answer.notes[10].startswith("6 queries were planned")


def test_control_characters_become_spaces_and_long_fields_are_cut() -> None:
    """Control and unencodable characters become spaces, and long fields are cut."""
    odd = "a\x00b\x1b[31m\x9f\u202ec\u2028d\ud800e"
    answer = read(asked(odd, intent=odd * 40), reason=odd)
    assert texts(answer) == ["a b [31m  c d e"]
    assert answer.reason == "a b [31m  c d e"
    assert len(answer.queries[0].intent) == 200
    assert read(asked(intent=["no", "text"])).queries[0].intent == ""
    assert len(read(reason="r" * 10_000).reason) == 500


def test_unknown_keys_do_not_matter() -> None:
    """Unknown keys are ignored at any depth."""
    plain = read(asked())
    odd = read(
        asked(
            target_uri="viking://agent", limit=1000, tool_calls=[{"name": "rm"}], nested={"q": []}
        ),
        tool_calls=[{"name": "rm"}],
        query_plan={"queries": [asked("inner")]},
    )
    assert odd == plain


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["query", "context_type", "priority", "intent", "reason", "queries", "x"]
            ),
            inner | st.sampled_from(["skill", "memory", "resource"]),
            max_size=5,
        )
    ),
    max_leaves=30,
)


@examples(300)
@given(JSON)
def test_whatever_is_answered_a_plan_keeps_its_bounds(value: Any) -> None:
    """Any JSON is either refused as garbage or read as a plan within all bounds."""
    for shape in (value, {"queries": value}, {"queries": [value]}):
        try:
            answer = read_answer(json.dumps(shape))
        except Garbage:
            continue
        assert len(answer.queries) <= 5
        assert answer.reason.encode()
        priorities = [query.priority for query in answer.queries]
        assert priorities == sorted(priorities)
        for query in answer.queries:
            assert 1 <= len(query.query.strip()) <= 1000
            assert query.query.encode()
            assert query.context_type in (MEMORY, RESOURCE, SKILL)
            assert 1 <= query.priority <= 5
            assert len(query.intent) <= 200


# The question to the model


def test_the_prompt_is_the_file() -> None:
    """The system prompt is its file, byte for byte, and has its essential words."""
    assert SYSTEM.encode() == files("vikingd.models.intent").joinpath(PROMPT).read_bytes()
    for word in ("memory", "resource", "skill", "提取 PDF 表格", "never an instruction"):
        assert word in SYSTEM


def test_the_session_is_bounded_and_cuts_are_said() -> None:
    """Old messages are left out without a note; cuts in the summary and other messages have one."""
    messages = tuple(SessionMessage("user", f"{i}" + "x" * i * 2000) for i in range(7))
    sent, notes = question("q", SearchSession("o" + "n" * 30_000, messages))
    data = json.loads(sent.text)
    assert data["summary"] == "n" * 30_000
    assert [m["content"][0] for m in data["messages"]] == ["2", "3", "4", "5", "6"]
    assert [len(m["content"]) for m in data["messages"]] == [4001, 6001, 8000, 8000, 8000]
    assert notes == (
        "the summary has 30,001 characters: the first 1 were left out",
        "message 5 of the session has 8,001 characters: the last 1 were left out",
        "message 6 of the session has 10,001 characters: the last 2,001 were left out",
        "message 7 of the session has 12,001 characters: the last 4,001 were left out",
    )


def test_a_session_within_bounds_stays_whole() -> None:
    """A session exactly at its bounds is not cut."""
    messages = tuple(SessionMessage("tool", str(i) * 8000) for i in range(5))
    sent, notes = question("q", SearchSession("s" * 30_000, messages))
    assert notes == ()
    assert json.loads(sent.text) == {
        "summary": "s" * 30_000,
        "messages": [{"role": "tool", "content": str(i) * 8000} for i in range(5)],
        "query": "q",
    }
