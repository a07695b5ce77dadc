"""The assembly of parts of retrieved texts into one text with citations."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from unicodedata import category

from vikingd.context.deduplicated_parts import Part, Place, Segment
from vikingd.context.text_cuts import LEFT_OUT
from vikingd.domain.hidden_characters import marked
from vikingd.domain.prompt_options import CitationStyle, ContextOrder
from vikingd.domain.text import common_section

_UNSEEN_GAP = 2  # A gap of so few code points between passages is white space.

_MOST_BLANKS = 100  # characters to check before a bracket; behind more blanks it is a marker
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_NO_BRACKETS = str.maketrans({"[": "%5B", "]": "%5D"})


_NUMBER = r"\[[ \t]*\d+[ \t]*\]"
_LIKE_MARKERS = {
    CitationStyle.NUMBERED: re.compile(rf"{_NUMBER}(?:[ \t]*{_NUMBER})*"),
    CitationStyle.URI: re.compile(r"\[[ \t]*viking://[^\]\n]*\]?", re.IGNORECASE),
}
"""Patterns of texts that look like the citation markers of each style."""


@dataclass(frozen=True, slots=True)
class Cited:
    """A cited passage: its code points [start, end) in the text, without marker and heading."""

    marker: str  # before the passage, one for each URI; "" without citations
    uri: str
    section: str
    level: int  # 0 for an abstract, 1 for an overview, 2 for content
    start: int
    end: int
    first_line: int  # of the content that it shows, from 1; 0 for a summary
    last_line: int


class Style(NamedTuple):
    """The form of a built text: citations, order and separator."""

    citation: CitationStyle
    order: ContextOrder
    separator: str


@dataclass(frozen=True, slots=True)
class _Block:
    uri: str
    section: str
    level: int
    text: str
    rank: int
    start: int
    dates: str
    first: tuple[Segment, Part]
    last: tuple[Segment, Part]


class _Placed(NamedTuple):
    """A block of text with its citation marker, at code points [start, end) of the built text."""

    block: _Block
    marker: str
    start: int
    end: int


class Assembled(NamedTuple):
    """A built text, and the places of its passages."""

    text: str
    placed: tuple[_Placed, ...]

    def citations(self) -> tuple[Cited, ...]:
        """Return the cited passages in the order of the text."""
        cited = []
        for block, marker, start, end in self.placed:
            (segment, part), (end_segment, end_part) = block.first, block.last
            lines = part.lines(segment)[0], end_part.lines(end_segment)[1]
            cited.append(Cited(marker, block.uri, block.section, block.level, start, end, *lines))
        return tuple(cited)


def assemble(parts: Iterable[Part], style: Style) -> Assembled:
    """Join parts into one text; adjacent parts of a file become one passage.

    The citation marker, the days of a memory and the section precede each passage. The section is
    left out if the passage begins with it or follows another passage of that section. If a text has
    something like a marker where markers stand, its brackets get backslashes, so that it is not
    taken for one.
    """
    blocks = list(_blocks(parts))
    if style.order is ContextOrder.SCORE:
        blocks.sort(key=lambda b: (b.rank, b.start))
    else:
        blocks.sort(key=lambda b: (b.uri, b.start, b.rank))
    pieces: list[str] = []
    placed: list[_Placed] = []
    markers: dict[str, str] = {}
    length = 0
    before = ("", "")
    for block in blocks:
        marker = markers.setdefault(block.uri, _marker(block.uri, len(markers) + 1, style.citation))
        states = block.text.lstrip("# ").startswith(block.section)
        follows = (block.uri, block.section) == before
        before = (block.uri, block.section)
        section = "" if states or follows else _escaped(block.section, style)
        head = " ".join(filter(None, (marker, block.dates, section)))
        if head:
            head += "\n" if section else " "
        head = (style.separator if placed else "") + head
        text = _escaped(block.text, style)
        start = length + len(head)
        length = start + len(text)
        pieces += head, text
        placed.append(_Placed(block, marker, start, length))
    return Assembled("".join(pieces), tuple(placed))


def _marker(uri: str, number: int, citation: CitationStyle) -> str:
    if citation is CitationStyle.NONE:
        return ""
    return (
        f"[{number}]"
        if citation is CitationStyle.NUMBERED
        else f"[{marked(uri.translate(_NO_BRACKETS))}]"
    )


def _escaped(text: str, style: Style) -> str:
    """Return the text; brackets of parts that look like citation markers get backslashes."""
    pattern = _LIKE_MARKERS.get(style.citation)
    if pattern is None or "[" not in text:
        return text

    def escape(found: re.Match[str]) -> str:
        if not _is_place_of_marker(text, found.start(), style.separator):
            return found[0]
        return found[0].replace("[", "\\[").replace("]", "\\]")

    return pattern.sub(escape, text)


def _is_place_of_marker(text: str, at: int, separator: str) -> bool:
    """Return True if only blanks stand between the last line end or separator and index `at`."""
    for place in range(at, max(at - _MOST_BLANKS, -1), -1):
        before = text[place - 1 : place]
        if not before or before in _LINE_ENDS or text.endswith(separator, 0, place):
            return True
        if not (before.isspace() or category(before) == "Cf"):
            return False
    return True


def _blocks(parts: Iterable[Part]) -> Iterator[_Block]:
    by_place: defaultdict[Place, list[tuple[Segment, Part]]] = defaultdict(list)
    for part in parts:
        by_place[part.place].extend((segment, part) for segment in part.segments)
    for placed in by_place.values():
        placed.sort(key=lambda p: p[0].start)
        run = placed[:1]
        texts = [placed[0][0].text]
        for segment, part in placed[1:]:
            between = _between(run[-1], (segment, part))
            if between is None:
                yield from _block(run, "".join(texts))
                run, texts = [], []
            run.append((segment, part))
            texts += between or "", segment.text
        yield from _block(run, "".join(texts))


def _between(a: tuple[Segment, Part], b: tuple[Segment, Part]) -> str | None:
    """Return the white space between two segments of a file; None if there is other text."""
    start, end = a[0].end, b[0].start
    if start == end:
        return ""
    contents = (part.piece.content for _, part in (a, b))
    content = next((c for c in contents if c is not None), None)
    if content is None:
        return "\n" * (end - start) if end - start <= _UNSEEN_GAP else None
    return gap if (gap := content[start:end]).isspace() else None


def _block(run: Sequence[tuple[Segment, Part]], text: str) -> Iterator[_Block]:
    text = text.strip()
    if not text.strip(f"{LEFT_OUT} "):
        return
    (first, part), *_ = run
    section = part.section
    for _, other in run:
        section = common_section(section, other.section)
    rank = min(other.rank for _, other in run)
    days = sorted({other.piece.date for _, other in run} - {""})
    dates = f"({' to '.join(dict.fromkeys((days[0], days[-1])))})" if days else ""
    ends = run[0], run[-1]
    yield _Block(part.piece.uri, section, part.level, text, rank, first.start, dates, *ends)
