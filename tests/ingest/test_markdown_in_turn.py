"""Titles and abstracts read the first blocks of a page, which are the blocks of the whole page."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vikingd.ingest import markdown
from vikingd.ingest.abstracts import derive_abstract

_LINES = st.sampled_from((
    "", "", "text", "more *text*", "# Title", "## Part", "Title", "===", "---", "- one", "  two",
    "  - three", "1. first", "> said", "> - so", "```", "~~~ py", "    code", "\tcode", "| a | b |",
    "|---|---|", "| 1 | 2 |", "<div>", "</div>", "<!-- note", "-->", "\0", "[a]: b", "/// tip",
    "///", "::: module.name", "{% include x %}", "!!! note", "    inside", "import a from 'b'",
    "***",
))  # fmt: skip
_PAGES = st.lists(st.tuples(_LINES, st.sampled_from(("\n", "\n", "\r\n", "\r"))), max_size=40).map(
    lambda lines: "".join(map("".join, lines))
)


@given(_PAGES)
def test_blocks_in_turn_are_those_of_the_whole(page: str) -> None:
    """The tokens of a page are the same whether it is parsed block by block or at once."""
    assert list(markdown._tokens_in_turn(page)) == markdown._tokens_of(page, is_page=True)


def test_a_title_needs_no_more_than_the_blocks_before_it() -> None:
    """A page that is too costly to read as a whole has the title above its costly part."""
    page = "# Title\n\nThe first paragraph has a few words more.\n\n" + (
        ("> " * 15 + "a\n" + "b\n" * 20) * 120
    )
    with pytest.raises(markdown.TooCostly):
        markdown._tokens_of(page, is_page=True)
    assert markdown.title(page.ljust(8192)) == "Title"
    text = "The first paragraph has a few words more."
    assert list(islice(markdown.paragraphs(page), 2)) == [("", False), (text, True)]
    assert derive_abstract(page, "a.md") == text
