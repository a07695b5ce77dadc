"""HTML files: the main part of a page, or the source of a template."""

from __future__ import annotations

from typing import BinaryIO

from bs4.element import Tag

from vikingd.ingest.formats.document import Document, Failed, Pages, title_of
from vikingd.ingest.formats.encodings import Decoded
from vikingd.ingest.formats.hypertext import decoded, hidden_parts, markdown, parse
from vikingd.ingest.formats.zips import moment
from vikingd.ingest.html_templates import is_source
from vikingd.ingest.limits import MAX_CONTENT_BYTES

_AROUND = frozenset({"nav", "dialog", "select", "button"})
_AROUND_BY_ROLE = frozenset({"navigation", "search", "banner", "contentinfo"})
_TIMES = ("article:modified_time", "article:published_time", "date", "dcterms.modified")


def read(file: BinaryIO, assumed: str | None = None) -> Document:
    """Read an HTML file.

    The text of a template or a part of an application is its source. That of a page is the Markdown
    of its only `main` element, or else of all but navigation and footers.

    Args:
        file: the page.
        assumed: the label of the encoding of a page that states none and is no UTF-8.

    Raises:
        Failed: it has no text, or its encoding is not certain.
    """
    page = decoded(file.read(), assumed)
    if is_source(page.text):
        return _source(page)
    soup, hidden = parse(page.text)
    title = title_of(soup.title.get_text() if soup.title else "")
    time = _time(soup)
    if soup.head:
        soup.head.decompose()
    main = soup.find_all(lambda tag: tag.name == "main" or tag.get("role") == "main")
    whole: Tag = main[0] if len(main) == 1 and main[0].get_text(strip=True) else soup
    size = _size(soup)
    for element in whole.find_all(_is_page_frame):
        element.decompose()
    around = size - _size(whole)
    pages = Pages()
    pages.add(markdown(whole))
    if not (text := pages.text()):
        raise Failed("has no text" + (" beside what it hides" if hidden else ""))
    lost = hidden_parts(hidden)
    if page.wrong:
        lost.append(f"{page.wrong:,} places are not {page.encoding}, and became U+FFFD")
    document = Document(text, title, {"format": "html"}, time, lost, around)
    document.encoding, document.how = page.encoding, page.how
    return document


def _source(page: Decoded) -> Document:
    """Return source as it is, with its title.

    Raises:
        Failed: it is too long, or binary.
    """
    if "\0" in page.text:
        raise Failed("is binary")
    if (size := len(page.text.encode(errors="replace"))) > MAX_CONTENT_BYTES:
        raise Failed(f"is source of {size:,} bytes, at most {MAX_CONTENT_BYTES:,}; split the file")
    lost = [f"{page.wrong:,} places are not {page.encoding}, and became U+FFFD"] * bool(page.wrong)
    document = Document(page.text, lost=lost)
    document.encoding, document.how = page.encoding, page.how
    return document


def _size(tag: Tag) -> int:
    """Return the number of bytes of the text in an element, without white space."""
    return sum(len(word.encode(errors="replace")) for word in tag.get_text(" ").split())


def _is_page_frame(tag: Tag) -> bool:
    """Return True for navigation, lists of choices in forms, and the footer of a page."""
    is_footer = tag.name == "footer" and tag.parent is not None and tag.parent.name == "body"
    return is_footer or tag.name in _AROUND or tag.get("role") in _AROUND_BY_ROLE


def _time(soup: Tag) -> int | None:
    stated: dict[str, str] = {}
    for meta in soup.find_all("meta"):
        name = str(meta.get("property") or meta.get("name") or "").lower()
        stated.setdefault(name, str(meta.get("content") or ""))
    return next((time for name in _TIMES if (time := moment(stated.get(name, "")))), None)
