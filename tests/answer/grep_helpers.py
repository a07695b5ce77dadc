"""Plain twins of Grep and Glob, by Python's `re` and `fnmatch`, and texts for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.patience import SECONDS
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.domain.pattern_queries import MAX_SHOWN

TOP = "viking://resources/top"


class Found(NamedTuple):
    """The first match of a line."""

    line: int
    column: int
    match: str
    text: str


def put(client: MessageClient, contents: dict[str, str]) -> None:
    """Write files."""
    client.put([Draft(uri, content=content) for uri, content in contents.items()])


def collected(call: Callable[..., Any], request: Any, items: str, between: Any = None) -> list[Any]:
    """Return the items of all pages; `between` is called after each page."""
    found: list[Any] = []
    while True:
        page = call(request, timeout=SECONDS)
        found += getattr(page, items)
        request.page_token = page.next_page_token
        if not request.page_token:
            return found
        if between is not None:
            between()


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without their ends."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def plain_lines(text: str, pattern: re.Pattern[str]) -> Iterator[Found]:
    """Yield the first match of each line."""
    for number, line in enumerate(lines_of(text), 1):
        if found := pattern.search(line):
            yield Found(number, found.start() + 1, found[0], line)


def found_in(number: int, column: int, text: str, start: int, end: int, length: int) -> Found:
    """Return a line of the product, checked for what holds of all, in the form of its twin."""
    assert len(text) == min(length, MAX_SHOWN)
    assert 0 <= start <= end <= len(text)
    assert start < column
    return Found(number, column, text[start:end], text)


def plain_glob(path: str, pattern: str) -> bool:
    """Return whether a path matches a glob, name by name."""
    return _names_match(path.split("/"), pattern.removesuffix("/").split("/"))


def _names_match(names: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not names
    if patterns[0] == "**":
        rests = (names[at:] for at in range(len(names) + 1))
        return any(_names_match(rest, patterns[1:]) for rest in rests)
    return (
        bool(names) and fnmatchcase(names[0], patterns[0]) and _names_match(names[1:], patterns[1:])
    )


def _joined(parts: list[str]) -> str:
    return "".join(parts)


# No pattern repeats what may be empty: there RE2 and `re` choose different matches.
_ATOMS = st.sampled_from(
    ["a", "b", "B", "é", "字", "e\u0301", " ", r"\.", ".", "[ab]", "[^a]", "[a-cé]", r"\w", r"\d",
     r"\S", "[^\\n字]", r"\x00", "(?:ab|b)", "(a|é|字b)"]
)  # fmt: skip
_REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,3}", "*?", "+?", "??"])
_PIECES = st.one_of(
    st.builds(str.__add__, _ATOMS, _REPEATS), st.sampled_from([r"\b", "^", "$", ""])
)
_SEQUENCES = st.lists(_PIECES, min_size=1, max_size=4).map(_joined)
PATTERNS = st.lists(_SEQUENCES, min_size=1, max_size=3).map("|".join).filter(bool)
"""Regular expressions for which RE2 and `re` with re.ASCII agree."""

SHORT_PATTERNS = st.lists(
    st.sampled_from(["a", "b", "é", "字", "e\u0301", "[ab]", "[^a]", ".", "(?:ab|b)"]),
    min_size=1,
    max_size=4,
).map(_joined)
"""Regular expressions whose matches have at most 16 bytes."""

TEXTS = st.lists(
    st.sampled_from(
        ["a", "b", "B", "ab", "é", "字", "e\u0301", "\u0301", " ", ".", "0", "_", "\0", "\t", "\r",
         "\n", "\n", "\r\n", "\U0001f600", "İ", "ß"]
    ),
    max_size=60,
).map(_joined)  # fmt: skip
"""Texts with line ends of all kinds, empty lines and wide characters."""

NAMES = st.text(alphabet="ab-.字é[*!", min_size=1, max_size=3).filter(
    lambda n: n not in (".", "..")
)
"""Names of contexts."""


def _reversed(name: str) -> bool:
    """Return whether a dash stands between two characters in falling order, as in `[b-a]`."""
    dashes = (i for i in range(1, len(name) - 1) if name[i] == "-")
    return any(name[i - 1] > name[i + 1] for i in dashes)


_IN_A_GLOB = ["a", "b", "-", ".", "字", "*", "?", "[ab]", "[!a]", "[a-b]", "[!a-b]", "[*]", "[]a]",
              "[+-9]", "[", "]", "!", "+", "(", "\\", "[é字]"]  # fmt: skip
_NAME_GLOBS = (
    st.lists(st.sampled_from(_IN_A_GLOB), min_size=1, max_size=4)
    .map(_joined)
    .filter(lambda name: "**" not in name and not _reversed(name))
)
GLOBS = st.lists(st.one_of(st.just("**"), _NAME_GLOBS), min_size=1, max_size=4).map("/".join)
"""Globs, in which `**` stands alone."""
