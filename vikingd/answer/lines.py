"""The search for matching lines in one text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vikingd.answer.patterns import Pattern, Span
from vikingd.domain import pace
from vikingd.domain.patterns import MAX_SHOWN

_SLICE_WORK = 1 << 25  # bytes times instructions of one search, some 0.3 s at worst
_LEAD = 100  # characters before the match, in the part of a long line that is shown


class Line(NamedTuple):
    """A line with a match; see GrepMatch."""

    number: int
    column: int
    text: str
    start: int
    end: int
    length: int


class LineSearch:
    """A search with one pattern.

    RE2 cannot be interrupted. So a text is searched in slices, which end at line ends. A line that
    is longer than a slice is searched in windows that overlap by half; a match of more than half a
    window may be missed there.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._slice = _SLICE_WORK // pattern.size

    def lines(self, text: bytes, after: int = 0) -> Iterator[Line]:
        """Yield the lines with a match that follow line `after` of a text in UTF-8."""
        if not text:
            return
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        text = text.removesuffix(b"\n")
        at = 0
        for _ in range(after):
            if (at := text.find(b"\n", at) + 1) == 0:
                return
        number = after + 1
        while at <= len(text):
            found = self._next(text, at)
            if found is None:
                return
            number += text.count(b"\n", at, found[0])
            first = text.rfind(b"\n", 0, found[0]) + 1
            last = text.find(b"\n", found[1])
            last = len(text) if last < 0 else last
            yield _line(number, text[first:last], found[0] - first, found[1] - first)
            number += 1
            at = last + 1

    def _next(self, text: bytes, at: int) -> Span | None:
        """Return the span of the next match."""
        while len(text) - at > self._slice:
            pace.step()
            cut = text.rfind(b"\n", at, at + self._slice)
            if cut >= 0:
                end, following = cut, cut + 1
            else:
                end = _character(text, at + self._slice)
                following = _character(text, at + self._slice // 2)
            if found := self._pattern.search(text, at, end):
                return found
            at = following
        return self._pattern.search(text, at, len(text))


def _character(text: bytes, at: int) -> int:
    """Return the end of the character that a position is in."""
    while at < len(text) and text[at] & 0xC0 == 0x80:
        at += 1
    return at


def _line(number: int, encoded: bytes, start: int, end: int) -> Line:
    before = len(encoded[:start].decode(errors="replace"))
    length = len(encoded[start:end].decode(errors="replace"))
    line = encoded.decode(errors="replace")
    low = min(max(before - _LEAD, 0), max(len(line) - MAX_SHOWN, 0))
    shown = line[low : low + MAX_SHOWN]
    start = before - low
    return Line(number, before + 1, shown, start, min(start + length, len(shown)), len(line))
