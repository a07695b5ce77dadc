"""Text above, below and beside the line: exponents, indices, footnote marks, ruby and formulas."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain, zip_longest

from bs4.element import NavigableString, Tag

from vikingd.domain.text import HAN_CHARS, KANA_CHARS
from vikingd.ingest.formats.elements import is_removed, tags_below


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BLOCKS = _words(
    "address article aside blockquote body caption center dd details div dl dt fieldset figcaption"
    " figure footer form h1 h2 h3 h4 h5 h6 header hr legend li main nav ol p pre section summary"
    " table tbody td tfoot th thead tr ul br"
)
# Letters above the line that belong to the word: 1st, 3ème, Mme, McDonald, nº.
_ENDINGS = _words(
    "st nd rd th er ère ers re e è ème eme ième d de nde o a os as ª º me mes lle lles gr r s c"
)
_SIGNS = {"tm": "™", "sm": "℠", "(r)": "®", "(c)": "©", "(tm)": "™"}
# Words before an exponent, beside units of one or two letters.
_UNITS = _words(
    "mol min sec rad deg bar day hour year mmol kcal sin cos tan cot csc log exp lim det sinh cosh"
    " tanh arcsin arccos arctan pixel"
)
# The signs between the parts of elements of MathML.
_BETWEEN = {
    "msup": "^",
    "msub": "_",
    "mfrac": "/",
    "msubsup": "_^",
    "munderover": "_^",
    "munder": "_",
}
_FRAMED = re.compile(r"\{\\displaystyle (.*)\}", re.DOTALL)
_TOKEN = re.compile(r"[^\W\d_]+$|\d+$|\S$")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?")
_CHARGE = re.compile(r"\d*[+-]+|[+-]\d+")
# A footnote mark: "1", "[12]", "a", "iv", "1,2".
_MARK = re.compile(r"\[?(?:\d{1,3}|[a-z]|[ivx]{1,4})(?:\s*[,;–-]\s*(?:\d{1,3}|[a-z]))*\]?", re.I)
_SYMBOLS = re.compile(r"[*†‡§¶#°′″]+")
_FOOTNOTE = re.compile(r"foot|(?:^|[-_ ])(?:fn|note|cite|ref)", re.I)
_CHEMICAL = re.compile(r"(?:[A-Z][a-z]?|[)\]}\d])$")
_SIMPLE = re.compile(r"[+-]?\w+(?:\.\d+)?[+-]?|[*'′]+|\S")
_HAN_END = re.compile(f"[{HAN_CHARS}{KANA_CHARS}]$")
_LATIN = re.compile(r"[a-zà-ɏ]", re.I)


def write_marks(element: Tag) -> None:
    """Replace `sup`, `sub`, `ruby` and formulas below an element by text as people type it."""
    writers: dict[str, Callable[[Tag], str]] = {
        "sup": _above,
        "sub": _below,
        "ruby": _ruby,
        "math": _formula,
    }
    for one in tags_below(element, *writers):
        if is_removed(one) or one.parent is None:
            continue
        if one.name in ("sup", "sub") and one.find(["table", "p", "ul", "ol", "div", "img"]):
            continue
        if one.find_parent(["pre"]):
            text = one.get_text()
            one.replace_with(text)
            continue
        text = writers[one.name](one)
        if text is not None:
            one.replace_with(text)


def _above(sup: Tag) -> str:
    """Return the text of a superscript: "^2" of an exponent, "[1]" of a footnote, or "th"."""
    text = " ".join(sup.get_text().split()).replace("\u2212", "-")
    if not text:
        return ""
    before, behind = _text_before(sup), _text_behind(sup)
    token = found[0] if (found := _TOKEN.search(before)) else ""
    if not token and behind[:1].isalnum():
        return text  # the mass of an isotope, or a mark before its note
    if not token or (_HAN_END.search(token) and token[-1] not in "米里克秒"):
        return _mark(text, before) if _MARK.fullmatch(text) else text
    if text.lower() in _SIGNS:
        return _SIGNS[text.lower()]
    if _SYMBOLS.fullmatch(text):
        return text
    if _is_footnote(sup) or text.startswith("["):
        return _mark(text, before)
    is_number = bool(_NUMBER.fullmatch(text) or _CHARGE.fullmatch(text))
    if text.lower().rstrip(".") in _ENDINGS and (token.isdigit() or token.isalpha()):
        is_variable = len(token) == 1 and token.islower() and not behind[:1].isalpha()
        if not (is_variable and len(text) == 1):
            return (
                text if token.isdigit() or len(token) < 3 or behind[:1].isalpha() else f" [{text}]"
            )
    if (
        token.isalpha()
        and len(token) > 2
        and token.lower() not in _UNITS
        and "_" not in before[-4:]
    ):
        if is_number and text[0] in "+-":
            return f"^{text}"
        return _mark(text, before)
    if not token.isalnum() and token not in ")]}|'′°µΩ" and _MARK.fullmatch(text):
        return _mark(text, before)
    return f"^{grouped(text)}"


def _below(sub: Tag) -> str:
    """Return the text of a subscript: a part of a chemical formula such as H2O, or an index."""
    text = " ".join(sub.get_text().split()).replace("\u2212", "-")
    before = _text_before(sub)
    if not text or not before or before[-1].isspace():
        return text
    is_chemical = bool(_CHEMICAL.search(before)) and not re.search(r"[a-z]{2}$", before)
    if is_chemical and (text[0].isdigit() or before[-1] in ")]}"):
        return text
    if not before[-1].isalnum() and before[-1] not in ")]}|":
        return text
    return f"_{grouped(text)}"


def _ruby(ruby: Tag) -> str:
    """Return annotated characters with their reading in parentheses after them.

    Adjacent annotations are one word: their readings are placed after the last one.
    """
    words, readings, marks = [], [], []
    at: Tag | None = ruby
    while at is not None:
        readings += [
            " ".join(part.get_text().split())
            for part in at.find_all(["rt", "rtc"])
            if part.find_parent(["rt", "rtc"]) is None
        ]
        marks += [part.get_text().strip() for part in at.find_all("rp")]
        for part in at.find_all(["rt", "rp", "rtc"]):
            part.decompose()
        words.append(
            "".join(at.get_text().split()) if not at.get_text().isascii() else at.get_text()
        )
        behind = at.next_sibling
        if at is not ruby:
            at.decompose()
        at = behind if isinstance(behind, Tag) and behind.name == "ruby" else None
    word = "".join(words)
    is_latin = any(map(_LATIN.search, readings))
    reading = (" " if is_latin else "").join(filter(None, readings))
    if not reading:
        return word
    pair = [mark for mark in marks if mark][:2]
    left, right = pair if len(pair) == 2 else ("（", "）")
    return f"{word}{left}{reading}{right}"


def tex_of(text: str) -> str:
    """Return a TeX formula between dollar signs, without the `displaystyle` that Wikipedia adds."""
    tex = " ".join(text.split())
    if framed := _FRAMED.fullmatch(tex):
        tex = framed[1]
    return f"${tex}$"


def _formula(math: Tag) -> str:
    """Return a formula in TeX if its markup has that, else as one line of text."""
    for note in math.find_all(["annotation", "annotation-xml"]):
        if note.get("encoding") == "application/x-tex":
            return tex_of(note.get_text())
        note.decompose()
    if tex := str(math.get("alttext") or "").strip():
        return tex_of(tex)
    for power in reversed(math.find_all([*_BETWEEN, "msqrt"])):
        if power.name == "msqrt":
            power.string = f"√{grouped(''.join(power.get_text().split()))}"
            continue
        parts = power.find_all(True, recursive=False)
        texts = [grouped("".join(part.get_text().split())) for part in parts]
        signs = _BETWEEN[power.name]
        power.string = "".join(chain.from_iterable(zip_longest(texts, signs, fillvalue="")))
    return "".join(math.get_text().split())


def _mark(text: str, before: str) -> str:
    """Return a footnote mark in brackets, with a space if a word is directly before it."""
    space = "" if not before or before[-1].isspace() else " "
    return f"{space}{text}" if text[0] in "[(" else f"{space}[{text}]"


def _is_footnote(sup: Tag) -> bool:
    link = sup.find("a") or (sup.parent if sup.parent and sup.parent.name == "a" else None)
    if link is not None and str(link.get("href") or "#").startswith("#"):
        return True
    named = " ".join(
        [*(sup.get("class") or ()), str(sup.get("id") or ""), str(sup.get("role") or "")]
    )
    return bool(_FOOTNOTE.search(named))


def grouped(text: str) -> str:
    """Return an operand in parentheses, unless it is a word, a number or a sign."""
    return text if _SIMPLE.fullmatch(text) or text.startswith("(") else f"({text})"


def _text_before(element: Tag) -> str:
    """Return the text directly before an inline element, in its block."""
    at: Tag | NavigableString = element
    found = ""
    while len(found) < 4:
        while at.previous_sibling is None:
            parent = at.parent
            if parent is None or parent.name in _BLOCKS:
                return found
            at = parent
        at = at.previous_sibling  # type: ignore[assignment]
        if isinstance(at, Tag):
            if at.name in _BLOCKS:
                return found
            found = at.get_text() + found
        else:
            found = str(at) + found
    return found


def _text_behind(element: Tag) -> str:
    behind = element.next_sibling
    return behind.get_text() if isinstance(behind, Tag) else str(behind or "")
