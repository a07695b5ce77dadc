"""Files, JSON lines and drafts become checked contexts with titles, abstracts and passages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vikingd
from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType, Draft, Passage
from vikingd.domain.errors import InvalidField
from vikingd.domain.text import HAN, LATIN, approximate_tokens
from vikingd.ingest import markdown
from vikingd.ingest.abstracts import MAX_ABSTRACT, derive_abstract, derive_title, shorten
from vikingd.ingest.files import Unreadable, read_tree
from vikingd.ingest.frontmatter import fault, front_matter
from vikingd.ingest.jsonl import is_jsonl, read_jsonl
from vikingd.ingest.passages import MAX_PASSAGES, MAX_TOKENS, TARGET_TOKENS, TokenCount, split
from vikingd.ingest.prepare import check, prepare

NAMES = ("a.md", "a.txt", "a.py")
FILE = "viking://resources/notes/a.md"
SENTENCE = "The quick brown fox jumps over the lazy dog beside the river. "
LONG = SENTENCE * 4  # about 60 tokens


def pieces(content: str, name: str = "a.md", *, entries: bool = False) -> list[tuple[str, str]]:
    """Section and text of each passage."""
    passages = split(content, name, entries=entries)
    return [(p.section, content[p.start : p.end]) for p in passages]


def assert_sound(content: str, name: str) -> list[Passage]:
    """Cuts, and checks what holds for every content."""
    passages = split(content, name)
    position = 0
    for p in passages:
        text = content[p.start : p.end]
        assert position <= p.start < p.end
        assert text == text.strip()
        assert len(p.section.encode()) <= 1024
        position = p.end
    assert len(passages) <= MAX_PASSAGES
    return passages


# Cutting


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "content",
    [
        "x" * 1_000_000,
        "中" * 150_000,
        "\n" * 100_000 + "}",
        "." * 500_000,
        "[" * 200_000,
        "> " * 50_000,
        "```\n" + "code\n" * 10_000,
        "中文。" * 20_000,
        "a\r\n\r\n" * 15_000,
        SENTENCE * 5_000,
        "def f():\n    return 1\n\n\n" * 4_000,
    ],
    ids=range(11),
)
def test_hostile_contents_are_cut_soundly_and_soon(content: str, name: str) -> None:
    """No content makes a passage over the bound, loses its order, or takes more than seconds."""
    began = time.process_time()
    passages = assert_sound(content, name)
    assert time.process_time() - began < 10
    assert all(approximate_tokens(content[p.start : p.end]) <= MAX_TOKENS for p in passages)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "# A\n",
                "## B {#b}\n",
                "Title\n===\n",
                "```\n",
                "- item\n",
                "> quote\n",
                "|a|\n|-|\n",
                "\n",
                "\r\n",
                "   ",
                LONG,
                "中文句子。" * 20,
                "<!-- -->",
                "---\n",
                "\ufeff",
                "word\n",
            ]
        ),
        max_size=40,
    ),
    st.sampled_from(NAMES),
)
def test_any_mixture_of_markup_is_cut_soundly(parts: list[str], name: str) -> None:
    """Passages stay in order, stripped and within the bound, and lose no sentence."""
    content = "".join(parts)
    passages = assert_sound(content, name)
    kept = "".join(content[p.start : p.end] for p in passages)
    assert all(approximate_tokens(content[p.start : p.end]) <= MAX_TOKENS for p in passages)
    if name != "a.md":
        assert kept.count("fox") == content.count("fox")
        assert kept.count("句") == content.count("句")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab 中文한カ。é", max_size=60), st.data())
def test_ranges_have_the_tokens_of_their_text(content: str, data: st.DataObject) -> None:
    """Counting by positions agrees with approximate_tokens of the slice; reach inverts it."""
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, len(content)))
    bound = data.draw(st.integers(1, 20))
    tokens = TokenCount(content)
    assert tokens.count(start, end) == approximate_tokens(content[start:end])
    fitting = [i for i in range(start, end + 1) if approximate_tokens(content[start:i]) <= bound]
    assert tokens.reach(start, end, bound) == fitting[-1]


def test_headings_give_the_section_path() -> None:
    """Passages stand below their headings, of both forms, without anchors and markup."""
    content = (
        f"# The *Guide* {{ #guide }}\n\n{LONG}\n\n## Set up {{.wide}}\n\n{LONG}\n\n"
        f"Deeper `code`\n-------------\n\n### Third\n\n{LONG}\n\n# Other\n\n{LONG}"
    )
    assert pieces(content) == [
        ("The Guide", LONG.strip()),
        ("The Guide > Set up", LONG.strip()),
        ("The Guide > Deeper code > Third", LONG.strip()),
        ("Other", LONG.strip()),
    ]


def test_a_heading_with_nothing_below_it_is_still_text() -> None:
    """A bare heading is found below the section above it; one with a subsection is a path only."""
    content = f"# A\n\n{LONG * 3}\n\n## Bare words\n\n## B\n\n### C\n\n{LONG}"
    assert pieces(content) == [
        ("A", f"{LONG * 3}\n\n## Bare words"),
        ("A > B > C", LONG.strip()),
    ]


def test_front_matter_and_a_byte_order_mark_are_in_no_passage() -> None:
    """What is not text is not indexed as text, and headings behind it are found."""
    content = f"\ufeff---\ntitle: T\n---\n# H\n\n{LONG * 4}"
    passages = pieces(content)
    assert {section for section, _ in passages} == {"H"}
    assert not any("title: T" in text or "\ufeff" in text for _, text in passages)


def test_a_fence_that_fits_is_never_cut() -> None:
    """Code stays whole beside long text, and its comments are no headings."""
    fence = "```python\n# not a heading\n\n" + "call(argument)\n\n" * 60 + "```"
    assert TARGET_TOKENS < approximate_tokens(fence) <= MAX_TOKENS
    content = f"# H\n\n{LONG * 3}\n\n{fence}\n\n{LONG * 3}"
    assert ("H", fence) in pieces(content)


def test_a_fence_that_is_too_long_is_cut_at_its_lines() -> None:
    """Also when it is never closed; no line of it is torn."""
    content = "# H\n\n```\n" + "".join(f"line number {i} of the code\n" for i in range(200))
    passages = pieces(content)
    assert len(passages) > 3
    assert all(text.splitlines()[0].startswith(("line", "```")) for _, text in passages)
    assert all(text.endswith("of the code") for _, text in passages)


@pytest.mark.parametrize("line", ["- an item of the list with words", "| a cell | and another |"])
def test_lists_and_tables_that_fit_stay_whole(line: str) -> None:
    """A list or table is not torn to fill up the passage before it."""
    rows = [line] * 30
    if line.startswith("|"):
        rows.insert(1, "|---|---|")
    block = "\n".join(rows)
    assert approximate_tokens(block) <= MAX_TOKENS
    assert ("H", block) in pieces(f"# H\n\n{LONG * 3}\n\n{block}\n\n{LONG * 3}")


def test_a_list_that_is_too_long_is_cut_between_its_items() -> None:
    """A fence inside an item stays whole even then."""
    item = f"- {SENTENCE}\n\n  ```\n  one\n\n  two\n  ```\n"
    passages = pieces("# H\n\n" + item * 30)
    assert len(passages) > 2
    assert all(text.count("```") % 2 == 0 for _, text in passages)


def test_small_neighbours_join_within_a_section_only() -> None:
    """Short paragraphs of one section are one passage; those of another section are not in it."""
    content = f"# A\n\none\n\ntwo\n\n## B\n\nthree\n\nfour\n\n## C\n\n{LONG * 4}"
    assert pieces(content)[:2] == [("A", "one\n\ntwo"), ("A > B", "three\n\nfour")]


def test_a_short_content_is_one_passage() -> None:
    """Below the headings that all of it shares."""
    assert pieces("# A\n\none\n\n## B\n\ntwo") == [("A", "one\n\n## B\n\ntwo")]


def test_lines_end_alike_on_all_systems() -> None:
    """CRLF, CR and LF give the same sections and texts."""
    content = f"# A\n\n{LONG}\n\n- x\n- y\n\n## B\n\n{LONG * 5}\n\n{LONG}"
    expected = [(s, t.split()) for s, t in pieces(content)]
    for end in ("\r\n", "\r"):
        assert [(s, t.split()) for s, t in pieces(content.replace("\n", end))] == expected


def test_text_is_cut_at_the_ends_of_sentences() -> None:
    """In English and in Chinese, when a paragraph is too long."""
    for content in (SENTENCE * 40, "我们在周二和周四发布新版本，周五从不发布。" * 40):
        passages = pieces(content, "a.txt")
        assert len(passages) > 2
        assert all(text.endswith((".", "。")) for _, text in passages)


def test_code_is_cut_at_top_level_blocks() -> None:
    """Each block is named by its first line that is no comment, and its inside stays together."""
    body = "".join(f"    value_{i} = compute(value, {i})\n\n" for i in range(25))
    content = f"import os\n\n\n# why\n@cached\ndef first(a):\n{body}\n\nclass Second:\n{body}"
    assert [section for section, _ in pieces(content, "a.py")] == [
        "import os",
        "def first(a)",
        "class Second",
    ]


def test_too_many_headings_still_make_a_valid_draft() -> None:
    """Neighbours join until the limit of passages holds; nothing is dropped."""
    content = "".join(f"# h{i}\n\nbody {i}\n" for i in range(9_000))
    passages = assert_sound(content, "a.md")
    assert "".join(content[p.start : p.end] for p in passages).count("body") == 9_000


def test_contents_without_a_word_have_no_passages() -> None:
    """Empty files, white space and rules are nothing to find."""
    for name in NAMES:
        assert [split(content, name) for content in ("", " \n\t", "---\n\n***\n", "\ufeff")] == [
            []
        ] * 4


@pytest.mark.parametrize(
    ("space", "name"), [(" ", "a.md"), ("\t", "a.py"), ("\n", "a.txt"), ("\u3000", "a.md")]
)
def test_white_space_of_two_mebibytes_is_passed_over(space: str, name: str) -> None:
    """Before the words and between them, and there are none behind it."""
    white = space * ((2 << 20) // 3)
    content = f"{white}One.{white}Two.{white}"
    assert [content[p.start : p.end] for p in split(content, name)] == ["One.", "Two."]
    assert split(white, name) == []


# Entries


def test_each_list_item_of_a_memory_is_a_passage_of_its_own() -> None:
    """However short, of any list, without its marker; a nested list belongs to its item."""
    content = (
        "---\nk: v\n---\n# T\n\nIntro.\n\n- tea\n- [ ] buy milk\n\n* star  \n  more\n\n"
        "## S\n\n9. nine\n   - inner\n10) ten\n\n-\n  low\n\n-\n\nOne.\n\nTwo.\n\n> - quoted\n"
    )
    assert pieces(content, entries=True) == [
        ("T", "Intro."),
        ("T", "tea"),
        ("T", "[ ] buy milk"),
        ("T", "star  \n  more"),
        ("T > S", "nine\n   - inner"),
        ("T > S", "ten"),
        ("T > S", "low"),
        ("T > S", "One.\n\nTwo.\n\n> - quoted"),
    ]
    found = pieces(content.replace("\n", "\r\n"), entries=True)
    assert [(s, t.replace("\r\n", "\n")) for s, t in found] == pieces(content, entries=True)


def test_a_memory_without_a_list_is_cut_like_any_file() -> None:
    """Paragraphs, tables and code, and what is no Markdown."""
    for content in ("# A\n\none\n\n## B\n\ntwo", f"# A\n\n{LONG * 4}\n\n```\n- x\n```\n\n{LONG}"):
        assert pieces(content, entries=True) == pieces(content)
    assert pieces("- a\n- b", "a.txt", entries=True) == [("", "- a\n- b")]


def test_a_long_item_is_cut_and_joins_no_neighbour() -> None:
    """Its pieces join each other alone; one that just fits is whole, marker and gaps apart."""
    fits = "x" * (4 * MAX_TOKENS)
    content = f"- {fits}\n{' ' * 500}\n\n- a\n- {SENTENCE * 30}\n\n  b\n\n  c\n- d\n"
    (_, first), (_, second), *cut, (_, last) = pieces(content, entries=True)
    assert (first, second, last) == (fits, "a", "d")
    assert len(cut) > 1
    assert cut[0][1].startswith("The quick")
    assert cut[-1][1].endswith("b\n\n  c")


def test_headings_of_many_spaces_are_read_soon() -> None:
    """Attributes are looked for where the spaces before them begin, not at each of these."""
    content = f"# a{' ' * 4000}b\n" * 250 + f"# c{' ' * 3000}{{#id}}\n\ntext\n"
    began = time.process_time()
    found = split(content, "a.md")
    assert time.process_time() - began < 2
    assert [p.section for p in found if content[p.start : p.end] == "text"] == ["c"]


def test_many_entries_are_cut_soon() -> None:
    """In linear time, with an item of many lines, and with deep and empty ones."""
    for content in (
        "- entry\n" * 30_000,
        "- " + "line\n  " * 30_000,
        "- " * 20_000,
        "-\n\n" * 20_000,
    ):
        began = time.process_time()
        assert len(split(content, "a.md", entries=True)) <= MAX_PASSAGES
        assert time.process_time() - began < 10


@pytest.mark.parametrize("uri", ["viking://user/memories/a.md", FILE])
def test_only_memories_have_entries(uri: str, tmp_path: Path) -> None:
    """Whether they are put, read from files or from JSON lines."""
    content = "- likes tea\n- hates noise"
    is_memory = uris.context_type(uri) is ContextType.MEMORY
    expected = ["likes tea", "hates noise"] if is_memory else [content]
    (tmp_path / "a.md").write_text(content)
    (tmp_path / "a.jsonl").write_text(json.dumps({"uri": uri, "text": content}))
    for drafts in (
        [Draft(uri, content=content)],
        read_tree(tmp_path / "a.md", uri),
        read_jsonl(tmp_path / "a.jsonl"),
    ):
        (draft,) = drafts
        assert isinstance(draft, Draft)
        found = [content[t.start : t.end] for t in prepare(draft).texts if t.ordinal]
        assert found == expected


# Titles, abstracts, front matter


@pytest.mark.parametrize(
    ("name", "content", "abstract"),
    [
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
        ("a.md", "# Only\n\n```\ncode\n```", ""),
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
        ("a.c", "#include <stdio.h>\nint main(void) {}\n", ""),
        ("a.json", '{"a": 1}', ""),
    ],
    ids=range(14),
)
def test_the_abstract_is_the_first_prose(name: str, content: str, abstract: str) -> None:
    """Badges, markup, directives, licences and labels are passed over."""
    assert derive_abstract(content, name) == abstract


def test_an_abstract_ends_with_a_sentence() -> None:
    """Long ones are cut there, else at a word, else anywhere, always within the bound."""
    assert shorten(SENTENCE * 20) == (SENTENCE * (MAX_ABSTRACT // len(SENTENCE))).strip()
    assert shorten("很长的句子。" * 100) == "很长的句子。" * (MAX_ABSTRACT // 6)
    assert shorten("word " * 100).endswith("word…")
    for text in (SENTENCE * 20, "word " * 100, "x" * 500, "中" * 399 + "。" * 9, "a" * 400 + ". b"):
        assert 0 < len(shorten(text)) <= MAX_ABSTRACT


def test_the_title_is_stated_or_the_first_top_heading() -> None:
    """Front matter goes before H1; other files have no title."""
    assert derive_title("---\ntitle: 2024\n---\n# H", "a.md") == "2024"
    assert derive_title("Text\n\n## Two\n\nA *b* & c {#x}\n===\n\n# Later", "a.md") == "A b & c"
    assert derive_title("# H", "a.txt") == ""
    assert len(derive_title(f"---\ntitle: {'中' * 900}\n---\n", "a.md").encode()) <= 1024


def test_front_matter_becomes_json_values() -> None:
    """Dates are ISO 8601, keys are strings."""
    content = "---\ndate: 2024-05-01\nat: 2024-05-01 10:00:00Z\n1: [a, {b: null}]\n---\nText"
    values, end = front_matter(content)
    assert values == {
        "date": "2024-05-01",
        "at": "2024-05-01T10:00:00+00:00",
        "1": ["a", {"b": None}],
    }
    assert content[end:] == "\nText"


@pytest.mark.parametrize("block", ["just words", "- a\n- b"])
def test_a_block_that_is_no_mapping_is_text(block: str) -> None:
    """Prose or a list between two rules is meant as such."""
    content = f"---\n{block}\n---\nText"
    assert front_matter(content) == ({}, 0)
    assert fault(content) == ""


@pytest.mark.parametrize(
    "block",
    [
        "a: [",
        "a: &x 1\nb: *x",
        "d: 2024-02-31",
        "[" * 2_000,
        "a: " + "9" * 9_000,
        "a: 0x" + "f" * 4_000,
        "a: 1" + "0" * 400,
        'a: "\\ud800"',
        '"\\ud800": a',
        'a: "\\UFFFFFFFF"',
        'a: ["x\\0y"]',
        "a: !!timestamp foo",
        'a: !!int ""',
        "a: !!bool foo",
        "a: .inf",
        "a: {b: [1, .nan]}",
        "a: -1.0e+999",
        "a: " + "[" * 33 + "]" * 33,
        "a: {"
        + ",".join(f"{chr(0x1F300 + i // 60)}{chr(0x1F300 + i % 60)}" for i in range(4000))
        + "}",
    ],
    ids=range(19),
)
def test_a_block_that_cannot_be_taken_is_text(block: str) -> None:
    """Broken YAML and values that can't be stored lose nothing, raise nothing and are told."""
    content = f"---\n{block}\n---\nText"
    assert front_matter(content) == ({}, 0)
    assert 0 < len(fault(content)) <= 200


