"""Numbers of the list items and headings of ODT files, counted as their programs count them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vikingd.ingest.formats.list_numbers import number_text

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_ID = "{http://www.w3.org/XML/1998/namespace}id"
_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
Levels = dict[int, Any]


@dataclass(slots=True)
class ListNumbers:
    """The counters of the lists of a document.

    Attributes:
        styles: the levels with numbers of each style, from 1.
    """

    styles: dict[str, Levels]
    _kept: dict[str, dict[int, int]] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, roots: Iterable[Any]) -> ListNumbers:
        """Return the counters for the list styles below these elements."""
        styles: dict[str, Levels] = {}
        for style in (style for root in roots for style in root.iter(f"{_TEXT}list-style")):
            levels = {
                _number(level, "level", 1): level
                for level in style.findall(f"{_TEXT}list-level-style-number")
            }
            styles[style.get(f"{_STYLE}name") or ""] = levels
        return cls(styles)

    def begin(self, element: Any, style: str, level: int) -> None:
        """Begin a list at a level (from 1); it starts to count, or continues an earlier list."""
        goes_on = element.get(f"{_TEXT}continue-numbering") == "true"
        if level > 1:
            if not goes_on:
                self._counts.pop(level, None)
            return
        before = element.get(f"{_TEXT}continue-list") or ("" if not goes_on else f"style {style}")
        self._counts = self._kept.get(before, {}).copy() if before else {}
        for name in filter(None, (element.get(_ID), f"style {style}")):
            self._kept[name] = self._counts

    def next(self, item: Any, style: str, level: int) -> str | None:
        """Count an item and return its label; None for an item without a number."""
        levels = self.styles.get(style, {})
        first = next((child for child in item if isinstance(child.tag, str)), None)
        if first is None or first.tag == f"{_TEXT}list":
            return None  # it only holds a deeper list
        start = _number(levels.get(level), "start-value", 1)
        value = _number(item, "start-value", self._counts.get(level, start - 1) + 1)
        _count(self._counts, level, value)
        return _label(levels, level, self._counts) if level in levels else None


@dataclass(slots=True)
class HeadingNumbers:
    """The counters of the headings of a document, by its outline.

    A paragraph style that names another list style, or none, takes its headings out of the outline.
    """

    _levels: Levels
    _outlines: frozenset[str]
    _lists: dict[str, str | None]
    _bases: dict[str, str]
    _counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, roots: Iterable[Any]) -> HeadingNumbers:
        """Return the counters for the outline and the paragraph styles below these elements.

        Of styles with the same name the first one counts.
        """
        levels: Levels = {}
        names, lists, bases = set(), dict[str, str | None](), dict[str, str]()
        for root in roots:
            for outline in root.iter(f"{_TEXT}outline-style"):
                names.add(outline.get(f"{_STYLE}name") or "Outline")
                for level in outline.findall(f"{_TEXT}outline-level-style"):
                    levels[_number(level, "level", 1)] = level
            for style in root.iter(f"{_STYLE}style"):
                if style.get(f"{_STYLE}family") == "paragraph":
                    name = style.get(f"{_STYLE}name") or ""
                    lists.setdefault(name, style.get(f"{_STYLE}list-style-name"))
                    bases.setdefault(name, style.get(f"{_STYLE}parent-style-name") or "")
        return cls(levels, frozenset(names), lists, bases)

    def next(self, heading: Any, level: int) -> str | None:
        """Count a heading and return its label; None for one without a number."""
        if heading.get(f"{_TEXT}is-list-header") == "true" or not self._is_in_outline(heading):
            return None
        first = _number(self._levels.get(level), "start-value", 1)
        value = self._counts.get(level, first - 1) + 1
        if heading.get(f"{_TEXT}restart-numbering") == "true":
            value = _number(heading, "start-value", first)
        _count(self._counts, level, value)
        for above in range(1, level):
            self._counts.setdefault(above, _number(self._levels.get(above), "start-value", 1))
        return (
            (_label(self._levels, level, self._counts) or None) if level in self._levels else None
        )

    def _is_in_outline(self, heading: Any) -> bool:
        style, seen = heading.get(f"{_TEXT}style-name") or "", set()
        while style in self._lists and style not in seen:
            seen.add(style)
            if (name := self._lists[style]) is not None:
                return name in self._outlines
            style = self._bases[style]
        return True


def _count(counts: dict[int, int], level: int, value: int) -> None:
    counts[level] = value
    for deeper in [at for at in counts if at > level]:
        del counts[deeper]


def _label(levels: Levels, level: int, counts: dict[int, int]) -> str:
    """Return the label of a level, with the numbers above that it shows."""
    facts = levels[level]
    parts = []
    for at in range(max(1, level - _number(facts, "display-levels", 1) + 1), level + 1):
        of: Any = levels.get(at, facts)
        form = of.get(f"{_STYLE}num-format")
        if form != "":
            parts.append(number_text(counts.get(at, 1), _FORMS.get(form, "decimal")))
    affixes = [facts.get(f"{_STYLE}num-{name}") or "" for name in ("prefix", "suffix")]
    return f"{affixes[0]}{'.'.join(parts)}{affixes[1]}".strip()


def _number(element: Any, name: str, other: int) -> int:
    text = "" if element is None else element.get(f"{_TEXT}{name}") or ""
    return int(text) if text.isdecimal() and len(text) < 10 else other
