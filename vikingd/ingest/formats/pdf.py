"""PDF files by PDFium: a heading for each bookmark and each page."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ctypes import byref, c_float
from datetime import UTC, datetime, timedelta, timezone
from typing import BinaryIO

import pypdfium2
from pypdfium2 import raw

from vikingd.domain.text import HAN_CHARS, KANA_CHARS
from vikingd.ingest.formats.document import (
    Document,
    Failed,
    Pages,
    clean,
    escaped,
    heading,
    lost_parts,
    numbers,
    time_of,
    title_of,
)
from vikingd.ingest.formats.hypertext import hidden_parts
from vikingd.ingest.formats.pdf_order import in_reading_order, plain_letters

MAX_PAGES = 20_000
_MAX_BOOKMARKS = 20_000
_MAX_DEPTH = 4  # levels of bookmarks; deeper ones get the lowest level
_PAGE_LEVEL = 6  # below the bookmarks
_WRAPPED = 3  # lines that a heading may take on a page
_FULL = 0.8  # of the longest line: a line that goes on in the next one
_LONG = 10  # characters of such a line; a shorter one is a label
_HYPHEN = re.compile("[\x02\ufffe\xad][ ]*\n")
_NUMBERED = re.compile(r"^(?:第.{1,5}[章节]|[\dA-Z]+(?:\.\d+)*\.?)\s*")
_EAST = re.compile(f"[{HAN_CHARS}{KANA_CHARS}，、；]")
# "D:20240131235900+01'00'".
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?)?")
_WORD = re.compile(r"[A-Za-zÀ-ɏА-я]+")
_SOME_WORDS = 30  # that are enough to judge a page
_SINGLE = 0.3  # share of words of one letter from which letters may be lost
_LOST = 0.3  # share of the pieces of text without a width from which they are
_TINY = 1  # points of a font that nobody reads
_NARROW = 100  # units of the width of a page; the unit of a narrower one is no point
_NO_WIDTH = 0.01
_ERRORS = {
    raw.FPDF_ERR_FORMAT: "is damaged, or no PDF",
    raw.FPDF_ERR_PASSWORD: "is encrypted: it needs a password",
    raw.FPDF_ERR_SECURITY: "is encrypted in an unknown way",
}


def read(file: BinaryIO) -> Document:
    """Read a PDF file.

    Raises:
        Failed: it is encrypted or damaged, or it has no text.
    """
    try:
        pdf = pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        reason = _ERRORS.get(error.err_code or 0, f"is damaged: {error}")
        raise Failed(reason) from None
    count = len(pdf)
    if count > MAX_PAGES:
        raise Failed(f"has {count:,} pages, at most {MAX_PAGES:,} are allowed; split the file")
    lost: list[str] = []
    bookmarks = _bookmarks(pdf, lost)
    pages = Pages()
    failed: list[tuple[str, str]] = []
    empty = []
    unordered = []
    ragged = []
    has_text = False
    hidden = 0
    for number in range(1, count + 1):
        try:
            text, is_drawn, is_ordered, unseen = _text(pdf, number - 1)
            hidden += unseen
        except pypdfium2.PdfiumError as error:
            failed.append((f"page {number}", str(error)))
            text, is_drawn, is_ordered = "", False, True
        if not is_ordered:
            unordered.append(number)
        if text:
            has_text = True
            if _has_single_letters(text) and _loses_letters(pdf, number - 1):
                ragged.append(number)
        elif is_drawn:
            empty.append(number)
        for part in _page(text, number, bookmarks.get(number - 1, ()), bool(bookmarks)):
            pages.add(part)
    if not has_text:
        raise Failed("is damaged: no page is read" if failed else "has no text: it may be a scan")
    if empty:
        one = len(empty) == 1
        of = f"page {empty[0]} has" if one else f"pages {numbers(empty)} have"
        lost.append(f"{of} no text: {'it may be a scan' if one else 'they may be scans'}")
    if ragged:
        pages_are = "page" if len(ragged) == 1 else "pages"
        lost.append(f"letters on {pages_are} {numbers(ragged)} are lost: their font has no widths")
    if unordered:
        pages_are = "page" if len(unordered) == 1 else "pages"
        lost.append(f"Arabic or Hebrew on {pages_are} {numbers(unordered)} may be reversed")
    lost += hidden_parts(hidden)
    if pdf.get_formtype() != raw.FORMTYPE_NONE:
        lost.append("the fields of its form are not read")
    facts = pdf.get_metadata_dict()
    return Document(
        pages.text(),
        title_of(facts.get("Title")),
        {"format": "pdf", "pages": count},
        _time(facts),
        [*lost, *lost_parts(failed)],
    )


def _bookmarks(pdf: pypdfium2.PdfDocument, lost: list[str]) -> Mapping[int, list[tuple[int, str]]]:
    """Return depth and title of the bookmarks of each page, by its index."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    try:
        for count, bookmark in enumerate(pdf.get_toc(max_depth=15)):
            if count == _MAX_BOOKMARKS:
                lost.append(f"it has more than {_MAX_BOOKMARKS:,} bookmarks")
                break
            target = bookmark.get_dest()
            page = target.get_index() if target else None
            title = " ".join(clean(bookmark.get_title()).split())
            if page is not None and title:
                found[page].append((min(bookmark.level, _MAX_DEPTH - 1), title))
    except pypdfium2.PdfiumError as error:
        lost.append(f"its bookmarks cannot be read: {error}")
    return found


