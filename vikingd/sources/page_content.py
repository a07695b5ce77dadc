"""The content of an HTTP response: the main part of a page with links, or a text or PDF as is."""

from __future__ import annotations

import heapq
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

import lxml.html
from lxml import etree

from vikingd.domain.text import one_line
from vikingd.ingest.formats.declared_encoding import stated_label
from vikingd.ingest.formats.encodings import decode
from vikingd.sources.page_addresses import canonical

MARKDOWN = "text/markdown"

_PAGES = ("text/html", "application/xhtml+xml")
_TEXTS = re.compile(
    r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|x-yaml|toml|javascript|x-sh|x-ndjson)"
)
_UNSTATED = ("", "application/octet-stream", "binary/octet-stream", "unknown/unknown")
_PDF = b"%PDF-"
_PAGE = re.compile(
    rb"\s*(?:<!--.{0,1000}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
# The beginnings of files that are no text, though some of them have no zero byte at first.
_BINARY = re.compile(
    rb"\x89PNG|GIF8|\xff\xd8\xff|RIFF|PK\x03\x04|\x1f\x8b|\x7fELF|OggS|ID3|wOF|7z\xbc|Rar!"
)
_LOOKED_AT = 1 << 12  # bytes

_UNSEEN = frozenset({"script", "style", "noscript", "template", "iframe"})
_AROUND = _UNSEEN | {"nav", "dialog", "select", "button", "footer"}
_AROUND_BY_ROLE = frozenset({"navigation", "search", "banner", "contentinfo"})
# A class or id such as "cookie-banner" or "gdpr_popup".
_BANNER = re.compile(
    r"(?i)(?:cookie|consent|gdpr)s?[-_]?(?:banner|notice|bar|popup|dialog|modal|overlay)|onetrust"
)
_MOST = 0.5  # of the text of `main` that its only article has
_NEARLY_ALL = 0.95  # of the text that the extractor finds
_BLOCKS = 500  # texts of a page that are looked for in what the extractor finds
_SHORT = 8  # characters of a text that stands in many places
_TOO_LARGE = 2 << 20  # bytes of a page for the extractor, which takes a second for each megabyte
_MAX_LINKS = 5000
_SOON = 10.0  # seconds until a page shows another one instead of itself
# "5; url=/new" of a page that shows another one after 5 seconds.
_REFRESH = re.compile(r"\s*(\d+(?:\.\d*)?)\s*[;,]?\s*(?:url\s*=\s*)?[\"']?([^\"'>]+)", re.I)
_TIMES = frozenset({"article:modified_time", "article:published_time", "date", "dcterms.modified"})


class Unfit(Exception):
    """A content that is not stored; the message is a reason, to be put after the address."""


@dataclass(slots=True)
class PageContent:
    """The content of an HTTP response, as it is stored.

    Attributes:
        kind: "html", "pdf", "markdown" or "text".
        data: the content of the file to store; b"" for a page that shows another one instead.
        title: the title that a page states.
        links: canonical addresses of the pages that a page links to, without those it asks
            crawlers not to follow.
        stated: the canonical address that a page states for itself; "" if it states none.
        shown_instead: the canonical address of a page that is shown in its place; "" for none.
    """

    kind: str
    data: bytes
    title: str = ""
    links: list[str] = field(default_factory=list)
    stated: str = ""
    shown_instead: str = ""


def read_content(data: bytes, stated_type: str, address: str, robots: str = "") -> PageContent:
    """Read the content of an HTTP response.

    Args:
        data: the content, decompressed.
        stated_type: the header Content-Type; "" without one.
        address: the canonical address.
        robots: the header X-Robots-Tag.

    Raises:
        Unfit: it is neither a page nor text nor PDF, or has no text.
    """
    message = Message()
    message["content-type"] = stated_type
    type_ = message.get_content_type() if stated_type else ""
    label = message.get_content_charset()
    if data.startswith(_PDF):
        return PageContent("pdf", data)
    if type_ not in (*_PAGES, *_UNSTATED) and not _TEXTS.fullmatch(type_):
        raise Unfit(f"is {type_}, which is not taken")
    if _BINARY.match(data):
        raise Unfit(f"is binary, though it is called {type_}" if type_ else "is binary")
    if not data.strip():
        raise Unfit("is empty")
    is_page = type_ in _PAGES or (type_ in _UNSTATED and bool(_PAGE.match(data[:_LOOKED_AT])))
    try:
        decoded = decode(data, label=label or (stated_label(data) if is_page else None))
    except ValueError as error:
        raise Unfit(f"is no text: it {str(error).partition(':')[0]}") from None
    if "\0" in decoded.text:
        raise Unfit(f"is binary, though it is called {type_}" if type_ else "is binary")
    if is_page:
        return _page(decoded.text, address, robots)
    is_markdown = type_ in (MARKDOWN, "text/x-markdown")
    return PageContent("markdown" if is_markdown else "text", decoded.text.encode())


def _page(text: str, address: str, robots: str) -> PageContent:
    parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True)
    try:
        tree = lxml.html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        raise Unfit("is no page: it has no elements") from None
    if any(one.type_name == "ERR_RESOURCE_LIMIT" for one in parser.error_log):
        raise Unfit("is nested too deeply")
    head, body = tree.find("head"), tree.find("body")
    if body is None:
        raise Unfit("has no text")
    base = next((one.get("href") for one in tree.iter("base") if one.get("href")), "")
    base = canonical(base, address) or address
    title = one_line(tree.findtext("head/title") or "")
    page = PageContent("html", b"", title, stated=_stated(tree, base))
    metas: dict[str, str] = {}
    for meta in tree.iter("meta"):
        name = meta.get("name") or meta.get("property") or meta.get("http-equiv") or ""
        metas.setdefault(name.strip().lower(), meta.get("content") or "")
    rules = f"{robots},{metas.get('robots', '')}".lower()
    if not {"nofollow", "none"} & {rule.strip() for rule in rules.split(",")}:
        page.links = _links(body, base)
    refresh = _REFRESH.match(metas.get("refresh", ""))
    if refresh and float(refresh[1]) <= _SOON:
        target = canonical(refresh[2].strip(), base)
        if target and target != address:
            page.shown_instead = target
            return page
    styles = [one.text_content() for one in tree.iter("style")]
    main = _main_part(tree, body, len(text))
    _remove_around(main)
    if not _text_of(main).strip():
        raise Unfit("has no text; it may need its scripts, which are not run")
    page.data = _rendered(main, title, metas, styles, head)
    return page


