"""Headings and blocks of reStructuredText and AsciiDoc, as passages, titles and paragraphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from vikingd.domain.text import SECTION_SEPARATOR
from vikingd.ingest.markdown import Block

_MAX_PATH = 16  # headings in the section of a block


class Piece(NamedTuple):
    """A heading or a block of text: code points [start, end).

    Markup that is no text is in no piece.

    Attributes:
        start: the first code point.
        end: the code point after the last one.
        level: the level of a heading, from 1 on; 0 for text.
        heading: the heading as plain text. A piece with a level and the heading "" has no text:
            it ends the section of this level.
        is_prose: the text is a paragraph outside of lists, quotations and asides.
        linewise: the text is code or a table.
    """

    start: int
    end: int
    level: int = 0
    heading: str = ""
    is_prose: bool = False
    linewise: bool = False


def blocks(pieces: Iterable[Piece]) -> list[Block]:
    """Return the blocks of text with their sections.

    A heading with no text below it is a block of the section above.
    """
    path: list[tuple[int, str]] = []
    lone: Block | None = None
    found: list[Block] = []
    section = ""
    for piece in pieces:
        if not piece.level:
            lone = None
            found.append(Block(section, piece.start, piece.end, piece.linewise))
            continue
        if lone and path and piece.level <= path[-1][0]:
            found.append(lone)
        while path and path[-1][0] >= piece.level:
            path.pop()
        lone = None
        above = section = _section(path)
        if piece.heading:
            lone = Block(above, piece.start, piece.end, linewise=False)
            path.append((piece.level, piece.heading))
            section = _section(path)
    if lone:
        found.append(lone)
    return found


def title(pieces: Iterable[Piece]) -> str:
    """Return the first heading of level 1; "" without one."""
    return next((piece.heading for piece in pieces if piece.level == 1 and piece.heading), "")


def paragraphs(
    content: str, pieces: Iterable[Piece], plain: Callable[[str], str]
) -> Iterator[tuple[str, bool]]:
    """Yield each paragraph as plain text in one line, and True if it is part of the main text.

    A heading is an empty paragraph.
    """
    for piece in pieces:
        if piece.level:
            yield "", False
        elif not piece.linewise and (text := plain(content[piece.start : piece.end])):
            yield text, piece.is_prose


def _section(path: list[tuple[int, str]]) -> str:
    return SECTION_SEPARATOR.join(heading for _, heading in path[:_MAX_PATH])
