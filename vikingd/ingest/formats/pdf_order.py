"""The order of Arabic and Hebrew letters in a PDF file, which some programs write from the left."""

from __future__ import annotations

import re
import unicodedata
from functools import partial

import pypdfium2
from pypdfium2 import raw

_LETTER = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
RIGHT_TO_LEFT = re.compile(f"[{_LETTER}]")
_RUN = re.compile(f"[{_LETTER}]{{2,}}")
_MARKS_FIRST = re.compile(r"([\u0591-\u05bd\u05bf\u05c1-\u05c7\u064b-\u065f\u0670]+)([^\s])")
# Ligatures of lam and alef: pdfium gives their letters in either order, in one place.
_LIGATURES = {
    pair: ligature
    for ligature in "\ufef5\ufef7\ufef9\ufefb"
    for letters in [unicodedata.normalize("NFKC", ligature)]
    for pair in (letters, letters[::-1])
}
_FORMS = re.compile("[\ufb00-\ufb06\ufb1d-\ufb4f\ufb50-\ufdff\ufe70-\ufefc]")
_BRACKETS = str.maketrans("()[]{}«»", ")(][}{»«")
_OPENED = re.compile(r"(?<=[^\s(])([(\[{«]) ")
_TURNED = re.compile(r"[^(]*\)[^()]*\(")


def in_reading_order(page: pypdfium2.PdfTextPage, text: str) -> tuple[str, bool]:
    """Return the text of a page with its right-to-left words in reading order.

    A word whose letters are stored from left to right is reversed. The letters lam and alef that
    share one glyph become the character of their ligature, see `plain_letters`.

    Returns:
        The text, and False if the positions of its letters are unknown.
    """
    if not RIGHT_TO_LEFT.search(text):
        return text, True
    if page.count_chars() != len(text):
        return text, False
    lines = []
    start = 0
    for line in text.splitlines(keepends=True):
        turned = _RUN.sub(partial(_turned, page, start), line)
        if turned != line and _TURNED.match(turned):
            turned = _OPENED.sub(r" \1", turned.translate(_BRACKETS))
        lines.append(turned)
        start += len(line)
    return "".join(lines), True


def plain_letters(text: str) -> str:
    """Return the text with plain letters instead of ligatures and presentation forms."""
    return _FORMS.sub(lambda form: unicodedata.normalize("NFKC", form[0]), text)


def _turned(page: pypdfium2.PdfTextPage, line: int, found: re.Match[str]) -> str:
    """Return a word in reading order.

    `line` is the index of its line's first character in the page.
    """
    run, start = found[0], line + found.start()
    first, last = _middle(page, start), _middle(page, start + len(run) - 1)
    whole = _with_ligatures(page, run, start)
    if first is None or last is None or last <= first:
        return whole
    back = whole[::-1]
    return _MARKS_FIRST.sub(r"\2\1", back) if unicodedata.combining(back[0]) else back


def _with_ligatures(page: pypdfium2.PdfTextPage, run: str, start: int) -> str:
    """Return a word in which lam and alef that share one glyph are one ligature character."""
    parts: list[str] = []
    is_second = False
    for at, letter in enumerate(run):
        if is_second:
            is_second = False
            continue
        ligature = _LIGATURES.get(run[at : at + 2])
        is_second = ligature is not None and (
            page.get_charbox(start + at) == page.get_charbox(start + at + 1)
        )
        parts.append(ligature if ligature and is_second else letter)
    return "".join(parts)


def _middle(page: pypdfium2.PdfTextPage, index: int) -> float | None:
    if raw.FPDFText_IsGenerated(page, index) == 1:
        return None
    left, _, right, _ = page.get_charbox(index)
    return float(left + right) / 2
