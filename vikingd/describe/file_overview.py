"""Overviews of files, made of their passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vikingd.domain.sentences import sentences
from vikingd.domain.text import one_line
from vikingd.ingest.abstracts import shorten

MAX_OVERVIEW = 2000
_SHORT = 1200
_MAX_LINE = 160


class Piece(NamedTuple):
    """A passage of a file: the headings above it, its text, and its first line, from 1."""

    section: str
    text: str
    line: int


def file_overview(pieces: Sequence[Piece], name: str) -> str:
    """Return the headings of a file with a sentence each, at most MAX_OVERVIEW characters.

    Of a text that an overview would repeat, this is "".
    """
    if sum(len(piece.text) for piece in pieces) < _SHORT:
        return ""
    del name
    lines: dict[str, str] = {}
    for piece in pieces:
        if piece.section not in lines:
            lines[piece.section] = next(iter(sentences(piece.text[: _MAX_LINE * 4])), "")
    out: list[str] = []
    room = MAX_OVERVIEW
    for section, sentence in lines.items():
        head = shorten(one_line(section), _MAX_LINE)
        line = (
            f"- {head}: {shorten(one_line(sentence), _MAX_LINE)}"
            if head
            else f"- {shorten(one_line(sentence), _MAX_LINE)}"
        )
        if len(line) + 1 > room:
            break
        out.append(line)
        room -= len(line) + 1
    return "\n".join(out)
