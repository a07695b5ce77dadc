"""HTML files: the main part of a page."""

from __future__ import annotations

from typing import BinaryIO

from bs4.element import Tag

from vikingd.ingest.formats.document import Document, Failed, Pages, title_of
from vikingd.ingest.formats.hypertext import decoded, markdown, parse
from vikingd.ingest.formats.zips import moment

_MAIN = "main, [role=main]"
_AROUND = (
    "nav, [role=navigation], [role=search], [role=banner], [role=contentinfo], body > footer, "
    "dialog, select, button"
)
_TIMES = ("article:modified_time", "article:published_time", "date", "dcterms.modified")


def read(file: BinaryIO) -> Document:
    """Read an HTML file: its only `main` element, or else all but navigation and footers.

    Raises:
        Failed: it has no text, or its encoding is unknown.
    """
    soup = parse(decoded(file.read()))
    title = title_of(soup.title.get_text() if soup.title else "")
    time = _time(soup)
    if soup.head:
        soup.head.decompose()
    main = soup.select(_MAIN)
    whole: Tag = main[0] if len(main) == 1 and main[0].get_text(strip=True) else soup
    for element in whole.select(_AROUND):
        element.decompose()
    pages = Pages()
    pages.add(markdown(whole))
    if not (text := pages.text()):
        raise Failed("has no text")
    return Document(text, title, {"format": "html"}, time)


def _time(soup: Tag) -> int | None:
    stated: dict[str, str] = {}
    for meta in soup.find_all("meta"):
        name = str(meta.get("property") or meta.get("name") or "").lower()
        stated.setdefault(name, str(meta.get("content") or ""))
    return next((time for name in _TIMES if (time := moment(stated.get(name, "")))), None)
