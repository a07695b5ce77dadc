"""The texts of the page: all in one table, in both languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

PAGE = Path(str(resources.files("vikingd.gateway"))) / "page"
TABLE = "texts.js"
ROW = re.compile(r'^  (?:(\w+)|("[^"]+")): (\[".*"\]),$', re.MULTILINE)
NAMES = {"vikingd", "ms", "MiB", "Esc"}
"""What is the same in all languages."""
SPOKEN = ("aria-label", "title", "placeholder", "alt", "label")
EXPRESSION = "\0"


def rows() -> dict[str, list[str]]:
    """Return the table: the texts of each name."""
    text = (PAGE / TABLE).read_text(encoding="utf-8")
    body = text.partition("export const TEXTS = {\n")[2].partition("\n};")[0] + "\n"
    found = {name or json.loads(quoted): json.loads(row) for name, quoted, row in ROW.findall(body)}
    lines = [line for line in body.splitlines() if line.strip() and not line.startswith("  //")]
    assert len(found) == len(lines), "a row has another form, or a name stands twice"
    return found


def sources() -> Iterator[tuple[str, str]]:
    """Yield the name and the code of each module."""
    for path in sorted(PAGE.glob("*.js")):
        if path.name not in (TABLE, "hidden.js", "page.js"):
            yield path.name, path.read_text(encoding="utf-8")


def templates(code: str, at: int = 0) -> Iterator[str]:
    """Yield the literal parts of each html`...` of a code; an expression is one character."""
    while (at := code.find("html`", at)) >= 0:
        text, at = literal(code, at + len("html`"))
        yield text


def literal(code: str, at: int) -> tuple[str, int]:
    """Return a template from a place on without its expressions, and the place behind it."""
    text = ""
    while code[at] != "`":
        if code.startswith("${", at):
            at = behind(code, at + 2)
            text += EXPRESSION
        else:
            text += code[at]
            at += 1
    return text, at + 1


def behind(code: str, at: int) -> int:
    """Return the place behind the expression that begins at a place."""
    depth = 1
    while depth:
        if code[at] == "`":
            at = literal(code, at + 1)[1]
            continue
        if code[at] in "\"'":
            at = code.index(code[at], at + 1)
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        at += 1
    return at


def nested(code: str) -> Iterator[str]:
    """Yield the templates of a code, also those within expressions of others."""
    for place in re.finditer("html`", code):
        yield next(templates(code, place.start()))


def said(template: str) -> Iterator[str]:
    """Yield the words of a template that a person reads or hears."""
    names = "|".join(SPOKEN)
    for tag in re.findall(rf"<[^<>{EXPRESSION}][^<>]*>", template):  # of a component: no attributes
        yield from re.findall(rf'\s(?:{names})="([^"]*)"', tag)
    yield from re.sub(r"<[^<>]*>", EXPRESSION, template).split(EXPRESSION)


def test_both_languages_have_every_text() -> None:
    """Each row has an English and a Chinese text, with the same values in both."""
    table = rows()
    assert len(table) > 150
    for name, texts in table.items():
        assert len(texts) == 2, name
        assert all(text.strip() for text in texts), name
        english, chinese = (sorted(re.findall(r"\{\w+\}", text)) for text in texts)
        assert english == chinese, name


def test_every_named_text_is_in_the_table() -> None:
    """A name that the code asks for by a literal has a row."""
    table = rows()
    asked = {
        name for _, code in sources() for name in re.findall(r'(?<![\w.])t\("([\w. ]+)"', code)
    }
    assert len(asked) > 100
    assert asked - set(table) == set()


def test_no_text_stands_in_the_code() -> None:
    """What a person reads or hears comes from the table, in elements and in attributes."""
    found = [
        (name, words.strip())
        for name, code in sources()
        for template in nested(code)
        for words in said(template)
        if set(re.findall(r"[^\W\d_]{2,}", words)) - NAMES
    ]
    assert found == []


def test_the_search_for_texts_finds_them() -> None:
    """The search sees a word in an element, in an attribute, and in a template within another."""
    code = 'html`<p title="Some">${a ? html`<b>Other</b> ${"}"}` : `x}`} Third</p>`'
    words = [part.strip() for template in nested(code) for part in said(template) if part.strip()]
    assert words == ["Some", "Third", "Other"]
