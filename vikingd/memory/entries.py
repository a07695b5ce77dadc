"""The entries of a memory file: each list item is one memory.

A text is stored in one form, `clean`, as a list item. Its first line follows the marker and all
further lines are indented to match. So no line of it can end the list or become a heading. The rest
of a file is not changed.

An item of more than MAX_TOKENS has several passages, so that each part of it is found. It is still
one entry: the first passage has the id and counters of the memory, and the others continue it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from textwrap import dedent
from typing import NamedTuple

from vikingd.domain.answers import size_of
from vikingd.domain.contexts import Entry, Passage
from vikingd.domain.errors import InvalidField
from vikingd.domain.pinned_text import without_pin
from vikingd.domain.spoken_text import without_clock
from vikingd.domain.text import SECTION_SEPARATOR, approximate_tokens, one_line
from vikingd.ingest import markdown
from vikingd.ingest.frontmatter import front_matter
from vikingd.ingest.limits import MAX_CONTENT_BYTES
from vikingd.ingest.markdown import MAX_HEADING, Part
from vikingd.ingest.passages import (
    MAX_MARKDOWN_LINES,
    MAX_PASSAGES,
    MAX_TOKENS,
    MEANING,
    split,
)
from vikingd.memory.memory_types import StoredEntry

_EOL = re.compile(r"\r\n?|\n")
_BLANK = re.compile(r"[ \t]*(?:\r\n?|\n|\Z)")
# The next line with text; its indentation is the group.
_NEXT_LINE = re.compile(r"(?>[ \t]*+(?>\r\n?|\n))+( *)[^ ]")
# The next line with text, if it is indented.
_INDENTED = re.compile(r"(?>(?:[ \t]*+(?>\r\n?|\n))*)[ \t]+[^ \t\r\n]")
_END_OF_LIST = "<!-- -->"  # ends a list in CommonMark, and shows nothing
_MARKER = re.compile(r"( {0,3})(?:[-+*]|(\d+)([.)]))")
_RULES = re.compile(r"\A[-*\s]+\n")
_LAST_NUMBER = 999_999_999  # the largest number of an item in Markdown
MAX_TEXT_BYTES = MAX_CONTENT_BYTES  # in UTF-8, of a text before it is cleaned
MAX_TEXT_LINES = MAX_MARKDOWN_LINES // 2  # of a text, so that its file is read as Markdown


def clean(text: str) -> str:
    """Return the form in which a text is stored and shown; cleaning it again changes nothing.

    Lines end with a line feed. Lines and text have no white space at their ends. The common
    indentation of all lines but the first is removed, and several blank lines become one. Leading
    lines of dashes and asterisks are removed: after a list marker they would be a horizontal rule.
    """
    text = "\n".join(line.rstrip() for line in _EOL.sub("\n", text).split("\n"))
    first, newline, rest = _RULES.sub("", text).strip().partition("\n")
    return re.sub(r"\n{3,}", "\n\n", first + newline + dedent(rest))


def said(passage: str) -> str:
    """Return the text of an entry as it is shown: clean, without pin mark and time of day."""
    return without_clock(without_pin(clean(passage)))


def check_text(text: str) -> str:
    """Return the clean text.

    Raises:
        InvalidField: the text has no word, too many lines, or is longer than a file may be.
    """
    size = size_of(text)
    if size > MAX_TEXT_BYTES:
        raise InvalidField(
            "text",
            f"has {size:,} bytes, an entry at most {MAX_TEXT_BYTES:,}: split it into several",
        )
    text = clean(text)
    if "\0" in text:
        raise InvalidField("text", "has a NUL character")
    if (lines := text.count("\n") + 1) > MAX_TEXT_LINES:
        raise InvalidField("text", f"has {lines:,} lines, an entry at most {MAX_TEXT_LINES:,}")
    if not MEANING.search(without_pin(text)):
        raise InvalidField("text", "must have a letter or a digit")
    return text


def check_short(text: str) -> str:
    """Return the clean text, which is one passage with its indentation.

    Raises:
        InvalidField: the text has no word, or is longer.
    """
    text = check_text(text)
    tokens = approximate_tokens(text.replace("\n", "\n    "))
    if tokens > MAX_TOKENS:
        raise InvalidField("text", f"has some {tokens:,} tokens, at most {MAX_TOKENS} are one fact")
    return text


def check_section(section: str) -> str:
    """Return the section: "", or a heading that is plain text in Markdown.

    Raises:
        InvalidField: the section is no heading, is too long, or looks like several headings joined
            by a separator.
    """
    if section and (len(section) > MAX_HEADING or not _reads_as_written(section)):
        raise InvalidField(
            "section",
            f"must be one line of at most {MAX_HEADING} characters without Markdown, "
            f"not {section[:MAX_HEADING]!r}",
        )
    if SECTION_SEPARATOR in section:
        raise InvalidField("section", f"must be one heading, without {SECTION_SEPARATOR!r}")
    return section


class Written(NamedTuple):
    """A content with a new entry: the passages of the entry, and all passages of the content."""

    content: str
    passages: list[Passage]
    cut: list[Passage]

    @property
    def start(self) -> int:
        """The start of the entry."""
        return self.passages[0].start

    @property
    def end(self) -> int:
        """The end of the entry."""
        return self.passages[-1].end

    def stored(self, entry: Entry) -> StoredEntry:
        """Return the entry with its id, counters and times, and without a URI."""
        first, *rest = self.passages
        text = self.content[first.start : first.end]
        made = StoredEntry("", entry, 1, first.section, first.start, first.end, text)
        for one in rest:
            made = made.continued(one.start, one.end, self.content)
        return made


class Edit(NamedTuple):
    """A replacement of the code points [start, end) of a content by `text`."""

    start: int
    end: int
    text: str


def added(content: str, text: str, section: str, title: str) -> Written:
    """Return the content with one more entry.

    The entry follows the last list item below the first heading `section`, before its subsections,
    with a marker of the same form. If that section has no list item, the entry begins a list after
    its last text. A missing heading is added at the end. The section "" is below the title, if the
    first heading is the only one of level 1; else it is above all headings. An empty content
    becomes a file with the heading `title`.

    Raises:
        InvalidField: `section` is invalid, a code block or comment above is not closed, or the
            file already has the maximum of passages.
    """
    check_section(section)
    # An upper bound of the passages: one for each line and each hundred characters.
    most = content.count("\n") + content.count("\r") + len(content) // 100 + 1
    if most >= MAX_PASSAGES and len(_passages(content)) >= MAX_PASSAGES:
        raise InvalidField("text", f"has no place: the file has {MAX_PASSAGES:,} passages already")
    eol = _eol(content)
    if not content.strip():
        content = f"# {one_line(title)}\n" if title.strip() else ""
    at = front_matter(content)[1]
    parts = _outline(content)
    here = _below(parts, section)
    items = [part for part in here or () if part.item >= 0]
    above = items or (parts if here is None else here)
    if above:
        at = _line_end(content, above[-1].end)
    before, marker, after = content[:at], "-", content[at:]
    if items:
        before += eol
        marker = _next_marker(content, items[-1].item)
    elif above or at > 1:  # front matter, not only a byte order mark
        before += eol * 2
    else:
        after = f"{eol}{eol}{after}" if after else eol
    if here is None:
        before += f"## {section}{eol}{eol}"
    return _written(before + _apart(marker, after), text, after, eol)


def replaced(content: str, start: int, end: int, text: str) -> Written:
    """Return the content with `text` in place of the passage at [start, end).

    A passage that is no list item becomes one.

    Raises:
        InvalidField: the passage is only a part of a longer text.
    """
    before, after = content[:start], content[end:]
    if not any(part.start == start and part.item >= 0 for part in _outline(content)):
        before = before.rstrip(" \t") + _apart("-", after)
    return _written(before, text, after, _eol(content))


def removed(content: str, places: Sequence[tuple[int, int]]) -> tuple[str, list[Edit]]:
    """Return the content without the passages at `places`, and the edits that remove them.

    Markers and emptied lines are removed too. Of two blank lines around a removed passage one is
    removed. If the text above and the text below would join, a blank line separates them. If that
    is not enough, since the text below is indented like an item, an empty comment does. Headings
    stay. `places` has [start, end) of each passage, in order.
    """
    parts = _outline(content)
    kept = [content[p.start : p.end] for p in parts if not _within(places, p.start, p.end)]
    eol = _eol(content)
    for apart, indented in (("", ""), (eol, eol), (eol, _END_OF_LIST + eol)):
        edits = _removals(content, parts, places, apart, indented)
        result = edited(content, edits)
        texts = set(kept)
        if [t for p in _outline(result) if (t := result[p.start : p.end]) in texts] == kept:
            break
    return result, edits


def edited(content: str, edits: Sequence[Edit]) -> str:
    """Return the content after the edits, which are in order."""
    pieces: list[str] = []
    at = 0
    for edit in edits:
        pieces += content[at : edit.start], edit.text
        at = edit.end
    return "".join([*pieces, content[at:]])


def moved(at: Sequence[int], edits: Sequence[Edit]) -> list[int]:
    """Return where positions of a text lie after the edits.

    Args:
        at: the positions before the edits, in rising order. None is inside an edited place.
        edits: the edits, in order.
    """
    shifts = [0, *accumulate(len(edit.text) - (edit.end - edit.start) for edit in edits)]
    found, passed = [], 0
    for place in at:
        while passed < len(edits) and edits[passed].end <= place:
            passed += 1
        found.append(place + shifts[passed])
    return found


def is_bare(content: str) -> bool:
    """Return True if the content has only headings, front matter and white space."""
    return all(part.level for part in _outline(content))


def _reads_as_written(section: str) -> bool:
    """Return True if Markdown parses the section as one heading with exactly this text."""
    return [part.heading for part in markdown.outline(f"## {section}", 0)] == [section]


def _removals(
    content: str,
    parts: Sequence[Part],
    places: Sequence[tuple[int, int]],
    apart: str,
    indented: str,
) -> list[Edit]:
    """Return the edits that remove passages.

    `apart` is the text that replaces removed whole lines; `indented` does so above an indented
    line.
    """
    edits: list[Edit] = []
    for start, end, whole in _spans(content, parts, places):
        text = ""
        if whole:
            text = indented if _INDENTED.match(content, end) else apart
            floor = edits[-1].end if edits else 0
            above = [e.end() for e in _EOL.finditer(content, _text_end(content, start), start)]
            if len(above) > 1 and _BLANK.match(content, end):
                start = max(floor, above[-2])
        edits.append(Edit(start, end, text))
    return edits


def _spans(
    content: str, parts: Sequence[Part], places: Sequence[tuple[int, int]]
) -> list[tuple[int, int, bool]]:
    """Return [start, end) of each removal in order, and True for a removal of whole lines."""
    items = {part.start: part for part in parts if part.item >= 0}
    spans: list[tuple[int, int, bool]] = []
    for start, end in places:
        item = items.get(start)
        floor = spans[-1][1] if spans else 0
        if end <= floor:
            continue
        # The rest of a long item keeps the marker, unless it is removed too.
        piece = item is not None and bool(_text_left(content, places, end, item.end))
        if item and not piece:
            end = max(end, item.end)
        begin = item.item if item else max(floor, _line_start(content, start))
        rest = _BLANK.match(content, end)
        if piece or rest is None or (item is None and content[begin:start].strip()):
            gap = content[end:]
            gap = gap[: len(gap) - len(gap.lstrip(None if piece else " \t"))]
            spans.append((max(floor, start), end + len(gap), False))
            continue
        begin, stop = max(floor, begin), max(floor, rest.end())
        if spans and spans[-1][2] and not content[floor:begin].strip():
            begin = spans.pop()[0]
        spans.append((begin, stop, True))
    return spans


def _text_left(content: str, places: Sequence[tuple[int, int]], start: int, end: int) -> str:
    """Return some text in [start, end) that is not removed; "" if all of it is removed."""
    for low, high in places[bisect_left(places, (start, start)) :]:
        if low >= end:
            break
        if content[start:low].strip():
            return content[start:low]
        start = max(start, high)
    return content[start:end].strip()


def _within(places: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    """Return True if one of the places overlaps [start, end)."""
    at = bisect_left(places, (end, end))
    return at > 0 and places[at - 1][1] > start


def _text_end(content: str, end: int) -> int:
    """Return the position after the last character before `end` that is no white space."""
    while end and content[end - 1] in " \t\r\n":
        end -= 1
    return end


def _passages(content: str) -> list[Passage]:
    return split(content, "x.md", entries=True)


def _outline(content: str) -> list[Part]:
    return list(markdown.outline(content, front_matter(content)[1]))


def _below(parts: list[Part], section: str) -> list[Part] | None:
    """Return the heading of a section and the parts below it up to the next heading.

    None if missing.
    """
    headings = [i for i, part in enumerate(parts) if part.level]
    top = [i for i in headings if parts[i].level == 1]
    if section:
        first = next((i for i in headings if parts[i].heading == section), None)
        if first is None:
            return None
    else:
        first = top[0] if top and top == headings[:1] else None
    end = next((i for i in headings if first is None or i > first), len(parts))
    return parts[first or 0 : end]


def _next_marker(content: str, item: int) -> str:
    """Return the marker of the next list item, with its indentation; "2." follows "1.".

    `item` is the position of the line of the present item.
    """
    found = _MARKER.match(content, item)
    assert found
    indent, number, delimiter = found.groups()
    return f"{indent}{min(int(number) + 1, _LAST_NUMBER)}{delimiter}" if number else found[0]


def _apart(marker: str, after: str) -> str:
    """Return a list marker, padded so that the text `after` it does not belong to its item."""
    following = _NEXT_LINE.match(after)
    width = min(len(following[1]), len(marker) + 3) if following else 0
    return f"{marker.ljust(width)} "


def _written(before: str, text: str, after: str, eol: str) -> Written:
    """Return the content `before` + entry + `after`; `before` ends with the marker of the entry.

    Raises:
        InvalidField: Markdown would not parse the text as one entry there.
    """
    text = clean(text)
    indent = " " * len(before[_line_start(before, len(before)) :].expandtabs(4))
    entry = eol.join(indent + line if line else "" for line in text.split("\n")).lstrip(" ")
    for gap in ("", eol):  # Without a gap, the next line may continue the last line of the entry.
        content = before + entry + gap + after
        cut = _passages(content)
        starts = [passage.start for passage in cut]
        first = bisect_left(starts, len(before))
        last = first + 1
        while last < len(cut) and cut[last].continues:
            last += 1
        if first == len(cut) or starts[first] != len(before):
            continue
        if len(cut) > MAX_PASSAGES:
            raise InvalidField(
                "text", f"has no place: the file would have more than {MAX_PASSAGES:,} passages"
            )
        stands = clean(content[len(before) : cut[last - 1].end])
        if text.startswith(stands) and not MEANING.search(text, len(stands)):
            return Written(content, cut[first:last], cut)
    raise InvalidField(
        "text",
        "has no place: a code block or comment of the file is not closed, or the entry would be "
        "within a longer text",
    )


def _eol(content: str) -> str:
    """Return the line ending of the content."""
    found = _EOL.search(content)
    return found[0] if found else "\n"


def _line_start(content: str, at: int) -> int:
    return max(content.rfind("\n", 0, at), content.rfind("\r", 0, at)) + 1


def _line_end(content: str, at: int) -> int:
    found = _EOL.search(content, at)
    return found.start() if found else len(content)
