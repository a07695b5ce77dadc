"""Overviews of texts: a line for each heading with a sentence, or sentences from all parts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice, pairwise

from vikingd.describe.covering_sentences import Candidate, content_words, covering
from vikingd.describe.definition_lines import Text
from vikingd.describe.overview_lines import Line
from vikingd.describe.topics import is_topic_prose
from vikingd.domain.sentences import sentences
from vikingd.domain.text import CJK_CHARS, SECTION_SEPARATOR, lazy, one_line, without_invisible
from vikingd.ingest.abstracts import plain_paragraphs
from vikingd.ingest.first_prose import refers_back

_MAX_HEAD = 90
_MAX_SENTENCE = 240
_MOST_SECTIONS = 100  # sections whose sentences are read
_MOST_SENTENCES = 6  # of a section that are read
_MOST_PARTS = 300  # passages without headings of which sentences are read
_READ = 2000  # characters of a passage that are read
_CJK = lazy(f"[{CJK_CHARS}]")
_ANCHOR = lazy(r"\s*(?:\[{2,3}#[^\]\n]*\]{2,3}|\{ ?#[\w-]+ ?\})\s*")
_TABLE_RULE = lazy(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t:|-]*)?\Z")
_SEPARATED = re.compile(r"[,\t;]")


def section_lines(pieces: Sequence[Text], name: str) -> list[Line]:
    """Return a line for each heading above the passages; [] if there are none.

    Text above the first heading gets a line without a heading.
    """
    sections: dict[tuple[str, ...], list[Text]] = {}
    for piece in pieces:
        path = tuple(piece.section.split(SECTION_SEPARATOR)) if piece.section else ()
        for depth in range(1, len(path)):
            sections.setdefault(path[:depth], [])
        sections.setdefault(path, []).append(piece)
    tops = {path[0] for path in sections if path}
    skipped = 1 if len(tops) == 1 and len(sections) > 1 else 0  # the title of the text
    lines: list[Line] = []
    deepest = _depth_read(sections)
    for path, below in sections.items():
        about = best_sentence(below, path[-1] if path else "", name) if len(path) <= deepest else ""
        if len(path) > skipped:
            lines.append(Line(len(path) - skipped - 1, _heading(path[-1]), about))
        elif about:
            lines.append(Line(0, "", about))
    return lines if len(sections) > 1 else []


def _depth_read(sections: Collection[tuple[str, ...]]) -> int:
    """Return the largest depth down to which there are at most _MOST_SECTIONS sections in all.

    Only sentences of these sections are read.
    """
    depths = Counter(map(len, sections))
    read, deepest = 0, 0
    for depth in sorted(depths):
        read += depths[depth]
        if read > _MOST_SECTIONS:
            break
        deepest = depth
    return deepest


def _heading(text: str) -> str:
    head = _ANCHOR.sub("", one_line(without_invisible(text[: 4 * _MAX_HEAD])))
    return head if len(head) <= _MAX_HEAD else head[: _MAX_HEAD - 1] + "…"


def best_sentence(pieces: Sequence[Text], heading: str, name: str) -> str:
    """Return the most telling sentence of a section: the first that is understood without others.

    If there is none, return the columns of a table in it, or a weaker sentence, or "".
    """
    asked = content_words(heading)
    fallbacks: list[str] = []
    paragraphs = [one for piece in pieces[:2] for one in plain_paragraphs(piece.text[:_READ], name)]
    for is_main in (True, False):
        for text in (paragraph for paragraph, main in paragraphs if main is is_main):
            for sentence in islice(sentences(text), _MOST_SENTENCES):
                line = _ANCHOR.sub("", one_line(sentence))
                if not is_topic_prose(line, at_least=2) or content_words(line) <= asked:
                    continue
                if not (line.endswith((":", "：", "?", "？")) or refers_back(line)):
                    return line
                fallbacks.append(line)
        if told := [line for line in fallbacks if not line.endswith((":", "："))]:
            return told[0]
    found = (columns for piece in pieces[:2] if (columns := table_columns(piece.text)))
    return next(chain(found, fallbacks), "")


def table_columns(text: str) -> str:
    """Return the columns of the first Markdown table in a text; "" without a table."""
    lines = text[:_READ].split("\n")
    for head, rule in pairwise(lines):
        if "|" in head and "|" in rule and _TABLE_RULE.match(rule):
            cells = [one_line(cell) for cell in head.split("|")]
            return columns_of([cell for cell in cells if any(map(str.isalnum, cell))])
    return ""


def columns_of(names: Sequence[str]) -> str:
    """Return the names of columns as one sentence; "" if there are none."""
    if not names:
        return ""
    if any(map(_CJK.search, names)):
        return f"表格：{'、'.join(names)}"
    return f"table: columns {', '.join(names)}"


def part_lines(pieces: Sequence[Text], name: str, room: int) -> list[Line]:
    """Return lines with sentences from all over a text without headings, in its order."""
    step = len(pieces) // _MOST_PARTS + 1
    candidates = [
        Candidate(at, place, line, 1.0 if not place else 0.6)
        for at in range(0, len(pieces), step)
        for place, line in enumerate(_lines(pieces[at].text[:_READ], name))
    ]
    chosen = covering(candidates, room, 60)
    return [Line(0, "", one.text) for one in chosen]


def _lines(text: str, name: str) -> Iterator[str]:
    found = (one for paragraph, _ in plain_paragraphs(text, name) for one in sentences(paragraph))
    for sentence in islice(found, _MOST_SENTENCES):
        line = one_line(sentence)
        if (
            len(line) <= _MAX_SENTENCE
            and is_topic_prose(line, at_least=3)
            and not refers_back(line)
        ):
            yield line


def separated_columns(text: str) -> str:
    """Return the columns in the first line of a CSV or TSV file as one sentence."""
    line = one_line(text.partition("\n")[0][: 4 * _MAX_SENTENCE])
    return columns_of([one.strip(" \"'") for one in _SEPARATED.split(line) if one.strip(" \"'")])
