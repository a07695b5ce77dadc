"""The lines of an overview, shortened to a number of characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vikingd.domain.text import one_line, without_invisible
from vikingd.ingest.abstracts import shorten

# Tried in this order: the deepest level that is shown, and the characters about each line.
_TRIES = ((9, 140), (9, 90), (3, 90), (2, 90), (9, 50), (2, 50), (1, 90), (1, 50), (2, 0), (1, 0))


class Line(NamedTuple):
    """A line of an overview, for a part of a file.

    Attributes:
        level: the depth of the part, from 0.
        head: a heading, or the signature of a definition; "" for text without a heading.
        about: a sentence about the part, or "".
    """

    level: int
    head: str
    about: str


def fitted(lines: Sequence[Line], room: int) -> str:
    """Return the lines as a Markdown list of at most `room` characters.

    If not all lines fit, first their sentences become shorter. Then deep lines are left out, and
    counted in the line above them. Then lines are left out at equal distances, and counted at the
    end.
    """
    lines = [Line(level, _plain(head), _plain(about)) for level, head, about in lines]
    for depth, limit in _TRIES:
        kept = _above(lines, depth)
        if sum(_size(line, limit) for line in kept) <= room + 1:
            return _shown(kept, limit)
    tops = _above(lines, 1)
    count = len(tops)
    while count > 1:
        count = count * 7 // 8
        kept = [tops[at * len(tops) // count] for at in range(count)]
        rest = f"- … {len(tops) - count:,} more"
        if sum(_size(line, 0) for line in kept) + len(rest) <= room:
            return f"{_shown(kept, 0)}\n{rest}"
    return f"- … {len(tops):,} more"


def _plain(text: str) -> str:
    return one_line(without_invisible(text))


def _above(lines: Sequence[Line], depth: int) -> list[Line]:
    """Return the lines with levels below `depth`.

    A line above lines that are left out gets their number: "Install (+3)".
    """
    kept: list[Line] = []
    hidden = 0
    for line in lines:
        if line.level < depth:
            if hidden:
                kept[-1] = kept[-1]._replace(head=f"{kept[-1].head} (+{hidden})")
            hidden = 0
            kept.append(line)
        elif kept:
            hidden += 1
    if hidden:
        kept[-1] = kept[-1]._replace(head=f"{kept[-1].head} (+{hidden})")
    return kept


def _size(line: Line, limit: int) -> int:
    """Return the most characters that a line takes if its sentence has at most `limit`."""
    about = min(len(line.about), limit)
    return 2 * line.level + len(line.head) + about + 5


def _shown(lines: Sequence[Line], limit: int) -> str:
    shown: list[str] = []
    for line in lines:
        about = shorten(line.about, limit) if limit else ""
        if text := f"{line.head}: {about}" if line.head and about else line.head or about:
            shown.append(f"{'  ' * line.level}- {text}")
    return "\n".join(shown)
