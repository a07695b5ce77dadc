"""Texts cut to a limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.context.context_helpers import (
    CAT,
    FOX,
    IMPORT,
    RUNS,
    A,
    some,
    texts,
)
from vikingd.context.deduplicated_parts import Piece
from vikingd.context.prompt_context import Plan, build
from vikingd.context.text_cuts import cut


def within(limit: int):  # type: ignore[no-untyped-def]
    """Return a check for at most `limit` characters."""
    return lambda kept, mark: len(kept + mark) <= limit


@some
@given(texts, st.integers(0, 400))
def test_a_cut_is_a_beginning_that_fits(text: str, limit: int) -> None:
    """A cut text fits its limit with the mark, and a higher limit never keeps less."""
    kept, mark = cut(text, within(limit))
    assert text.startswith(kept)
    assert len(kept + mark) <= limit
    assert (kept == text and not mark) or len(text) > limit
    assert len(cut(text, within(limit + 3))[0]) >= len(kept)


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        (f"{FOX} {CAT}", 100, (FOX, "")),
        (f"{IMPORT}{RUNS}", 30, (IMPORT, "")),
        ("word " * 40, 22, ("word word word word", "…")),
        ("- one thing\n- another thing", 20, ("- one thing", "")),
        ("1. Build it.\n2. Ship it to all", 20, ("1. Build it.", "")),
        ("First words\n\nand more of them", 25, ("First words", "")),
        ("中文没有空格，也没有句号" * 3, 9, ("中文没有空格，也", "…")),
        ("a" * 30, 10, ("a" * 9, "…")),
        ("👨‍👩‍👧👨‍👩‍👧👨‍👩‍👧", 8, ("👨‍👩‍👧", "…")),
        ("e\u0301" * 9, 6, ("e\u0301e\u0301", "…")),
        ("x = 1\ny = 2\nz = 3 + 4 + 5 + 6", 18, ("x = 1\ny = 2", "\n…")),
        ("```py\nx = 1\ny = 2\nz = 3\n```", 24, ("```py\nx = 1\ny = 2", "\n```")),
        ("    x = 1\n    y = 2. Or\n    z = 3", 26, ("    x = 1\n    y = 2. Or", "")),
        ("So:\n\n```py\nx = 1\n```", 13, ("So:", "")),
        ("word", 0, ("", "")),
    ],
    ids=range(15),
)
def test_texts_are_cut_where_they_end_best(
    text: str, limit: int, expected: tuple[str, str]
) -> None:
    """A cut keeps whole sentences, items or lines of code, else words, else graphemes."""
    assert cut(text, within(limit)) == expected


@pytest.mark.deep
def test_a_long_text_is_cut_soon() -> None:
    """A context from a megabyte of sentences, characters or code uses most of its budget."""
    for content in (f"{FOX} " * 16_000, "中" * 300_000, "x" * 1_000_000, "```\n" + "y\n" * 300_000):
        built = build([Piece(A, 1.0, content=content)], Plan(500))
        assert built.used_tokens > 400


@pytest.mark.parametrize("size", [1 << 14, pytest.param(2 << 20, marks=pytest.mark.deep)])
@pytest.mark.parametrize("space", [" ", "\n"])
def test_much_white_space_is_cut_like_any_text(space: str, size: int) -> None:
    """A text with up to two mebibytes of white space is cut like any other text."""
    white = space * size

    assert cut(f"{white}{FOX} {CAT}", within(len(white) + len(FOX) + 1)) == (white + FOX, "")
    assert cut(f"{white}{'word ' * 9}", within(len(white) + 10)) == (f"{white}word word", "…")
    assert cut(f"{white}{FOX}", within(len(white)))[0] == ""
    assert cut(f"{FOX}{white}{CAT}", within(len(white)))[0] == FOX
