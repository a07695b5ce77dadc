"""Abstracts and overviews of directories, made of their children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vikingd.describe.covering import Candidate, covering
from vikingd.domain.sentences import sentences
from vikingd.domain.text import join_lines, one_line
from vikingd.ingest.abstracts import MAX_ABSTRACT, shorten

MAX_OVERVIEW = 4000
"""Maximum characters of an overview of a directory that is made of its children."""

_MAX_LINE = 120
_DESCRIBING = (
    "README.md",
    "readme.md",
    "index.md",
    "SKILL.md",
    "README.rst",
    "README.adoc",
    "index.rst",
    "index.adoc",
)


class Child(NamedTuple):
    """A context in a directory: the last segment of its URI, and what is known of it."""

    name: str
    is_directory: bool
    title: str
    abstract: str


def directory_abstract(children: Sequence[Child]) -> str:
    """Return at most MAX_ABSTRACT characters about the contents of a directory, or "".

    A child that describes the directory gives its abstract. Else sentences of the children's
    abstracts are chosen that cover most of their words. The order of the children is that of their
    names.
    """
    ordered = sorted(children)
    files = {child.name: child.abstract for child in ordered if not child.is_directory}
    for name in _DESCRIBING:
        if abstract := files.get(name, ""):
            return shorten(one_line(abstract))
    chosen = covering(list(_candidates(ordered)), MAX_ABSTRACT)
    return join_lines(one.text for one in chosen)


def _candidates(children: Sequence[Child]) -> Iterator[Candidate]:
    for group, child in enumerate(children):
        if title := one_line(child.title or ("" if child.abstract else child.name)):
            yield Candidate(group, -1, title[: MAX_ABSTRACT // 4])
        for place, sentence in enumerate(sentences(child.abstract[: 2 * MAX_ABSTRACT])):
            if len(line := one_line(sentence)) <= MAX_ABSTRACT:
                yield Candidate(group, place, line)


def directory_overview(children: Sequence[Child], more: int = 0) -> str:
    """Return a Markdown list of the children of a directory, at most MAX_OVERVIEW characters.

    `more` is the number of children beyond those given. Those that do not fit are counted.
    """
    ordered = sorted(children, key=lambda child: (not child.is_directory, child))
    lines: list[str] = []
    room = MAX_OVERVIEW - 32
    for child in ordered:
        line = _line(child)
        if len(line) + 1 > room:
            break
        lines.append(line)
        room -= len(line) + 1
    if left := len(ordered) - len(lines) + more:
        lines.append(f"- … {left:,} more")
    return "\n".join(lines)


def _line(child: Child) -> str:
    name = one_line(child.name) + ("/" if child.is_directory else "")
    about = next(iter(sentences(one_line(child.abstract[: 2 * MAX_ABSTRACT]))), "") or one_line(
        child.title
    )
    return f"- {name}: {shorten(about, _MAX_LINE)}" if about else f"- {name}"
