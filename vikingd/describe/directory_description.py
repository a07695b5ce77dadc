"""Abstracts and overviews of directories, made of the abstracts of their children."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from vikingd.describe.child_groups import grouped
from vikingd.describe.covering_sentences import Candidate, content_words, covering
from vikingd.describe.topics import (
    Child,
    ends_sentence,
    first_sentence,
    label,
    labelled,
    topic_sentences,
)
from vikingd.domain.text import CJK_CHARS, one_line, without_invisible
from vikingd.ingest.abstracts import MAX_ABSTRACT, shorten
from vikingd.ingest.file_kind_names import DESCRIBING, LICENCE_NAME

__all__ = ["MAX_OVERVIEW", "Child", "directory_abstract", "directory_overview"]

MAX_OVERVIEW = 4000
"""Maximum characters of an overview of a directory that is made of its children."""

_LINES = (120, 80, 50, 0)  # characters of a child's sentence; fewer where all children fit then
_MAX_NAME = 255  # characters of a name that are shown
_MOST_LINES = 40  # children of a list that are shortened so
_FOR_LABELS = 160  # characters of an abstract that are kept for children without a sentence
_PER_SENTENCE, _PER_LABEL = 40, 4  # see `covering_sentences`
_FEW = 8  # children of which more than the first sentence is read
_MOST_CANDIDATES = 4000
_LEADING = frozenset(("__init__.py", "doc.go", "mod.rs", "lib.rs", "package-info.java"))
_NUMBER = re.compile("[0-9〇零一二三四五六七八九十百千]+")
_WIDE_END = re.compile(f"[{CJK_CHARS}。！？、，：；”」』）】》]\\Z")


def directory_abstract(children: Sequence[Child]) -> str:
    """Return at most MAX_ABSTRACT characters about the contents of a directory, or "".

    If a child describes the directory, as a README does, its abstract is returned. Else the text
    has those sentences of the children's abstracts that together have the most important words,
    in the order of the names of the children. The titles or names of other children follow.
    """
    ordered = sorted(children)
    files = {child.name: child.abstract for child in ordered if not child.is_directory}
    for name in DESCRIBING:
        if abstract := _shown(files.get(name, "")):
            return shorten(abstract)
    if len(ordered) == 1 and (abstract := _shown(ordered[0].abstract)):
        return shorten(abstract)
    labels = [label(child) for child in ordered]
    reserved = min(sum(len(one) + 2 for one in labels), _FOR_LABELS)
    found = list(_candidates(ordered, labels))
    chosen = covering(found, MAX_ABSTRACT - reserved, _PER_SENTENCE)
    chosen = chosen or covering(found, MAX_ABSTRACT, _PER_SENTENCE)
    text = _joined(chosen)
    told = content_words(text)
    mentioned = {one.group for one in chosen}
    left = [
        Candidate(group, 0, one, 0.7 if one.startswith("_") else 1.0)
        for group, one in _unnumbered(labels)
        if one and group not in mentioned and not content_words(one) <= told
    ]
    text += _labels(left, text, MAX_ABSTRACT - len(text))
    return text or shorten(", ".join(filter(None, labels)))


def _candidates(children: Sequence[Child], labels: Sequence[str]) -> Iterator[Candidate]:
    """Yield sentences of the children's abstracts, each text once.

    Of very many children only every n-th is read.
    """
    seen = set[str]()
    step = len(children) * 4 // _MOST_CANDIDATES + 1
    for group in range(0, len(children), step):
        child = children[group]
        of_child = () if LICENCE_NAME(child.name) else topic_sentences(child)
        if labels[group] and len(children) > _FEW:
            of_child = islice(of_child, 1)
        for place, (speaker, text, worth) in enumerate(of_child):
            if text in seen:
                continue
            seen.add(text)
            prefix = f"{speaker}: " if speaker else ""
            if not (speaker or place or child.name in _LEADING):
                prefix = labelled(labels[group], text)
            is_leading = child.name in _LEADING and not place and ends_sentence(text)
            yield Candidate(group, place, text, worth * (3 if is_leading else 1), prefix)


def _joined(chosen: Sequence[Candidate]) -> str:
    """Join sentences with their prefixes; of equal prefixes in a row only the first is shown."""
    text, before = "", ""
    for one in chosen:
        part = one.text if one.prefix and one.prefix == before else one.prefix + one.text
        before = one.prefix
        text += _gap(text) + part
    return text


def _gap(before: str) -> str:
    if not before:
        return ""
    if _WIDE_END.search(before):
        return "" if ends_sentence(before) else "；"
    return " " if ends_sentence(before) else "; "


def _labels(left: Sequence[Candidate], text: str, room: int) -> str:
    """Return the most specific labels, at most `room` characters, to append to a text."""
    wide = sum(_WIDE_END.search(one.text) is not None for one in left) * 2 > len(left)
    between, gap = "、" if wide else ", ", _gap(text)
    cost = room - len(gap) - 3
    chosen = covering(left, cost, _PER_LABEL)
    while chosen and len(between.join(one.text for one in chosen)) > cost:
        chosen.pop()
    if not chosen:
        return ""
    more = f"{between}…" if len(chosen) < len(left) else ""
    return gap + between.join(one.text for one in chosen) + more


def _unnumbered(labels: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (index, label); labels that differ only in numbers become one: "part 1 … part 9"."""
    shapes: dict[str, list[int]] = {}
    for at, one in enumerate(labels):
        if one:
            shapes.setdefault(_NUMBER.sub("0", one), []).append(at)
    for places in shapes.values():
        first, last = places[0], places[-1]
        yield first, f"{labels[first]} … {labels[last]}" if len(places) > 1 else labels[first]


def directory_overview(children: Sequence[Child], more: int = 0) -> str:
    """Return a Markdown list of the children of a directory, at most MAX_OVERVIEW characters.

    Subdirectories come first. Many children are grouped, with the number of each group. `more` is
    the number of children that are not given. They are counted at the end, with those that do not
    fit.
    """
    ordered = sorted(children, key=lambda child: (not child.is_directory, child))
    rest = f"- … {more:,} more" if more else ""
    room = MAX_OVERVIEW - len(rest) - 1
    for limit in _LINES[: None if len(ordered) <= _MOST_LINES else 1]:
        lines = [_entry(child, limit) for child in ordered]
        if sum(len(line) + 1 for line in lines) <= room:
            return "\n".join([*lines, rest] if rest else lines)
    return "\n".join(grouped(ordered, more, MAX_OVERVIEW))


def _entry(child: Child, limit: int) -> str:
    name = _shown(child.name)[:_MAX_NAME] + ("/" if child.is_directory else "")
    if not limit:
        return f"- {name}"
    about, title = first_sentence(child, limit), label(child)
    if title and not content_words(title) <= content_words(f"{name} {about}"):
        name += f" ({title})"
    return f"- {name}: {about}" if about else f"- {name}"


def _shown(text: str) -> str:
    return one_line(without_invisible(text[: 4 * MAX_ABSTRACT]))
