"""Numbers of list items as their document shows them.

The reader of a format puts a *mark* before the text of an item: the label that the document shows,
such as "3." or "a)", between two characters for private use. `write_numbers` replaces the marks.
"""

from __future__ import annotations

import re

from bs4 import BeautifulSoup
from bs4.element import NavigableString, Tag

from vikingd.ingest.formats.elements import below

_BEGIN, _END = "\ue010", "\ue011"
_MARK = re.compile(f"{_BEGIN}([^{_END}]*){_END}")
_PLAIN = re.compile(r"(0|[1-9]\d{0,8})[.)]?")  # what an ordered list of Markdown can show
_MAX_ROMAN = 4000
_MAX_REPEATED = 100
_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l")),
    *((40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_FORMS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_CHINESE = "零一二三四五六七八九"


def marked(label: str) -> str:
    """Return the mark that states the label of an item, to stand before its text."""
    return f"{_BEGIN}{label}{_END}"


def number_text(value: int, form: str) -> str:
    """Return a number in a form of DOCX, such as "lowerRoman"; an unknown form is decimal."""
    lower = form.lower()
    text = str(value)
    if lower.endswith("letter") and 0 < value <= 26 * _MAX_REPEATED:
        text = chr(ord("a") + (value - 1) % 26) * ((value - 1) // 26 + 1)
    elif lower.endswith("roman") and 0 < value < _MAX_ROMAN:
        text, left = "", value
        for size, letters in _ROMAN:
            text += letters * (left // size)
            left %= size
    elif form == "decimalZero":
        text = f"{value:02}"
    elif lower.startswith(("chinesecounting", "japanesecounting")) and 0 < value < 100:
        tens, ones = divmod(value, 10)
        text = (_CHINESE[tens] if tens > 1 else "") + ("十" if tens else "")
        text += _CHINESE[ones] if ones else ""
    return text.upper() if form.startswith("upper") else text


def mark_items(soup: BeautifulSoup) -> None:
    """Mark the items of a page's lists whose numbers a list of Markdown would change.

    These are lists that count in letters, Roman numbers or backwards, or state the number of an
    item.
    """
    marked_any = False
    for one in soup.find_all("ol"):
        items = [item for item in one.find_all("li", recursive=False) if isinstance(item, Tag)]
        form = _FORMS.get(str(one.get("type") or ""), "decimal")
        is_reversed = one.has_attr("reversed")
        if form == "decimal" and not is_reversed and not any(i.has_attr("value") for i in items):
            continue
        value = _number(one.get("start"), len(items) if is_reversed else 1)
        for item in items:
            value = _number(item.get("value"), value)
            item.insert(0, marked(f"{number_text(value, form)}."))
            value += -1 if is_reversed else 1
        marked_any = bool(items) or marked_any
    if marked_any:
        write_numbers(soup)


def _number(stated: object, default: int) -> int:
    text = str(stated or "").strip()
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else default


def write_numbers(soup: BeautifulSoup) -> None:
    """Give the lists of a page the numbers that the marks of their items state.

    A list begins anew where its numbers jump. Items with other labels than decimal numbers, such as
    "a)", become items without numbers whose text begins with the label. A mark that is in no
    ordered list becomes text.
    """
    for one in soup.find_all("ol"):
        items = [item for item in one.find_all("li", recursive=False) if isinstance(item, Tag)]
        labels = [_label(item) for item in items]
        numbers = [_PLAIN.fullmatch(label or "") for label in labels]
        if any(
            label is not None and number is None
            for label, number in zip(labels, numbers, strict=True)
        ):
            one.name = "ul"
            for item in items:
                _move_mark(item)
            continue
        before = 0
        for item, number in zip(items, numbers, strict=True):
            value = int(number[1]) if number else before + 1
            if value != before + 1 and item.parent is not None:
                _begin(item, value)
            before = value
            if number:
                _remove_mark(item)
    for text in [text for text in below(soup) if isinstance(text, NavigableString)]:
        if _BEGIN in text:
            text.replace_with(_MARK.sub(lambda mark: f"{mark[1]} " if mark[1] else "", text))


def _begin(item: Tag, value: int) -> None:
    """Let a list begin with an item; those before it stay in a list of their own."""
    old = item.parent
    assert old is not None
    before = list(item.previous_siblings)
    if any(isinstance(one, Tag) for one in before):
        first = Tag(name=old.name, attrs=dict(old.attrs))  # a copy of the list would copy all items
        old.insert_before(first)
        first.extend(reversed(before))
    old["start"] = str(value)


def _first(item: Tag) -> NavigableString | None:
    """Return the first text of an item if it begins with a mark; else None."""
    for text in below(item):
        if isinstance(text, Tag) and text.name in ("ol", "ul"):
            return None
        if isinstance(text, NavigableString) and text.strip():
            return text if text.lstrip().startswith(_BEGIN) else None
    return None


def _label(item: Tag) -> str | None:
    text = _first(item)
    mark = _MARK.search(text) if text is not None else None
    return mark[1] if mark else None


def _move_mark(item: Tag) -> None:
    """Move the mark of an item into its first paragraph, if the mark stands before it."""
    mark = _first(item)
    if mark is not None and isinstance(after := mark.next_sibling, Tag) and after.name == "p":
        after.insert(0, mark.extract())


def _remove_mark(item: Tag) -> None:
    if (text := _first(item)) is not None:
        text.replace_with(_MARK.sub("", text, count=1))