def _text(pdf: pypdfium2.PdfDocument, index: int) -> tuple[str, bool, bool, int]:
    """Return the text of a page, with three facts.

    They are True if anything is drawn on it, True if the order of its text is sure, and the number
    of pieces of text that it does not show.
    """
    page = pdf[index]
    try:
        hidden = _remove_hidden(page)
        textpage = page.get_textpage()
        try:
            found = textpage.get_text_range() if textpage.count_chars() else ""
            found, is_ordered = in_reading_order(textpage, found)
        finally:
            textpage.close()
        found = _HYPHEN.sub("", found.replace("\r\n", "\n"))
        lines = [line.strip() for line in clean(plain_letters(found)).split("\n")]
        text = "\n".join(_unwrapped([line for line in lines if line]))
        return text, bool(raw.FPDFPage_CountObjects(page)), is_ordered, hidden
    finally:
        page.close()


def _remove_hidden(page: pypdfium2.PdfPage) -> int:
    """Remove text beside a page and text of less than a point; return the number of pieces.

    Text that is not painted is read, because it is how a scan has the words of its picture. If a
    page would have no text left, its measures mislead, and nothing is removed.
    """
    left, bottom, right, top = page.get_bbox()  # the only box that pages inherit
    has_points = right - left >= _NARROW
    is_shown = False
    hidden = []
    # PDFium's own calls: a page has thousands of pieces, and an object for each takes long.
    sides = [c_float() for _ in range(4)]
    given = [byref(side) for side in sides]
    for at in range(raw.FPDFPage_CountObjects(page)):
        piece = raw.FPDFPage_GetObject(page, at)
        kind = raw.FPDFPageObj_GetType(piece)
        is_shown = is_shown or kind == raw.FPDF_PAGEOBJ_FORM  # it may have text
        if kind != raw.FPDF_PAGEOBJ_TEXT:
            continue
        raw.FPDFPageObj_GetBounds(piece, *given)
        first, low, last, high = (side.value for side in sides)
        if first == last and low == high:
            continue  # a space
        is_beside = last < left or first > right or high < bottom or low > top
        if is_beside or (has_points and high - low < _TINY and _points(piece) < _TINY):
            hidden.append(piece)
        else:
            is_shown = True
    if not is_shown:
        return 0
    for piece in hidden:
        raw.FPDFPage_RemoveObject(page, piece)
        raw.FPDFPageObj_Destroy(piece)
    return len(hidden)


