"""SVG drawings: their title, description and texts."""

from __future__ import annotations

from typing import BinaryIO
from xml.etree.ElementTree import Element, ParseError, parse

from vikingd.ingest.formats.document import Document, Failed, Pages, escaped, heading, title_of

NO_TEXT = "has no text"
_HIDDEN = frozenset({"style", "script", "metadata", "defs", "symbol", "clipPath", "mask"})


def read(file: BinaryIO) -> Document:
    """Read the texts of a drawing in their order; shapes, styles and images are left out.

    Raises:
        Failed: it is no XML, or has no text.
    """
    try:
        root = parse(file).getroot()
    except ParseError as error:
        raise Failed(f"is no XML: {error}") from None
    title, pages, seen = "", Pages(), set[str]()
    waiting: list[Element] = [root]
    while waiting:
        element = waiting.pop()
        name = _name(element)
        if name in _HIDDEN:
            continue
        if name in ("title", "desc", "text", "p", "div"):
            text = " ".join("".join(element.itertext()).split())
            if name == "title" and text and not title:
                title = title_of(text)
                pages.add(heading(1, title))
            elif text and text not in seen and text != title:
                pages.add(escaped(text))
            seen.add(text)
            continue
        waiting.extend(reversed(element))
    if not (text := pages.text()):
        raise Failed(NO_TEXT)
    return Document(text, title, {"format": "svg"})


def _name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]
