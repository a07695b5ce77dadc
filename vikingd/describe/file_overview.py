"""Overviews of files, made of their passages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vikingd.describe.definition_lines import definition_lines
from vikingd.describe.overview_lines import Line, fitted
from vikingd.describe.section_lines import part_lines, section_lines, separated_columns
from vikingd.ingest.file_syntax import Syntax, ending, syntax_of

MAX_FILE_OVERVIEW = 2000
"""Maximum characters of an overview of a file that is made of its passages."""

_SHORT = 1200  # characters of a text that an overview would repeat


class Piece(NamedTuple):
    """A passage of a file.

    Attributes:
        section: the headings above it; for source code the names that it defines.
        text: the passage.
        line: its first line, from 1.
    """

    section: str
    text: str
    line: int


def file_overview(pieces: Sequence[Piece], name: str) -> str:
    """Return a line for each part of a file with a sentence about it, within MAX_FILE_OVERVIEW.

    The parts are headings, or the definitions of source code. For a text without either, the result
    has sentences from all over the text. It is "" for a text so short that it would only be
    repeated.
    """
    if sum(len(piece.text) for piece in pieces) < _SHORT:
        return ""
    return fitted(_lines(pieces, name), MAX_FILE_OVERVIEW)


def _lines(pieces: Sequence[Piece], name: str) -> list[Line]:
    if ending(name) in (".csv", ".tsv"):
        return [Line(0, "", separated_columns(pieces[0].text))]
    if syntax_of(name) is Syntax.CODE:
        return definition_lines(pieces, name)
    lines = section_lines(pieces, name)
    return lines or part_lines(pieces, name, MAX_FILE_OVERVIEW)
