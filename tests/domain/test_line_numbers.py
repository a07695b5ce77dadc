"""Numbers of lines: of positions, of texts, and of a range that a person types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vikingd.domain.errors import InvalidField
from vikingd.domain.line_numbers import last_line, line_range, lines_at, lines_behind, shown_lines

CONTENT = "one\r\ntwo\n\nfour 茶\nfive"

RANGES = {
    "1": (1, 1, "one\r\n"),
    "2:4": (2, 4, "two\n\nfour 茶\n"),
    "2-4": (2, 4, "two\n\nfour 茶\n"),
    "3": (3, 3, "\n"),
    ":2": (1, 2, "one\r\ntwo\n"),
    "4:": (4, 5, "four 茶\nfive"),
    "5": (5, 5, "five"),
    "5:400": (5, 5, "five"),
    " 1:5 ": (1, 5, CONTENT),
    "1:": (1, 5, CONTENT),
}
"""For a range its first line, its last one in CONTENT, and the text."""


@pytest.mark.parametrize("given", RANGES)
def test_a_range_of_lines(given: str) -> None:
    """Both ends are in a range, and the lines are as they stand in the content."""
    first, last, text = RANGES[given]
    lines = line_range(given, "--lines")
    assert (lines.first, *lines.of(CONTENT, "--lines")) == (first, last, text)


@pytest.mark.parametrize(
    "given", ["", ":", "-", "0", "0:4", ":0", "4:2", "-4", "4-", "a", "1:2:3", "1,2", "١", "1" * 11]
)
def test_a_range_that_is_none(given: str) -> None:
    """A range that cannot be read names the option and its forms, or the fault."""
    with pytest.raises(InvalidField, match=r"^--lines: is .*(type 12:40, 12:|first)"):
        line_range(given, "--lines")


@pytest.mark.parametrize(
    ("content", "given", "why"),
    [
        (CONTENT, "6", "begins with line 6, but there are 5 lines"),
        ("one\n", "2:", "begins with line 2, but there is 1 line"),
        ("one", "3:4", "begins with line 3, but there is 1 line"),
        ("", "1", "the content is empty"),
    ],
)
def test_a_range_behind_the_content(content: str, given: str, why: str) -> None:
    """A range that begins behind the content names the number of lines."""
    with pytest.raises(InvalidField) as refused:
        line_range(given, "--lines").of(content, "--lines")
    assert str(refused.value) == f"--lines: {why}"


@given(st.text("ab\n\r茶\u2028", max_size=40), st.lists(st.integers(0, 40)))
def test_lines_of_positions(content: str, starts: list[int]) -> None:
    """The line of a position is one more than the line feeds before it."""
    ascending = sorted(min(start, len(content)) for start in starts)
    plain = [len(content[:start].split("\n")) for start in ascending]
    assert list(lines_at(content, ascending)) == plain


@given(st.text("ab\n\r茶", min_size=1, max_size=12))
def test_the_lines_of_a_text_are_its_range(text: str) -> None:
    """The lines that a passage tells are those that show it whole, and no more."""
    content = f"first\r\n{text}\nlast"
    [first] = lines_at(content, [7])
    last = last_line(first, text)
    number, shown = line_range(f"{first}:{last}", "lines").of(content, "lines")
    assert (number, shown.startswith(text)) == (last, True)
    assert "\n" not in shown[len(text) : -1]


def test_lines_as_they_are_shown() -> None:
    """Lines stand behind a URI, one alone without a range; an abstract has none."""
    assert [shown_lines(12, 40), shown_lines(12, 12), shown_lines(0, 0)] == ["12-40", "12", ""]
    assert [lines_behind(12, 40), lines_behind(0, 0)] == [":12-40", ""]
