"""The order of Arabic and Hebrew letters in a PDF file, which some programs write from the left."""

from __future__ import annotations

import re
import unicodedata

import pypdfium2
from pypdfium2 import raw

_LETTER = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc"
RIGHT_TO_LEFT = re.compile(f"[{_LETTER}]")
_RUN = re.compile(f"[{_LETTER}]{{2,}}")
_MARKS_FIRST = re.compile(r"([\u0591-\u05bd\u05bf\u05c1-\u05c7\u064b-\u065f\u0670]+)([^\s])")
_FORMS = re.compile("[\ufb00-\ufb06\ufb1d-\ufb4f\ufb50-\ufdff\ufe70-\ufefc]")
_BRACKETS = str.maketrans("()[]{}«»", ")(][}{»«")
_OPENED = re.compile(r"(?<=[^\s(])([(\[{«]) ")
_TURNED = re.compile(r"[^(]*\)[^()]*\(")


def in_reading_order(page: pypdfium2.PdfTextPage, text: str) -> tuple[str, bool]:
    """Return the text of a page with its right-to-left words in the order of reading.

    A word whose letters go to the right on the page is turned.

    Returns:
        The text, and False if the places of its letters are unknown.
    """
    if not RIGHT_TO_LEFT.search(text):
        return text, True
    if page.count_chars() != len(text):
        return text, False
    lines = []
    start = 0
    for line in text.splitlines(keepends=True):
        turned = line
        for run in _RUN.finditer(line):
            word = _turned(page, run[0], start + run.start())
            turned = turned[: run.start()] + word + turned[run.end() :]
        if turned != line and _TURNED.match(turned):
            turned = _OPENED.sub(r" \1", turned.translate(_BRACKETS))
        lines.append(turned)
        start += len(line)
    return "".join(lines), True


def plain_letters(text: str) -> str:
    """Return the text with letters in the place of ligatures and of forms for the eye."""
    return _FORMS.sub(lambda form: unicodedata.normalize("NFKC", form[0]), text)


def _turned(page: pypdfium2.PdfTextPage, run: str, start: int) -> str:
    first, last = _middle(page, start), _middle(page, start + len(run) - 1)
    if first is None or last is None or last <= first:
        return run
    back = run[::-1]
    return _MARKS_FIRST.sub(r"\2\1", back) if unicodedata.combining(back[0]) else back


def _middle(page: pypdfium2.PdfTextPage, index: int) -> float | None:
    if raw.FPDFText_IsGenerated(page, index) == 1:
        return None
    left, _, right, _ = page.get_charbox(index)
    return float(left + right) / 2
