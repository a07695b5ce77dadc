"""RTF files: paragraphs, headings by outline levels, tables, links and notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO

from striprtf.striprtf import rtf_to_text

from vikingd.ingest.formats.document import (
    Document,
    Failed,
    Pages,
    clean,
    counted,
    escaped,
    heading,
    table,
    time_of,
    title_of,
)
from vikingd.ingest.formats.hypertext import hidden_parts

_START = b"{\\rtf"
_MAX_NESTED = 2000  # groups; real files have some dozens
_MAX_LEVEL = 6  # of a heading
_FIRST_YEAR = 1980  # programs write an earlier one for no date
_TOKEN = re.compile(
    r"\\(?P<word>[a-zA-Z]+)(?P<value>-?\d{1,10})?[ ]?|(?P<hex>\\'[0-9a-fA-F]{2})"
    r"|\\(?P<sign>[^a-zA-Z'])|(?P<brace>[{}])|(?P<text>[^\\{}]+)|(?P<rest>.)",
    re.DOTALL,
)
_DESTINATION = re.compile(r"\{\s*(?:\\\*\s*)?\\([a-zA-Z]+)(?:-?\d+)?[ ]?")
# Words of format at the beginning of a group, with a mark of unseen text among them.
_UNSEEN = re.compile(r"\{(?>\\(?!v1?\b|deleted\b)[a-zA-Z]+-?\d*\s*)*\\(v1?|deleted)(?![a-zA-Z\d])")
_TARGET = re.compile(r"HYPERLINK\s+\"(https?://[^\"\s\\]{1,300})\"")
_BYTE = re.compile("[\x80-\xff]")
_DATE = re.compile(r"\\(?:yr|mo|dy|hr|min)(\d+)")
_BULLET = re.compile("[\u2022\u00b7\u25aa\u25cf\u25e6\u2023\uf0b7]\\s+")
# Marks in the text, which the parser leaves as they are. The braces before a mark end a character
# whose substitute the file leaves out.
_CELL, _ROW, _START_ROW, _LEVEL = "\ue000", "\ue001", "\ue002", "\ue003"
_MARKS = {
    "cell": f"{{}}{_CELL}",
    "nestcell": " ",
    "row": f"{{}}{_ROW}",
    "trowd": f"{{}}{_START_ROW}",
}
_LEVEL_OF = re.compile(f"{_LEVEL}(\\d)")
_CODE_PAGES = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
_NOTE, _BOXES = "footnote", ("shptxt", "dptxbxtext")
_NO_TEXT = ("rtf", "s", "cs", "ds", "ts")  # the file, and its styles
_PARTS = {"annotation": "comment", "objdata": "embedded object", "pict": "", "stylesheet": ""}


@dataclass(slots=True)
class _Parts:
    """The parts of a file that are not in its running text.

    Attributes:
        lost: the number of parts of each kind that are left out.
        head: the code page and the fonts, which each part needs.
    """

    lost: Counter[str] = field(default_factory=Counter)
    hidden: int = 0
    notes: list[str] = field(default_factory=list)
    boxes: list[str] = field(default_factory=list)
    head: str = ""
    title: str = ""
    time: int | None = None

    def plain(self, part: str) -> str:
        """Return the text of a part.

        Raises:
            Failed: it is damaged.
        """
        return _plain(f"{{\\rtf1{self.head} {part}}}")


def read(file: BinaryIO) -> Document:
    """Read an RTF file.

    Raises:
        Failed: it is no RTF or damaged, or it has no text.
    """
    data = file.read()
    if not data.lstrip().startswith(_START):
        raise Failed("is no RTF: give it the suffix of its format")
    parts = _Parts()
    body = _prepared(data.decode("latin-1"), parts)
    pages = Pages()
    for text in dict.fromkeys([_plain(body), *map(parts.plain, parts.boxes)]):
        for block in _blocks(text):
            pages.add(block)
    for number, note in enumerate(parts.notes, start=1):
        pages.add(f"[{number}] {' '.join(clean(parts.plain(note)).split())}")
    if not (text := pages.text()):
        raise Failed("has no text")
    lost = [reason for kind, count in parts.lost.items() for reason in counted(count, kind)]
    title = title_of(parts.plain(parts.title)) if parts.title else ""
    metadata: dict[str, str | int] = {"format": "rtf"}
    return Document(text, title, metadata, parts.time, [*hidden_parts(parts.hidden), *lost])


def _prepared(source: str, parts: _Parts) -> str:
    """Move notes, boxes and hidden text to `parts`; return the rest with marks of its structure.

    Raises:
        Failed: its groups are nested too deeply.
    """
    groups: list[list[str]] = [[]]
    place, is_behind_byte = 0, False
    while token := _TOKEN.match(source, place):
        place = token.end()
        here, word, text = groups[-1], token["word"], token["text"] or ""
        if is_behind_byte and (second := text[:1] or token["sign"] or "") > " ":
            # It may be the second byte of a character, and stays the same if it is none.
            here.append(f"\\'{ord(second):02x}")
            text = text[1:]
            if not text:
                is_behind_byte = False
                continue
        is_behind_byte = bool(token["hex"])
        if text:
            here.append(_BYTE.sub(lambda byte: f"\\'{ord(byte[0]):02x}", text))
        elif token["brace"] == "{":
            if len(groups) > _MAX_NESTED:
                raise Failed("is nested too deeply")
            groups.append(["{"])
        elif token["brace"]:
            if len(groups) > 1:
                _close(groups, parts)
            if len(groups) == 1:
                break  # what stands behind the file is no text
        elif word == "bin":
            place += max(0, int(token["value"] or 0))
        elif word == "outlinelevel":
            here.append(f"{{}}{_LEVEL}{min(abs(int(token['value'] or 9)), 9)}")
        elif word == "ansicpg":
            parts.head += token[0]
            here.append(token[0])
        elif word in _MARKS:
            here.append(_MARKS[word])
        elif token["sign"] != "*" or not any(map(str.strip, here[1:])):
            here.append(token[0])  # a star within a group marks no destination
    while len(groups) > 1:  # the file is cut
        _close(groups, parts)
    return "".join(groups[0])


def _close(groups: list[list[str]], parts: _Parts) -> None:
    """End the last group, and append its running text to the enclosing group."""
    whole = "".join([*groups.pop(), "}"])
    groups[-1].append(_kept(whole, parts))


def _kept(group: str, parts: _Parts) -> str:
    """Return the running text of a group; its notes, boxes and hidden text go to `parts`."""
    found = _DESTINATION.match(group)
    name = found[1] if found else ""
    inside = group[found.end() : -1] if found else ""
    if name in _PARTS:
        if kind := _PARTS[name]:
            parts.lost[kind] += 1
        return ""
    if name == _NOTE:
        parts.notes.append(inside)
        return f"{{[{len(parts.notes)}]}}"
    if name in _BOXES:
        parts.boxes.append(inside)
        return ""
    if name == "field":
        target = _TARGET.search(inside)
        return f"{{[{inside}]({target[1]})}}" if target and "fldrslt" in inside else f"{{{inside}}}"
    if name in ("object", "result", "pntext"):  # an object as its program shows it, a number
        return f"{{{inside}}}"
    if name == "fonttbl":
        group = " ".join(group.split("\n"))
        parts.head += group
    elif name == "title":
        parts.title = inside
    elif name == "revtim":
        parts.time = _time(group)
    elif name not in _NO_TEXT and (unseen := _UNSEEN.match(group)) and "\\v0" not in group:
        is_text = any(map(str.isalnum, parts.plain(group[unseen.end() : -1])))
        parts.hidden += is_text and unseen[1] != "deleted"
        return ""
    return group


def _time(group: str) -> int | None:
    """Return the time of a group in microseconds since the epoch; None for no real date."""
    found = [int(number) for number in _DATE.findall(group)]
    year, month, day, hour, minute = (*found, *[0] * 5)[:5]
    if year < _FIRST_YEAR:
        return None
    try:
        return time_of(datetime(year, month, day, hour, minute))  # no zone is stated
    except ValueError:
        return None


def _plain(source: str) -> str:
    """Return the text of RTF.

    Raises:
        Failed: it is damaged.
    """
    page = re.search(r"\\(mac|pca?)(?![a-zA-Z])", source[:200])
    encoding = _CODE_PAGES[page[1]] if page else "cp1252"
    try:
        text: str = rtf_to_text(source, encoding, errors="replace")  # type: ignore[no-untyped-call]
    except (ValueError, OverflowError, LookupError, TypeError) as error:
        raise Failed(f"is damaged: {error}") from None
    # A character beyond U+FFFF stands as two halves.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\xad", "")


def _blocks(text: str) -> Iterator[str]:
    """Yield the paragraphs, headings and tables of a text with marks."""
    rows: list[list[str]] = []
    *chunks, last = text.split(_ROW)
    for chunk in chunks:
        first = max(chunk.find(_CELL), 0)
        at = chunk.rfind(_START_ROW, 0, first)
        if at < 0:  # a row as the one before
            at = 0 if rows else chunk.rfind("\n", 0, first) + 1
        if before := list(_paragraphs(chunk[:at])):
            yield table(rows)
            yield from before
            rows = []
        *cells, rest = _without_marks(chunk[at:]).split(_CELL)
        rows.append([" ".join(cell.split()) for cell in (*cells, *filter(str.strip, [rest]))])
    yield table(rows)
    yield from _paragraphs(last)


def _paragraphs(text: str) -> Iterator[str]:
    for line in clean(text).split("\n"):
        levels = _LEVEL_OF.findall(line)
        words = " ".join(_without_marks(line).replace(_CELL, " ").split())
        if levels and (level := int(levels[-1])) < 9:
            yield heading(min(level + 1, _MAX_LEVEL), words)
        elif words:
            item = _BULLET.sub("- ", words, count=1) if _BULLET.match(words) else ""
            yield item or escaped(words)


def _without_marks(text: str) -> str:
    return _LEVEL_OF.sub("", text).replace(_START_ROW, "")
