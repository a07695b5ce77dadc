"""The arguments of the tools: what is taken, what is refused, and the size of the list of tools."""

from __future__ import annotations

import json
from typing import Any

from mcp import Client

from tests.mcp.mcp_helpers import TEA, failed, run
from vikingd.client import Client as Daemon
from vikingd.client import Draft
from vikingd.mcp.arguments import Message
from vikingd.mcp.mcp_server import tools

MOST = 12 << 10
"""Bytes of `tools/list`, which each model reads."""


def test_the_list_of_tools_is_short(daemon: str) -> None:
    """The reply to tools/list has at most 12 KB, and each argument has its description."""

    async def test(client: Client) -> None:
        listed = await client.list_tools()
        text = json.dumps(listed.model_dump(mode="json", by_alias=True, exclude_none=True))
        assert len(text.encode()) <= MOST
        for tool in listed.tools:
            for name, argument in tool.input_schema["properties"].items():
                assert argument["description"], (tool.name, name)

    run(test, daemon)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("find", {}, "query is required"),
    ("find", {"query": ""}, "query is text that is not empty, not "),
    ("find", {"query": ["a", "b"]}, 'query is text, not ["a", "b"]'),
    ("find", {"query": True}, "query is text, not true"),
    ("find", {"query": None}, "query is required"),
    ("find", {"query": "a", "limit": 0}, "limit is a whole number from 1 to 100, not 0."),
    ("find", {"query": "a", "limit": "five"}, 'limit is a whole number from 1 to 100, not "five".'),
    ("find", {"query": "a", "limit": "500"}, "limit is a whole number from 1 to 100, not 500."),
    ("find", {"query": "a", "limit": "1e1"}, "limit is a whole number from 1 to 100"),
    ("find", {"query": "a", "limit": True}, "limit is a whole number from 1 to 100, not true."),
    ("find", {"query": "a", "limit": 1.5}, "limit is a whole number from 1 to 100, not 1.5."),
    ("find", {"query": "a", "limit": [3]}, "limit is a whole number from 1 to 100, not [3]."),
    ("find", {"query": "a", "limit": 10**30}, "limit is a whole number from 1 to 100, not 1000"),
    ("find", {"query": "a", "max_tokens": 10}, "max_tokens is a whole number from 200 to 50000"),
    (
        "find",
        {"query": "a", "types": ["file"]},
        'types[0] is one of memory, resource or skill, not "file".',
    ),
    ("find", {"query": "a", "kind": ["source"] * 2}, 'kind is text, not ["source", "source"]'),
    ("find", {"query": "a", "types": 5}, "types[0] is one of memory, resource or skill, not "),
    (
        "find",
        {"query": "a", "top_k": 5},
        "find has no argument 'top_k'; did you mean limit? It has query, target_uri,",
    ),
    ("find", {"query": "a", "max_token": 5}, "find has no argument 'max_token'; did you mean max_"),
    ("recall", {"query": "a", "zebra": 5}, "recall has no argument 'zebra', only query, project,"),
    ("grep", {"pattern": "a", "literal": "maybe"}, 'literal is true or false, not "maybe".'),
    ("grep", {"pattern": "a", "literal": 1}, "literal is true or false, not 1."),
    ("read", {"uri": TEA, "offset": -1}, "offset is a whole number from 0, not -1."),
    ("find", {"query": "a", "target_uri": "resources"}, "target_uri: must begin with viking://"),
    ("find", {"query": "a\ud800"}, "query is text of valid Unicode, not "),
    (
        "search",
        {"query": "a", "messages": [{"role": "human", "content": "b"}]},
        'messages[0].role is one of user, assistant, system or tool, not "human".',
    ),
    (
        "search",
        {"query": "a", "messages": "hello"},
        'messages[0] is an object with role and content, not "hello".',
    ),
    ("search", {"query": "a", "messages": [{"role": "user"}]}, "messages[0].content is required"),
    ("read", {"uri": "viking://a/../b"}, "uri: has the segment '..'"),
    ("read", {"uri": "viking://x\0"}, "uri: has a control character"),
    ("read", {"uri": "viking://resources", "offset": 50000}, "offset: there are only"),
    ("list", {"depth": 65}, "depth is a whole number from 1 to 64, not 65."),
    ("remember", {"text": "a"}, "memory_type is required"),
    (
        "remember",
        {"text": "a", "memory_type": "No!"},
        "memory_type is one of preferences, instructions, entities, tasks, decisions, patterns, "
        'journal or another word in lower case, not "no!".',
    ),
    ("remember", {"text": "tea " * 1100, "memory_type": "a"}, "text is text of at most 4,000 char"),
    ("remember", {"text": "a", "memory_type": "a", "project": "x/y"}, "project: 'x/y' is no name"),
    ("write", {"uri": "viking://x/y.md", "content": "a"}, "uri: must lie below one of"),
    ("write", {"uri": TEA, "content": "a\0"}, "content: has a NUL character"),
    ("write", {"uri": TEA, "content": "茶" * 1_500_000}, "larger than"),
    (
        "write",
        {"uri": TEA, "content": "a" * ((1 << 21) + 1)},
        "content is text of at most 2,097,152 characters, not ",
    ),
    ("forget", {"ids": [0]}, "ids[0] is a whole number from 1, not 0."),
    ("forget", {"ids": [1], "uri": TEA}, "Give ids or a uri"),
    ("nothing", {"a": 1}, "There is no tool 'nothing'. The tools are recall, find,"),
]


