"""Sends a retriever's query by the client's find, search or recall, and converts the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

from vikingd.client import Client, ContextType, MatchedContext, Memory

Mode: TypeAlias = Literal["find", "search", "recall"]
"""find: one query. search: queries that are planned for a task. recall: memories."""


class Answer(NamedTuple):
    """A text that matched, with its metadata; `id` is unique in the tree."""

    id: str
    text: str
    score: float
    metadata: dict[str, Any]


def check_mode(mode: Mode, uri: str) -> None:
    """Refuse a directory for a recall.

    Raises:
        ValueError: the mode is recall, and `uri` is not "".
    """
    if mode == "recall" and uri:
        raise ValueError("uri is not for the mode 'recall'; give options={'project': ...}")


def answers(client: Client, mode: Mode, uri: str, query: str, **options: Any) -> list[Answer]:
    """Return the answers, best first.

    Args:
        client: the client of the daemon.
        mode: the method.
        uri: search below this directory only; "": the whole tree.
        query: the question.
        options: further arguments of the method.
    """
    if mode == "recall":
        return [_recalled(memory) for memory in client.recall(query, **options)]
    ask: Callable[..., Iterable[MatchedContext]] = client.find if mode == "find" else client.search
    return [_matched(match) for match in ask(query, **{"target_uri": uri, **options})]


def _matched(match: MatchedContext) -> Answer:
    """Return a match: its passages in the order of the file, or its abstract."""
    passages = sorted(match.passages, key=lambda passage: passage.start)
    return Answer(
        match.uri,
        "\n\n".join(passage.text for passage in passages) or match.abstract,
        match.score,
        {
            "uri": match.uri,
            "type": match.context_type.name.lower(),
            "score": match.score,
            "abstract": match.abstract,
            "sections": [passage.section for passage in passages],
        },
    )


def _recalled(memory: Memory) -> Answer:
    return Answer(
        f"{memory.uri}#{memory.id}",
        memory.content,
        memory.score,
        {
            "uri": memory.uri,
            "type": ContextType.MEMORY.name.lower(),
            "score": memory.score,
            "memory_id": memory.id,
            "memory_type": memory.memory_type,
            "section": memory.section,
            "reinforcement": memory.reinforcement,
            "time": None if memory.time is None else memory.time.isoformat(),
        },
    )