def _rendered(main: Any, title: str, metas: dict[str, str], styles: list[str], head: Any) -> bytes:
    """Return the HTML of a page with only the main part, the title and the dates of a page.

    The style sheets are kept, because the import of the file finds hidden text by them.
    """
    elsewhere = head is not None and any(
        "stylesheet" in (link.get("rel") or "").lower() for link in head.iter("link")
    )
    lines = ["<!DOCTYPE html>", "<html><head>", '<meta charset="utf-8">']
    lines.append(f"<title>{html.escape(title, quote=False)}</title>")
    lines += (
        f'<meta name="{name}" content="{html.escape(metas[name])}">'
        for name in sorted(_TIMES & metas.keys())
    )
    if elsewhere:
        lines.append('<link rel="stylesheet">')
    lines += (f"<style>{style}</style>" for style in styles if style.strip())
    lines += ["</head><body><main>", _source_of(main), "</main></body></html>", ""]
    return "\n".join(lines).encode("utf-8", "replace")


def _source_of(element: Any) -> str:
    if element.tag in ("body", "main"):
        inner = [html.escape(element.text or "", quote=False)]
        inner += (etree.tostring(one, encoding="unicode", method="html") for one in element)
        return "".join(inner)
    return str(etree.tostring(element, encoding="unicode", method="html", with_tail=False))


