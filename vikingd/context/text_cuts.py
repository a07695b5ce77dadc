"""The cut of a text after a sentence, a line of code, a word or a grapheme cluster."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import regex

from vikingd.domain.sentences import sentence_ends
from vikingd.domain.text import WIDE_CHARS, lazy

LEFT_OUT = "…"
"""The mark where a part of the source is left out."""

_LINE = re.compile(r"[^\n]*\n?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_LINE = re.compile(r"(?: {4}| {0,3}\t)[ \t]*\S")
_ITEM = re.compile(r"[ \t]*(?:[-*+]\s|[>#|]|\d+[.)]\s)")
_TERMINATED = re.compile(r"[.!?。！？；…][\"'”’)\]』」）]*\Z")
_CLOSING = "[、。，．：；？！”’』」）》】〉…ー々\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_WORD = lazy(rf"(?:[“‘『「（《【〈]*[{WIDE_CHARS}]|[^\s{WIDE_CHARS}]+){_CLOSING}*")
_CHARACTER = regex.compile(r"\X")


class _Fence(NamedTuple):
    """A fenced block of Markdown: its start, the start of its code, its end, its closing mark."""

    start: int
    code: int
    end: int
    mark: str


class _Shape(NamedTuple):
    """The parts of a text: fenced blocks, runs of prose lines, and the ends of code lines."""

    fences: list[_Fence]
    prose: list[tuple[int, int]]
    lines: list[int]


def _shape(text: str) -> _Shape:
    """Divide a text into fenced blocks, runs of prose lines and lines of code.

    A run of prose ends at a blank line, at code, and before an item or a heading.
    """
    shape = _Shape([], [], [])
    fence: _Fence | None = None
    run = -1
    for line in _LINE.finditer(text):
        start, end = line.span()
        if start == end:
            break
        mark = _FENCE.match(text, start, end)
        in_prose = False
        if fence is None and mark:
            fence = _Fence(start, end, len(text), mark[1])
        elif fence is not None:
            shape.lines.append(end)
            if mark and mark[1].startswith(fence.mark) and not text[mark.end() : end].strip():
                shape.fences.append(fence._replace(end=end))
                fence = None
        elif run < 0 and _CODE_LINE.match(text, start, end):
            shape.lines.append(end)
        elif not text[start:end].isspace():
            in_prose = True
        begins = in_prose and (run < 0 or _ITEM.match(text, start, end) is not None)
        if run >= 0 and (begins or not in_prose):
            shape.prose.append((run, start))
            run = -1
        if begins:
            run = start
    if run >= 0:
        shape.prose.append((run, len(text)))
    if fence is not None:
        shape.fences.append(fence)
    return shape


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield code points [start, end) of each whole sentence of prose, without space around it.

    Code has no sentences. A text that ends without punctuation is no whole sentence.
    """
    for start, end in _shape(text).prose:
        for stop in _sentence_ends(text, start, end):
            sentence = text[start:stop]
            bare = sentence.strip()
            if _TERMINATED.search(bare):
                first = start + len(sentence) - len(sentence.lstrip())
                yield first, first + len(bare)
            start = stop


def cut(text: str, fits: Callable[[str, str], bool]) -> tuple[str, str]:
    """Return (beginning, mark): the beginning of a text that fits, and a mark to append.

    Both are "" if nothing fits. The beginning ends after a sentence, an item or a line of code, if
    that keeps at least a quarter of the fitting text; else after a line, a word or a character. The
    mark is LEFT_OUT after a break within a sentence, and closes a fenced block that was cut.

    Args:
        text: the text to cut.
        fits: called with (beginning, mark); returns True if both fit. It must be monotonic: what is
            shorter fits, too.
    """
    if fits(text, ""):
        return text, ""
    reach = 256
    while reach < len(text) and fits(text[:reach], ""):
        reach *= 2
    text = text[:reach]
    shape = _shape(text)
    ends = _good_ends(text, shape)

    def fence_at(end: int) -> _Fence | None:
        """Return the fenced block that contains index `end`."""
        i = bisect_left(shape.fences, end, key=lambda f: f.start) - 1
        return shape.fences[i] if i >= 0 and end < shape.fences[i].end else None

    def beginning(end: int) -> tuple[str, str]:
        mark = "" if end in ends else f"\n{LEFT_OUT}" if text[end - 1] == "\n" else LEFT_OUT
        fence = fence_at(end)
        return text[:end].rstrip(), f"{mark}\n{fence.mark}" if fence else mark

    def last_that_fits(places: Sequence[int]) -> int:
        """Return the index in `places` of the last end whose beginning fits; -1 if none fits."""
        return bisect_left(places, True, key=lambda end: not fits(*beginning(end))) - 1

    def allowed(end: int) -> bool:
        """Return False for an end in the opening line of a fenced block, which would be empty."""
        fence = fence_at(end)
        return fence is None or end > fence.code

    words = [m.end() for m in _WORD.finditer(text) if allowed(m.end())]
    if (last := last_that_fits(words)) >= 0:
        most = words[last]
    else:
        characters = [m.end() for m in _CHARACTER.finditer(text[: words[0]] if words else text)]
        if (last := last_that_fits(characters)) < 0:
            return "", ""
        most = characters[last]
    lines = [m.end() for m in re.finditer(r"\n", text) if allowed(m.end())]
    blank = len(text) - len(text.lstrip())  # the end of the leading white space
    for places in (sorted(ends), lines):
        # The end of a sentence is behind the space that follows it.
        for end in reversed(places[: bisect_right(places, most + 1)]):
            if end < most / 4 or end <= blank:
                break
            if fits(*beginning(end)):
                return beginning(end)
    return beginning(most)


def _good_ends(text: str, shape: _Shape) -> set[int]:
    """Return the ends of sentences, items and paragraphs, and within code the ends of lines."""
    fences = (at for fence in shape.fences for at in (fence.start, fence.end))
    bounds = [0, *fences, len(text)]
    outside = zip(bounds[::2], bounds[1::2], strict=True)
    ends = (end for part in outside for end in _sentence_ends(text, *part))
    return {*ends, *shape.lines, *(end for _, end in shape.prose)}


def _sentence_ends(text: str, start: int, end: int) -> list[int]:
    return [start + place for place in sentence_ends(text[start:end])]
