"""Titles, abstracts and front matter of files."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.ingest_helpers import SENTENCE
from tests.tiers import examples
from vikingd.ingest import markdown
from vikingd.ingest.abstracts import MAX_ABSTRACT, derive_abstract, derive_title, shorten
from vikingd.ingest.frontmatter import faults, front_matter
from vikingd.ingest.limits import check_metadata


@pytest.mark.parametrize(
    ("name", "content", "abstract"),
    [
        (
            "a.md",
            "You need [Go][] 1.18 and [Git][git] for the modules of a project here.",
            "You need Go 1.18 and Git for the modules of a project here.",
        ),
        (
            "a.md",
            "---\nname: Fault\nabout: Tell of a broken cup\n---\n",
            "Tell of a broken cup",
        ),
        ("a.md", "👆 🚫 💚 🔗 🏃 🙆 🎧 💪 ✔\n\nMore.", "👆 🚫 💚 🔗 🏃 🙆 🎧 💪 ✔ More."),
        (
            "a.md",
            "# Tests\n\nYou have already seen how to test the tea of one pot.\n\n"
            "A test of many pots takes a tray and a list of them.",
            "A test of many pots takes a tray and a list of them.",
        ),
        (
            "a.md",
            "# 测试\n\n在上一章里，我们学习了测试一壶茶。\n\n测试很多壶茶需要托盘和列表。",
            "测试很多壶茶需要托盘和列表。",
        ),
        (
            "a.md",
            "# Tea\n\n**DO NOT READ THIS FILE HERE, IT IS ON <https://example.org/tea>.**\n\n"
            "This guide covers the kinds of tea.",
            "This guide covers the kinds of tea.",
        ),
        (
            "a.md",
            "## Cup\n\n### Basic use\n```\ncode\n```\n### Filled\n\nA cup can be filled.\n",
            "A cup can be filled. Basic use; Filled",
        ),
        (
            "a.md",
            f"# Changes\n\n# 2.1\n* add\n\n# 2.0\n* first\n\n\\{'-' * 99}\n",
            "add first Changes; 2.1; 2.0",
        ),
        (
            "a.adoc",
            "= Pour\n\nNOTE: A spoon can be used in place of the hand in this section.\n\n"
            "You can pour by hand, as the following example shows:\n\n----\npour()\n----\n",
            "You can pour by hand, as the following example shows:",
        ),
        (
            "a.redir",
            "{{ range .Pages }} {{ .Aliases }} and more of a template {{ end }}\n\n"
            "The addresses that have moved are listed in this file.",
            "The addresses that have moved are listed in this file.",
        ),
        (
            "a.ts",
            "/// <reference types='vitest' />\n// Checks the types of the answers.\nlet a = 1\n",
            "Checks the types of the answers.",
        ),
        ("a.toml", "# https://example.org/issues/1085\n[a]\nb = 1\n", "[a] b = 1"),
        (
            "a.md",
            "---\ndescription: >\n  Said\n  in front.\n---\n# T\n\nText that is long enough.",
            "Text that is long enough.",
        ),
        (
            "a.md",
            "# T\n\n[![b](x)](y) ![i](z)\n\n<p>html</p>\n\n/// note | 注意\n\n```\ncode\n```\n"
            "The **first** [prose](http://x/y) with `code`, over\ntwo lines.\n\nMore.",
            "The first prose with code, over two lines.",
        ),
        (
            "a.md",
            "**Docs**: <https://example.org/a/very/long/address/of/a/page>\n\n"
            "It keeps what an agent knows in one tree.\n\nMore of it.",
            "It keeps what an agent knows in one tree.",
        ),
        (
            "a.md",
            "The example looks just like this:\n\nIt keeps what an agent knows in a tree.",
            "It keeps what an agent knows in a tree.",
        ),
        (
            "a.md",
            "# 标题\n\n提供了**“依赖注入”**系统，\n简单直观。",
            "提供了“依赖注入”系统，简单直观。",
        ),
        (
            "a.md",
            "- an item of a list that is long enough\n\nThe paragraph behind the list counts.",
            "The paragraph behind the list counts.",
        ),
        ("a.md", "- likes tea\n- hates noise", "likes tea hates noise"),
        ("a.md", "# Only\n\n```\ncode\n```", "``` code ```"),
        (
            "a.txt",
            "Heading\n=======\n\nThe first paragraph goes\r\nover two lines.\n\nSecond.",
            "The first paragraph goes over two lines.",
        ),
        (
            "a.py",
            '#!/usr/bin/python\n# Copyright 2020 nobody\n\n"""Cuts words.\n\nMore."""\n',
            "Cuts words.",
        ),
        (
            "a.go",
            "/*\n * Package x sends mail.\n *\n * More.\n */\npackage x",
            "Package x sends mail.",
        ),
        (
            "a.sh",
            "#!/bin/sh\n# Restores a backup\n# to a given time.\nset -e\n",
            "Restores a backup to a given time.",
        ),
        ("a.c", "#include <stdio.h>\nint main(void) {}\n", "int main(void) {}"),
        ("a.json", '{"a": 1}', '{"a": 1}'),
        # Short prose goes on up to a heading.
        (
            "a.md",
            "# Tea\n\nTea is made of the leaves of a plant.\n\nWater of 80 degrees is poured on "
            "them, and it is ready after three minutes.\n\nMore of it is elsewhere, too.",
            "Tea is made of the leaves of a plant. Water of 80 degrees is poured on them, and it "
            "is ready after three minutes.",
        ),
        (
            "a.md",
            "# Tea\n\nTea is made of the leaves of a plant.\n\n## Water\n\nWater of 80 degrees is "
            "poured on them.",
            "Tea is made of the leaves of a plant.",
        ),
        (
            "a.md",
            "# 茶\n\n茶由植物的叶子制成。\n\n用八十度的水冲泡，三分钟后即可饮用，味道清香。",
            "茶由植物的叶子制成。用八十度的水冲泡，三分钟后即可饮用，味道清香。",
        ),
        # A list or code is no part of the sentence before it.
        (
            "a.md",
            "Models are loaded at the first use. Load them earlier as follows:\n\n```\nload\n```"
            "\n\nAnother way is to load them by hand at the start of it.",
            "Models are loaded at the first use.",
        ),
        (
            "a.rst",
            "A run can result in two different exit codes:\n\n:0: done\n:1: failed\n\nThey are "
            "members of an enumeration of the library.\n",
            "A run can result in two different exit codes:",
        ),
        # Greetings, news and questions are beside the topic.
        (
            "a.md",
            "Welcome to the guide! It shows how to build a boat of wood in your own garage, alone.",
            "It shows how to build a boat of wood in your own garage, alone.",
        ),
        (
            "a.md",
            "We're excited to announce version 2.0 of it, with many new features!\n\n## What\n\n"
            "It keeps what an agent knows in one tree of files.",
            "It keeps what an agent knows in one tree of files.",
        ),
        (
            "a.md",
            "This page is deprecated and will be removed in a while.\n\nThe old way to log in is a "
            "password in the settings of the program.",
            "The old way to log in is a password in the settings of the program.",
        ),
        (
            "a.md",
            "English | 简体中文 | 日本語 | Español\n\nA small library that cuts texts into words.",
            "A small library that cuts texts into words.",
        ),
        (
            "a.md",
            "Looking for the documentation of the former version?\n\nA library that cuts texts "
            "into words.",
            "A library that cuts texts into words.",
        ),
        (
            "a.md",
            "This page is deprecated and will be removed in a while.",
            "This page is deprecated and will be removed in a while.",
        ),
        # Comments for tools, headers with fields, and definitions.
        (
            "a.rb",
            "# frozen_string_literal: true\n\nmodule Site\n  # Removes what is no longer built.\n"
            "  class Cleaner\n    def clean(all)\n    end\n  end\nend\n",
            "class Cleaner: Removes what is no longer built; def clean(all); module Site",
        ),
        (
            "a.js",
            "/* global window */\n/* eslint-env node */\nconst fs = require('fs');\n"
            "/** Cuts a text.\n * @param {string} text it */\nfunction cut(text) {}\n",
            "function cut(text): Cuts a text",
        ),
        (
            "a.js",
            "/**\n * @fileoverview Rule to forbid tabs in the lines of a file.\n * @author A\n */",
            "Rule to forbid tabs in the lines of a file.",
        ),
        (
            "a.hs",
            "{-# LANGUAGE CPP #-}\n{- |\n   Module      : A.B\n   Copyright   : 2020 X\n"
            "   License     : GPL\n\nConversion of one text to another one.\n-}\nmodule A.B",
            "Conversion of one text to another one.",
        ),
        (
            "a.hs",
            "module A.B where\n\ncut :: Text -> [Text]\ncut = id\n",
            "module A.B where; cut :: Text -> [Text]",
        ),
        (
            "a.py",
            '"""Cuts\n====\n\nA way to cut texts into words, without a model.\n"""\n',
            "Cuts: A way to cut texts into words, without a model.",
        ),
        (
            "a.py",
            "# mypy: ignore-errors\nT = TypeVar('T')\nMOST = 3\ndef _own(): ...\n"
            "def cut(text): ...\n",
            "def cut(text); def _own(); MOST = 3",
        ),
    ],
    ids=range(44),
)
def test_the_abstract_is_the_first_prose(name: str, content: str, abstract: str) -> None:
    """The abstract is the first prose, without badges, markup, directives, licences and labels."""
    assert derive_abstract(content, name) == abstract


def test_an_abstract_ends_with_a_sentence() -> None:
    """A long abstract ends after a sentence, else after a word, else at the length limit."""
    assert shorten(SENTENCE * 20) == (SENTENCE * (MAX_ABSTRACT // len(SENTENCE))).strip()
    assert shorten("很长的句子。" * 100) == "很长的句子。" * (MAX_ABSTRACT // 6)
    assert shorten("word " * 100).endswith("word…")
    for text in (SENTENCE * 20, "word " * 100, "x" * 500, "中" * 399 + "。" * 9, "a" * 400 + ". b"):
        assert 0 < len(shorten(text)) <= MAX_ABSTRACT


def test_the_title_is_stated_or_the_first_top_heading() -> None:
    """The title comes from front matter, else from the first H1; a text file has no title."""
    assert derive_title("---\ntitle: 2024\n---\n# H", "a.md") == "2024"
    assert derive_title("Text\n\n## Two\n\nA *b* & c {#x}\n===\n\n# Later", "a.md") == "A b & c"
    assert derive_title("# H", "a.txt") == ""
    assert len(derive_title(f"---\ntitle: {'中' * 900}\n---\n", "a.md").encode()) <= 1024


def test_front_matter_becomes_json_values() -> None:
    """Front matter becomes JSON values, with dates as they are written and keys as strings."""
    content = "---\ndate: 2024-05-01\nat: 2024-05-01 10:00:00Z\n1: [a, {b: null}]\n---\nText"
    values, end = front_matter(content)
    assert values == {
        "date": "2024-05-01",
        "at": "2024-05-01 10:00:00Z",
        "1": ["a", {"b": None}],
    }
    assert content[end:] == "\nText"


@pytest.mark.deep_after(18)  # the last ones take long
@pytest.mark.parametrize(
    ("block", "is_told"),
    [
        ("a: [", True),
        ("a: &x 1\nb: *x", False),
        ("d: 2024-02-31", False),
        ("[" * 200, True),
        ("a: " + "9" * 9_000, True),
        ("a: 0x" + "f" * 4_000, True),
        ("a: 1" + "0" * 400, True),
        ('a: "\\ud800"', True),
        ('"\\ud800": a', True),
        ('a: "\\UFFFFFFFF"', True),
        ('a: ["x\\0y"]', True),
        ("a: !!timestamp foo", False),
        ('a: !!int ""', False),
        ("a: !!bool foo", False),
        ("a: .inf", True),
        ("a: {b: [1, .nan]}", True),
        ("a: -1.0e+999", True),
        ("a: " + "[" * 33 + "]" * 33, True),
        (
            "a: {"
            + ",".join(f"{chr(0x1F300 + i // 60)}{chr(0x1F300 + i % 60)}" for i in range(4000))
            + "}",
            True,
        ),
        ("[" * 2_000, True),
    ],
    ids=range(20),
)
def test_a_bad_block_is_told_and_can_be_stored(block: str, is_told: bool) -> None:
    """Whatever a block holds, its values can be stored, and each loss has one short reason."""
    content = f"---\n{block}\n---\nText"
    values, end = front_matter(content)
    check_metadata(values, "metadata")
    assert (end == 0) == block.startswith("[")
    told = faults(content)
    assert bool(told) == is_told
    assert all(0 < len(reason) <= 300 for reason in told)


MARKS = (
    "a",
    "Word",
    "文",
    "\n",
    "\n\n",
    " ",
    "  ",
    "\t",
    "-",
    "=",
    "---",
    "===",
    "1.",
    "2)",
    "#",
    "*",
    "_",
    "`",
    "[",
    "]",
    "(",
    ")",
    "<",
    ">",
    "&amp;",
    "!",
    "\\",
    "|",
    ":",
    ":::",
    "~",
    "{",
    "}",
    "\xa0",
    "import x from 'y'",
    "http://a.b",
    "+",
    "\x0b",
    "\u2028",
    "\r\n",
    "é",
)


@examples(400)
@given(st.lists(st.sampled_from(MARKS), max_size=14).map("".join))
def test_plain_lines_are_the_paragraphs_that_the_parser_finds(text: str) -> None:
    """The shortcut for plain lines finds the same paragraphs as the Markdown parser."""
    for beginning in ("", "W"):
        quick = list(markdown.paragraphs(beginning + text))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(markdown, "_PLAIN_LINES", re.compile(r"(?!)"))
            patch.setattr(markdown, "_INLINE_SIGNS", re.compile(""))
            assert quick == list(markdown.paragraphs(beginning + text))
