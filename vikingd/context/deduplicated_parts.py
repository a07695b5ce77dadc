"""The removal of repeated text: each piece keeps only the text that no better piece has.

A piece is one retrieved item. What is left of it without repeated text is a part.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from vikingd.context.text_cuts import LEFT_OUT, cut, sentences
from vikingd.domain import cancellation
from vikingd.domain.line_numbers import last_line
from vikingd.domain.prompt_options import DropReason
from vikingd.domain.spoken_text import sign_end
from vikingd.domain.text import approximate_tokens, one_line

MIN_REPEATED = 8
"""The least approximate tokens of a repeated sentence that is removed."""

MAX_TITLE, MAX_ABSTRACT, MAX_OVERVIEW = 32, 64, 256
"""Maximum approximate tokens of a title, an abstract and an overview in a context."""

ABSTRACT, OVERVIEW, CONTENT = range(3)
"""The levels L0, L1 and L2."""

_WORD = re.compile(r"\w")
_SUMMARY, _PLACED = -2, -1


@dataclass(frozen=True, slots=True)
class Piece:
    """One retrieved item: a passage, or a whole context if `text` is empty.

    `start` and `end` are code points [start, end) of the content. If `end - start` is not the
    length of the text, the place in the content is unknown.
    """

    uri: str
    score: float  # in [0, 1]; only the order counts
    section: str = ""  # headings above the text, joined by " > "
    text: str = ""
    start: int = 0
    end: int = 0
    abstract: str = ""
    overview: str = ""
    content: str | None = None  # None if it was not read
    gone: bool = False  # there is no such context or passage
    is_repeated: bool = False  # a better piece says the same in another language
    title: str = ""  # of the context; else its name
    date: str = ""  # of a memory: the day when it was last said, as YYYY-MM-DD
    line: int = 0  # of the start in the content, from 1; 0: unknown, or no passage


class Segment(NamedTuple):
    """A part of a content: its bounds in code points [start, end), and its text or LEFT_OUT."""

    start: int
    end: int
    text: str


Place = tuple[str, int]
"""The text whose code points a segment counts: a URI, and a number for the kind of the text.

The kinds are the content of the file, a summary, and a passage whose place in the content is
unknown.
"""


@dataclass(slots=True)
class Part:
    """A piece without the text that better pieces have; `segments` are in the order of the file."""

    piece: Piece
    rank: int
    place: Place
    level: int
    segments: list[Segment]

    @property
    def text(self) -> str:
        """The text of all segments."""
        return "".join(s.text for s in self.segments)

    @property
    def section(self) -> str:
        """The headings above a part of the content; for a summary the title of its context."""
        if self.level == CONTENT:
            return self.piece.section
        return _first_tokens(one_line(self.piece.title), MAX_TITLE)

    @property
    def is_placed(self) -> bool:
        """True if the segments are parts of the file's content and their places are known."""
        return self.place[1] == _PLACED

    def lines(self, segment: Segment) -> tuple[int, int]:
        """Return the first and the last line of a segment; white space at its ends does not count.

        Return (0, 0) if its place in the content is unknown.
        """
        piece = self.piece
        text, start, line = piece.text, piece.start, piece.line
        if not text.strip():
            text, start, line = piece.content or "", 0, 1
        if not self.is_placed or not line:
            return 0, 0
        begin, own = segment.start - start, text[segment.start - start : segment.end - start]
        begin += len(own) - len(own.lstrip())
        first = line + text.count("\n", 0, begin)
        return first, last_line(first, own.strip())

    def shortened(self, kept: str, mark: str) -> Part:
        """Return the part cut to its beginning `kept`, to which `mark` is appended."""
        left = len(kept)
        segments: list[Segment] = []
        for segment in self.segments:
            end = segment.end if left >= len(segment.text) else segment.start + left
            segments.append(Segment(segment.start, end, segment.text[:left]))
            left -= len(segment.text)
            if left <= 0:
                break
        segments[-1] = segments[-1]._replace(text=segments[-1].text + mark)
        return replace(self, segments=segments)


@dataclass(slots=True)
class Source:
    """A context that pieces belong to: its best part, its abstract and its overview."""

    first: Part
    abstract: str
    overview: str

    @property
    def is_in_part(self) -> bool:
        """True if passages of the context were found, not the whole context."""
        return self.first.level == CONTENT and bool(self.first.piece.text.strip())

    def outline(self, text: str) -> None:
        """Set the overview to a text, cut to MAX_OVERVIEW."""
        self.overview = _first_tokens(text.strip(), MAX_OVERVIEW)

    def summary(self, level: int) -> Part:
        """Return the abstract or the overview as a part."""
        text = self.overview if level == OVERVIEW else self.abstract
        place = (self.first.piece.uri, _SUMMARY)
        return replace(self.first, place=place, level=level, segments=[Segment(0, len(text), text)])


