"""ODT files: headings, lists, tables and notes, by way of HTML."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from html import escape
from typing import Any, BinaryIO

from lxml import etree

from vikingd.ingest.formats.document import Document, Failed, Pages, counted, title_of
from vikingd.ingest.formats.hypertext import hidden_parts, markdown, parse
from vikingd.ingest.formats.list_numbers import marked, write_numbers
from vikingd.ingest.formats.odt_numbers import HeadingNumbers, ListNumbers
from vikingd.ingest.formats.zips import BROKEN, checked, moment, xml

_CONTENT, _META, _MANIFEST = "content.xml", "meta.xml", "META-INF/manifest.xml"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_FO = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_POINTS = re.compile(r"(\d*\.?\d+)pt")
_TINY = 2  # points of a font that nobody reads
_HREF = "{http://www.w3.org/1999/xlink}href"
_MAX_REPEATED = 100  # equal rows or cells that are written one by one
# Elements without text that a reader sees, by their local names.
_UNSEEN = frozenset(
    {
        *("tracked-changes", "sequence-decls", "variable-decls", "user-field-decls", "forms"),
        *("soft-page-break", "hidden-text", "hidden-paragraph", "event-listeners"),
        *("table-column", "shapes"),
    }
)


class _Writer:
    """The HTML of a document that is being read.

    Attributes:
        hidden: number of parts with text that it hides.
        comments: number of its comments.
        objects: number of embedded objects that are not read.
        notes: the HTML of its footnotes and endnotes.
    """

    def __init__(self, archive: zipfile.ZipFile, root: Any) -> None:
        self.hidden = self.comments = self.objects = 0
        self.notes: list[str] = []
        self._archive = archive
        roots = [root]
        if "styles.xml" in archive.namelist():
            roots.append(xml(archive.read("styles.xml")))
        self._titles, self._unseen, self._tiny = _styles(roots)
        self._is_tiny = False  # the text that is being written
        self._numbers = ListNumbers.of(roots)
        self._headings = HeadingNumbers.of(roots)
        self._only_headings = False  # the list that is being written holds headings alone

    def html(self, element: Any) -> str:
        """Return the text of an element and all below it."""
        outer, self._is_tiny = self._is_tiny, self._is_tiny_in(element)
        own = [element.text or "", *(child.tail or "" for child in element)]
        if self._is_tiny:
            self.hidden += any(map(str.isalnum, "".join(own)))
            own = [""] * len(own)
        parts = [escape(own[0])]
        for child, tail in zip(element, own[1:], strict=True):
            if isinstance(child.tag, str):
                parts.append(self._one(child))
            parts.append(escape(tail))
        self._is_tiny = outer
        return "".join(parts)

    def _is_tiny_in(self, element: Any) -> bool:
        """Return True if nobody reads the font of the text directly in an element.

        A paragraph has the size of its style, and so has a span, or else that of what holds it.
        """
        style = element.get(f"{_TEXT}style-name") or ""
        name = etree.QName(element).localname
        if name in ("p", "h"):
            return self._tiny.get(("paragraph", style), False)
        return self._tiny.get(("text", style), self._is_tiny)

    def _one(self, element: Any) -> str:
        name = etree.QName(element).localname
        if name in _UNSEEN:
            return ""
        if (element.get(f"{_TEXT}style-name") or "") in self._unseen or _is_hidden(element, name):
            self.hidden += any(map(str.isalnum, "".join(element.itertext())))
            return ""
        write = _WRITERS.get(name)
        return write(self, element) if write else self.html(element)

    def paragraph(self, element: Any) -> str:
        is_title = (element.get(f"{_TEXT}style-name") or "") in self._titles
        return self._block("h1" if is_title else "p", element)

    def heading(self, element: Any, label: str | None = None) -> str:
        """Return a heading with its number: the label of its list item, or that of the outline."""
        text = element.get(f"{_TEXT}outline-level") or "1"
        level = int(text) if text.isdecimal() and len(text) < 3 else 1
        if not label and not self._has_label(element.getparent()):
            label = self._headings.next(element, level)
        if not (html := self.html(element)).strip():
            return ""  # it counts and is not seen
        name = f"h{min(max(level, 1), 6)}"
        return f"<{name}>{escape(f'{label} ') if label else ''}{html}</{name}>"

    def list(self, element: Any) -> str:
        style, level = _list_style(element), _list_level(element)
        self._numbers.begin(element, style, level)
        if level == 1:
            self._only_headings = _only_headings(element)
        if self._only_headings:
            return self.html(element)
        name = "ol" if level in self._numbers.styles.get(style, {}) else "ul"
        return self._block(name, element)

    def item(self, element: Any) -> str:
        parent = element.getparent()
        label = self._numbers.next(element, _list_style(parent), _list_level(parent))
        if self._only_headings:
            first = element.find(f"{_TEXT}h")
            blocks = (one for one in element if isinstance(one.tag, str))
            return "".join(
                self.heading(one, label) if one is first else self._one(one) for one in blocks
            )
        return f"<li>{marked(label) if label is not None else ''}{self.html(element)}</li>"

    def _has_label(self, element: Any) -> bool:
        """Tell whether an element is an item of a list with numbers."""
        if element.tag != f"{_TEXT}list-item":
            return False
        parent = element.getparent()
        return _list_level(parent) in self._numbers.styles.get(_list_style(parent), {})

    def header(self, element: Any) -> str:
        return self._block("li", element)

    def row(self, element: Any) -> str:
        return self._block("tr", element) * _repeated(element, "number-rows-repeated")

    def cell(self, element: Any) -> str:
        spans = ""
        for name, key in (
            ("colspan", "number-columns-spanned"),
            ("rowspan", "number-rows-spanned"),
        ):
            if (value := element.get(f"{_TABLE}{key}") or "").isdecimal():
                spans += f' {name}="{value}"'
        text = f"<td{spans}>{self.html(element)}</td>"
        return text * _repeated(element, "number-columns-repeated")

    def note(self, element: Any) -> str:
        mark = escape("".join(element.find(f"{_TEXT}note-citation").itertext()))
        at = len(self.notes)
        self.notes.append("")  # a note may have notes
        body = element.find(f"{_TEXT}note-body")
        self.notes[at] = f"<p>[{mark}]</p>{'' if body is None else self.html(body)}".replace(
            "</p><p>", " ", 1
        )
        return f"<sup class='footnote'>{mark}</sup>"

    def comment(self, _element: Any) -> str:
        self.comments += 1
        return ""

    def link(self, element: Any) -> str:
        return f'<a href="{escape(element.get(_HREF) or "")}">{self.html(element)}</a>'

    def ruby(self, element: Any) -> str:
        base, reading = element.find(f"{_TEXT}ruby-base"), element.find(f"{_TEXT}ruby-text")
        texts = ["" if part is None else self.html(part) for part in (base, reading)]
        return f"<ruby>{texts[0]}<rt>{texts[1]}</rt></ruby>"

    def frame(self, element: Any) -> str:
        """Return the text of the first readable form of a frame; its title if it has none."""
        boxes = [self._block("div", box) for box in element.findall(f"{_DRAW}text-box")]
        if boxes:
            return "".join(boxes)
        for found in element.findall(f"{_DRAW}object"):
            if formula := self._formula((found.get(_HREF) or "").removeprefix("./")):
                return formula
            self.objects += 1
        self.objects += len(element.findall(f"{_DRAW}object-ole"))
        about = (element.findtext(f"{{*}}{name}") for name in ("title", "desc"))
        return " ".join(dict.fromkeys(escape(text) for text in about if text))

    def _formula(self, name: str) -> str:
        """Return an embedded formula as MathML; "" for another object."""
        try:
            root = xml(self._archive.read(f"{name}/{_CONTENT}"))
        except (KeyError, Failed, *BROKEN):
            return ""
        if etree.QName(root).localname != "math":
            return ""
        for note in list(root.iter("{*}annotation")):
            note.getparent().remove(note)
        for element in root.iter("{*}*"):
            element.tag = etree.QName(element).localname
        etree.cleanup_namespaces(root)
        return str(etree.tostring(root, encoding="unicode"))

    def _block(self, name: str, element: Any) -> str:
        return f"<{name}>{self.html(element)}</{name}>"


_WRITERS: dict[str, Callable[[_Writer, Any], str]] = {
    "p": _Writer.paragraph,
    "h": _Writer.heading,
    "list": _Writer.list,
    "list-item": _Writer.item,
    "list-header": _Writer.header,
    "table": lambda writer, element: f"<table>{writer.html(element)}</table>",
    "table-row": _Writer.row,
    "table-cell": _Writer.cell,
    "covered-table-cell": lambda _writer, _element: "",
    "note": _Writer.note,
    "annotation": _Writer.comment,
    "a": _Writer.link,
    "ruby": _Writer.ruby,
    "frame": _Writer.frame,
    "tab": lambda _writer, _element: " ",
    "s": lambda _writer, _element: " ",
    "line-break": lambda _writer, _element: "<br>",
}


def read(file: BinaryIO) -> Document:
    """Read an ODT file.

    Raises:
        Failed: it is encrypted or damaged, or it has no text.
    """
    with checked(file, doctype=True) as archive:
        names = archive.namelist()
        try:
            if _MANIFEST in names and b"encryption-data" in archive.read(_MANIFEST):
                raise Failed("is encrypted: it needs a password")
            root = xml(archive.read(_CONTENT))
            meta = xml(archive.read(_META)) if _META in names else etree.Element("none")
        except KeyError:
            raise Failed("is damaged: a member is missing") from None
        except BROKEN as error:
            raise Failed(f"is damaged: {error}") from None
        writer = _Writer(archive, root)
        try:
            html = "".join(writer.html(body) for body in root.iter("{*}text") if _is_body(body))
            notes = "".join(writer.notes)
        except RecursionError:
            raise Failed("is nested too deeply") from None
    pages = Pages()
    page = parse(f"<body>{html}{notes}</body>")[0]
    write_numbers(page)
    pages.add(markdown(page))
    if not (text := pages.text()):
        raise Failed("has no text")
    lost = [
        *hidden_parts(writer.hidden),
        *counted(writer.comments, "comment"),
        *counted(writer.objects, "embedded object"),
    ]
    time = moment(meta.findtext(".//{http://purl.org/dc/elements/1.1/}date") or "")
    title = title_of(meta.findtext(".//{http://purl.org/dc/elements/1.1/}title"))
    return Document(text, title, {"format": "odt"}, time, lost)


def _is_body(element: Any) -> bool:
    return str(etree.QName(element).namespace).endswith(":office:1.0")


def _repeated(element: Any, name: str) -> int:
    """Return how often a row or a cell stands; once if it has no text."""
    value = element.get(f"{_TABLE}{name}") or "1"
    if not value.isdecimal() or not any(text.strip() for text in element.itertext()):
        return 1
    return min(int(value), _MAX_REPEATED)


def _list_style(element: Any) -> str:
    """Return the style of a list, which may be that of a list around it."""
    lists = (element, *element.iterancestors(f"{_TEXT}list"))
    return next(filter(None, (one.get(f"{_TEXT}style-name") for one in lists)), "")


def _list_level(element: Any) -> int:
    return 1 + sum(1 for _ in element.iterancestors(f"{_TEXT}list"))


def _only_headings(element: Any) -> bool:
    """Tell whether a list holds headings alone: so programs write headings with a list style."""
    blocks = [
        block
        for item in element.iter(f"{_TEXT}list-item", f"{_TEXT}list-header")
        for block in item
        if isinstance(block.tag, str) and block.tag != f"{_TEXT}list"
    ]
    return bool(blocks) and all(block.tag == f"{_TEXT}h" for block in blocks)


def _is_hidden(element: Any, name: str) -> bool:
    """Return True for a section, a paragraph or a row of a table that is hidden by itself.

    Rows that a filter hides are read.
    """
    if name == "section":
        return bool(element.get(f"{_TEXT}display") == "none")
    if name in ("p", "h"):
        marks = element.iterfind(f".//{_TEXT}hidden-paragraph")
        return any(
            mark.get(f"{_TEXT}is-hidden") == "true"
            and next(mark.iterancestors(f"{_TEXT}p", f"{_TEXT}h"))
            is element  # not in a box or note
            for mark in marks
        )
    return name == "table-row" and element.get(f"{_TABLE}visibility") == "collapse"


def _styles(roots: list[Any]) -> tuple[set[str], set[str], dict[tuple[str, str], bool]]:
    """Return the names of the styles of titles and of hidden text, and which have tiny text.

    The last ones have their family and name. Those that state no size, or a part of one, are not
    among them.
    """
    titles, unseen = {"Title"}, set()
    tiny: dict[tuple[str, str], bool] = {}
    for style in (style for one in roots for style in one.iter(f"{_STYLE}style")):
        name = style.get(f"{_STYLE}name") or ""
        if style.get(f"{_STYLE}parent-style-name") == "Title":
            titles.add(name)
        facts = style.find(f"{_STYLE}text-properties")
        if facts is None:
            continue
        if facts.get(f"{_TEXT}display") == "none":
            unseen.add(name)
        size = facts.get(f"{_FO}font-size") or "%"
        if not size.endswith("%"):
            points = _POINTS.fullmatch(size)
            is_tiny = points is not None and float(points[1]) <= _TINY
            tiny[style.get(f"{_STYLE}family") or "", name] = is_tiny
    return titles, unseen, tiny
