"""Tables: aligned on a terminal; in a pipe a line of tab-separated fields for each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from vikingd.domain.text import WIDE_CHARS, join_lines, lazy

_CLOSING = "，。、；：！？）》」』】…—"  # no line begins with it
_GAP = 2  # columns between two cells
_INDENT = 3  # of a line that continues a record
_LEAST = 16  # columns that a text needs, so as to stand beside other cells
_WORD = lazy(rf"\S*://\S*\s*|[{WIDE_CHARS}][{_CLOSING}]*\s*|[^\s{WIDE_CHARS}]+[{_CLOSING}]*\s*|\s+")
"""The pattern of a text that is not broken: a URI, a word, or one Chinese or Japanese character."""
_TABS = str.maketrans("\t\v\f", "   ")


def _field(text: str) -> str:
    """Return a text as a field of a record: without line breaks and tabs."""
    lines = text.translate(_TABS).splitlines()
    return lines[0] if len(lines) == 1 else join_lines(lines)


def tail(text: Text | str, style: str = "") -> Text:
    """Return a text as a cell that may be cut at the end of the line; other cells never are."""
    cut = text if isinstance(text, Text) else Text(text, style)
    cut.no_wrap, cut.overflow = True, "ellipsis"
    return cut


@dataclass(frozen=True, slots=True)
class Row:
    """A record of a table.

    Attributes:
        cells: the cells on a terminal; a cell that does not fit into the line begins a new one.
        below: further lines on a terminal; those that are no `tail` are wrapped between words.
        fields: the fields in a pipe; None: the cells, then the further lines.
    """

    cells: Sequence[Text | str]
    below: Sequence[Text] = ()
    fields: Sequence[str] | None = None

    def line(self) -> str:
        """Return the tab-separated fields, with the end of the line."""
        shown = self.fields
        if shown is None:
            shown = [str(one) for one in (*self.cells, *self.below)]
        return "\t".join(map(_field, shown)) + "\n"


class Rows:
    """A table.

    Args:
        records: the records; all have the same number of cells.
        names: the headings of the columns on a terminal; (): no headings.
        right: the number of columns, from the left, that are aligned to the right.
    """

    def __init__(
        self, records: Iterable[Row], names: Sequence[str] = (), *, right: int = 0
    ) -> None:
        self._records = list(records)
        self._names = names
        self._right = right

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        if not console.is_terminal:
            yield from (Segment(record.line()) for record in self._records)
            return
        starts, ends = self._columns()
        lines = [self._lines(one, starts, ends, options.max_width) for one in self._records]
        if self._names:
            cells = [Text(name, "bold") for name in self._names]
            is_whole, heading = self._lines(Row(cells), starts, ends, options.max_width)
            yield from heading if is_whole else ()
        indent = starts[-1] if starts and all(is_whole for is_whole, _ in lines) else _INDENT
        for record, (_, shown) in zip(self._records, lines, strict=True):
            yield from shown
            for line in record.below:
                yield from _wrapped(line, options.max_width, Text(" " * indent))

    def _columns(self) -> tuple[list[int], list[int]]:
        """Return the start of each column, and the end of each column, in characters."""
        starts, ends = [], []
        at = 0
        heading = [self._names] if self._names else []
        rows = [*heading, *(record.cells for record in self._records)]
        for cells in zip(*rows, strict=True):
            width = max(cell_len(str(cell)) for cell in cells)
            starts.append(at)
            ends.append(at + width)
            at += width + _GAP
        return starts, ends

    def _lines(
        self, record: Row, starts: list[int], ends: list[int], width: int
    ) -> tuple[bool, list[Text]]:
        """Return (True if a record fits into one line, the lines of its cells)."""
        lines, is_whole = [Text()], True
        for number, given in enumerate(record.cells):
            cell = given if isinstance(given, Text) else Text(given)
            line, size = lines[-1], cell.cell_len
            at = line.cell_len + _GAP if number else 0
            if is_whole:
                at = ends[number] - size if number < self._right else max(starts[number], at)
            least = min(size, _LEAST) if cell.overflow == "ellipsis" else size
            if number and at + least > width:
                is_whole = False
                line = Text(" " * (_INDENT if _INDENT + least <= width else 0))
                lines.append(line)
                at = line.cell_len
            line.append(" " * (at - line.cell_len)).append_text(cell)
            if cell.overflow == "ellipsis":
                lines[-1] = _cut(line, width)
        for line in lines:
            line.rstrip()
        return is_whole, [_whole(line) for line in lines]


class Words:
    """A text that is wrapped between words."""

    def __init__(self, text: Text | str) -> None:
        self._text = Text(text) if isinstance(text, str) else text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        del console
        yield from _wrapped(self._text, options.max_width, Text())


class Fields:
    """Names with their values; those without a value are left out."""

    def __init__(self, rows: Mapping[str, str]) -> None:
        self._rows = {name: value for name, value in rows.items() if value}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield a line for each; on a terminal values are wrapped between words."""
        if not console.is_terminal:
            yield from (Segment(Row(row).line()) for row in self._rows.items())
            return
        indent = max(map(cell_len, self._rows), default=0) + _GAP
        for name, value in self._rows.items():
            first = Text(name + " " * (indent - cell_len(name)), "dim")
            yield from _wrapped(Text(value), options.max_width, first)