def test_front_matter_that_is_taken_has_no_fault() -> None:
    """Nor has what begins without any."""
    assert [fault(f"{begin}Text") for begin in ("", "---\n---\n", "---\na: 1.5\n---\n")] == [""] * 3


# Texts of a context


def test_a_directory_has_one_text_or_none() -> None:
    """Its title and abstract, if it has either."""
    directory = Draft("viking://resources/a", is_directory=True)
    assert prepare(directory).texts == ()
    (text,) = prepare(replace(directory, title="T", abstract="About.", vector=b"1234")).texts
    assert (text.ordinal, text.text, text.script, text.vector) == (0, "T\nAbout.", LATIN, b"1234")


def test_a_short_file_is_its_passage_alone() -> None:
    """An abstract that only repeats the passage is no text of its own; the vector goes along."""
    prepared = prepare(
        Draft(FILE, content="# T\n\n我们在周二发布新版本。", title="T", vector=b"1234")
    )
    (text,) = prepared.texts
    assert prepared.abstract == "我们在周二发布新版本。"
    assert (text.ordinal, text.text, text.script, text.vector) == (
        1,
        "T\n我们在周二发布新版本。",
        HAN,
        b"1234",
    )
    assert prepared.draft.content[text.start : text.end] == "我们在周二发布新版本。"