def _points(piece: object) -> float:
    """Return the size of the font of a piece of text on the page."""
    size, matrix = c_float(), raw.FS_MATRIX()
    raw.FPDFTextObj_GetFontSize(piece, byref(size))
    raw.FPDFPageObj_GetMatrix(piece, byref(matrix))
    return float(size.value * max(abs(matrix.a), abs(matrix.b), abs(matrix.c), abs(matrix.d)))


def _has_single_letters(text: str) -> bool:
    """Return True if many words have one letter, as in a text that lost some of its letters."""
    words = _WORD.findall(text)
    singles = sum(len(word) == 1 for word in words)
    return len(words) >= _SOME_WORDS and singles > _SINGLE * len(words)


def _loses_letters(pdf: pypdfium2.PdfDocument, index: int) -> bool:
    """Return True if many pieces of text on a page have no width: PDFium passes over them."""
    page = pdf[index]
    try:
        pieces = list(page.get_objects(filter=[raw.FPDF_PAGEOBJ_TEXT]))
        flat = 0
        for piece in pieces:
            left, _, right, _ = piece.get_bounds()
            flat += right - left < _NO_WIDTH
        return flat > _LOST * len(pieces)
    finally:
        page.close()


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Join lines of Chinese and Japanese text, which has no spaces between words."""
    longest = max(map(len, lines), default=0)
    done: list[str] = []
    last = 0  # length of the last line before it was joined
    for line in lines:
        goes_on = done and _EAST.match(done[-1][-1]) and _EAST.match(line)
        if goes_on and last >= max(_LONG, _FULL * longest):
            done[-1] += line
        else:
            done.append(line)
        last = len(line)
    return done


def _page(
    text: str, number: int, bookmarks: Sequence[tuple[int, str]], has_bookmarks: bool
) -> list[str]:
    """Return the Markdown blocks of a page.

    The heading of a bookmark replaces the line of the page with the same text. If there is no such
    line, the heading stands at the top. The heading "Page N" stands before each block of text, so
    that every text has the number of its page in its section.
    """
    own = heading(_PAGE_LEVEL if has_bookmarks else 2, f"Page {number}")
    lines = text.split("\n") if text else []
    blocks: list[str] = []
    at = 0
    missing = []
    for depth, title in bookmarks:
        place = _find(title, lines, at)
        if place is None:
            missing.append(heading(depth + 2, title))
            continue
        if before := lines[at : place[0]]:
            blocks += [own, escaped("\n".join(before))]
        blocks.append(heading(depth + 2, title))
        at = place[1]
    if rest := lines[at:]:
        blocks += [own, escaped("\n".join(rest))]
    elif not text:
        blocks.append(own)
    return [*missing, *blocks]


def _find(title: str, lines: Sequence[str], start: int) -> tuple[int, int] | None:
    """Return (first line, line after the last) of a heading on a page; None if it is not there."""
    wanted = _key(title)
    for first in range(start, len(lines)):
        for end in range(first + 1, min(first + _WRAPPED, len(lines)) + 1):
            found = _key(" ".join(lines[first:end]))
            if found == wanted:
                return first, end
            if len(found) > len(wanted):
                break
    return None


def _key(line: str) -> str:
    return "".join(_NUMBERED.sub("", line).casefold().split()) or line.casefold()


def _time(facts: Mapping[str, str]) -> int | None:
    for name in ("ModDate", "CreationDate"):
        if found := _DATE.match(facts.get(name) or ""):
            year, *rest = found.groups()[:6]
            sign, hours, minutes = found.groups()[6:]
            away = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
            with suppress(ValueError, OverflowError):
                zone = timezone(-away if sign == "-" else away) if sign else UTC
                day = datetime(int(year), int(rest[0] or 1), int(rest[1] or 1), tzinfo=zone)
                hour, minute, second = (int(number or 0) for number in rest[2:])
                return time_of(day.replace(hour=hour, minute=minute, second=second))
    return None
