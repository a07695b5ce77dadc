"""Numbers of the list items of ODT files, counted as their programs count them."""

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
        """Begin a list at a level, from 1: anew, or where an earlier list ended."""
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
        self._counts[level] = value
        for deeper in [at for at in self._counts if at > level]:
            del self._counts[deeper]
        if (facts := levels.get(level)) is None:
            return None
        parts = []
        for at in range(max(1, level - _number(facts, "display-levels", 1) + 1), level + 1):
            of: Any = levels.get(at, facts)
            form = of.get(f"{_STYLE}num-format")
            if form != "":
                parts.append(number_text(self._counts.get(at, 1), _FORMS.get(form, "decimal")))
        affixes = [facts.get(f"{_STYLE}num-{name}") or "" for name in ("prefix", "suffix")]
        return f"{affixes[0]}{'.'.join(parts)}{affixes[1]}".strip()


def _number(element: Any, name: str, other: int) -> int:
    text = "" if element is None else element.get(f"{_TEXT}{name}") or ""
    return int(text) if text.isdecimal() and len(text) < 10 else other
