"""Passages of tricky sources: nothing is lost, and headings name what is there."""

from __future__ import annotations

import re

import pytest

from tests.ingest.code_cases import SUFFIXES, Case, cases
from vikingd.domain.contexts import Passage
from vikingd.domain.text import SECTION_SEPARATOR
from vikingd.ingest.code.code_parts import Part, joined, parts
from vikingd.ingest.code.grammars import grammar_of
from vikingd.ingest.code.headings import defined_names
from vikingd.ingest.file_syntax import ending
from vikingd.ingest.passages import MEANING, split

CASES = [pytest.param(case, id=f"{case.file}: {case.title}") for case in cases()]


def assert_whole(content: str, passages: list[Passage] | list[Part]) -> None:
    """Check that passages are in order, do not overlap, and have all text of a content."""
    end = 1 if content.startswith("\ufeff") else 0
    for one in passages:
        assert end <= one.start < one.end <= len(content)
        assert not MEANING.search(content[end : one.start])
        end = one.end
    assert not MEANING.search(content[end:])


def cut(content: str, name: str, lines: int) -> list[Part]:
    """Return the parts of a source with at most some lines."""
    grammar = grammar_of(ending(name))
    assert grammar is not None

    def count(start: int, end: int) -> int:
        return sum(bool(line.strip()) for line in content[start:end].split("\n"))

    found = parts(content.encode(), grammar, lambda start, end: count(start, end) <= lines)
    assert found is not None
    return joined(found, count, lines, 1)


@pytest.mark.parametrize("case", CASES)
def test_parts_of_any_size_name_what_they_define(case: Case) -> None:
    """Each definition is named by a part that has its name, and comments are with it."""
    headings = [line.split(" ", 1)[1].rpartition(" ")[0] for line in case.wanted]
    names = {heading.rpartition(SECTION_SEPARATOR)[2] for heading in headings}
    for lines in (1, 2, 3, 5, 8, 13, 40):
        found = cut(case.source, case.file, lines)
        assert_whole(case.source, found)
        given = {name for part in found for name in part.names}
        assert names <= given <= names | case.inner, lines
        for part in found:
            text = case.source[part.start : part.end]
            for name in part.names:
                assert name in text or name == "init", (lines, part)
            for name in re.findall(r"doc_of_(\w+)", text):
                assert name in (*part.names, *part.path, *case.inner), (lines, part)
            for name in part.path:
                assert name in case.source


def seen_names(content: str, name: str) -> set[str]:
    """Return all names that passages of a source define."""
    return {
        one for p in split(content, name) for one in defined_names(p.section, f"viking://r/{name}")
    }


# Forms of text


