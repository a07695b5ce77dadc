"""reStructuredText: titles, headings, abstracts and passages."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from vikingd.domain.contexts import Draft
from vikingd.ingest.abstracts import derive_abstract, derive_title
from vikingd.ingest.files import read_tree
from vikingd.ingest.passages import split

PROSE = "This page tells how to cut words into pieces."
MORE = "A second paragraph tells more about the pieces, and of their use."


def sections(content: str, name: str = "a.rst") -> list[tuple[str, str]]:
    """Return the section and the text of each passage."""
    return [(p.section, content[p.start : p.end]) for p in split(content, name)]


def long(text: str) -> str:
    """Return a text of its own passage."""
    return f"{text} {PROSE * 25}"


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("Title\n=====\n", "Title"),
        ("=====\nTitle\n=====\n", "Title"),
        ("=========\n  Title\n=========\n", "Title"),
        ("Title\r\n=====\r\n\r\nText\r\n", "Title"),
        ("\ufeffTitle\n=====\n", "Title"),
        ("Title\n#####\n", "Title"),
        ("Title\n~~~~~~~~~~~~\n", "Title"),
        ("A longer title\n=====\n", "A longer title"),  # a warning of docutils
        ("Ten\n==\n", ""),  # too short to be a title
        ("安装指南\n========\n", "安装指南"),
        ("安装指南\n====\n", "安装指南"),
        ("安装\n==\n", "安装"),
        ("安装\n============\n", "安装"),
        ("====\n安装指南\n====\n", "安装指南"),
        (".. _start:\n\nTitle\n=====\n", "Title"),
        (".. comment\n   of two lines\n\nTitle\n=====\n", "Title"),
        (":orphan:\n\nTitle\n=====\n", "Title"),
        (".. image:: logo.png\n   :alt: The logo\n\nTitle\n=====\n", "Title"),
        (".. currentmodule:: flask\n\nAPI\n===\n", "API"),
        ("Some text.\n\nTitle\n=====\n", "Title"),
        (".. rst-class:: hide-header\n\nWelcome\n=======\n", "Welcome"),
        ("Title\n=====\n\nOther\n=====\n", "Title"),
        ("``code`` and *more*\n===================\n", "code and more"),
        (":mod:`os.path` --- Paths\n=======================\n", "os.path --- Paths"),
        (":func:`~flask.Flask.route` again\n================================\n", "route again"),
        (":py:class:`Text <a.B>`\n======================\n", "Text"),
        (":class:`!Hidden`\n================\n", "Hidden"),
        ("`Text <https://a.b/c>`_ of links\n================================\n", "Text of links"),
        (
            "`Text`_ and word_ and `phrase`__\n================================\n",
            "Text and word and phrase",
        ),
        ("|name| in |version|_\n====================\n", "name in version"),
        ("Notes [1]_ of *it*\\ s [#a]_\n===========================\n", "Notes of its"),
        ("The ``__init__`` method\n=======================\n", "The __init__ method"),
        (
            "snake_case_name and 2 * 3 * 4\n=============================\n",
            "snake_case_name and 2 * 3 * 4",
        ),
        ("C:\\\\dir and \\*args\n=================\n", "C:\\dir and *args"),
        ("Text alone\n", ""),
        ("----\n\nText\n", ""),
        ("::\n\n   Title\n   =====\n", ""),
        (".. code-block:: rst\n\n   Title\n   =====\n", ""),
        ("=====  =====\nA      B\n=====  =====\n1      2\n=====  =====\n", ""),
        ("+---+---+\n| a | b |\n+===+===+\n| 1 | 2 |\n+---+---+\n", ""),
        ("First line of text\nsecond line of text\n===================\n", ""),
        (".. note::\n\n   Title\n   =====\n", ""),
        ("- item\n- other\n\n", ""),
    ],
)
def test_titles(source: str, title: str) -> None:
    """The first title is plain text; code, tables and lists hold none."""
    assert derive_title(source, "a.rst") == title
    assert derive_title(source, "a.REST") == title


@pytest.mark.parametrize(
    "beginning",
    [
        ".. toctree::\n   :maxdepth: 2\n   :caption: The contents of all this manual\n\n   one\n"
        "   two\n",
        ".. image:: logo.png\n   :alt: The logo of a project with a long name, and more\n",
        ".. contents:: The table of contents of this long page of words\n   :local:\n",
        ".. comment of many words that no reader of this page will ever see\n   and more of it\n",
        "..\n   A comment of many words that no reader of this page will ever see.\n",
        ".. _target of the page with a very long name for a target:\n",
        ".. _Flask documentation and more: https://flask.palletsprojects.com/en/latest/and/more\n",
        "__ https://flask.palletsprojects.com/en/latest/and/many/more/words/of/it\n",
        ".. |name| replace:: many words that are a substitution and no text of the page\n",
        ".. |logo| image:: logo.png\n   :alt: many words that are a substitution and no text\n",
        ".. include:: ../../README_of_the_project_with_a_long_name_of_words.rst\n"
        "   :start-line: 3\n",
        ".. literalinclude:: a.py\n   :language: python\n   :caption: Words of a caption, and "
        "many of them\n",
        ".. raw:: html\n\n   <p>Words of HTML that are not the text of this page at all</p>\n",
        ".. meta::\n   :description: Words of a description for a search engine, and more of "
        "them\n",
        ".. highlight:: python\n   :linenothreshold: 5 and more words than eight are here\n",
        ".. module:: flask\n   :synopsis: Words of a synopsis that is stated, and more of it\n",
        ".. automodule:: flask\n   :members:\n   :undoc-members: and many more words than eight\n",
        ".. autosummary::\n   :toctree: of many words that are an option\n\n   flask.Flask\n   "
        "flask.Blueprint\n",
        ".. versionadded:: 2.0 with many words that tell of a former version only\n",
        ".. note::\n\n   An admonition of many words, which is an aside beside the text of the "
        "page.\n",
        ".. warning:: An admonition of many words, which is an aside beside the text.\n",
        ".. code-block:: python\n   :caption: many words of a caption of this code\n\n   "
        "print('many words of code that is no text of the page')\n",
        "Code::\n\n    print('many words of code that is no text of the page at all')\n",
        ">>> print('many words of a doctest that is no text of the page at all')\nmany words\n",
        "* an item of a list with many words, which is no first paragraph\n* another\n",
        "#. an item of a list with many words, which is no first paragraph\n",
        "term\n    the definition of a term with many words, which is no first paragraph\n",
        "    A quotation of many words, which is no first paragraph of the page at all.\n",
        "| A line block with many words, which is no first paragraph at all,\n| and more\n",
        ":Author: The name of an author with many words, and their address too\n:Date: 2020\n",
        "=====  =====\nmany words of a table  that is no text of the page\n=====  =====\n",
        "+------+------+\n| many words of a table | that is no text of the page |\n"
        "+------+------+\n",
        "--------\n",
        ".. figure:: a.png\n   :alt: the words of a picture\n\n   The words of a caption of a "
        "figure, and many of them.\n",
        ".. [1] A footnote of many words that stands at the top of this page.\n",
        ".. only:: html\n\n   .. image:: a.png\n      :alt: many words of a picture that is no "
        "text\n",
        ".. py:function:: cut(words, into)\n\n   Cuts many words into many pieces, and returns "
        "all of them.\n",
        ".. index:: single: words; many of them in the index of the whole manual\n",
        ".. unknown-directive:: with many words\n\n   A body of many words that nobody knows "
        "anything about.\n",
    ],
)
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_what_is_no_prose_is_no_abstract(beginning: str, eol: str) -> None:
    """The abstract is the first prose, wherever directives and blocks stand."""
    for source in (f"Title\n=====\n\n{beginning}\n{PROSE}\n", f"{beginning}\n{PROSE}\n"):
        assert derive_abstract(source.replace("\n", eol), "a.rst") == PROSE


@pytest.mark.parametrize(
    ("source", "abstract"),
    [
        (f"Title\n=====\n\n{PROSE}\n\n{MORE}\n", f"{PROSE} {MORE}"),
        (f"Title\n=====\n\n{PROSE}\n\nPart\n----\n\n{MORE}\n", PROSE),
        (f"Title\n=====\n{PROSE}\n", PROSE),
        (
            "Use :func:`~a.b.c` or ``d`` of *words* to read `the text <https://a.b>`_ "
            "of |it| [1]_.\n",
            "Use c or d of words to read the text of it.",
        ),
        (
            "A paragraph over\ntwo lines with :ref:`a label <x>` of many more\nwords.\n",
            "A paragraph over two lines with a label of many more words.",
        ),
        ("一个段落在\n两行里面，讲述如何切分文字。\n", "一个段落在两行里面，讲述如何切分文字。"),
        (f".. note::\n\n   {PROSE}\n", PROSE),  # nothing else is there
        (f".. only:: html\n\n   {PROSE}\n", PROSE),
        (f".. container:: x\n\n   {PROSE}\n\n   {MORE}\n", f"{PROSE} {MORE}"),
        (f"The following is a list of all things that it has:\n\n- one\n\n{PROSE}\n", PROSE),
        (f"Here is an example of many words, and it is code::\n\n    code\n\n{PROSE}\n", PROSE),
        (".. toctree::\n\n   one\n", ""),
    ],
)
def test_abstracts(source: str, abstract: str) -> None:
    """An abstract is plain text in one line."""
    assert derive_abstract(source, "a.rst") == abstract


@pytest.mark.parametrize(
    ("source", "found"),
    [
        # Levels by the order of adornments; an overline makes another one.
        (
            f"Top\n===\n\n{long('a')}\n\nOne\n---\n\n{long('b')}\n\nDeep\n~~~~\n\n{long('c')}\n\n"
            f"Two\n---\n\n{long('d')}\n",
            ["Top", "Top > One", "Top > One > Deep", "Top > Two"],
        ),
        (
            f"===\nTop\n===\n\n{long('a')}\n\nOne\n===\n\n{long('b')}\n\n===\nEnd\n===\n\n"
            f"{long('c')}\n",
            ["Top", "Top > One", "End"],
        ),
        (f"安装\n====\n\n{long('a')}\n\n配置\n--\n\n{long('b')}\n", ["安装", "安装 > 配置"]),
        # Text within directives is below the headings around it.
        (f"Top\n===\n\n.. note::\n\n   {long('a')}\n", ["Top"]),
        (f"Top\n===\n\n.. warning:: {long('a')}\n", ["Top"]),
        (f"Top\n===\n\n.. code-block:: python\n\n   {long('a')}\n", ["Top"]),
        # Directives of domains are headings, as long as their bodies go on.
        (
            f"API\n===\n\n.. function:: cut(words)\n\n   {long('a')}\n\n{long('b')}\n",
            ["API > cut", "API"],
        ),
        (
            f"API\n===\n\n.. class:: Flask(name)\n   :module: x\n\n   {long('a')}\n\n"
            f"   .. method:: route(rule)\n\n      {long('b')}\n\n   .. py:attribute:: name: str\n\n"
            f"      {long('c')}\n\n   {long('d')}\n",
            ["API > Flask", "API > Flask > route", "API > Flask > name", "API > Flask"],
        ),
        (f".. automodule:: flask.app\n   :members:\n\n   {long('a')}\n", ["flask.app"]),
        (".. automodule:: flask.app\n   :members:\n", [""]),  # names alone
        ("API\n===\n\n.. autofunction:: flask.one\n.. autofunction:: flask.two\n", ["API"]),
        (f".. autofunction:: flask.abort\n\n   {long('a')}\n", ["flask.abort"]),
        (f".. c:function:: int Py_Run(char *a, int b)\n\n   {long('a')}\n", ["Py_Run"]),
        (f".. option:: --host <name>\n\n   {long('a')}\n", ["--host <name>"]),
        (f".. class:: center\n\n{long('a')}\n", [""]),  # docutils: a class of style
        (
            f"Top\n===\n\n.. function:: one()\n              two()\n\n   {long('a')}\n",
            ["Top > one"],
        ),
        # A title ends the bodies of directives.
        (f".. function:: cut()\n\n   {long('a')}\n\nTop\n===\n\n{long('b')}\n", ["cut", "Top"]),
        # A heading with nothing below it is found.
        ("Top\n===\n\nOne\n---\n\nTwo\n---\n", ["Top"]),
        ("Top\n===\n\n.. toctree::\n\n   one\n", [""]),
        (f"{long('a')}\n\n----\n\n{long('b')}\n", ["", ""]),
        (f"{long('a')}::\n\n    One\n    ---\n\n{long('b')}\n", ["", ""]),
        (f"Top\n===\n\nCode::\n\n    .. function:: f()\n\n       {long('a')}\n", ["Top"]),
        # Names are no headings where the text goes on.
        (f"Top\n===\n\nOne\n  two\n---\n\n{long('a')}\n", ["Top"]),
    ],
)
def test_sections(source: str, found: list[str]) -> None:
    """A passage has the path of its headings."""
    assert [section for section, _ in sections(source)] == found


def test_a_passage_has_the_signature_of_its_function() -> None:
    """The line of a function is text of the passage below it."""
    ((section, text),) = sections(
        f".. py:function:: cut(words, into=3)\n   :async:\n\n   {PROSE}\n"
    )
    assert (section, text.startswith("cut(words, into=3)")) == ("cut", True)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        (f"Ropes\n=====\n\n.. note::\n\n   {PROSE}\n", "Ropes"),
        (f".. _ropes:\n\n=====\nRopes\n=====\n\n{PROSE}\n", "Ropes"),
        (f"Ropes\n=====\n\n{PROSE}\n", ""),
        (f".. note::\n\n   {PROSE}\n", ""),
        ("Ropes\n=====\n\n.. and so on\n.. or not:: maybe\n", ""),
    ],
)
def test_a_text_that_is_certainly_restructured_is_read_so(text: str, title: str) -> None:
    """A text file needs a title and a directive or a target."""
    assert derive_title(text, "a.txt") == title
    assert derive_title(text.replace("\n", "\r\n"), "a.txt") == title


@pytest.mark.parametrize("hidden", [".. toctree::\n   :maxdepth: 2\n\n   one\n", ".. a comment\n"])
def test_no_passage_begins_with_what_is_no_text(hidden: str) -> None:
    """Directives before the text of a section are in no passage."""
    source = f"Top\n===\n\n{hidden}\n{long('a')}\n"
    assert sections(source) == [("Top", long("a"))]


def test_a_page_of_directives_alone_is_still_found() -> None:
    """A file without text is its lines."""
    source = ".. toctree::\n\n   one\n   two\n"
    assert sections(source) == [("", source.strip())]


def test_the_body_of_code_is_text() -> None:
    """Code and asides can be found."""
    code = "def f():\n\n       return 1"
    source = f"Top\n===\n\n.. code-block:: python\n   :linenos:\n\n   {code}\n\n{PROSE}\n"
    assert sections(source) == [("Top", f"{code}\n\n{PROSE}")]


@pytest.mark.parametrize("name", ["README.rst", "index.rst", "README.adoc"])
def test_a_readme_describes_its_directory(tmp_path: Path, name: str) -> None:
    """Title and abstract of a directory are those of its README or index."""
    (tmp_path / name).write_text(f"Ropes\n=====\n\n{PROSE}\n")
    first = next(iter(read_tree(tmp_path, "viking://resources/ropes")))
    assert isinstance(first, Draft)
    assert (first.is_directory, first.title, first.abstract) == (True, "Ropes", PROSE)


@pytest.mark.deep_after(2)
@pytest.mark.parametrize(
    "content",
    [
        "=" * 400_000,
        "=\n" * 200_000,
        "a\n=\n" * 60_000,
        "`" * 400_000,
        ":a:`" * 100_000,
        "|a" * 200_000,
        "\n".join(" " * i + ".. note::" for i in range(800)),
        ".. function:: " * 30_000,
        "\n".join(" " * i + f".. class:: A{i}()\n" for i in range(800)),
        ".. note::\n" * 60_000,
        "::\n\n" * 60_000,
        " \n" * 200_000,
        "[1]_ " * 80_000,
        "*a " * 100_000,
        "a_" * 200_000,
        "中\n==\n" * 60_000,
        "*" * 300_000 + "\na\n" + "*" * 300_000,
    ],
    ids=range(17),
)
def test_hostile_texts_take_linear_time(content: str) -> None:
    """No text of some hundred kilobytes takes seconds."""
    start = time.process_time()
    split(content, "a.rst")
    derive_title(content, "a.rst")
    derive_abstract(content, "a.rst")
    assert time.process_time() - start < 4
