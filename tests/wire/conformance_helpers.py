"""A tree and readers of replies for the conformance tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from tests.wire.wire_helpers import floats as vector
from vikingd.client import (
    ClientError,
    Draft,
    Entry,
    Levels,
    Method,
    Passage,
    RecallPath,
)
from vikingd.client.messages import MessageClient
from vikingd.pb.retrieval_pb2 import (
    FindResponse,
    MatchedContext,
    SearchResponse,
)

TOP = "viking://resources/t"
NOTES = "viking://user/memories/notes.md"
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
ALL = 1000
METHODS = (Method.EXHAUSTIVE, Method.EXACT, Method.BEST_FIRST)
SEARCH = (RecallPath.FAST, RecallPath.TIMELINE)


def matches(reply: FindResponse | SearchResponse) -> list[MatchedContext]:
    """Return all matches of a reply, by score and URI."""
    found = [*reply.memories, *reply.resources, *reply.skills]
    return sorted(found, key=lambda match: (-match.score, match.uri))


def scores(reply: FindResponse | SearchResponse) -> dict[str, float]:
    """Return the URIs that were found with their scores, in order."""
    return {match.uri: match.score for match in matches(reply)}


def answer(client: MessageClient, query: str, **fields: Any) -> bytes:
    """Return the whole answer to a find, without its times."""
    reply = client.find(query, limit=ALL, trace=True, levels=Levels.BOTH, **fields)
    reply.ClearField("timings")
    return reply.SerializeToString(deterministic=True)


def refused(call: Callable[..., object], *args: Any, **fields: Any) -> tuple[grpc.StatusCode, str]:
    """Return (code, first field at fault) of a call that fails."""
    with pytest.raises(ClientError) as caught:
        call(*args, **fields)
    violations = caught.value.field_violations
    return caught.value.code, violations[0].field if violations else ""


def numbers(message: Message) -> Iterator[float]:
    """Yield all floating-point numbers of a message."""
    for of, value in message.ListFields():
        values = value if of.is_repeated else [value]
        if of.cpp_type in (of.CPPTYPE_DOUBLE, of.CPPTYPE_FLOAT):
            yield from values
        elif of.cpp_type == of.CPPTYPE_MESSAGE:
            for one in values:
                yield from numbers(one)


def tree(client: MessageClient) -> None:
    """Put three levels of directories, some with abstracts, with files of each type and vectors."""
    client.put(
        [
            Draft(
                f"{TOP}/a", is_directory=True, abstract="harbour and sea", vector=vector(2, 1, 0)
            ),
            Draft(f"{TOP}/a/b", is_directory=True, abstract="ships", vector=vector(1, 2, 1)),
            *(
                Draft(
                    f"{top}/{path}/{i}.md",
                    abstract=f"{'harbour ' * (i % 3)}{'ship ' * (i % 4)}tea {path}",
                    vector=vector(i % 3 + 0.5, i % 5, len(path) % 4),
                    metadata={"day": i, "lang": "en" if i % 2 else "de"},
                )
                for top in (TOP, "viking://user/memories", "viking://agent/skills")
                for path in ("a", "a/b", "a/b/c", "ab", "d/e")
                for i in range(6)
            ),
        ]
    )


def micros(moment: datetime) -> int:
    """Return a time in microseconds, as in the domain."""
    return round(moment.timestamp() * 1_000_000)


def memories(text: str, known: list[Entry]) -> Draft:
    """Return a file of memories that differ in a number only."""
    content, cut = "", []
    for i, entry in enumerate(known):
        start = len(content) + 2
        content += f"- {text} {i}\n"
        cut.append(Passage("", start, len(content) - 1, entry=entry))
    return Draft(NOTES, content=content, passages=cut)
