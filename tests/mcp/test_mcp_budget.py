"""The budget of the answers in tokens, counted by a real tokenizer."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest
import quicktok
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from pydantic import BaseModel

from tests.daemons import serving
from tests.mcp.mcp_helpers import run, text_of
from vikingd.client import Client as Daemon
from vikingd.client import Draft
from vikingd.mcp.budget import ENVELOPE, beginning, cost, fill, tokens
from vikingd.mcp.retrieval_tools import _LEAST

ROOT = "viking://resources/guides"


@functools.cache
def counted() -> Any:
    """Return the tokenizer; it takes half a second, which only this test needs."""
    return quicktok.get_encoding("o200k_base")


ENGLISH = (
    "A queue keeps the calls that wait. When it is full, `daemon.listen` answers at once with "
    "RESOURCE_EXHAUSTED (code 8), and the client calls again after 0.25 seconds.\n"
    "| code | meaning |\n|---|---|\n| E4102 | the key was used before |\n\n"
)
CHINESE = "队列保存等待的调用。队列满时立即返回错误，客户端稍后再试；详见《运行手册》第三章。\n\n"


def paragraph(number: int) -> str:
    """Return a paragraph that differs from the others."""
    return f"{number}: {ENGLISH}第 {number} 条：{CHINESE}"


@pytest.fixture(scope="module")
def library() -> Iterator[str]:
    """Yield the address of a daemon with long files and many memories, in two languages."""
    with serving("--provider", "none") as where, Daemon(where) as client:
        client.put(
            [
                Draft(
                    f"{ROOT}/{'part' if n % 2 else '章节'}-{n:02}.md",
                    content=f"# Part {n}\n\n" + "".join(map(paragraph, range(n, 3 * n + 2))),
                )
                for n in range(40)
            ]
        )
        listed = "\n".join(f"- Queue {n}: {ENGLISH[:120]} {CHINESE.strip()}" for n in range(60))
        client.put([Draft("viking://user/memories/queues.md", content=f"# Queues\n\n{listed}\n")])
        yield where


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("find", {"query": "queue 队列", "limit": 100}),
    ("search", {"query": "queue 队列", "limit": 100}),
    ("recall", {"query": "queue 队列", "limit": 100}),
    ("build_context", {"query": "queue 队列"}),
    ("read", {"uri": f"{ROOT}/part-39.md"}),
    ("read", {"uri": f"{ROOT}/章节-38.md", "offset": 7000}),
    ("list", {"uri": ROOT}),
    ("grep", {"pattern": "queue|队列"}),
    ("glob", {"pattern": "**/*.md"}),
    ("outline", {"uri": ROOT}),
)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("max_tokens", [200, 500, 1500, 5000])
def test_both_forms_of_an_answer_keep_the_budget(library: str, max_tokens: int) -> None:
    """No answer has more tokens than asked for; a cut one says so, and uses what it may."""

    async def test(client: Client) -> None:
        for tool, arguments in CALLS:
            result = await client.call_tool(tool, {**arguments, "max_tokens": max_tokens})
            form = json.dumps(result.structured_content, ensure_ascii=False)
            text = text_of(result)
            counts = counted().count(text), counted().count(form)
            assert max(counts) <= max_tokens, (tool, counts)
            if result.structured_content and "rest" in result.structured_content:
                assert result.structured_content["rest"] in text
                assert max(counts) > max_tokens / 3 - ENVELOPE, (tool, counts)
            else:
                assert max_tokens == 5000 or (tool, max_tokens) == ("glob", 1500), tool
                assert tool in ("build_context", "glob", "list", "outline", "read")

    run(test, library)


class Piece(BaseModel):
    """An item of a test."""

    name: str
    text: str = ""


@given(st.lists(st.text(max_size=200), max_size=30), st.integers(ENVELOPE, 1000))
def test_the_first_items_are_taken_and_the_best_made_longer(texts: list[str], most: int) -> None:
    """Items are a beginning of the list within the budget; one that was left out did not fit."""
    items = [Piece(name=f"item {number}") for number in range(len(texts))]
    full = [item.model_copy(update={"text": text}) for item, text in zip(items, texts, strict=True)]
    taken = fill(items, most, lambda item: full[items.index(item)])
    assert [item.name for item in taken] == [item.name for item in items[: len(taken)]]
    left = most - ENVELOPE - sum(map(cost, taken))
    assert left >= 0
    short = sum(map(cost, items[: len(taken) + 1]))
    assert len(taken) == len(items) or short > most - ENVELOPE
    assert all(
        item == long or cost(long) - cost(item) > left
        for item, long in zip(taken, full, strict=False)
    )


@given(st.text(), st.integers(1, 300))
def test_a_beginning_fits_and_is_never_empty(text: str, most: int) -> None:
    """A beginning is a prefix within the budget, and of a text that is not empty not empty."""
    part = beginning(text, most)
    assert text.startswith(part)
    assert bool(part) == bool(text)
    assert tokens(part) <= most or len(part) == 1
    assert tokens(text) > most or part == text or len(text) > 4 * most


def test_a_beginning_ends_with_a_line() -> None:
    """A beginning ends where a line ends, if that is not far from the limit."""
    part = beginning(ENGLISH * 20, 200)
    assert part.endswith("\n")
    assert not beginning("word " * 1000, 200).endswith("\n")


def test_the_least_text_has_room_in_the_smallest_answer() -> None:
    """The smallest built text fits beside the envelope of the smallest answer."""
    assert _LEAST + ENVELOPE < 200
