"""Passages of tricky sources: nothing is lost, and headings name what is there."""

from __future__ import annotations

import re
import time

import pytest

from tests.ingest.code_cases import Case, cases
from vikingd.domain.contexts import Passage
from vikingd.domain.text import SECTION_SEPARATOR
from vikingd.ingest.code.grammars import grammar_of
from vikingd.ingest.code.headings import defined_names
from vikingd.ingest.code.parts import Part, joined, parts
from vikingd.ingest.file_syntax import ending
from vikingd.ingest.passages import MEANING, split

CASES = [pytest.param(case, id=f"{case.file}: {case.title}") for case in cases()]
SUFFIXES = "py js ts tsx go rs java kt c h cs rb php swift scala sh sql".split()


def assert_whole(content: str, passages: list[Passage] | list[Part]) -> None:
    """Check that passages are in order, do not overlap, and have all text of a content."""
    end = 0
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
