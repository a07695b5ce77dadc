"""HTML as Markdown."""

from __future__ import annotations

import codecs
import re
import warnings
from typing import Any

from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
from bs4.dammit import EncodingDetector
from bs4.element import Comment, Tag
from markdownify import MarkdownConverter

from vikingd.ingest.formats.document import Failed, clean, escaped

_MAX_LINK = 300  # characters of the target of a link that is kept
_BLANK = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[ \t]+$", re.M)
_UNSEEN = frozenset({"script", "style", "template", "noscript", "iframe", "object", "svg", "head"})
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "iso-8859-1": "windows-1252"}


class _Converter(MarkdownConverter):
    """Text is not escaped, since search would not find an escaped word."""

    def convert_p(self, el: Any, text: str, parent_tags: set[str]) -> str:
        if "_inline" not in parent_tags and "pre" not in parent_tags:
            text = escaped(text.strip())
        return str(super().convert_p(el, text, parent_tags))  # type: ignore[misc]

    def convert_a(self, el: Any, text: str, parent_tags: set[str]) -> str:
        target = el.get("href") or ""
        label = text.strip()
        if label in ("¶", "#", "") and target.startswith("#"):
            return ""
        is_kept = target.startswith(("http://", "https://")) and len(target) <= _MAX_LINK
        return str(super().convert_a(el, text, parent_tags)) if label and is_kept else text  # type: ignore[misc]

    def convert_td(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return str(super().convert_td(el, text.replace("|", "\\|"), parent_tags))  # type: ignore[misc]

    def convert_th(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return str(super().convert_th(el, text.replace("|", "\\|"), parent_tags))  # type: ignore[misc]


def decoded(data: bytes) -> str:
    """Return the text of HTML: UTF-8, or in the encoding that its beginning declares.

    Raises:
        Failed: the text is in neither.
    """
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(mark):
            return data.decode(name, errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        declared = EncodingDetector.find_declared_encoding(data, is_html=True)
        if not declared:
            reason = f"is no UTF-8 at byte {error.start} and declares no encoding"
            raise Failed(reason) from None
    try:
        return data.decode(_WIDER.get(declared.lower(), declared), errors="strict")
    except (LookupError, UnicodeDecodeError) as error:
        raise Failed(f"is not in its encoding: {error}") from None


def parse(html: str) -> BeautifulSoup:
    """Parse HTML and remove what a page does not show.

    Raises:
        Failed: it is nested too deeply.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)  # chapters of books are XHTML
        soup = BeautifulSoup(html, "lxml")
    title = soup.title
    for element in soup.find_all(lambda tag: tag.name in _UNSEEN or tag.has_attr("hidden")):
        if not _holds(element, title):
            element.decompose()
    for image in soup.find_all("img"):
        image.replace_with(str(image.get("alt") or ""))
    for comment in soup.find_all(string=lambda found: isinstance(found, Comment)):
        comment.extract()
    return soup


def markdown(element: Tag) -> str:
    """Return an element as Markdown.

    Raises:
        Failed: it is nested too deeply.
    """
    converter = _Converter(
        heading_style="ATX",
        bullets="-",
        escape_asterisks=False,
        escape_underscores=False,
        table_infer_header=True,
    )
    try:
        text = converter.convert_soup(element)
    except RecursionError:
        raise Failed("is nested too deeply") from None
    return _BLANK.sub("\n\n", _SPACES.sub("", clean(text))).strip()


def _holds(element: Tag, inner: Tag | None) -> bool:
    return inner is not None and any(parent is element for parent in inner.parents)
