"""Overviews of source code: its definitions, each with the first line of its comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol

from vikingd.describe.overview_lines import Line
from vikingd.domain.text import SECTION_SEPARATOR, lazy, one_line
from vikingd.ingest.code.definition_comments import comment_of
from vikingd.ingest.code.headings import BETWEEN, CONTINUES
from vikingd.ingest.code.plain_definitions import plain_definitions
from vikingd.ingest.file_syntax import comment_mark

_MAX_HEAD = 110
_MAX_NAMES = 400  # definitions that are looked for
_FEW = 12  # lines of which values without a comment are kept
_READ = 8192  # characters of a passage that are read
_MAX_BEFORE = 200  # characters of a line before the name that it defines
_MOST_USES = 20  # places of a name that are looked at
# A line that defines nothing: "// text", "import os", "return x".
_NO_CODE = lazy(r"[ \t]*+(?://|/?\*|#(?!\w)|--|;|\"{3}|import\b|from\b|use\b|require|return\b)")
# The text of a line before the name that it defines: "public class ", "func (s *Stack) ".
_DEFINES = lazy(
    r"[^\n=;]*?\b(?:class|interface|struct|enum|trait|protocol|record|module|namespace|object|def|fn"
    r"|func|fun|function|type|impl|const|let|var|static|sub|proc|async|public|private|get|set)\b"
    r"(?:[ \t]*\([^()\n]*\))?[^(=;:]*\Z"
)
# The beginning of an assignment of a value: "export const limit =", "self.size: int =".
_VALUE = lazy(
    r"(?:(?:export|const|let|var|static|final|pub)[ \t]+)*[\w$.]+(?:[ \t]*:?[^=()\n]*)?[ \t]*="
    r"(?!.*(?:=>|function\b))"
)
_SPACED = lazy(r"(?<=[(\[]) | (?=[)\]])|,(?= ?[)\]])")


class Text(Protocol):
    """A passage with the headings above it."""

    @property
    def section(self) -> str:
        """The headings, joined by " > "."""

    @property
    def text(self) -> str:
        """The text of the passage."""


def definition_lines(pieces: Sequence[Text], name: str) -> list[Line]:
    """Return a line for each definition in source code; [] if there are none."""
    mark = comment_mark(name)
    found: dict[tuple[str, ...], Line] = {}
    for piece in pieces:
        text = piece.text[:_READ]
        for path, start in _definitions(piece.section, text, name):
            if path in found or len(found) >= _MAX_NAMES:
                continue
            is_known = piece.section and start >= 0
            head = _signature(text, start) if is_known else path[-1][:_MAX_HEAD]
            about = comment_of(text, start, mark) if start >= 0 else ""
            found[path] = Line(len(path) - 1, head, about)
    lines = list(found.values())
    told = [line for line in lines if line.about or line.level or not _VALUE.match(line.head)]
    return told if len(lines) > _FEW and told else lines


def _definitions(section: str, text: str, name: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield (path of names, index in the text) of each definition that begins in a passage.

    The index is -1 if the line is not found. The definitions that contain the passage come first.
    In a passage at the top level, indented definitions are members of the one before them.
    """
    if not section:
        for start, line in plain_definitions(text, name):
            yield (line,), start
        return
    *above, last = section.split(SECTION_SEPARATOR)
    for depth, holder in enumerate(above, start=1):
        yield tuple(above[:depth]), _place(text, holder, is_holder=True)
    if last.endswith(CONTINUES):
        yield (*above, last.removesuffix(CONTINUES)), -1
        return
    at, holders = 0, list[tuple[int, str]]()
    for one in last.split(BETWEEN):
        place = _place(text, one, at)
        at = max(at, place)
        line = text[place : place + _MAX_HEAD] if place >= 0 else ""
        indent = len(line) - len(line.lstrip())
        while holders and holders[-1][0] >= indent:
            holders.pop()
        yield (*above, *(name for _, name in holders), one), place
        if not above:
            holders.append((indent, one))


def _place(text: str, name: str, at: int = 0, *, is_holder: bool = False) -> int:
    """Return the index of the line that defines a name, from `at` on if possible; -1 if none does.

    Lines with a word such as "def" or "class" before the name are preferred. With `is_holder`, for
    a definition that contains others, only such lines count.
    """
    word = re.compile(rf"(?<![\w.$\"'`])(?:{re.escape(name)})(?!\w)")
    other = -1
    for start in dict.fromkeys((at, 0)):
        for found in islice(word.finditer(text, start), _MOST_USES):
            line = text.rfind("\n", 0, found.start()) + 1
            if found.start() - line > _MAX_BEFORE or _NO_CODE.match(text, line):
                continue
            if _DEFINES.match(text, line, found.start()):
                return line
            other = other if other >= 0 else line
    return -1 if is_holder else other


def _signature(text: str, start: int) -> str:
    """Return the definition that begins at `start` without its body, in one line."""
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else None]
    while line.count("(") > line.count(")") and end >= 0 and len(line) < _MAX_HEAD:
        end = text.find("\n", end + 1)
        line = text[start : end if end >= 0 else None]
    line = one_line(line).partition(" {")[0]
    line = _SPACED.sub("", line).removesuffix("=>").rstrip(" {:=,<")
    if line.count("(") > line.count(")"):
        line = line[: _MAX_HEAD - 1].rstrip(" ,(") + "…"
    return line if len(line) <= _MAX_HEAD else line[: _MAX_HEAD - 1].rstrip() + "…"
