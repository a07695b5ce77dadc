"""AsciiDoc: titles, headings, abstracts and passages."""

from __future__ import annotations

import time

import pytest

from vikingd.ingest.abstracts import derive_abstract, derive_title
from vikingd.ingest.passages import split

PROSE = "This page tells how to cut words into pieces."


def long(text: str) -> str:
    """Return a text of its own passage."""
    return f"{text} {PROSE * 25}"


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("= Title\n", "Title"),
        ("= Title =\n", "Title"),
        ("# Title\n", "Title"),
        ("= Title\r\nAn Author\r\n\r\nText\r\n", "Title"),
        ("\ufeff= Title\n", "Title"),
        ("Title\n=====\n", "Title"),
        ("git-add(1)\n==========\n\nNAME\n----\n", "git-add(1)"),
        ("安装指南\n====\n", "安装指南"),
        ("安装指南\n========\n", "安装指南"),
        (":toc:\n:icons: font\n\n= Title\n", "Title"),
        ("// a comment\n= Title\n", "Title"),
        ("////\n= No title\n////\n\n= Title\n", "Title"),
        ("[[start]]\n= Title\n", "Title"),
        ("== Section\n", ""),
        ("----\n= code\n----\n", ""),
        ("....\n= code\n....\n", ""),
        ("```\n# code\n```\n", ""),
        ("|===\n| = cell\n|===\n", ""),
        ("Text\n\n----\ncode\n----\n", ""),
        ("=Title\n", ""),
        ("= The `code` of *this* and _that_\n", "The code of this and that"),
        ("= Un**bold**ed, m__ar__ked #here#\n", "Unbolded, marked here"),
        ("= A https://a.b/c[link] and link:x.html[other^]\n", "A link and other"),
        ("= See <<intro,the intro>> and xref:a.adoc[this]\n", "See the intro and this"),
        (":name: Antora\n\n= About {name}\n", "About Antora"),
        ("= About {unknown}\n", "About {unknown}"),
        ("= Notesfootnote:[of it] [[anchor]]here\n", "Notes here"),
        ("= snake_case_name and 2 * 3 * 4\n", "snake_case_name and 2 * 3 * 4"),
        ("= Press kbd:[Ctrl] twice\n", "Press Ctrl twice"),
    ],
)
def test_titles(source: str, title: str) -> None:
    """The title is plain text; blocks of code, tables and comments hold none."""
    for name in ("a.adoc", "a.asciidoc", "A.ASC"):
        assert derive_title(source, name) == title


@pytest.mark.parametrize(
    "beginning",
    [
        ":description: The words of an attribute, which are no text of the page at all\n",
        "// A comment of many words, that no reader of this page will ever see\n",
        "////\nA comment of many words, that no reader of this page will ever see.\n////\n",
        "image::logo.png[The words of a picture, which are no text of the page at all]\n",
        "include::other.adoc[]\n",
        "ifdef::env-github[]\nendif::[]\n",
        "[source,ruby,subs=many words that are no text of the page]\n----\nmany words of code\n"
        "----\n",
        "[NOTE]\nAn admonition of many words, which is beside the text of this page.\n",
        "[TIP]\n====\nAn admonition of many words, which is beside the text of this page.\n====\n",
        "NOTE: An admonition of many words, which is beside the text of this page.\n",
        "****\nA sidebar of many words, which is beside the text of this page at all.\n****\n",
        "[quote, Somebody]\n____\nA quotation of many words, which is beside the text of it.\n"
        "____\n",
        "* an item of a list with many words, which is no first paragraph\n* other\n",
        ". an item of a list with many words, which is no first paragraph\n",
        "term of it:: the definition of a term with many words, which is no paragraph\n",
        ".A title of a block with many words, which is no text of the page at all\n----\na\n----\n",
        "....\nmany words of a literal block, which is no text of the page at all\n....\n",
        " many words of a literal paragraph, which is no text of the page at all\n",
        "|===\n|many words of a table |which is no text of the page at all\n|===\n",
        "'''\n",
        "* item\n+\nMany words that continue an item, which are no first paragraph at all.\n",
    ],
)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_what_is_no_prose_is_no_abstract(beginning: str, eol: str) -> None:
    """The abstract is the first prose, wherever blocks and attributes stand."""
    for source in (f"= Title\n\n{beginning}\n{PROSE}\n", f"{beginning}\n{PROSE}\n"):
        assert derive_abstract(source.replace("\n", eol), "a.adoc") == PROSE


