"""HTML files: the main part of a page."""

from __future__ import annotations

from typing import BinaryIO

from bs4.element import Tag

from vikingd.ingest.formats.document import Document, Failed, Pages, title_of
from vikingd.ingest.formats.hypertext import decoded, markdown, parse
from vikingd.ingest.formats.zips import moment

_AROUND = frozenset({"nav", "dialog", "select", "button"})
_AROUND_BY_ROLE = frozenset({"navigation", "search", "banner", "contentinfo"})
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
    main = soup.find_all(lambda tag: tag.name == "main" or tag.get("role") == "main")
    whole: Tag = main[0] if len(main) == 1 and main[0].get_text(strip=True) else soup
    for element in whole.find_all(_is_around):
        element.decompose()
    pages = Pages()
    pages.add(markdown(whole))
    if not (text := pages.text()):
        raise Failed("has no text")
    return Document(text, title, {"format": "html"}, time)


def _is_around(tag: Tag) -> bool:
    """Return True for navigation, forms' choices and the footer of a page."""
    is_footer = tag.name == "footer" and tag.parent is not None and tag.parent.name == "body"
    return is_footer or tag.name in _AROUND or tag.get("role") in _AROUND_BY_ROLE


def _time(soup: Tag) -> int | None:
    stated: dict[str, str] = {}
    for meta in soup.find_all("meta"):
        name = str(meta.get("property") or meta.get("name") or "").lower()
        stated.setdefault(name, str(meta.get("content") or ""))
    return next((time for name in _TIMES if (time := moment(stated.get(name, "")))), None)
