"""The search for matching lines in one text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from vikingd.browse.compiled_patterns import MAYBE_HIDDEN, Pattern
from vikingd.browse.work_limit import Work
from vikingd.domain import cancellation, hidden_characters
from vikingd.domain.pattern_queries import MAX_SHOWN

_SLICE_WORK = 1 << 25  # bytes times instructions of one search, some 0.3 s at worst
_FEW = 64  # characters that may be hidden
_BESIDE = 40  # bytes; the tags of a flag have 28
_LEAD = 100  # characters before the match, in the part of a long line that is shown


class Line(NamedTuple):
    """A line with a match, without hidden characters; see GrepMatch."""

    number: int
    column: int
    text: str
    start: int
    end: int
    length: int


class LineSearch:
    """A search for the lines that match one pattern.

    Hidden characters are ignored, unless the pattern has some: a soft hyphen within a word does not
    prevent a match.

    RE2 cannot be interrupted. So a text is searched in slices that end at line ends. A line that is
    longer than a slice is searched in overlapping slices: each has a quarter in common with the
    next one. A match that is longer than the overlap may be missed or cut.
    """

    def __init__(self, pattern: Pattern, work: Work) -> None:
        self._pattern = pattern
        self._work = work
        self._slice = _SLICE_WORK // pattern.size
        self._skips_hidden = not pattern.names_hidden

    def lines(self, text: bytes, after: int) -> Iterator[Line | int]:
        """Yield the matching lines after line `after` of a text in UTF-8.

        If the limit of work is reached, the last item is the number of the last searched line.
        """
        if not text:
            return
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        if self._skips_hidden and not text.isascii():
            text = _without_hidden(text)
        text = text.removesuffix(b"\n")
        at = 0
        for _ in range(after):
            if (at := text.find(b"\n", at) + 1) == 0:
                return
        number = after + 1
        while at <= len(text):
            end, following = self._slice_at(text, at)
            found = self._pattern.search(text, at, end)
            self._work.take_text((found[1] if found else end) - at, self._pattern.size)
            if found and found[0] < following:  # else the next window has all of it
                number += text.count(b"\n", at, found[0])
                first = text.rfind(b"\n", 0, found[0]) + 1
                last = text.find(b"\n", found[1])
                last = len(text) if last < 0 else last
                yield _line(number, text[first:last], found[0] - first, found[1] - first)
                following = last + 1
                number += 1
            elif following <= len(text):
                number += text.count(b"\n", at, following)
            at = following
            cancellation.check()
            if not self._work.has_texts and text[at - 1 : at] == b"\n":
                yield number - 1
                return

    def _slice_at(self, text: bytes, at: int) -> tuple[int, int]:
        """Return (end of the slice that begins at `at`, beginning of the next one)."""
        if len(text) - at <= self._slice:
            return len(text), len(text) + 1
        cut = text.rfind(b"\n", at, at + self._slice)
        if cut >= 0:
            return cut, cut + 1
        end = at + self._slice
        return _character(text, end), _character(text, end - self._slice // 4)


def _without_hidden(text: bytes) -> bytes:
    """Return a text in UTF-8 without hidden characters, see `hidden_characters.removed`."""
    found = list(islice(MAYBE_HIDDEN.finditer(text), _FEW))
    if len(found) < _FEW:  # to decode all would take far longer
        kept, after = [], 0
        for start, end in [one.span() for one in found]:
            if _is_hidden(text, start, end):
                kept.append(text[after:start])
                after = end
        return b"".join([*kept, text[after:]]) if kept else text
    decoded = text.decode(errors="surrogateescape")
    return hidden_characters.removed(decoded).encode(errors="surrogateescape")


def _is_hidden(text: bytes, start: int, end: int) -> bool:
    """Return True if the character at a position is hidden; for joiners, the neighbours decide."""
    low, high = max(start - _BESIDE, 0), min(end + _BESIDE, len(text))
    before = text[_character(text, low) : start].decode(errors="replace")
    rest = text[start : _character(text, high)].decode(errors="replace")
    return hidden_characters.is_at(before + rest, len(before))


def _character(text: bytes, at: int) -> int:
    """Return the next position at or after `at` that is the boundary of a UTF-8 character."""
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