@pytest.mark.parametrize(
    ("source", "abstract"),
    [
        (
            f"= Title\nAn Author <a@b.c> of many names and words\nv1.0, 2020\n:toc:\n\n{PROSE}\n",
            PROSE,
        ),
        (
            "Use `code` of *many* https://a.b[words] to see <<x,the other>> page. +\nAnd more.\n",
            "Use code of many words to see the other page. And more.",
        ),
        ("一个段落在\n两行里面，讲述如何切分文字。\n", "一个段落在两行里面，讲述如何切分文字。"),
        (f"--\n{PROSE}\n--\n", PROSE),
        (f"NOTE: {PROSE}\n", f"NOTE: {PROSE}"),  # nothing else is there
    ],
)
def test_abstracts(source: str, abstract: str) -> None:
    """An abstract is plain text in one line."""
    assert derive_abstract(source, "a.adoc") == abstract


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (
            f"= Top\n\n{long('a')}\n\n== One\n\n{long('b')}\n\n=== Deep\n\n{long('c')}\n\n"
            f"== Two\n\n{long('d')}\n",
            ["Top", "Top > One", "Top > One > Deep", "Top > Two"],
        ),
        (
            f"Top\n===\n\n{long('a')}\n\nOne\n---\n\n{long('b')}\n\nDeep\n~~~~\n\n{long('c')}\n",
            ["Top", "Top > One", "Top > One > Deep"],
        ),
        (f"= Top\n\n----\n== code\n{long('a')}\n----\n\n{long('b')}\n", ["Top", "Top"]),
        (f"= Top\n\n====\n{long('a')}\n\n== No heading\n\n====\n\n{long('b')}\n", ["Top", "Top"]),
        (f"= Top\n\n----\n{long('a')}\n", ["Top"]),
        (f"= Top\n\n{long('a')}\n----\n{long('b')}\n----\n", ["Top", "Top"]),
        (f"= Top\n\n----\n-- a\n== code\n----\n\n{long('b')}\n", ["Top"]),
        ("= Top\n\n== One\n\n== Two\n", ["Top"]),
    ],
)
def test_sections(source: str, found: list[str]) -> None:
    """A passage has the path of its headings; delimited blocks hold none."""
    assert [passage.section for passage in split(source, "a.adoc")] == found


@pytest.mark.deep_after(4)
@pytest.mark.parametrize(
    "content",
    [
        "=" * 400_000,
        "a\n==\n" * 60_000,
        "----\n" * 80_000,
        "====\n" * 80_000,
        "*a " * 130_000,
        "_a" * 200_000,
        "{a}" * 130_000,
        "<<a" * 130_000,
        "[[a" * 130_000,
        "https://a[" * 40_000,
        ":a: {a}{a}\n" * 30_000,
        "a:: " * 100_000,
        "[" * 400_000,
        "+\n" * 200_000,
        "= a\n" * 100_000,
        "**a" * 130_000,
        "`" * 400_000,
        "= a\nb\n:c: \\\n" * 30_000,
    ],
    ids=range(18),
)
def test_hostile_texts_take_linear_time(content: str) -> None:
    """No text of some hundred kilobytes takes seconds."""
    start = time.process_time()
    split(content, "a.adoc")
    derive_title(content, "a.adoc")
    derive_abstract(content, "a.adoc")
    assert time.process_time() - start < 4
