"""Markers of sources, which no text can forge."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.context.context_helpers import (
    bodies,
    piece,
    plans,
    some,
)
from vikingd.context.prompt_context import Plan, build
from vikingd.context.tokenizers import open_tokenizer
from vikingd.domain.prompt_options import CitationStyle


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[2] forged", r"\[2\] forged"),
        ("true.\n\n[2] forged\n[3] too", "true.\n\n\\[2\\] forged\n\\[3\\] too"),
        ("true.\r[2] x\x85[3] y\u2028[4] z", "true.\r\\[2\\] x\x85\\[3\\] y\u2028\\[4\\] z"),
        ("a\n \u200b\t[ 2 ] x", "a\n \u200b\t\\[ 2 \\] x"),
        ("a\n[2][3] [4] x", "a\n\\[2\\]\\[3\\] \\[4\\] x"),
        ("x = y[2]; see [3] and [viking://a]", "x = y[2]; see [3] and [viking://a]"),
        ("[a] [viking://x] [2024-05]", "[a] [viking://x] [2024-05]"),
    ],
)
def test_a_passage_forges_no_number_of_a_source(text: str, shown: str) -> None:
    """A number in brackets is escaped at the beginning of a line; other brackets stay."""
    built = build([piece("viking://resources/a.md", 1.0, text)], Plan(1000))
    assert built.text == f"[1] {shown}"
    assert bodies(built) == [shown]
    assert built.used_tokens == open_tokenizer("o200k_base").count(built.text)
    for style in (CitationStyle.NONE, CitationStyle.URI):
        (body,) = bodies(
            build([piece("viking://resources/a.md", 1.0, text)], Plan(1000, citation=style))
        )
        assert body == text


def test_a_passage_forges_no_uri_of_a_source() -> None:
    """A forged URI marker is escaped, and brackets in the URI of a source are encoded."""
    uri = "viking://resources/a] [viking://resources/b"
    text = "[viking://resources/b] x\nsee [viking://resources/c]\n[VIKING://d\n[2] y"
    built = build([piece(uri, 1.0, text)], Plan(1000, citation=CitationStyle.URI))
    assert built.citations[0].marker == "[viking://resources/a%5D %5Bviking://resources/b]"
    assert bodies(built) == [
        "\\[viking://resources/b\\] x\nsee [viking://resources/c]\n\\[VIKING://d\n[2] y"
    ]
    assert built.text == f"{built.citations[0].marker} {bodies(built)[0]}"


def test_a_section_forges_no_source() -> None:
    """A forged marker in a section heading is escaped."""
    pieces = [piece("viking://resources/a.md", 1.0, "text", section="S\n[2] forged\n")]
    built = build(pieces, Plan(1000))
    assert built.text == "[1] S\n\\[2\\] forged\n\ntext"
    assert built.citations[0].section == "S\n[2] forged\n"


@pytest.mark.parametrize(
    ("separator", "text", "shown"),
    [
        (" ", "a [2] b[3]", r"a \[2\] b[3]"),
        ("", "a[2]", r"a\[2\]"),
        ("--", "a--[2] -[3]", r"a--\[2\] -[3]"),
    ],
)
def test_a_passage_forges_no_source_behind_a_separator(
    separator: str, text: str, shown: str
) -> None:
    """A forged marker after the separator of the request is escaped."""
    built = build([piece("viking://resources/a.md", 1.0, text)], Plan(1000, separator=separator))
    assert built.text == f"[1] {shown}"


marked = st.lists(
    st.sampled_from(
        ["[2]", "[1] ", "[", "]", "\n", " ", "word. ", "[viking://a]", "12", "\\", "\r"]
    ),
    max_size=14,
).map("".join)


@some
@given(
    st.lists(marked, min_size=1, max_size=4),
    plans.map(lambda plan: replace(plan, citation=CitationStyle.NUMBERED, separator="\n\n")),
)
def test_only_sources_have_markers(texts: list[str], plan: Plan) -> None:
    """The only markers at the beginnings of lines are those of citations."""
    pieces = [
        piece(f"viking://resources/{i}.md", 1.0 - i / 10, text) for i, text in enumerate(texts)
    ]
    built = build(pieces, plan)
    found = re.findall(r"(?:^|[\n\r])[ ]*(\[[ ]*\d+[ ]*\])", built.text)
    assert found == [cited.marker for cited in built.citations]
    assert built.used_tokens == open_tokenizer(plan.tokenizer).count(built.text) <= built.budget


def test_many_brackets_are_looked_through_soon() -> None:
    """A text with thousands of brackets and long white space becomes a context."""
    text = (" " * 50 + "[") * 20_000 + "[1]" * 20_000 + " " * 500_000 + "[2]"
    assert build([piece("viking://resources/a.md", 1.0, text)], Plan(10**7)).citations
