"""The body of a DOCX file as its last revision shows it: without hidden and moved text.

Formulas, and elements that the parser skips, become elements that it reads.
"""

from __future__ import annotations

import re
import zipfile
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
            styles = _hidden_styles(archive.read(_STYLES)) if _STYLES in names else frozenset()
            for name in names:
                if _BODIES.fullmatch(name):
                    part = archive.read(name)
                    has_numbers = name == MAIN and NUMBERING in names
                    is_styled = has_numbers or any(style.encode() in part for style in styles)
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


def _hidden_styles(data: bytes) -> frozenset[str]:
    """Return the ids of the styles whose text is hidden, by themselves or by their base."""
    if b"vanish" not in data:
        return frozenset()
    own: dict[str, bool | None] = {}
    bases: dict[str, str] = {}
    for style in xml(data).iter(f"{_W}style"):
        name = style.get(f"{_W}styleId") or ""
        own[name] = _is_on(style.find(f"{_W}rPr/{_W}vanish"))
        if (base := style.find(f"{_W}basedOn")) is not None:
            bases[name] = base.get(f"{_W}val") or ""
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


def _clean(root: Any, styles: frozenset[str]) -> int:
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
    before = None
    for run in list(root.iter(f"{_W}r")):
        if not _is_hidden(run, styles):
            continue
        has_words = any(map(str.isalnum, "".join(run.itertext(f"{_W}t"))))
        hidden += has_words and run.getprevious() is not before
        before = run
        for part in list(run):
            if part.tag != f"{_W}rPr":
                run.remove(part)
    return hidden


def _drop(element: Any) -> None:
    parent = element.getparent()
    if parent is not None:
        parent.remove(element)


def _is_hidden(run: Any, styles: frozenset[str]) -> bool:
    facts = run.find(f"{_W}rPr")
    own = None if facts is None else _is_on(facts.find(f"{_W}vanish"))
    if own is not None:
        return own
    paragraph = next(run.iterancestors(f"{_W}p"), None)
    for element, path in ((facts, "rStyle"), (paragraph, f"pPr/{_W}pStyle")):
        style = None if element is None else element.find(f"{_W}{path}")
        if style is not None and style.get(f"{_W}val") in styles:
            return True
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
        and not _is_on_color(run, facts, paragraph)
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


def _is_on_color(run: Any, facts: Any, paragraph: Any) -> bool:
    """Return True if a run may have another background than white, as in tables and boxes."""
    if any(_is_color(facts.find(f"{_W}{name}")) for name in ("shd", "highlight")):
        return True
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