def test_an_abstract_of_its_own_is_a_text() -> None:
    """Whether the writer gave it or the front matter states it."""
    given_one = prepare(Draft(FILE, content="The only passage.", abstract="Given.", vector=b"1234"))
    stated = prepare(Draft(FILE, content="---\nsummary: Stated.\n---\nThe only passage."))
    assert [(t.ordinal, t.text, t.vector) for t in given_one.texts] == [
        (0, "Given.", b"1234"),
        (1, "The only passage.", b""),
    ]
    assert [(t.ordinal, t.text) for t in stated.texts] == [(0, "Stated."), (1, "The only passage.")]


def test_several_passages_follow_the_abstract() -> None:
    """Given passages are taken as they are, with their vectors and headings."""
    draft = Draft(
        FILE,
        content="First here. Second.",
        title="T",
        passages=[Passage("S", 0, 11, b"1234"), Passage("T > U", 12, 19)],
    )
    assert [(t.ordinal, t.text, t.vector) for t in prepare(draft).texts] == [
        (0, "T\nFirst here. Second.", b""),
        (1, "T > S\nFirst here.", b"1234"),
        (2, "T > U\nSecond.", b""),
    ]


def test_a_title_is_not_repeated_out_of_all_proportion() -> None:
    """A few kilobytes of short passages do not become megabytes of their title."""
    uri, title = "viking://user/memories/notes.md", "word " * 200
    for count in (1, 60, 4000):
        content = "".join(f"- entry {i}\n" for i in range(count))
        _, *texts = prepare(Draft(uri, content=content, title=title, abstract="x")).texts
        assert len(texts) == count
        assert all(text.text.startswith("word word ") for text in texts)
        whole = [text.text.startswith(title) for text in texts]
        assert all(whole) if count < 100 else not any(whole)
    assert sum(len(text.text) for text in texts) < 20 * len(content)


