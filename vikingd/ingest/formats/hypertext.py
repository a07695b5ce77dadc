"""HTML as Markdown."""

from __future__ import annotations

import re
import warnings
from typing import Any

from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
from bs4.element import Comment, Tag
from markdownify import MarkdownConverter

from vikingd.domain.text import HAN_CHARS, KANA_CHARS, join_lines
from vikingd.ingest.formats.declared_encoding import stated_label
from vikingd.ingest.formats.document import Failed, clean, escaped
from vikingd.ingest.formats.elements import below, is_removed
from vikingd.ingest.formats.encodings import Decoded, decode
from vikingd.ingest.formats.grids import lay_out
from vikingd.ingest.formats.list_numbers import mark_items
from vikingd.ingest.formats.raised_and_lowered_text import tex_of, write_marks
from vikingd.ingest.formats.visibility import is_of_formula, remove_hidden

_MAX_LINK = 300  # characters of the target of a link that is kept
_BLANK = re.compile(r"\n{3,}")
_SPACES = re.compile(r"[ \t]+$", re.M)
_UNSEEN = frozenset({"script", "style", "template", "noscript", "iframe", "object", "svg", "head"})
# Elements whose content is for programs that do not know them.
_FALLBACK = frozenset({"audio", "canvas", "datalist", "video"})
_DRAWN = ("text", "foreignobject")  # elements of a drawing whose text it shows
_NOT_DRAWN = ("defs", "symbol", "clippath", "mask")
_MAY_HIDE = ("hidden", "<style", "style=", "style =", "color=", "color =")
_WIDE = re.compile(f"[{HAN_CHARS}{KANA_CHARS}]")


class _Converter(MarkdownConverter):
    """A converter of HTML to Markdown that does not escape text, so that search finds each word."""

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

    def convert_summary(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return self.convert_p(el, text, parent_tags)

    def convert_td(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return str(super().convert_td(el, text.replace("|", "\\|"), parent_tags))  # type: ignore[misc]

    def convert_th(self, el: Any, text: str, parent_tags: set[str]) -> str:
        return str(super().convert_th(el, text.replace("|", "\\|"), parent_tags))  # type: ignore[misc]


def decoded(data: bytes, assumed: str | None = None) -> Decoded:
    """Return the text of HTML, as browsers decode it.

    Args:
        data: a page.
        assumed: the label of the encoding of a page that states none and is no UTF-8.

    Raises:
        Failed: its encoding is not certain.
    """
    try:
        return decode(data, label=stated_label(data), assumed=assumed)
    except ValueError as error:
        raise Failed(str(error)) from None


def parse(html: str) -> tuple[BeautifulSoup, int]:
    """Parse HTML and remove what a page does not show.

    A page of frames without other text has the text for programs that know no frames.

    Returns:
        The page, and the number of parts with text that it hides.

    Raises:
        Failed: it is nested too deeply.
    """
    soup, hidden, instead = _parsed(html)
    if not any(map(str.isalnum, instead)):
        return soup, hidden
    if any(map(_has_words, (one for one in soup.contents if isinstance(one, Tag)))):
        return soup, hidden + 1
    inner, hidden_within, _ = _parsed(instead)
    for part in list((inner.body or inner).contents):
        (soup.body or soup.html or soup).append(part.extract())
    return soup, hidden + hidden_within


def _parsed(html: str) -> tuple[BeautifulSoup, int, str]:
    """Parse HTML, see `parse`; the last value is the HTML that stands in for frames."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)  # chapters of books are XHTML
        soup = BeautifulSoup(html, "lxml")
    for note in soup.find_all("annotation") if "<annotation" in html else ():
        if note.get("encoding") == "application/x-tex":  # beside the visible formula
            whole = note.find_parent(class_="katex") or note.find_parent("math")
            if isinstance(whole, Tag):
                if isinstance(whole.parent, Tag) and is_of_formula(whole.parent):
                    whole = whole.parent
                whole.replace_with(tex_of(note.get_text()))
    for root in soup.find_all("template", shadowrootmode=True):
        root.unwrap()  # browsers show it
    for part in soup.find_all(["dd", "dt"]):  # the parser closes no definition before the next
        while (outer := part.parent) is not None and outer.name in ("dd", "dt"):
            outer.insert_after(part.extract())
    for foot in soup.find_all("tfoot"):
        if (whole := foot.parent) is not None and whole.name == "table":
            whole.append(foot.extract())  # it may stand before the body
    lower = html.lower()
    hidden = remove_hidden(soup) if any(mark in lower for mark in _MAY_HIDE) else 0
    frames = soup.find_all("noframes") if "<noframes" in lower else ()
    instead = "\n".join(one.extract().get_text() for one in frames)  # it is not parsed
    # A drawing has a title of its own.
    title = next((one for one in soup.find_all("title") if not one.find_parent("svg")), None)
    for element in list(below(soup)):
        if is_removed(element):
            continue
        if isinstance(element, Tag):
            if element.name == "img":
                element.replace_with(str(element.get("alt") or ""))
            elif element.name in _FALLBACK:
                hidden += any(map(str.isalnum, element.get_text()))
                element.decompose()
            elif element.name in _UNSEEN and not _holds(element, title):
                if element.name == "svg" and (text := _drawn(element)):
                    element.replace_with(text)
                else:
                    element.decompose()
        elif isinstance(element, Comment):
            element.extract()
        elif "\n" in (text := str(element)) and _WIDE.search(text):
            if element.find_parent("pre"):
                continue
            start = " " if text[0].isspace() else ""
            end = " " if text[-1].isspace() else ""
            element.replace_with(f"{start}{join_lines(text.splitlines())}{end}")
    mark_items(soup)
    return soup, hidden, instead


def hidden_parts(count: int) -> list[str]:
    """Return a reason that says how many hidden parts were left out; [] for none."""
    if not count:
        return []
    return [
        f"{count:,} {'part' if count == 1 else 'parts'} that it hides from its readers left out"
    ]


def markdown(element: Tag) -> str:
    """Return an element as Markdown.

    Raises:
        Failed: it is nested too deeply, or cells of its tables span too much.
    """
    converter = _Converter(
        heading_style="ATX",
        bullets="-",
        escape_asterisks=False,
        escape_underscores=False,
        table_infer_header=True,
    )
    try:
        write_marks(element)
        lay_out(element)
        text = converter.convert_soup(element)
    except RecursionError:
        raise Failed("is nested too deeply") from None
    return _BLANK.sub("\n\n", _SPACES.sub("", clean(text))).strip()


def _drawn(drawing: Tag) -> str:
    """Return the text that a drawing shows, with spaces around it; "" without any."""
    shown = [one for one in drawing.find_all(_DRAWN) if not one.find_parent(_NOT_DRAWN)]
    height = ""
    for part in drawing.find_all("tspan"):
        at = str(part.get("y") or "")
        if (at and at != height) or part.get("dy", "0") != "0":
            part.insert_before("\n")  # it begins a line
        height = at or height
    text = join_lines(line for one in shown for line in one.get_text().split("\n"))
    return f" {text} " if text else ""


def _has_words(element: Tag) -> bool:
    """Return True if an element has text beside that of its head."""
    return any(
        any(map(str.isalnum, str(one))) and not one.find_parent("head")
        for one in element.find_all(string=True)
    )


def _holds(element: Tag, inner: Tag | None) -> bool:
    return inner is not None and any(parent is element for parent in inner.parents)
