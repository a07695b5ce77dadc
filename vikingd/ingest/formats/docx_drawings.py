"""Charts and diagrams of DOCX files as tables and paragraphs, which the parser reads."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from lxml import etree

from vikingd.ingest.formats.document import Failed
from vikingd.ingest.formats.docx_elements import text_run
from vikingd.ingest.formats.drawings import chart_rows, chart_title, diagram_texts
from vikingd.ingest.formats.zips import BROKEN, joined, xml

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_RELATED = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"


def write_drawings(root: Any, archive: zipfile.ZipFile, part: str) -> None:
    """Write the values of charts and the texts of diagrams after the paragraphs with them.

    A chart that cannot be read stays as it is, and so does one of a new kind ("chartex").

    Args:
        root: the root of a part; it is changed.
        archive: the file.
        part: the name of the part.
    """
    targets: dict[str, str] | None = None
    for data in list(root.iter("{*}graphicData")):
        paragraph = next(data.iterancestors(f"{_W}p"), None)
        if paragraph is None:
            continue
        for child in data:
            chart, diagram = child.get(f"{_RELATED}id"), child.get(f"{_RELATED}dm")
            if etree.QName(child).localname not in ("chart", "relIds") or not (chart or diagram):
                continue
            targets = _targets(archive, part) if targets is None else targets
            with suppress(KeyError, ValueError, Failed, *BROKEN):
                drawing = xml(archive.read(targets[str(chart or diagram)]))
                blocks = (
                    _chart(drawing) if chart else [_paragraph(t) for t in diagram_texts(drawing)]
                )
                for block in reversed(blocks):
                    paragraph.addnext(block)
                data.set("uri", "")  # it is read


def _targets(archive: zipfile.ZipFile, part: str) -> dict[str, str]:
    """Return the names of the members that a part refers to, by their ids."""
    folder, _, name = part.rpartition("/")
    root = xml(archive.read(f"{folder}/_rels/{name}.rels"))
    return {str(one.get("Id")): joined(part, one.get("Target") or "").lstrip("/") for one in root}


def _chart(root: Any) -> list[Any]:
    title, rows = chart_title(root), chart_rows(root)
    return [_paragraph(line) for line in [title] if line] + ([_table(rows)] if rows else [])


def _paragraph(text: str) -> Any:
    paragraph = etree.Element(f"{_W}p")
    paragraph.append(text_run(text))
    return paragraph


def _table(rows: Iterable[Iterable[str]]) -> Any:
    table = etree.Element(f"{_W}tbl")
    for row in rows:
        line = etree.SubElement(table, f"{_W}tr")
        for cell in row:
            etree.SubElement(line, f"{_W}tc").append(_paragraph(cell))
    return table