def test_an_empty_file_has_an_empty_text() -> None:
    """So that it is found by its name; a title alone is a text too."""
    assert [(t.ordinal, t.text) for t in prepare(Draft(FILE)).texts] == [(0, "")]
    assert [(t.ordinal, t.text) for t in prepare(Draft(FILE, title="T")).texts] == [(0, "T")]


# Limits


def test_a_valid_draft_comes_back_with_its_uri_in_one_form() -> None:
    """Limits are inclusive."""
    draft = Draft(
        "viking://resources/a/",
        abstract="中" * 2730,
        overview="o" * 65_536,
        content="c" * (2 << 20),
        title="t" * 1024,
        vector=bytes(8),
        time=0,
        metadata={"a": [1, 2.5, None, True, {"b": "c"}]},
        passages=[Passage("s" * 1024, i, i + 2) for i in range(4096)],
    )
    assert check(draft) == replace(draft, uri="viking://resources/a")
    assert check(Draft("viking://agent", is_directory=True, abstract="x"))
    overlapping = [Passage("s" * 1024, i, 8192 - 16 + i) for i in range(16)]
    assert check(Draft(FILE, content="c" * 8192, title="t" * 1024, passages=overlapping))
    short = [Passage("s" * 1024, i, i + 1) for i in range(4096)]
    assert check(Draft(FILE, content="c" * 4096, title="t" * 1024, passages=short))