def _stated(tree: Any, base: str) -> str:
    for link in tree.iter("link"):
        if "canonical" in (link.get("rel") or "").lower().split() and link.get("href"):
            return canonical(link.get("href"), base) or ""
    return ""


def _links(body: Any, base: str) -> list[str]:
    found: dict[str, None] = {}
    for element in body.iter("a", "area"):
        target = element.get("href")
        if not target or target.startswith("#"):
            continue
        if "nofollow" in (element.get("rel") or "").lower().split():
            continue
        if address := canonical(target, base):
            found.setdefault(address)
        if len(found) == _MAX_LINKS:
            break
    return list(found)


def _main_part(tree: Any, body: Any, size: int) -> Any:
    """Return the element with the main content.

    If a page has a single `main` element, that is it. An article in it that has most of its text is
    preferred. In other pages it is the smallest element with nearly all of the text that the
    extractor takes for content, which keeps code, tables and headings whole.
    """
    marked = [
        one
        for one in body.iter(etree.Element)
        if (one.tag == "main" or one.get("role") == "main") and _text_of(one).strip()
    ]
    if len(marked) == 1:
        main = marked[0]
        articles = [one for one in main.iter("article") if next(_above(one, main), None) is None]
        if len(articles) == 1 and _size(articles[0]) >= _MOST * _size(main):
            return articles[0]
        return main
    return _found_part(tree, body) if size <= _TOO_LARGE else body


def _above(article: Any, main: Any) -> Iterator[Any]:
    for one in article.iterancestors():
        if one is main:
            return
        if one.tag == "article":
            yield one


def _found_part(tree: Any, body: Any) -> Any:
    source = etree.tostring(tree, encoding="unicode", method="html")
    import trafilatura  # most sites mark the main part, and its load takes time

    try:
        extracted = trafilatura.extract(
            source, output_format="txt", include_comments=False, favor_recall=True
        )
    except Exception:  # a fault of the extractor costs no content: the whole page is taken
        extracted = None
    content = _packed(extracted or "")
    texts: list[tuple[int, str, Any]] = []
    for element in body.iter(etree.Element):
        own = "" if element.tag in _AROUND else _packed(element.text or "")
        texts.append((len(own), own, element))
        if element is not body and (tail := _packed(element.tail or "")):
            texts.append((len(tail), tail, element.getparent()))
    total = 0
    held: dict[Any, int] = {}
    for size, text, element in heapq.nlargest(_BLOCKS, texts, key=lambda one: one[0]):
        if size >= _SHORT and text in content:
            total += size
            while element is not None:
                held[element] = held.get(element, 0) + size
                element = element.getparent()
    part = body
    while total:
        inner = next((one for one in part if held.get(one, 0) >= _NEARLY_ALL * total), None)
        if inner is None:
            break
        part = inner
    return part


def _remove_around(main: Any) -> None:
    """Remove navigation, footers, banners and controls; show the panels of tabs."""
    for element in list(main.iter(etree.Element)):
        if element.get("role") == "tabpanel":  # a click shows it
            element.attrib.pop("hidden", None)
        if element is main:
            continue
        marks = f"{element.get('id') or ''} {element.get('class') or ''}"
        is_around = element.tag in _AROUND or element.get("role") in _AROUND_BY_ROLE
        if is_around or _BANNER.search(marks):
            element.drop_tree()
    for comment in list(main.iter(etree.Comment, etree.ProcessingInstruction)):
        parent = comment.getparent()
        if parent is not None:
            comment.drop_tree()


def _text_of(element: Any) -> str:
    return "".join(
        one.text or "" for one in element.iter(etree.Element) if one.tag not in _UNSEEN
    ) + "".join(one.tail or "" for one in element.iterdescendants())


def _size(element: Any) -> int:
    return len(_packed(_text_of(element)))


def _packed(text: str) -> str:
    return "".join(text.split())
