"""The body of a DOCX file as its last revision shows it: without hidden and moved text.

Formulas, and elements that the parser skips, become elements that it reads.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from lxml import etree

from vikingd.ingest.formats.docx_drawings import write_drawings
from vikingd.ingest.formats.docx_elements import SKIPPED, write_known
from vikingd.ingest.formats.docx_formulas import write_formulas
from vikingd.ingest.formats.docx_numbers import NUMBERING, Numbers
from vikingd.ingest.formats.zips import BROKEN, xml

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_WHITE = ("ffffff", "white")
MAIN = "word/document.xml"
_STYLES = "word/styles.xml"
_BODIES = re.compile(r"word/(?:document|footnotes|endnotes)\d*\.xml")
_MARKS = re.compile(
    rb"<w:(?:vanish|specVanish|moveFrom|moveTo|hidden)\b|<w14:noFill\b"
    rb"|w:color w:val=\"(?:[Ff]{6}|white)\""
    rb"|<w:sz w:val=\"[0-4]\"|<m:oMath\b|<a:graphicData[^>]*/(?:chart|diagram)\""
)
_HIDDEN_ROW = f".//{_W}tr/{_W}trPr/{_W}hidden"
_OFF = ("0", "false", "off")
_STYLE_MARKS = re.compile(rb"vanish|<w:(?:shd|highlight)\b")
_BACKGROUNDS = ("shd", "highlight")
_ANCHOR = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}anchor"
# What a run may hold beside text, with a color of its own.
_DRAWN = (
    *(f"{_W}{name}" for name in ("drawing", "pict", "object")),
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent",
)
_TINY = 4  # half points of a font that nobody reads


def shown(data: bytes) -> tuple[bytes, int]:
    """Return a DOCX file without the text that it hides, and the number of hidden parts.

    Its formulas are text, and so is what the parser skips. Marks state the numbers of list items.

    Hidden is text with the attribute "hidden", by itself or by its style, text of two points or
    less, and white text on white. Text that was moved stands in its new place alone.

    Raises:
        Failed: a part with such text is damaged.
        RecursionError: a formula is nested too deeply.
    """
    with zipfile.ZipFile(BytesIO(data)) as archive:
        changed: dict[str, bytes] = {}
        hidden = 0
        try:
            names = archive.namelist()
            styles = _Styles.of(archive.read(_STYLES)) if _STYLES in names else _Styles()
            for name in names:
                if _BODIES.fullmatch(name):
                    part = archive.read(name)
                    has_numbers = name == MAIN and NUMBERING in names
                    is_styled = has_numbers or any(
                        style.encode() in part for style in styles.hidden
                    )
                    if is_styled or _MARKS.search(part) or SKIPPED.search(part):
                        root = xml(part)
                        hidden += _clean(root, styles)
                        write_formulas(root)
                        write_known(root)
                        if has_numbers:
                            Numbers(archive).write(root)
                        write_drawings(root, archive, name)
                        changed[name] = etree.tostring(root)
        except BROKEN:
            return data, 0  # The parser reports the fault of the part.
        if not changed:
            return data, 0
        target = BytesIO()
        with zipfile.ZipFile(target, "w") as copy:
            for member in archive.infolist():
                content = changed.get(member.filename)
                copy.writestr(member, archive.read(member) if content is None else content)
    return target.getvalue(), hidden


@dataclass(frozen=True, slots=True)
class _Styles:
    """Styles by their ids.

    Attributes:
        hidden: those whose text is hidden.
        colored: those whose text has a background that is not white.
    """

    hidden: frozenset[str] = frozenset()
    colored: frozenset[str] = frozenset()

    @classmethod
    def of(cls, data: bytes) -> _Styles:
        """Return the styles of a part that are hidden or colored, by themselves or by a base."""
        if not _STYLE_MARKS.search(data):
            return cls()
        hidden: dict[str, bool | None] = {}
        colored: dict[str, bool | None] = {}
        bases: dict[str, str] = {}
        for style in xml(data).iter(f"{_W}style"):
            name = style.get(f"{_W}styleId") or ""
            hidden[name] = _is_on(style.find(f"{_W}rPr/{_W}vanish"))
            backgrounds = [style.find(f"{_W}rPr/{_W}{mark}") for mark in _BACKGROUNDS]
            is_stated = any(one is not None for one in backgrounds)
            colored[name] = any(map(_is_color, backgrounds)) if is_stated else None
            if (base := style.find(f"{_W}basedOn")) is not None:
                bases[name] = base.get(f"{_W}val") or ""
        return cls(_inherited(hidden, bases), _inherited(colored, bases))


def _inherited(own: Mapping[str, bool | None], bases: Mapping[str, str]) -> frozenset[str]:
    """Return the styles with a fact; None is that of the style a style is based on."""
    found = set()
    for name in own:
        at, seen = name, set()
        while own.get(at) is None and at in bases and at not in seen:
            seen.add(at)
            at = bases[at]
        if own.get(at):
            found.add(name)
    return frozenset(found)


def _is_on(mark: Any) -> bool | None:
    return None if mark is None else mark.get(f"{_W}val") not in _OFF


def _clean(root: Any, styles: _Styles) -> int:
    """Remove hidden runs and the former places of moved text; return the number of hidden parts."""
    for moved in list(root.iter(f"{_W}moveFrom")):
        _drop(moved)
    for moved in list(root.iter(f"{_W}moveTo")):
        moved.tag = f"{_W}ins"
    hidden = 0
    for row in [mark.getparent().getparent() for mark in root.iterfind(_HIDDEN_ROW)]:
        if _is_on(row.find(f"{_W}trPr/{_W}hidden")) and row.getparent() is not None:
            hidden += any(map(str.isalnum, "".join(row.itertext(f"{_W}t"))))
            _drop(row)
    is_over_picture = any(one.get("behindDoc") not in (None, *_OFF) for one in root.iter(_ANCHOR))
    before = root  # the last run that was removed; at first an element before no run
    is_counted = False
    for run in list(root.iter(f"{_W}r")):
        if is_gone := _is_hidden(run, styles):
            kept: tuple[str, ...] = (f"{_W}rPr",)
        elif _is_invisible(run, styles, is_over_picture):
            kept = (f"{_W}rPr", *_DRAWN)
        else:
            continue
        parts = [part for part in run if part.tag not in kept]
        if not parts and not is_gone:
            continue
        words = "".join(text for part in parts for text in part.itertext(f"{_W}t"))
        is_counted = is_counted and run.getprevious() is before
        if not is_counted and any(map(str.isalnum, words)):
            hidden += 1
            is_counted = True
        before = run
        for part in parts:
            run.remove(part)
    return hidden


def _drop(element: Any) -> None:
    parent = element.getparent()
    if parent is not None:
        parent.remove(element)


def _is_hidden(run: Any, styles: _Styles) -> bool:
    """Return True for a run that is hidden with all it holds, by itself or by its style."""
    facts = run.find(f"{_W}rPr")
    own = None if facts is None else _is_on(facts.find(f"{_W}vanish"))
    if own is not None:
        return own
    paragraph = next(run.iterancestors(f"{_W}p"), None)
    for element, path in ((facts, "rStyle"), (paragraph, f"pPr/{_W}pStyle")):
        style = None if element is None else element.find(f"{_W}{path}")
        if style is not None and style.get(f"{_W}val") in styles.hidden:
            return True
    return False


def _is_invisible(run: Any, styles: _Styles, is_over_picture: bool) -> bool:
    """Return True for a run whose text nobody sees, for its size or its color.

    Args:
        run: the run.
        styles: the styles of the file.
        is_over_picture: its part has a picture behind the text, at a place that is not known.
    """
    facts = run.find(f"{_W}rPr")
    if facts is None:
        return False
    size = facts.find(f"{_W}sz")
    points = "" if size is None else size.get(f"{_W}val") or ""
    if points.isdecimal() and int(points) <= _TINY:
        return True
    if facts.find(f"{_W14}textFill/{_W14}noFill") is not None:
        return facts.find(f"{_W14}textOutline") is None
    color = facts.find(f"{_W}color")
    return (
        color is not None
        and (color.get(f"{_W}val") or "").lower() in _WHITE
        and color.get(f"{_W}themeColor") in (None, "background1")
        and not any(color.get(f"{_W}{name}") for name in ("themeTint", "themeShade"))
        and not is_over_picture
        and not _is_on_color(run, facts, styles)
    )


def _is_color(background: Any) -> bool:
    """Return True for a shading or a highlight that is not plain white."""
    if background is None:
        return False
    value = (background.get(f"{_W}val") or "").lower()
    if background.tag == f"{_W}highlight":
        return value not in ("none", "white")
    fill = (background.get(f"{_W}fill") or "auto").lower()
    is_plain = value in ("", "clear", "nil") and background.get(f"{_W}themeFill") is None
    return not (is_plain and fill in ("auto", *_WHITE))


def _is_on_color(run: Any, facts: Any, styles: _Styles) -> bool:
    """Return True if a run may have another background than white, as in tables and boxes."""
    if any(_is_color(facts.find(f"{_W}{name}")) for name in _BACKGROUNDS):
        return True
    style = facts.find(f"{_W}rStyle")
    if style is not None and style.get(f"{_W}val") in styles.colored:
        return True
    paragraph = next(run.iterancestors(f"{_W}p"), None)
    if paragraph is not None and paragraph.find(f"{_W}pPr/{_W}shd") is not None:
        return True
    if paragraph is not None and paragraph.find(f"{_W}pPr/{_W}pStyle") is not None:
        return True  # its style may have a color
    root = run.getroottree().getroot()
    if root.find(f"{_W}background") is not None:
        return True
    return any(
        next(run.iterancestors(f"{_W}{name}"), None) is not None for name in ("tbl", "txbxContent")
    )