def _nested(depth: int) -> dict[str, Any]:
    return {"a": _nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"uri": "viking://resources/../a"}, "uri"),
        ({"uri": "viking://elsewhere/a"}, "uri"),
        ({"uri": "viking://user/a"}, "uri"),
        ({"uri": "viking://resources"}, "uri"),
        ({"uri": "viking://projects/x/memories"}, "uri"),
        ({"abstract": "中" * 2731}, "abstract"),
        ({"overview": "x" * 65_537}, "overview"),
        ({"content": "x" * ((2 << 20) + 1)}, "content"),
        ({"content": "a\0b"}, "content"),
        ({"content": "a\ud800"}, "content"),
        ({"title": "x" * 1025}, "title"),
        ({"title": "\udfff"}, "title"),
        ({"metadata": {"a": {"b": [float("nan")]}}}, "metadata.a.b[0]"),
        ({"metadata": {"a": 10**400}}, "metadata.a"),
        ({"metadata": {"a": b"x"}}, "metadata.a"),
        ({"metadata": {1: "x"}}, "metadata"),
        ({"metadata": {"a\0": "x"}}, "metadata"),
        ({"metadata": {"a": "x" * 65_536}}, "metadata"),
        ({"metadata": _nested(200)}, "metadata" + ".a" * 33),
        ({"vector": b"12345"}, "vector"),
        ({"passages": [Passage("", 0, 1)] * 4097}, "passages"),
        ({"passages": [Passage("", 0, 1), Passage("", 0, 2)]}, "passages[1].start"),
        ({"passages": [Passage("", -1, 1)]}, "passages[0].start"),
        ({"passages": [Passage("", 2, 2)]}, "passages[0].end"),
        ({"passages": [Passage("", 0, 8)]}, "passages[0].end"),
        ({"passages": [Passage("x" * 1025, 0, 1)]}, "passages[0].section"),
        ({"passages": [Passage("", 0, 1, b"1")]}, "passages[0].vector"),
        (
            {"content": "c" * 8192, "passages": [Passage("", i, 8192) for i in range(17)]},
            "passages",
        ),
        ({"is_directory": True}, "content"),
        ({"is_directory": True, "content": "", "passages": [Passage("", 0, 1)]}, "passages"),
        ({"time": 1 << 62}, "time"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_limit_is_refused_by_its_field(change: dict[str, Any], field: str) -> None:
    """The path of the field stands below the draft's own."""
    with pytest.raises(InvalidField) as refused:
        check(replace(Draft(FILE, content="content"), **change), "contexts[3]")
    assert refused.value.field == f"contexts[3].{field}"


# Files


def make_tree(root: Path) -> None:
    """A small tree with all that a real one can hold."""
    files: dict[str, bytes] = {
        "README.md": b"# Handbook\n\nHow we work here, in a few short pages.\n",
        "b.md": b"---\ndate: 2024-05-01\ntags: [x]\n---\n# B\n\nText of b.\n",
        "a.txt": "\ufeffNotes".encode(),
        "bad.txt": "caf\u00e9".encode("latin-1"),
        "big.txt": b"x" * ((2 << 20) + 1),
        "binary.png": b"\x89PNG\0\0",
        "wide.txt": "宽字符".encode("utf-16"),
        "Makefile": b"all:\n\ttrue\n",
        ".hidden.md": b"# hidden",
        "sub/one.md": b"# One",
        "sub/two.md": b"# Two",
        "sub/deep/three.py": b'"""Third."""\n',
        ".git/config": b"x",
        "node_modules/x/index.js": b"x",
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "empty").mkdir()
    (root / "out.md").symlink_to("/etc/hostname")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe.txt")
    (root / "line\nbreak.md").write_bytes(b"x")
    os.rename(root / "sub/two.md", os.fsencode(root) + b"/sub/caf\xe9.md")


def read(path: Path, uri: str) -> tuple[dict[str, Draft], dict[str, str]]:
    """Drafts by URI, and reasons by the name of what is unreadable."""
    items = list(read_tree(path, uri))
    drafts = {item.uri: item for item in items if isinstance(item, Draft)}
    faults = {os.path.basename(i.path): i.reason for i in items if isinstance(i, Unreadable)}
    assert len(drafts) + len(faults) == len(items)
    return drafts, faults


def test_a_tree_is_read_in_order_without_what_is_hidden(tmp_path: Path) -> None:
    """A directory, its files, its subdirectories; links, hidden files and empty ones stay out."""
    make_tree(tmp_path)
    drafts, _ = read(tmp_path, "viking://resources/h")
    names = [
        "",
        "/Makefile",
        "/README.md",
        "/a.txt",
        "/b.md",
        "/wide.txt",
        "/sub",
        "/sub/one.md",
        "/sub/deep",
        "/sub/deep/three.py",
    ]
    assert list(drafts) == [f"viking://resources/h{name}" for name in names]


def test_the_records_of_a_former_export_are_reported_as_ignored(tmp_path: Path) -> None:
    """A pipe of that name is not opened, which would wait for a writer."""
    os.mkfifo(tmp_path / ".vikingd.jsonl")
    (tmp_path / "a.txt").write_text("a")
    drafts, faults = read(tmp_path, "viking://resources/h")
    assert list(drafts) == ["viking://resources/h", "viking://resources/h/a.txt"]
    assert faults[".vikingd.jsonl"].startswith("is ignored: ")


def test_what_cannot_be_read_is_reported_and_stops_nothing(tmp_path: Path) -> None:
    """Each by a printable name, with the reason."""
    make_tree(tmp_path)
    _, faults = read(tmp_path, "viking://resources/h")
    assert set(faults) == {
        "bad.txt",
        "big.txt",
        "binary.png",
        "pipe.txt",
        "line\\nbreak.md",
        "caf\\udce9.md",
        "out.md",
        "loop",
    }
    assert faults["out.md"] == faults["loop"] == "is a symbolic link"
    assert "UTF-8" in faults["bad.txt"]
    assert "2,097,152" in faults["big.txt"]
    assert "binary" in faults["binary.png"]
    assert "regular" in faults["pipe.txt"]
    assert "control character" in faults["line\\nbreak.md"]
    assert "Unicode" in faults["caf\\udce9.md"]


def test_a_name_that_is_no_text_spoils_nothing_beside_it(tmp_path: Path) -> None:
    """Nor a file in what describes the directory, nor a link out of the tree."""
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("# Secret\n\nNobody may know of this here.")
    (tmp_path / "tree/sub/README.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "tree/sub/one.md").write_text("# One")
    odd = os.fsencode(tmp_path / "tree") + b"/caf\xe9"
    os.mkdir(odd)
    (tmp_path / "tree/two.md").write_text("# Two")
    for name in (b"/x.md", b"/bin\xfe"):
        with open(odd + name, "wb") as file:
            file.write(b"\0")
    with open(os.fsencode(tmp_path / "tree") + b"/bin\xfe", "wb") as file:
        file.write(b"\0")
    items = list(read_tree(tmp_path / "tree", "viking://resources/h"))
    abstracts = {item.uri: item.abstract for item in items if isinstance(item, Draft)}
    assert abstracts["viking://resources/h"] == "sub, Two"
    assert abstracts["viking://resources/h/sub"] == "One"
    unreadable = [item for item in items if isinstance(item, Unreadable)]
    assert [item.uri for item in unreadable] == ["", "", "viking://resources/h/sub/README.md"]
    assert all(item.path.isprintable() for item in unreadable)


def test_files_become_drafts_with_all_that_they_say(tmp_path: Path) -> None:
    """Title, time, metadata, passages; content without a byte order mark, from UTF-16 too."""
    make_tree(tmp_path)
    drafts, _ = read(tmp_path, "viking://resources/h")
    b = drafts["viking://resources/h/b.md"]
    assert (b.title, b.time) == ("B", 1_714_521_600_000_000)
    assert b.metadata == {"date": "2024-05-01", "tags": ["x"]}
    assert b.passages is not None
    assert [b.content[p.start : p.end] for p in b.passages] == ["Text of b."]
    assert drafts["viking://resources/h/a.txt"].content == "Notes"
    assert drafts["viking://resources/h/wide.txt"].content == "宽字符"
    assert drafts["viking://resources/h/sub/deep/three.py"].title == ""


def test_a_directory_is_described_by_its_readme_or_by_what_it_holds(tmp_path: Path) -> None:
    """Subdirectories and files by their titles, else by their names, within the bound."""
    make_tree(tmp_path)
    for i in range(200):
        (tmp_path / f"sub/deep/{i:03}-with-a-long-name.txt").write_text("x")
    drafts, _ = read(tmp_path, "viking://resources/h")
    top = drafts["viking://resources/h"]
    assert (top.title, top.abstract) == ("Handbook", "How we work here, in a few short pages.")
    assert drafts["viking://resources/h/sub"].abstract == "deep, One"
    deep = drafts["viking://resources/h/sub/deep"].abstract
    assert deep.startswith("000-with-a-long-name.txt, 001-")
    assert deep.endswith(", …")
    assert len(deep) <= MAX_ABSTRACT + 3
    assert sum(uri.startswith("viking://resources/h/sub/deep/") for uri in drafts) == 201


def test_directories_that_imports_share_are_left_as_they_are(tmp_path: Path) -> None:
    """Unless a README describes them; files above the typed roots are reported."""
    for name in ("resources/x/a.md", "user/memories/m.md", "agent/skills/README.md", "stray.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("All the skills that there are, in one place.")
    drafts, faults = read(tmp_path, "viking://")
    assert [uri for uri, draft in drafts.items() if draft.is_directory] == [
        "viking://agent/skills",
        "viking://resources/x",
    ]
    assert list(faults) == ["stray.md"]


def test_one_file_takes_the_uri_or_goes_into_the_directory(tmp_path: Path) -> None:
    """As the URI says; a file that is not there is reported."""
    path = tmp_path / "a.md"
    path.write_text("Text")
    assert list(read(path, "viking://resources/b.md")[0]) == ["viking://resources/b.md"]
    assert list(read(path, "viking://resources/b/")[0]) == ["viking://resources/b/a.md"]
    assert list(read(path, "viking://resources")[0]) == ["viking://resources/a.md"]
    assert read(tmp_path / "none.md", "viking://resources/b.md")[1]["none.md"].startswith("No such")


def test_an_unchanged_file_is_an_equal_draft(tmp_path: Path) -> None:
    """A new modification time changes nothing."""
    make_tree(tmp_path)
    before, _ = read(tmp_path, "viking://resources/h")
    os.utime(tmp_path / "b.md", (1, 1))
    after, _ = read(tmp_path, "viking://resources/h")
    assert before == after


# JSON lines


def test_json_lines_become_drafts_and_faults_are_numbered(tmp_path: Path) -> None:
    """A faulty line is left out, with the line's number; the rest goes on."""
    lines = [
        '{"uri": "viking://resources/s", "abstract": "All of it"}',
        '{"uri": "viking://resources/s/1", "text": "One.", "title": "T", '
        '"time": "2023-05-08T13:56:00Z", "lang": "en"}',
        "{broken",
        "",
        '["no object"]',
        '{"uri": "viking://resources/s/2"}',
        '{"uri": "viking://resources/s/3", "text": 3}',
        '{"uri": "viking://resources/s/4", "text": "x", "time": "soon"}',
        '{"uri": "viking://resources/s/../5", "text": "x"}',
        '{"uri": "viking://resources/s/1/", "text": "again"}',
        '{"uri": "viking://resources/s/1/below", "text": "below a file"}',
        '{"uri": "viking://resources/s", "text": "a directory"}',
        '{"uri": "viking://resources/s/6", "text": "x", "score": NaN}',
        '{"uri": "viking://resources/s/7", "text": "\\ud800"}',
        "[" * 100_000,
        '{"uri": "viking://resources/s/八/九", "text": "九"}',
        '{"uri": "viking://resources/s/八", "text": "stands above a file"}',
    ]
    path = tmp_path / "s.jsonl"
    path.write_bytes("\r\n".join(lines).encode() + b'\n{"uri": "\xff"}\n')
    items = list(read_jsonl(path))
    drafts = [item for item in items if isinstance(item, Draft)]
    assert [draft.uri for draft in drafts] == [
        f"viking://resources/s{name}" for name in ("", "/1", "/八/九")
    ]
    assert drafts[0].is_directory
    assert drafts[1] == Draft(
        "viking://resources/s/1",
        content="One.",
        title="T",
        time=1_683_554_160_000_000,
        metadata={"lang": "en"},
        passages=(Passage("", 0, 4),),
    )
    numbers = [int(i.path.rpartition(":")[2]) for i in items if isinstance(i, Unreadable)]
    assert numbers == [3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18]


def test_a_directory_of_json_lines_gives_its_directories_first(tmp_path: Path) -> None:
    """directories.jsonl may be missing; a plain directory is no such thing."""
    assert not is_jsonl(tmp_path)
    (tmp_path / "documents.jsonl").write_text('{"uri": "viking://resources/s/1", "text": "x"}')
    assert is_jsonl(tmp_path)
    assert len(list(read_jsonl(tmp_path))) == 1
    record = {"uri": "viking://resources/s", "abstract": ""}
    (tmp_path / "directories.jsonl").write_text(json.dumps(record))
    assert [d.is_directory for d in read_jsonl(tmp_path) if isinstance(d, Draft)] == [True, False]


# The package


def test_the_demo_tree_is_small_bilingual_and_whole() -> None:
    """Every file is imported as what its place says, in both languages, in few texts."""
    root = Path(vikingd.__file__).parent / "demo_tree"
    drafts, faults = read(root, uris.ROOT)
    prepared = [prepare(draft) for draft in drafts.values()]
    files = [p for p in prepared if not p.draft.is_directory]
    assert not faults
    assert 25 <= len(files) <= 40
    assert sum(len(p.texts) for p in prepared) <= 70
    assert all(p.abstract for p in prepared)
    scripts = [p.texts[-1].script for p in files]
    assert min(scripts.count(LATIN), scripts.count(HAN)) >= 10
    types = {uris.context_type(p.draft.uri) for p in files}
    assert types == {ContextType.MEMORY, ContextType.RESOURCE, ContextType.SKILL}


def test_the_client_can_read_files_without_the_server_s_packages() -> None:
    """Ingest imports neither arrays nor the wire nor the database."""
    program = (
        "import sys, vikingd.ingest.files, vikingd.ingest.jsonl, vikingd.ingest.prepare\n"
        "print({'numpy', 'numba', 'faiss', 'grpc', 'google', 'sqlite3'} & set(sys.modules))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "set()"


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


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(MARKS), max_size=14).map("".join))
def test_plain_lines_are_the_paragraphs_that_the_parser_finds(text: str) -> None:
    """Lines that begin with letters are not parsed; what comes out is the same."""
    for beginning in ("", "W"):
        quick = list(markdown.paragraphs(beginning + text))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(markdown, "_PLAIN_LINES", re.compile(r"(?!)"))
            patch.setattr(markdown, "_INLINE_SIGNS", re.compile(""))
            assert quick == list(markdown.paragraphs(beginning + text))
