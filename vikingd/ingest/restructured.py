"""A parser of reStructuredText: headings and blocks (`markup_pieces.Piece`), and plain text.

It knows titles, directives, roles and explicit markup as docutils and Sphinx read them.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from vikingd.domain.text import join_lines, one_line
from vikingd.ingest.markdown import MAX_HEADING
from vikingd.ingest.markup_pieces import Piece

_MAX_INLINE = 4096
_TAB = 8  # columns
_OBJECT = 100  # the level of the outermost object; titles have lower ones
_MAX_STYLES = 64  # of titles
_SHORTEST = 4  # signs of an underline that may be shorter than its title

_BEGINNING = 1 << 16  # characters by which the syntax of a text is recognized
_SIGN = re.compile(r"^\.\. (?:[a-z][\w+.:-]*::|_[^\s:][^\n:]*:)(?=\s|\Z)", re.MULTILINE)
_UNDERLINE = re.compile(r"^(?:={3,}|-{3,}|~{3,}|\*{3,}|#{3,}|\^{3,})\r?$", re.MULTILINE)

_LINE = re.compile(r"([^\r\n]*)(?:\r\n?|\n|\Z)")
# A line of equal signs: "=====".
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*")
# The beginning of a directive: ".. note:: Text", ".. py:function:: f(x)".
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:[\w.+-]+:)?(?P<name>\w[\w.+-]*)[ \t]?::(?:[ \t]+|$)")
_SUBSTITUTION = re.compile(r"\.\.[ \t]+\|")
_NOTE = re.compile(r"\.\.[ \t]+\[[^\]]+\][ \t]*")  # a footnote or a citation
_OPTION = re.compile(r":[^\s:`][^:`]{0,80}:(?:[ \t]|$)")
# The beginning of a list item or a line block: "- item", "1. item", "(a) item", "| line".
_ASIDE = re.compile(
    r"[-*+•‣][ \t]|(?:\(?(?:\d{1,9}|#|[A-Za-z]|[ivxlcdmIVXLCDM]{1,9})[.)])[ \t]|\|(?:[ \t]|$)"
)
_BULLET = re.compile(r"[-*+•‣][ \t]")
_LINES = re.compile(r">>>(?:[ \t]|$)|\+-[-+]|=+(?:[ \t]+=+)+$")  # of a doctest or a table
_LETTER = re.compile(r"[^\W\d_]")
_STYLE = re.compile(r"[a-z][a-z0-9-]*(?:[ \t]+[a-z][a-z0-9-]*)*")

# Directives by their kind: without text; code; tables, whose argument is text; containers of prose;
# those whose argument is no text; and headings of their own, named by the name in a signature or by
# the whole argument. All others are asides.
_NAMES = {
    "hidden": "toctree image contents index include literalinclude mdinclude meta highlight raw "
    "default-role role module currentmodule program sectnum section-numbering target-notes header "
    "footer unicode replace date highlightlang tabularcolumns autosummary default-domain "
    "default-intersphinx namespace testsetup testcleanup bibliography youtube video spelling title "
    "inheritance-diagram automodapi",
    "code": "code code-block sourcecode parsed-literal math productionlist doctest testcode "
    "testoutput prompt ipython graphviz digraph graph mermaid uml plantuml plot jinja console",
    "table": "csv-table list-table table",
    "container": "only ifconfig container rst-class cssclass compound",
    "figure": "figure",
    "signature": "function method class classmethod staticmethod attribute data exception "
    "decorator decoratormethod property cfunction cmember cmacro ctype cvar macro member type var "
    "struct union enum enumerator concept alias automodule autoclass autofunction automethod "
    "autoattribute autodata autoexception autodecorator autoproperty",
    "name": "option cmdoption envvar confval setting describe object directive get post put patch "
    "delete head options",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}

# Inline markup: "``code``", ":ref:`text <target>`", "**strong**", "|name|", "[1]_" and others.
_PLAIN = re.compile(
    r"``(?P<literal>(?:[^`]|`(?!`))+)``"
    r"|(?<![\w`]):(?P<role>[A-Za-z][\w.+:-]{0,60}):`(?P<spoken>[^`]*)`(?:__?)?"
    r"|_?`(?P<phrase>[^`]+)`(?::[\w.+:-]{1,60}:|__?)?"
    r"|\*\*(?P<strong>[^\s*](?:[^*]*[^\s*])?)\*\*"
    r"|(?<![\w*])\*(?P<emphasis>[^\s*](?:[^*]*[^\s*\\])?)\*(?![\w*])"
    r"|\|(?P<substitution>[^\s|](?:[^|]*[^\s|])?)\|(?:__?)?"
    r"|[ \t]*\[(?:\d{1,9}|\#[\w.-]*|\*|[A-Za-z][\w.-]*)\]_(?!\w)"
    r"|(?<=[^\W_])__?(?=$|[\s.,;:!?)\]}'\"/-])"
    r"|\\(?:\s|(?P<escaped>\S))"
)
_WITH_TARGET = re.compile(r"(?P<text>.*[^\s])\s*<[^<>]*>", re.DOTALL)


@dataclass(slots=True)
class _Body:
    """A directive whose body is being read.

    Attributes:
        outside: the indentation of the directive; lines with more are its body.
        inside: the indentation of its body; -1 until it is known.
        is_prose: paragraphs of the body are part of the main text.
        level: the level of the heading that the directive is; 0 if it is no heading.
    """

    outside: int
    inside: int
    is_prose: bool
    level: int = 0


def pieces(content: str, start: int = 0) -> Iterator[Piece]:
    """Yield the headings and the text of a content from `start` on, in order and linear time."""
    yield from _Scan(content, start).pieces()


def is_restructured(text: str) -> bool:
    """Return True for a text that is certainly reStructuredText: it has a title and a directive."""
    beginning = text[:_BEGINNING]
    return bool(_SIGN.search(beginning) and _UNDERLINE.search(beginning))


def plain(source: str) -> str:
    """Return inline markup as plain text in one line."""
    text = _PLAIN.sub(_plain_part, source[:_MAX_INLINE])
    text = text[:-1] if text.rstrip().endswith("::") else text
    return one_line(join_lines(text.splitlines()))


def _plain_part(found: re.Match[str]) -> str:
    if found["spoken"] is not None:
        text = found["spoken"]
        if named := _WITH_TARGET.fullmatch(text):
            return named["text"]
        return text.rpartition(".")[2] if text.startswith("~") else text.removeprefix("!")
    if found["phrase"] is not None:
        named = _WITH_TARGET.fullmatch(found["phrase"])
        return named["text"] if named else found["phrase"]
    parts = ("literal", "strong", "emphasis", "substitution", "escaped")
    return next((found[name] for name in parts if found[name] is not None), "")


class _Scan:
    """A parser of a content that reads its lines once."""

    def __init__(self, content: str, start: int) -> None:
        self._starts: list[int] = []
        self._lines: list[str] = []  # without white space at their ends
        self._indents: list[int] = []
        for found in _LINE.finditer(content, start):
            line = found[1].rstrip()
            text = line.lstrip()
            margin = line[: len(line) - len(text)]
            self._starts.append(found.start() + len(margin))
            self._lines.append(text)
            self._indents.append(len(margin.expandtabs(_TAB)) if "\t" in margin else len(margin))
        self._bodies: list[_Body] = []
        self._styles: dict[tuple[str, bool], int] = {}
        self._first = -1  # the line at which the open paragraph begins
        self._from = 0  # the code point at which it begins
        self._last = -1
        self._has_text = False

    def pieces(self) -> Iterator[Piece]:
        """Yield the headings and texts of the content."""
        at = 0
        while at < len(self._lines):
            if not self._lines[at]:
                at = yield from self._paragraph(at + 1)
                continue
            indent = self._indents[at]
            if self._first < 0:
                yield from self._leave(indent)
                begun = yield from self._block(at)
                if begun > at:
                    at = begun
                    continue
                self._begin(at, self._starts[at])
            elif self._is_explicit(at):
                at = yield from self._paragraph(at)
                continue
            self._last = at
            at += 1
        yield from self._paragraph(at)

    def _begin(self, at: int, start: int) -> None:
        self._first = self._last = at
        self._from = start

    def _leave(self, indent: int) -> Iterator[Piece]:
        """End the open directives whose bodies end before a line with the indentation `indent`.

        Yield a piece that ends the section of each directive that is a heading. If the line is the
        first of a body, store its indentation.
        """
        while self._bodies and indent <= self._bodies[-1].outside:
            body = self._bodies.pop()
            if body.level:
                yield Piece(0, 0, body.level)
        if self._bodies and self._bodies[-1].inside < 0:
            self._bodies[-1].inside = indent

    def _paragraph(self, next_: int) -> Generator[Piece, None, int]:
        """End the open paragraph and read the literal block after it.

        Return the next line's number.
        """
        first, last = self._first, self._last
        self._first = -1
        if first < 0:
            return next_
        self._has_text = True
        text = self._lines[first]
        end = self._starts[last] + len(self._lines[last])
        is_literal = self._lines[last].endswith("::")
        if text != "::":
            linewise = bool(_LINES.match(text))
            yield Piece(self._from, end, is_prose=self._is_prose(first, last), linewise=linewise)
        if is_literal:
            close = self._indented(next_, self._indents[first])
            yield from self._code(next_, close)
            return close
        return next_

    def _is_prose(self, first: int, last: int) -> bool:
        """Return True for a paragraph that is part of the main text."""
        body = self._bodies[-1] if self._bodies else None
        margin = max(body.inside, 0) if body else 0
        indents = self._indents[first : last + 1]
        text = self._lines[first]
        return (
            (body is None or body.is_prose)
            and max(indents) == margin
            and self._from == self._starts[first]  # else the argument of a directive begins it
            and not _ASIDE.match(text)
            and not _LINES.match(text)
            and not _OPTION.match(text)
        )

    def _block(self, at: int) -> Generator[Piece, None, int]:
        """Read a title or explicit markup at line `at`; return the number of the line after it.

        Returns `at` if the line belongs to a paragraph.
        """
        line, indent = self._lines[at], self._indents[at]
        if self._is_explicit(at):
            return (yield from self._explicit(at))
        if line.startswith("__ "):
            return self._indented(at + 1, indent)
        if not self._has_text and not self._bodies and _OPTION.match(line):
            return self._indented(at + 1, indent)
        if indent or _BULLET.match(line):
            return at
        return (yield from self._title(at))

    def _title(self, at: int) -> Generator[Piece, None, int]:
        """Read a title or a transition at line `at`; return the number of the line after it."""
        over = _ADORNMENT.fullmatch(self._lines[at])
        text = at + 1 if over else at
        under = text + 1
        if over and self._line(text) and self._line(under) == over[0] and len(over[0]) > 1:
            pass
        elif over and len(over[0]) >= _SHORTEST and not self._line(text):
            return at + 1
        else:
            over = None
            text, under = at, at + 1
        signs = _ADORNMENT.fullmatch(self._line(under))
        if not signs or self._indents[under] or not self._line(text):
            return at
        heading = self._lines[text]
        if not over and (_ADORNMENT.fullmatch(heading) or not _is_long_enough(signs[0], heading)):
            return at
        style = (signs[1], bool(over))
        if len(self._styles) < _MAX_STYLES:
            self._styles.setdefault(style, len(self._styles) + 1)
        level = self._styles.get(style, _MAX_STYLES)
        start = self._starts[text]
        shown = plain(heading)[:MAX_HEADING].rstrip()
        self._has_text = self._has_text or len(self._styles) > 2
        yield Piece(start, start + len(heading), level, shown)
        return under + 1

    def _explicit(self, at: int) -> Generator[Piece, None, int]:
        """Read explicit markup.

        The text of a directive begins a paragraph or the body of the directive.
        """
        line, indent = self._lines[at], self._indents[at]
        if note := _NOTE.match(line):
            self._bodies.append(_Body(indent, -1, is_prose=False))
            if note.end() < len(line):
                self._begin(at, self._starts[at] + note.end())
            return at + 1
        directive = _DIRECTIVE.match(line)
        if directive is None or _SUBSTITUTION.match(line):
            if line == ".." and not self._line(at + 1):
                return at + 1
            return self._indented(at + 1, indent)
        kind, argument = _KINDS.get(directive["name"].lower(), ""), line[directive.end() :]
        close = self._indented(at + 1, indent)
        if kind == "hidden":
            return close
        start = self._starts[at] + directive.end()
        text = Piece(start, start + len(argument))
        if kind in ("code", "table"):
            if argument and kind == "table":
                yield text
            yield from self._code(self._after_options(at + 1, indent), close)
            return close
        is_prose = kind == "container" and (not self._bodies or self._bodies[-1].is_prose)
        body = _Body(indent, -1, is_prose)
        if directive["name"] == "class" and _STYLE.fullmatch(argument):
            argument = argument if any(self._lines[at + 1 : close]) else ""  # names of CSS classes
        behind = self._after_options(at + 1, indent)
        has_body = any(self._lines[behind:close])  # a directive without a body is no section
        if argument and has_body and kind in ("signature", "name"):
            body.level = _OBJECT + sum(1 for one in self._bodies[:_OBJECT] if one.level)
            heading = argument if kind == "name" else _name(argument)
            yield text._replace(level=body.level, heading=heading[:MAX_HEADING].rstrip())
        self._bodies.append(body)
        is_file = "/" in argument and not body.level and not re.search(r"\s", argument)
        if _LETTER.search(argument) and not is_file and kind not in ("container", "figure"):
            yield text
        return behind

    def _after_options(self, at: int, indent: int) -> int:
        """Return the number of the first line after the options of a directive."""
        while self._line(at) and self._indents[at] > indent and _OPTION.match(self._lines[at]):
            margin = self._indents[at]
            at += 1
            while self._line(at) and self._indents[at] > margin:
                at += 1
        return at

    def _code(self, at: int, close: int) -> Iterator[Piece]:
        """Yield the lines [at, close) as one piece of code."""
        while at < close and not self._lines[at]:
            at += 1
        last = close - 1
        while last >= at and not self._lines[last]:
            last -= 1
        if at <= last:
            self._has_text = True
            end = self._starts[last] + len(self._lines[last])
            yield Piece(self._starts[at], end, linewise=True)

    def _indented(self, at: int, indent: int) -> int:
        """Return the number of the line after the block of empty or more indented lines."""
        while at < len(self._lines) and (not self._lines[at] or self._indents[at] > indent):
            at += 1
        return at

    def _is_explicit(self, at: int) -> bool:
        line = self._lines[at]
        return line == ".." or line.startswith((".. ", "..\t"))

    def _line(self, at: int) -> str:
        return self._lines[at] if at < len(self._lines) else ""


def _is_long_enough(signs: str, heading: str) -> bool:
    """Return True if an underline is long enough for its title.

    A wide character may count as one.
    """
    return len(signs) >= min(len(heading), _SHORTEST)


def _name(signature: str) -> str:
    """Return the name in a signature: the last word before the arguments, type and value.

    "int *Table::get(key)" gives "Table::get", and "limit: int = 3" gives "limit".
    """
    head = re.split(r"\(|(?<!:):(?!:)|=", signature, maxsplit=1)[0].split()
    return head[-1].lstrip("*&") if head else signature
