"""DOCX files: headings by their styles, lists, tables and notes."""

from __future__ import annotations

import re
from io import BytesIO
from typing import BinaryIO

import mammoth

from vikingd.ingest.formats.document import Document, Failed, Pages
from vikingd.ingest.formats.docx_revisions import shown
from vikingd.ingest.formats.hypertext import hidden_parts, markdown, parse
from vikingd.ingest.formats.zips import BROKEN, checked, stated

_MAIN = "word/document.xml"
_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => p:fresh
"""
# Parts that the parser leaves out, by the marks of their beginnings in XML.
_LEFT_OUT = {
    "equation": re.compile(rb"<m:oMath[ >]"),
    "chart or diagram": re.compile(rb"<a:graphicData[^>]*/(?:chart|diagram|chartex)\""),
}


def read(file: BinaryIO) -> Document:
    """Read a DOCX file.

    Raises:
        Failed: it is encrypted or damaged, or it has no text.
    """
    with checked(file) as archive:
        title, time = stated(archive)
        try:
            body = archive.read(_MAIN) if _MAIN in archive.namelist() else b""
        except BROKEN as error:
            raise Failed(f"is damaged: {error}") from None
    lost = []
    for name, mark in _LEFT_OUT.items():
        if count := len(mark.findall(body)):
            kinds = name if count == 1 else name.replace(" or", "s or") + "s"
            lost.append(f"{count:,} {kinds} {'is' if count == 1 else 'are'} left out")
    file.seek(0)
    data, hidden = shown(file.read())
    lost += hidden_parts(hidden)
    try:
        html = mammoth.convert_to_html(
            BytesIO(data), style_map=_STYLES, convert_image=mammoth.images.img_element(lambda _: {})
        ).value
    except RecursionError:
        raise Failed("is nested too deeply") from None
    pages = Pages()
    pages.add(markdown(parse(html)[0]))
    if not (text := pages.text()):
        raise Failed("has no text")
    return Document(text, title, {"format": "docx"}, time, lost)