@dataclass(slots=True)
class Parts:
    """Iterates over the deduplicated parts of pieces, best first; each is made on demand."""

    pieces: Sequence[Piece]
    sources: dict[str, Source] = field(default_factory=dict)
    left_out: dict[int, DropReason] = field(default_factory=dict)
    _texts: set[str] = field(default_factory=set)
    _said: set[str] = field(default_factory=set)
    _summarised: set[str] = field(default_factory=set)
    _covered: defaultdict[Place, list[tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def __iter__(self) -> Iterator[Part]:
        """Yield each part with new text; `left_out` has the reasons for the other pieces."""
        for rank, piece in enumerate(self.pieces):
            cancellation.check()
            part = self._part(rank, piece)
            if isinstance(part, Part):
                yield part
            else:
                self.left_out[rank] = part

    def _part(self, rank: int, piece: Piece) -> Part | DropReason:
        if piece.is_repeated:
            return DropReason.DUPLICATE
        text, start, level, place = _best_of(piece, rank)
        key = one_line(text)
        if not key or key in self._texts:
            return DropReason.DUPLICATE if key else DropReason.EMPTY
        covered = self._covered[place]
        said = list(_long_sentences(text))
        again = [(a, b) for a, b, key in said if key in self._said]
        segments: list[Segment] = []
        for a, b in _without(covered, start, start + len(text)):
            segments += _segments(text, start, a - start, b - start, again)
        own = "".join(s.text for s in segments if s.text != LEFT_OUT).strip()
        unsaid = own == "".join(s.text for s in segments).strip()
        says_more = bool(_WORD.search(own)) if unsaid else approximate_tokens(own) >= MIN_REPEATED
        if len(own) < len(text.strip()) and not says_more:
            return DropReason.DUPLICATE
        part = Part(piece, rank, place, level, segments)
        if piece.uri not in self.sources:
            self.sources[piece.uri] = self._source(part)
        covered.append((start, start + len(text)))
        self._texts.add(key)
        self._said.update(key for _, _, key in said)
        return part

    def _source(self, part: Part) -> Source:
        """Return the source of a part; sentences shown before are removed from its summaries."""
        texts = []
        for text, limit in (
            (one_line(part.piece.abstract), MAX_ABSTRACT),
            (part.piece.overview.strip(), MAX_OVERVIEW),
        ):
            again = [
                (a, b)
                for a, b, key in _long_sentences(text)
                if key in self._said or key in self._summarised
            ]
            new = (s.text.strip() for s in _segments(text, 0, 0, len(text), again))
            kept = " ".join(t for t in new if t not in ("", LEFT_OUT))
            texts.append(_first_tokens(kept, limit))
        abstract, overview = texts
        source = Source(part, abstract or _first_tokens(part.text.strip(), MAX_ABSTRACT), overview)
        for text in (source.abstract, overview):
            self._summarised.update(key for _, _, key in _long_sentences(text))
        return source


def _segments(
    text: str, offset: int, start: int, end: int, again: Sequence[tuple[int, int]]
) -> Iterator[Segment]:
    """Yield text[start:end] as segments, with LEFT_OUT for each repeated range.

    Args:
        text: the text.
        offset: the index of the text in the content.
        start, end: the range of the text to yield.
        again: the repeated ranges; those with only white space between them are joined.
    """
    done, left_out = start, -1
    for a, b in again:
        if a < start or b > end:
            continue
        if left_out < 0 or text[done:a].strip():
            if left_out >= 0:
                yield Segment(offset + left_out, offset + done, LEFT_OUT)
            if done < a:
                yield Segment(offset + done, offset + a, text[done:a])
            left_out = a
        done = b
    if left_out >= 0:
        yield Segment(offset + left_out, offset + done, LEFT_OUT)
    if done < end:
        yield Segment(offset + done, offset + end, text[done:end])


def _best_of(piece: Piece, rank: int) -> tuple[str, int, int, Place]:
    """Return (text, start, level, place) of the fullest text of a piece.

    This is the text of its passage or the content, else the overview, else the abstract. `start` is
    the index of the text in the content. `place` is (URI, number); the number is _PLACED if the
    text is a known part of the content, else `rank`.
    """
    if piece.text.strip():
        placed = piece.start >= 0 and piece.end - piece.start == len(piece.text)
        place = (piece.uri, _PLACED if placed else rank)
        return piece.text, piece.start if placed else 0, CONTENT, place
    if piece.content and piece.content.strip():
        return piece.content, 0, CONTENT, (piece.uri, _PLACED)
    if piece.overview.strip():
        return piece.overview, 0, OVERVIEW, (piece.uri, rank)
    return piece.abstract, 0, ABSTRACT, (piece.uri, rank)


def _without(covered: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges of [start, end) that are outside of the covered ranges."""
    left = []
    for a, b in sorted(covered):
        if b <= start:
            continue
        if a >= end:
            break
        if start < a:
            left.append((start, a))
        start = b
    if start < end:
        left.append((start, end))
    return left


def _long_sentences(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, key) of each sentence of at least MIN_REPEATED tokens.

    The speaker and the ">" of a conversation's lines are no part of a sentence, so they are never
    left out as repeated.
    """
    for begin, end in sentences(text):
        start = sign_end(text, begin)
        if end - start >= MIN_REPEATED:
            key = one_line(text[start:end])
            if approximate_tokens(key) >= MIN_REPEATED:
                yield start, end, key


def _first_tokens(text: str, limit: int) -> str:
    return "".join(cut(text, lambda kept, mark: approximate_tokens(kept + mark) <= limit))
