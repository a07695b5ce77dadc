"""Elements of DOCX files that the parser skips with their text, as elements that it reads."""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

from lxml import etree

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_V = "{urn:schemas-microsoft-com:vml}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
SKIPPED = re.compile(
    rb"<w:(?:fldSimple|dir|bdo|ruby|cr|gridBefore)\b|<v:(?:oval|arc|curve|polyline|image|textpath)\b"
)
"""The pattern of the XML tags of elements that the parser skips."""

_MAX_COLUMNS = 63  # of a table of Word
_AROUND = tuple(f"{_W}{name}" for name in ("fldSimple", "dir", "bdo"))
_SHAPES = tuple(f"{_V}{name}" for name in ("oval", "arc", "curve", "polyline", "image"))


def write_known(root: Any) -> None:
    """Replace the elements below a root.

    Simple fields and marks of the direction of text become their runs, and all shapes become one
    kind of shape. A line break is a `br`. Columns before the first cell of a row become cells.
    Text with a reading (ruby) gets it in parentheses. The text of an artful heading (WordArt) is a
    box of text.
    """
    for element in list(root.iter(*_AROUND)):
        parent = element.getparent()
        at = parent.index(element)
        parent[at : at + 1] = [child for child in element if not _is_properties(child)]
    for element in list(root.iter(f"{_W}ruby")):
        _write_ruby(element)
    for element in root.iter(f"{_W}cr"):
        element.tag = f"{_W}br"
    for element in list(root.iter(f"{_V}textpath")):
        if text := (element.get("string") or "").strip():
            box = etree.SubElement(element.getparent(), f"{_V}textbox")
            content = etree.SubElement(box, f"{_W}txbxContent")
            paragraph = etree.SubElement(content, f"{_W}p")
            paragraph.append(text_run(text))
    for element in list(root.iter(f"{_W}gridBefore")):
        _write_empty_cells(element)
    for element in root.iter(*_SHAPES):
        element.tag = f"{_V}shape"


def text_run(text: str) -> Any:
    """Return a run of text."""
    run = etree.Element(f"{_W}r")
    etree.SubElement(run, f"{_W}t", {_SPACE: "preserve"}).text = text
    return run


def _is_properties(element: Any) -> bool:
    return not isinstance(element.tag, str) or element.tag.endswith("Pr")


def _write_ruby(ruby: Any) -> None:
    """Replace the ruby of a run by the runs of its base, and one with its reading."""
    run = ruby.getparent()
    paragraph = run.getparent()
    reading = "".join(ruby.find(f"{_W}rt").itertext(f"{_W}t")) if _has(ruby, "rt") else ""
    base = ruby.find(f"{_W}rubyBase")
    parts = [deepcopy(part) for part in base] if base is not None else []
    if reading.strip():
        parts.append(text_run(f"（{reading.strip()}）"))
    at = paragraph.index(run)
    paragraph[at + 1 : at + 1] = parts
    run.remove(ruby)


def _write_empty_cells(columns: Any) -> None:
    """Put an empty cell into each column that a row leaves free before its first cell."""
    row = columns.getparent().getparent()
    count = columns.get(f"{_W}val") or ""
    if row is None or row.tag != f"{_W}tr" or not count.isdecimal():
        return
    at = row.index(columns.getparent()) + 1
    for _ in range(min(int(count), _MAX_COLUMNS)):
        cell = etree.Element(f"{_W}tc")
        etree.SubElement(cell, f"{_W}p")
        row.insert(at, cell)


def _has(element: Any, name: str) -> bool:
    return element.find(f"{_W}{name}") is not None
