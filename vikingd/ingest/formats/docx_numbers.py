"""Numbers of the list items and headings of DOCX files, counted as Word counts them."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass, field
from typing import Any

from vikingd.ingest.formats.docx_elements import text_run
from vikingd.ingest.formats.list_numbers import marked, number_text
from vikingd.ingest.formats.zips import xml

NUMBERING = "word/numbering.xml"
_STYLES = "word/styles.xml"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LEVEL = re.compile(r"%([1-9])")


@dataclass(frozen=True, slots=True)
class _Level:
    """A level of a list: the first number, the form of the numbers, and the text with them."""

    start: int
    form: str
    text: str
    style: str
    is_decimal: bool


@dataclass(slots=True)
class _List:
    """A list (`num`): its definition (`abstractNum`), with the changes that the list makes.

    Attributes:
        definition: the id of the definition; lists with the same one go on counting.
        levels: the levels of the definition, or those that the list puts in their place.
        starts: the numbers with which the list itself begins its levels.
    """

    definition: str
    levels: dict[int, _Level]
    starts: dict[int, int] = field(default_factory=dict)

    def start(self, level: int) -> int:
        known = self.levels.get(level)
        return self.starts.get(level, known.start if known else 1)


class Numbers:
    """The counters of the lists of a file.

    Lists of the same definition go on counting, unless one states a number to start from.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        root = xml(archive.read(NUMBERING))
        self._styles = _styles(archive)
        definitions = {_value(one, "abstractNumId"): one for one in root.iter(f"{_W}abstractNum")}
        self._lists: dict[str, _List] = {}
        links: dict[str, str] = {}
        for one in root.iter(f"{_W}num"):
            name, of = _value(one, "numId"), _child(one, "abstractNumId")
            definition = definitions.get(of)
            levels = {} if definition is None else _levels(definition)
            if definition is not None and (link := _child(definition, "numStyleLink")):
                links[name] = link
            made = _List(of, levels)
            for change in one.findall(f"{_W}lvlOverride"):
                at = _number(_value(change, "ilvl"), 0)
                made.levels |= _levels(change)
                if start := _child(change, "startOverride"):
                    made.starts[at] = _number(start, 1)
            self._lists[name] = made
        for name, link in links.items():  # the definition of a style of lists
            if other := self._lists.get(self._styles.get(link, ("", "", ""))[0]):
                starts = self._lists[name].starts
                self._lists[name] = _List(other.definition, other.levels, starts)
        self._counts: dict[str, dict[int, int]] = {}
        self._begun: set[str] = set()

    def write(self, root: Any) -> None:
        """Put a mark with the label before the text of each numbered paragraph.

        See `list_numbers` for marks. `root` is the root element of the document.
        """
        for paragraph in root.iter(f"{_W}p"):
            facts = paragraph.find(f"{_W}pPr")
            name, level = ("", 0) if facts is None else self._place(facts)
            if (found := self._lists.get(name)) is None or level not in found.levels:
                continue
            label = self._next(name, found, level)
            if label is not None and any(paragraph.itertext(f"{_W}t")):
                facts.addnext(text_run(marked(label)))

    def _place(self, facts: Any) -> tuple[str, int]:
        """Return the list and the level of a paragraph, by itself or by its style; "" for none."""
        own = facts.find(f"{_W}numPr")
        name = level = ""
        if own is not None:
            name, level = _child(own, "numId"), _child(own, "ilvl")
        style, seen = _child(facts, "pStyle"), set()
        while not name and style in self._styles and style not in seen:
            seen.add(style)
            name, stated, base = self._styles[style]
            if name:
                levels = self._lists[name].levels if name in self._lists else {}
                of_style = [str(at) for at, one in levels.items() if one.style == style]
                level = level or stated or next(iter(of_style), "")
            style = base
        return name, _number(level, 0)

    def _next(self, name: str, found: _List, level: int) -> str | None:
        """Count an item, and return its label; None for a bullet."""
        counts = self._counts.setdefault(found.definition, {})
        if name not in self._begun:
            self._begun.add(name)
            for at in found.starts:
                counts.pop(at, None)
        counts[level] = counts.get(level, found.start(level) - 1) + 1
        for deeper in [at for at in counts if at > level]:
            del counts[deeper]
        for above in range(level):
            counts.setdefault(above, found.start(above))
        here = found.levels[level]
        if here.form == "bullet":
            return None

        def shown(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            of = found.levels.get(at, here)
            if of.form == "none":
                return ""
            return number_text(counts.get(at, 1), "decimal" if here.is_decimal else of.form)

        return " ".join(_LEVEL.sub(shown, here.text).split())


def _styles(archive: zipfile.ZipFile) -> dict[str, tuple[str, str, str]]:
    """Return the list, the level and the base of each style; "" for none."""
    if _STYLES not in archive.namelist():
        return {}
    found = {}
    for style in xml(archive.read(_STYLES)).iter(f"{_W}style"):
        numbering = style.find(f"{_W}pPr/{_W}numPr")
        name, level = (
            ("", "")
            if numbering is None
            else (_child(numbering, "numId"), _child(numbering, "ilvl"))
        )
        found[_value(style, "styleId")] = (name, level, _child(style, "basedOn"))
    return found


def _levels(parent: Any) -> dict[int, _Level]:
    return {
        _number(_value(level, "ilvl"), 0): _Level(
            _number(_child(level, "start"), 1),
            _child(level, "numFmt") or "decimal",
            _child(level, "lvlText"),
            _child(level, "pStyle"),
            level.find(f"{_W}isLgl") is not None,
        )
        for level in parent.findall(f"{_W}lvl")
    }


def _child(element: Any, name: str) -> str:
    found = element.find(f"{_W}{name}")
    return "" if found is None else _value(found, "val")


def _value(element: Any, name: str) -> str:
    return element.get(f"{_W}{name}") or ""


def _number(text: str, other: int) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else other
