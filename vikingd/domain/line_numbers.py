"""Line numbers in a content. The first line is 1, and a line feed ends a line.

A carriage return ends no line, alone or before a line feed. Grep counts in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vikingd.domain.errors import InvalidField

# 12:40, 12-40, 12:, :40 or 12
_GIVEN = re.compile(r"([0-9]{1,10})?(?:(:|(?<=[0-9])-(?=[0-9]))([0-9]{1,10})?)?")

_GIVEN_BEHIND = re.compile(r"[0-9]{1,10}(?:-[0-9]{1,10})?")  # see `lines_behind`


def lines_at(content: str, starts: Iterable[int]) -> Iterator[int]:
    """Yield the line number of each index of `starts`, which must ascend; takes one pass."""
    line, at = 1, 0
    for start in starts:
        line += content.count("\n", at, start)
        at = start
        yield line


def last_line(first: int, text: str) -> int:
    """Return the number of the last line of a text that begins on line `first`.

    A line feed at the end of the text begins no further line. If `first` is 0, the text is not a
    part of a content, and the result is 0.
    """
    return first + text.count("\n", 0, -1) if first else 0


def shown_lines(first: int, last: int) -> str:
    """Return a range of lines for people, such as "12-40" or "12"; "" if `first` is 0."""
    if not first:
        return ""
    return f"{first}" if last <= first else f"{first}-{last}"


def lines_behind(first: int, last: int) -> str:
    """Return a range of lines to append to a URI, such as ":12-40"; "" if `first` is 0."""
    return f":{shown_lines(first, last)}" if first else ""


def uri_and_lines(uri: str) -> tuple[str, str]:
    """Return (URI, lines) of a URI with lines behind it, such as "12-40"; (`uri`, "") without."""
    before, colon, lines = uri.rpartition(":")
    return (before, lines) if colon and _GIVEN_BEHIND.fullmatch(lines) else (uri, "")


class LineRange(NamedTuple):
    """A range of lines, both ends included; a `last` of None is the end of the content."""

    first: int
    last: int | None

    def of(self, content: str, field: str) -> tuple[int, str]:
        """Return the lines of a content in this range, as (number of the last line, text).

        A range that ends after the content is cut. Line ends stay as they are.

        Raises:
            InvalidField: the content ends before the range begins; names `field`.
        """
        if not content:
            raise InvalidField(field, "the content is empty")
        start = 0
        for number in range(1, self.first):
            start = content.find("\n", start) + 1
            if not start or start == len(content):
                raise InvalidField(field, f"begins with line {self.first}, {_lines(number)}")
        end, number = start, self.first - 1
        while end < len(content) and (self.last is None or number < self.last):
            end = content.find("\n", end) + 1 or len(content)
            number += 1
        return number, content[start:end]


def line_range(given: str, field: str) -> LineRange:
    """Parse a range of lines: "12:40", "12:", ":40" or "12"; "12-40" is the same as "12:40".

    Raises:
        InvalidField: names `field` and lists the forms.
    """
    found = _GIVEN.fullmatch(given.strip())
    if not found or not (found[1] or found[3]):
        raise InvalidField(field, f'is "{given}": type 12:40, 12:, :40 or 12')
    first = int(found[1] or 1)
    last = int(found[3]) if found[3] else None if found[2] else first
    if not first or last == 0:
        raise InvalidField(field, f'is "{given}": the first line is 1')
    if last is not None and last < first:
        raise InvalidField(field, f'is "{given}": the last line is before the first')
    return LineRange(first, last)


def _lines(number: int) -> str:
    return f"but there {'is 1 line' if number == 1 else f'are {number:,} lines'}"