MEANT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("find", {"query": "tea", "limit": "3"}, {"limit": 3}),
    ("find", {"query": "tea", "limit": " 3 "}, {"limit": 3}),
    ("find", {"query": "tea", "limit": 3.0}, {"limit": 3}),
    ("find", {"query": "tea", "limit": "3.0"}, {"limit": 3}),
    ("find", {"query": 404}, {"query": "404"}),
    ("find", {"query": "tea", "types": "resource"}, {"types": ["resource"]}),
    ("find", {"query": "tea", "types": "Resources"}, {"types": ["resource"]}),
    ("find", {"query": "tea", "types": ["Memories"]}, {"types": ["memory"]}),
    ("find", {"query": "tea", "types": '["resource", "skill"]'}, {"types": ["resource", "skill"]}),
    ("find", {"query": "tea", "types": ""}, {"types": []}),
    ("find", {"query": "tea", "target_uri": None}, {}),
    ("grep", {"pattern": "a", "ignore_case": "true"}, {"ignore_case": True}),
    ("grep", {"pattern": "a", "ignore_case": "False"}, {"ignore_case": False}),
    ("list", {"depth": "2"}, {"depth": 2}),
    ("forget", {"ids": 17}, {"ids": [17]}),
    ("forget", {"ids": "17"}, {"ids": [17]}),
    ("forget", {"ids": "[17, 18]"}, {"ids": [17, 18]}),
    ("forget", {"ids": ["17", 18.0]}, {"ids": [17, 18]}),
    ("build_context", {"uris": TEA}, {"uris": [TEA]}),
    ("remember", {"text": "a", "memory_type": "Preference"}, {"memory_type": "preferences"}),
    ("remember", {"text": "a", "memory_type": "entity"}, {"memory_type": "entities"}),
    ("remember", {"text": "a", "memory_type": "recipes"}, {"memory_type": "recipes"}),
    (
        "search",
        {"query": "a", "messages": {"role": "User", "content": "b"}},
        {"messages": [Message(role="user", content="b")]},
    ),
    (
        "search",
        {"query": "a", "messages": '[{"role": "user", "content": "b"}]'},
        {"messages": [Message(role="user", content="b")]},
    ),
    (
        "find",
        {"query": '["not a list, but a question"]'},
        {"query": '["not a list, but a question"]'},
    ),
]


def test_what_is_meant_without_doubt_is_taken() -> None:
    """Numbers and truth values as text, one value for a list, and other cases of a choice count."""
    nobody: Any = None
    made = {tool.name: tool for tool in tools(lambda _: nobody, read_only=False)}
    for name, given, expected in MEANT:
        tool, values = made[name], {k: v for k, v in given.items() if v is not None}
        read = tool.fn_metadata.validate_arguments(tool._forms.converted(values))
        assert {key: read[key] for key in expected} == expected, (name, given)


def test_a_wrong_argument_is_named(typed: Daemon) -> None:
    """Each wrong argument is named with what is allowed, in few words, and changes nothing."""

    async def test(client: Client) -> None:
        for tool, arguments, expected in WRONG:
            text = await failed(client, tool, **arguments)
            # An error of gRPC has its own beginning.
            begins = expected == "larger than" or text.startswith(expected)
            assert begins, (tool, text)
            assert expected in text, (tool, text)
            assert len(text) < 500, (tool, text)
            assert "pydantic" not in text
            assert text.encode()

    typed.put([Draft("viking://resources/a.md", content="Tea.")])
    before = typed.stats().revision
    run(test, typed.address)
    assert typed.stats().revision == before
