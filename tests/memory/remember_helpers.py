"""Helpers of the tests of Remember, Reinforce and Forget."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from vikingd.client import ClientError, RecallPath
from vikingd.client.messages import MessageClient
from vikingd.memory.entries import clean
from vikingd.memory.memory_file_series import Key, Series
from vikingd.memory.memory_types import MemoryFile
from vikingd.pb.memories_pb2 import (
    REMEMBER_OUTCOME_ADDED,
    REMEMBER_OUTCOME_REINFORCED,
)

USER = "viking://user/memories"
LAMP = "viking://projects/lamp/memories"
NOTES = f"{USER}/notes.md"
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
SEARCH = (RecallPath.FAST, RecallPath.TIMELINE)
ADDED, REINFORCED = REMEMBER_OUTCOME_ADDED, REMEMBER_OUTCOME_REINFORCED


def series_of(file: MemoryFile | None, uri: str = NOTES) -> Series:
    """Return the series of one file, or an empty one."""
    if file is None:
        return Series(uri, (), lambda _: None)
    return Series(file.uri, ((file.uri, Key(1, 1, file.content.encode())),), {file.uri: file}.get)


def verified(client: MessageClient) -> bool:
    """Return True if index and store agree."""
    report = client.verify()
    assert report.ok, list(report.problems)
    return report.ok


def known(client: MessageClient, uri: str = NOTES) -> dict[int, tuple[str, int]]:
    """Return text and reinforcement of a file's entries by their ids, in order."""
    try:
        context = client.get(uri).context
    except ClientError:
        return {}
    ends = [*(i for i, p in enumerate(context.passages) if not p.continues), len(context.passages)]
    found = {}
    for first, behind in pairwise(ends):
        p = context.passages[first]
        text = context.content[p.start : context.passages[behind - 1].end]
        found[p.memory.id] = clean(text), p.memory.reinforcement
    return found


def said(client: MessageClient, uri: str = NOTES) -> list[tuple[str, int]]:
    """Return text and reinforcement of a file's entries, in order."""
    return list(known(client, uri).values())


def content(client: MessageClient, uri: str = NOTES) -> str:
    """Return the Markdown of a file."""
    return client.get(uri).context.content


def recalled(client: MessageClient, query: str, **how: Any) -> set[str]:
    """Return the contents of the recalled memories."""
    how = {"without": SEARCH, "no_touch": True, "max_tokens": 100_000, "top_k": 500} | how
    return {memory.content for memory in client.recall(query, **how).results}


def refused(call: Any, *args: Any, **fields: Any) -> tuple[str, list[str]]:
    """Return the error message of a refused call, and the fields at fault."""
    with pytest.raises(ClientError) as error:
        call(*args, **fields)
    return error.value.message, [violation.field for violation in error.value.field_violations]
