"""Sends a retriever's query by the client's find, search or recall, and converts the results."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

from vikingd.client import (
    Client,
    Confidence,
    ContextType,
    FindResult,
    MatchedContext,
    Memory,
    SearchResult,
)

_log = logging.getLogger(__name__)

Mode: TypeAlias = Literal["find", "search", "recall"]
"""find: one query. search: queries that are planned for a task. recall: memories."""


class Answer(NamedTuple):
    """A text that matched, with its metadata; `id` is unique in the tree."""

    id: str
    text: str
    score: float
    metadata: dict[str, Any]


def check_mode(mode: Mode, uri: str) -> None:
    """Check that no directory is given for a recall.

    Raises:
        ValueError: the mode is recall, and `uri` is not "".
    """
    if mode == "recall" and uri:
        raise ValueError("uri is not for the mode 'recall'; give options={'project': ...}")


def answers(
    client: Client,
    mode: Mode,
    uri: str,
    query: str,
    *,
    floor: float | None = None,
    **options: Any,
) -> list[Answer]:
    """Return the answers, best first; none if they are below the floor, which the log says.

    Args:
        client: the client of the daemon.
        mode: the method.
        uri: search below this directory only; "": the whole tree.
        query: the question.
        floor: the least confidence that the scope is about the question, in [0, 1]; 0: any; None:
            all but NOTHING.
        options: further arguments of the method.
    """
    if mode == "recall":
        recalled = client.recall(query, floor=floor, **options)
        _log_left_out(recalled.left_out)
        return [_recalled(memory) for memory in recalled]
    ask: Callable[..., FindResult | SearchResult] = client.find if mode == "find" else client.search
    found = ask(query, **{"target_uri": uri, **options})
    if found.confidence is not None and found.confidence.is_below(floor):
        _log_left_out(len(found))
        return []
    return [_matched(match, found.confidence) for match in found]


def _log_left_out(count: int) -> None:
    if count:
        _log.info("%d results are left out: nothing there is about the question", count)


def _matched(match: MatchedContext, confidence: Confidence | None) -> Answer:
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
            "confidence": None if confidence is None else confidence.in_scope,
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
