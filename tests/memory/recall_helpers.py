"""Helpers of the recall tests."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from datetime import UTC, datetime

from vikingd.client import Draft, Passage, RecallPath
from vikingd.context.tokenizers import open_tokenizer
from vikingd.domain.contexts import Entry
from vikingd.pb.memories_pb2 import (
    RecallResponse,
)

USER = "viking://user/memories"
LAMP = "viking://projects/lamp/memories"
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
SEARCH = (RecallPath.FAST, RecallPath.TIMELINE)
STRICT = (RecallPath.FAST, RecallPath.TIMELINE, RecallPath.HYBRID)


def contents(reply: RecallResponse) -> list[str]:
    """Return the recalled contents in order, after a check of their tokens."""
    assert reply.total_tokens == sum(one.token_count for one in reply.results)
    count = open_tokenizer("o200k_base").count
    for one in reply.results:
        assert one.token_count == count(one.content)
    return [one.content for one in reply.results]


def micros(moment: datetime) -> int:
    """Return a time in microseconds, as in the domain."""
    return round(moment.timestamp() * 1_000_000)


def vector(*numbers: float) -> bytes:
    """Return a vector in bytes, as on the wire."""
    return array("f", numbers).tobytes()


def entries(*texts: str, of: Callable[[int], Entry | None] = lambda _: None, **fields) -> Draft:
    """Return a memory file with one entry a line."""
    content, passages = "", []
    for i, text in enumerate(texts):
        start = len(content) + 2
        content += f"- {text}\n"
        passages.append(Passage("", start, start + len(text), entry=of(i)))
    return Draft(f"{USER}/notes.md", content=content, passages=passages, **fields)
