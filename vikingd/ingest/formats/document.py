"""The result of a parser, and helpers that all parsers share."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from vikingd.ingest.limits import MAX_CONTENT_BYTES, MAX_TIME, MAX_TITLE_BYTES, MIN_TIME

LENGTH = struct.Struct(">I")
"""The encoding of the length before a reply of the child process."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TEXT = re.compile("[\0-\x08\x0e-\x1f\x7f\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")
_LINE_ENDS = re.compile("\r\n?|[\v\f\x85\u2028\u2029]")
# Lines that Markdown would read as headings, code or HTML.
_STRUCTURE = re.compile(r"^(?=#{1,6}(?:\s|$)|```|~~~|=+[ \t]*$|-+[ \t]*$|<[a-zA-Z/!?])", re.M)
_INDENT = re.compile(r"^[ \t]+", re.M)
_NAMED = 3  # parts that a reason names one by one
# Titles that programs write by themselves.
_NO_TITLE = re.compile(
    r"untitled.*|microsoft (?:word|powerpoint|excel) - .*|powerpoint presentation"
    r"|(?:slide|folie|dia|diapositiv[ae]|слайд|슬라이드|スライド|幻灯片) ?1"
    r"|presentation|document\d*|无标题.*|powerpoint 演示文稿",
    re.IGNORECASE,
)


class Failed(Exception):
    """A file cannot be read; the message is the reason, to be put after the file's name."""


@dataclass(slots=True)
class Document:
    """A file as Markdown.

    Attributes:
        text: Markdown; the source of a template of HTML.
        title: the title that the file states, "" without one.
        metadata: the format, the number of pages, slides or sheets, and the author of a book; empty
            for source.
        time: the last change that the file states, in microseconds since the epoch.
        lost: reasons why parts of the file are not in `text`.
        around: bytes of text around the main part of a page, such as navigation, which are not in
            `text`.
        encoding: the encoding that its text was read in, "" for formats that have one.
        how: the evidence for the encoding, see `encodings.How`; "" without an encoding.
    """

    text: str
    title: str = ""
    metadata: dict[str, str | int] = field(default_factory=dict)
    time: int | None = None
    lost: list[str] = field(default_factory=list)
    around: int = 0
    encoding: str = ""
    how: str = ""


class Pages:
    """The Markdown of a document that is being built, at most `limit` bytes.

    Args:
        limit: the most bytes of a content.
    """

    def __init__(self, limit: int = MAX_CONTENT_BYTES) -> None:
        self._parts: list[str] = []
        self._left = limit
        self._limit = limit

    def add(self, part: str) -> None:
        """Add a block, which a blank line separates from the block before.

        Raises:
            Failed: the text has become too long.
        """
        if part := part.strip("\n"):
            self._left -= len(part.encode(errors="replace")) + 2
            if self._left < -2:
                raise Failed(f"has more than {self._limit:,} bytes of text; split the file")
            self._parts.append(part)

    def text(self) -> str:
        """Return the Markdown."""
        text = "\n\n".join(self._parts)
        start = "\n" if text.startswith("---") else ""  # else it could be front matter
        return f"{start}{text}\n" if text else ""


def clean(text: str) -> str:
    r"""Return the text without control characters and with "\n" as its only line end."""
    return _NO_TEXT.sub("", _LINE_ENDS.sub("\n", text))


def escaped(text: str) -> str:
    """Return plain text with escapes, so that Markdown reads no line as a heading or list."""
    return _STRUCTURE.sub(r"\\", _INDENT.sub("", text))


def heading(level: int, text: str) -> str:
    """Return a Markdown heading in one line; "" for an empty text."""
    line = " ".join(clean(text).split())
    return f"{'#' * level} {line}" if line else ""


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table whose first row is the header."""
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    lines = []
    for number, row in enumerate(rows):
        cells = [" ".join(clean(cell).split()).replace("|", "\\|") for cell in row]
        lines.append(f"| {' | '.join([*cells, *[''] * (width - len(cells))])} |")
        if number == 0:
            lines.append(f"|{' --- |' * width}")
    return "\n".join(lines)


def title_of(text: str | None) -> str:
    """Return a stated title in one line; "" for a title that a program made up."""
    line = " ".join(clean(text or "").split())
    line = "" if _NO_TITLE.fullmatch(line) else line
    return line.encode()[:MAX_TITLE_BYTES].decode(errors="ignore")


def time_of(moment: datetime | None) -> int | None:
    """Return microseconds since the epoch; UTC if the time names no zone, None if out of range."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    time = (moment - _EPOCH) // timedelta(microseconds=1)
    return time if MIN_TIME <= time <= MAX_TIME else None


def numbers(found: Iterable[int]) -> str:
    """Return numbers as text, with ranges: "2, 4-7 and 9"."""
    runs: list[list[int]] = []
    for number in sorted(found):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    shown = ["-".join(map(str, run)) for run in runs]
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def counted(count: int, kind: str, kinds: str = "") -> list[str]:
    """Return the reason that a number of parts of a kind is left out; [] for none.

    `kinds` is the plural, if it is more than an "s" behind `kind`.
    """
    if not count:
        return []
    shown = f"{kind} is" if count == 1 else f"{kinds or f'{kind}s'} are"
    return [f"{count:,} {shown} left out"]


def lost_parts(failed: Sequence[tuple[str, str]]) -> list[str]:
    """Return a reason for each of the first failed parts, and one for all others."""
    reasons = [f"{part} cannot be read: {reason}" for part, reason in failed[:_NAMED]]
    more = len(failed) - _NAMED
    return [*reasons, f"{more:,} more parts cannot be read"] if more > 0 else reasons
