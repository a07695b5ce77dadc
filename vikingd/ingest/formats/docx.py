"""DOCX files: headings by their styles, lists, tables and notes."""

from __future__ import annotations

import re
import zipfile
from io import BytesIO
from typing import BinaryIO

import mammoth

from vikingd.ingest.formats.document import Document, Failed, Pages, counted
from vikingd.ingest.formats.docx_revisions import MAIN, shown
from vikingd.ingest.formats.hypertext import hidden_parts, markdown, parse
from vikingd.ingest.formats.list_numbers import write_numbers
from vikingd.ingest.formats.zips import BROKEN, checked, stated

_COMMENTS = "word/comments.xml"
_COMMENT = re.compile(rb"<w:comment\b")
_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
"""
_CHART = "chart or diagram"
# Parts that the parser leaves out, by the marks of their beginnings in XML.
_LEFT_OUT = {
    "embedded object": re.compile(rb"<o:OLEObject\b"),
    "embedded document": re.compile(rb"<w:(?:altChunk|subDoc)\b"),
    _CHART: re.compile(rb"<a:graphicData[^>]*/(?:chart|diagram|chartex)\""),
}


def read(file: BinaryIO) -> Document:
    """Read a DOCX file.

    Raises:
        Failed: it is encrypted or damaged, or it has no text.
    """
    with checked(file) as archive:
        title, time = stated(archive)
    file.seek(0)
    try:
        data, hidden = shown(file.read())
        lost = [*_left_out(data), *hidden_parts(hidden)]
        html = mammoth.convert_to_html(
            BytesIO(data), style_map=_STYLES, convert_image=mammoth.images.img_element(lambda _: {})
        ).value
    except RecursionError:
        raise Failed("is nested too deeply") from None
    except BROKEN as error:
        raise Failed(f"is damaged: {error}") from None
    pages = Pages()
    page = parse(html)[0]
    write_numbers(page)
    pages.add(markdown(page))
    if not (text := pages.text()):
        raise Failed("has no text")
    return Document(text, title, {"format": "docx"}, time, lost)


def _left_out(data: bytes) -> list[str]:
    """Return a reason for each kind of parts that the parser leaves out."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        names = archive.namelist()
        body = archive.read(MAIN) if MAIN in names else b""
        counts = {name: len(mark.findall(body)) for name, mark in _LEFT_OUT.items()}
        if _COMMENTS in names:
            counts["comment"] = len(_COMMENT.findall(archive.read(_COMMENTS)))
    charts = counted(counts.pop(_CHART), _CHART, "charts or diagrams")
    return [*charts, *(one for name, count in counts.items() for one in counted(count, name))]
