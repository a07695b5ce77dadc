"""Formulas of DOCX files as one line of text, in the notation that people type."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

from lxml import etree

from vikingd.ingest.formats.docx_elements import text_run
from vikingd.ingest.formats.raised_and_lowered_text import grouped

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_RUN = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}r"
_NO_TEXT = ("Pr", "ctrlPr")  # the ends of the names of elements with properties


def write_formulas(root: Any) -> None:
    """Replace the formulas below an element by runs of text, such as "(a+b)/2" and "x^2".

    Raises:
        RecursionError: a formula is nested too deeply.
    """
    for formula in list(root.iter(f"{_M}oMath")):
        run = text_run(_line(formula))
        run.tail = formula.tail
        formula.getparent().replace(formula, run)
    for paragraph in list(root.iter(f"{_M}oMathPara")):
        parent = paragraph.getparent()
        at = parent.index(paragraph)
        parent[at : at + 1] = [run for run in paragraph if run.tag == _RUN]


def _line(element: Any) -> str:
    """Return the text of all elements below one."""
    return "".join(_text(child) for child in element)


def _text(element: Any) -> str:
    if not isinstance(element.tag, str):
        return ""  # a comment
    name = etree.QName(element).localname
    if name == "t":
        return element.text or ""
    if name.endswith(_NO_TEXT):
        return ""
    write = _WRITERS.get(name)
    return write(element) if write else _line(element)


def _part(element: Any, name: str) -> str:
    """Return the text of a child; "" if there is none."""
    child = element.find(f"{_M}{name}")
    return "" if child is None else _line(child).strip()


def _property(element: Any, name: str, default: str) -> str:
    """Return the value of a property; "" if it is there without a value."""
    found = element.find(f"{_M}{etree.QName(element).localname}Pr/{_M}{name}")
    return default if found is None else str(found.get(f"{_M}val") or "")


def _scripts(element: Any) -> str:
    """Return index and exponent with their signs."""
    below, above = _part(element, "sub"), _part(element, "sup")
    return (f"_{grouped(below)}" if below else "") + (f"^{grouped(above)}" if above else "")


def _fraction(element: Any) -> str:
    sign = "¦" if _property(element, "type", "bar") == "noBar" else "/"
    return f"{grouped(_part(element, 'num'))}{sign}{grouped(_part(element, 'den'))}"


def _radical(element: Any) -> str:
    degree = _part(element, "deg")
    return f"√{f'[{degree}]' if degree else ''}{grouped(_part(element, 'e'))}"


def _operator(element: Any) -> str:
    return f"{_property(element, 'chr', '∫')}{_scripts(element)} {_part(element, 'e')}"


def _delimited(element: Any) -> str:
    inner = [_line(part).strip() for part in element.findall(f"{_M}e")]
    start, end = _property(element, "begChr", "("), _property(element, "endChr", ")")
    return f"{start}{_property(element, 'sepChr', '|').join(inner)}{end}"


def _function(element: Any) -> str:
    value = _part(element, "e")
    return f"{_part(element, 'fName')}{'' if value[:1] in ('(', '[', '{') else ' '}{value}"


def _matrix(element: Any) -> str:
    rows = element.findall(f"{_M}mr")
    return "; ".join(", ".join(_line(e).strip() for e in row.findall(f"{_M}e")) for row in rows)


def _lines(element: Any) -> str:
    return "; ".join(_line(part).strip() for part in element.findall(f"{_M}e"))


def _accent(element: Any) -> str:
    base = _part(element, "e")
    mark = _property(element, "chr", "\u0302") if len(base) == 1 else ""
    return unicodedata.normalize("NFC", base + mark)


_WRITERS: dict[str, Callable[[Any], str]] = {
    "f": _fraction,
    "sSup": lambda e: grouped(_part(e, "e")) + _scripts(e),
    "sSub": lambda e: grouped(_part(e, "e")) + _scripts(e),
    "sSubSup": lambda e: grouped(_part(e, "e")) + _scripts(e),
    "sPre": lambda e: _scripts(e) + grouped(_part(e, "e")),
    "rad": _radical,
    "nary": _operator,
    "d": _delimited,
    "func": _function,
    "limLow": lambda e: f"{_part(e, 'e')}_{grouped(_part(e, 'lim'))}",
    "limUpp": lambda e: f"{_part(e, 'e')}^{grouped(_part(e, 'lim'))}",
    "m": _matrix,
    "eqArr": _lines,
    "acc": _accent,
}