class Outline:
    """A tree of labels; long ones are wrapped between words, so that no URI is broken.

    Args:
        label: the label of the top.
        note: what follows the label; it is cut at the end of the line.
    """

    def __init__(self, label: Text | str, note: Text | None = None) -> None:
        self._label = label if isinstance(label, Text) else Text(label)
        self._note = note
        self._below: list[Outline] = []

    def add(self, label: Text | str, note: Text | None = None) -> Outline:
        """Add a label below this one, and return it."""
        made = Outline(label, note)
        self._below.append(made)
        return made

    def attach(self, outline: Outline) -> None:
        """Add a whole tree below this label."""
        self._below.append(outline)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        del console
        yield from self._lines(options.max_width, "", "")

    def _lines(self, width: int, first: str, rest: str) -> Iterable[Text]:
        label = self._label
        if self._note is not None and len(first) + label.cell_len + _LEAST <= width:
            label = tail(label + Text("  ") + self._note)
        yield from _wrapped(label, width, Text(first, "dim"), Text(rest, "dim"))
        for number, one in enumerate(self._below, 1):
            is_last = number == len(self._below)
            yield from one._lines(
                width,
                rest + ("└── " if is_last else "├── "),
                rest + ("    " if is_last else "│   "),
            )


def _wrapped(text: Text, width: int, first: Text, rest: Text | None = None) -> Iterable[Text]:
    """Yield the lines of a text; words that are too long, as a URI may be, are kept whole.

    Args:
        text: the text to wrap; a `tail` stays one line.
        width: the width of the terminal.
        first: the text before the first line.
        rest: the text before the other lines; None: spaces of the width of `first`.
    """
    if text.overflow == "ellipsis":
        yield _cut(first + text, width)
        return
    room = max(width - first.cell_len, _LEAST)
    for paragraph in text.split(allow_blank=True):
        for line in paragraph.divide(_breaks(paragraph.plain, room)):
            line.rstrip()
            yield _whole(first + line)
            first = Text(" " * first.cell_len) if rest is None else rest


def _breaks(text: str, room: int) -> Iterable[int]:
    """Yield the start of each line of a wrapped text but the first; words are never broken."""
    used = 0
    for found in _WORD.finditer(text):
        size = cell_len(found[0])
        if used and used + cell_len(found[0].rstrip()) > room:
            yield found.start()
            used = 0
        used += size


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return _whole(line)


def _whole(line: Text) -> Text:
    """Return a line that a console prints without wrapping."""
    line.no_wrap, line.overflow = True, "ignore"
    return line