@pytest.mark.parametrize("case", CASES)
def test_line_ends_and_marks_lose_nothing(case: Case) -> None:
    """Passages are whole with any line ends, tabs, form feeds, and signs of any plane."""
    wide = case.source * (1 + 1_500 // len(case.source))
    for content in (
        wide,
        wide.replace("\n", "\r\n"),
        wide.replace("\n", "\r"),
        "\ufeff" + wide,
        wide.replace("    ", "\t"),
        wide.replace("\n\n", "\n\x0c\n"),
        wide.replace("a", "é"),
        wide.replace("return", "🎉 返回"),
        wide.replace('"', "\ud800"),
        wide.replace("}", "\x01\x7f"),
        wide.replace("\n", "\n<<<<<<< ours\n", 7),
        wide[len(wide) // 3 :],
        wide[: -len(wide) // 3],
    ):
        assert_whole(content, split(content, case.file))


LONG_PYTHON = '''"""A module."""

import one

{decorators}
class Client(Base):
    """A client."""

    limit = 1

    # doc_of_get
    def get(self, url):
{statements}
        return url

    def head(self, url):
        return self.get(url)


TABLE = [
{rows}
]
'''
LONG = LONG_PYTHON.format(
    decorators="\n".join(f"@register({i}, 'some text that is long')" for i in range(60)),
    statements="\n".join(f"        value_{i} = self.call(url, {i})" for i in range(120)),
    rows="\n".join(f"    ({i}, 'a row of a table', True)," for i in range(90)),
)


def test_long_definitions_are_named_where_their_names_are() -> None:
    """What continues a definition says so, and so do decorators before a name."""
    passages = split(LONG, "a.py")
    assert_whole(LONG, passages)
    sections = [p.section for p in passages]
    assert list(dict.fromkeys(sections)) == [
        "",
        "Client …",
        "Client",
        "Client > get",
        "Client > get …",
        "Client > head",
        "TABLE",
        "TABLE …",
    ]
    by_section = {p.section: LONG[p.start : p.end] for p in passages}
    assert "class Client(Base)" in by_section["Client"]
    assert "# doc_of_get\n    def get" in by_section["Client > get"]
    assert by_section["TABLE"].startswith("TABLE = [")


def test_many_small_definitions_join_and_all_are_named() -> None:
    """Small functions share a passage, whose heading has the names of all."""
    content = "\n\n".join(f"def f{i}():\n    return {i}" for i in range(400))
    assert seen_names(content, "a.py") == {f"f{i}" for i in range(400)}


@pytest.mark.parametrize(("statements", "together"), [(1, 14), (9, 3), (10, 1)])
def test_the_size_of_a_definition_decides_what_joins(statements: int, together: int) -> None:
    """Definitions below 80 tokens share passages of at most 240; larger ones have their own."""
    body = "\n".join(f"    value_{i} = call(self, {i})" for i in range(statements))
    content = "\n\n".join(f"def name_{i}(self, url):\n{body}\n    return url" for i in range(24))
    counts = [len(defined_names(p.section, "a.py")) for p in split(content, "a.py")]
    assert sum(counts) == 24
    assert max(counts) == together


def test_a_class_of_three_thousand_lines() -> None:
    """All methods of a large class have the class in their headings."""
    content = "class A:\n" + "\n".join(
        f"    def m{i}(self):\n        return {i}\n" for i in range(1_000)
    )
    assert seen_names(content, "a.py") >= {"A"} | {f"m{i}" for i in range(1_000)}
    passages = split(content, "a.py")
    assert all("A" in re.findall(r"\w+", p.section) for p in passages)


@pytest.mark.parametrize("source", ["#define A{0} {0}", "int a{0}() {{ return {0}; }}  // b"])
def test_each_line_defines_one(source: str) -> None:
    """The line behind a definition belongs to the next one, though it begins with a sign."""
    content = "\n".join(source.format(i) for i in range(300))
    passages = split(content, "a.c")
    for p in passages:
        text = content[p.start : p.end]
        assert set(re.findall(r"(?i)\ba\d+", text)) == set(defined_names(p.section, "x/a.c"))
        assert text.count("//") in (0, text.count("\n") + 1)


# Files of other kinds


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "content",
    [
        '{"name": "a", "list": [1, 2, {"b": null}]}\n' * 60,
        "# A title\n\nSome text, with words.\n\n- An item: one\n- Another\n" * 60,
        "<html>\n<body class='a'>\n<p>Text &amp; more</p>\n</body>\n" * 60,
        "key: value\nlist:\n  - one\n  - two: 3\n" * 60,
        "".join(chr(33 + i * 7 % 900) for i in range(6_000)),
        "(" * 300 + "a" + ")" * 300,
    ],
    ids=["JSON", "Markdown", "HTML", "YAML", "signs", "brackets"],
)
def test_a_wrong_suffix_loses_nothing(content: str, suffix: str) -> None:
    """A file of another language is whole, and its headings name what it has."""
    passages = split(content, f"a.{suffix}")
    assert_whole(content, passages)
    for name in seen_names(content, f"a.{suffix}"):
        assert all(part in content for part in name.split("."))
