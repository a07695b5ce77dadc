"""put_many names each bad document with its field, and writes all others."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest

from vikingd.client import AsyncClient, Client, Document
from vikingd.client.document_writes import PutSummary
from vikingd.domain.contexts import Draft, Passage

NOTES = "viking://resources/notes/"
HALF = "half \ud83d pair"


def nested(levels: int) -> dict[str, Any]:
    """Return an object within objects."""
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"in": inner}
    return inner


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("a half pair in a text", {"content": HALF}, "content: is not valid Unicode"),
    ("a half pair in a title", {"title": HALF}, "title: is not valid Unicode"),
    ("a half pair in an abstract", {"abstract": HALF}, "abstract: is not valid Unicode"),
    ("a half pair in a value", {"metadata": {"a": {"b": [HALF]}}}, "metadata.a[^:]*: is not valid"),
    ("a half pair in a section", {"passages": [Passage(HALF, 0, 1)]}, r"passages\[0\].section: "),
    ("a half pair in a mask", {"update_mask": [HALF]}, "update_mask: "),
    (
        "a large integer",
        {"metadata": {"id": 2**60}},
        "metadata.id: is 1152921504606846976; .* send a",
    ),
    ("2^53", {"metadata": {"a": [{"id": 2**53}]}}, r"metadata.a\[0\].id: is 9007199254740992; "),
    ("a huge integer", {"metadata": {"id": 10**400}}, "metadata.id: is an integer of 1,329 bits; "),
    ("no number", {"metadata": {"id": float("nan")}}, "metadata.id: is nan, "),
    ("no JSON", {"metadata": {"id": {1}}}, "metadata.id is a set "),
    ("nested deeply", {"metadata": nested(3000)}, "metadata[^:]*: is nested deeper than 32 levels"),
    ("too large", {"content": "x" * (3 << 20)}, "content: has 3,145,728 bytes, at most 2,097,152"),
    (
        "far too large",
        {"content": "x" * (9 << 20)},
        "content: has 9,437,184 bytes, at most 2,097,152",
    ),
    ("a large title", {"title": "x" * 2000}, "title: has 2,000 bytes, at most 1,024"),
    ("NUL", {"content": "a\0b"}, "content: has a NUL"),
    ("a bad URI", {"uri": "http://x/bad.md"}, "uri: must begin with viking://"),
    ("a half pair in a URI", {"uri": f"{NOTES}{HALF}.md"}, "uri: is not valid Unicode"),
    ("a place that nothing has", {"uri": "viking://nowhere/bad.md"}, "uri: must lie below"),
    ("dots", {"uri": f"{NOTES}../bad.md"}, "uri: has the segment"),
    ("a negative revision", {"expected_revision": -1}, "expected_revision: is -1"),
    (
        "a huge revision",
        {"expected_revision": 2**70},
        "expected_revision: is 1180591620717411303424",
    ),
    ("a negative start", {"passages": [Passage("", -1, 1)]}, r"passages\[0\].start: is -1"),
    ("an end behind the text", {"passages": [Passage("", 0, 9)]}, r"passages\[0\].end: "),
]


def documents() -> Iterator[Any]:
    """Yield a good document before and behind each bad one."""
    for number, (_, fields, _) in enumerate(BAD):
        yield Document(f"{NOTES}good{number}.md", "good")
        yield Document(**{"uri": f"{NOTES}bad{number}.md", "content": "x", **fields})
    yield {"uri": f"{NOTES}bad-dict.md", "content": "x", "metadata": {"id": 2**60}}
    yield Draft(f"{NOTES}bad-draft.md", content="x", time=10**30)
    yield Document(f"{NOTES}last.md", "good")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_bad_document_is_named_with_its_field(typed: Client, daemon: str, is_async: bool) -> None:
    """Each item of a generator has its own outcome, with both clients."""

    async def put() -> PutSummary:
        async with AsyncClient(daemon) as client:
            return await client.put_many(documents())

    summary = asyncio.run(put()) if is_async else typed.put_many(documents())
    assert summary.created == len(BAD) + 1
    assert all(typed.exists(f"{NOTES}good{number}.md") for number in range(len(BAD)))
    reasons = {failure.uri: failure.reason for failure in summary.failed}
    assert len(reasons) == len(BAD) + 2
    for number, (name, fields, reason) in enumerate(BAD):
        told = reasons[fields.get("uri", f"{NOTES}bad{number}.md")]
        assert re.match(reason, told), (name, told)
    assert reasons[f"{NOTES}bad-dict.md"].startswith("metadata.id: ")
    assert reasons[f"{NOTES}bad-draft.md"].startswith("time: ")
