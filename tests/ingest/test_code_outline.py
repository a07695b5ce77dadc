"""Definitions that are found in tricky sources, with their names, kinds and lines."""

from __future__ import annotations

import pytest

from tests.ingest.code_cases import SUFFIXES, Case, cases
from vikingd.ingest.code.outline import outline

CASES = [pytest.param(case, id=f"{case.file}: {case.title}") for case in cases()]


def lines_of(content: str, name: str) -> list[str]:
    """Return the outline of a source as it stands in a case."""
    found = outline(content, name)
    assert found is not None
    return [f"{one.kind} {one.heading} {one.first_line}-{one.last_line}" for one in found]


def test_there_are_sixty_cases_in_all_languages() -> None:
    """The table has a case for each suffix that stands for a language of its own."""
    assert len(cases()) >= 60
    assert set(SUFFIXES) >= {
        *("py", "js", "ts", "tsx", "go", "rs", "java", "kt", "c", "cpp", "cs", "rb", "php"),
        *("swift", "scala", "sh", "sql"),
    }


@pytest.mark.parametrize("case", CASES)
def test_definitions_have_names_kinds_and_lines(case: Case) -> None:
    """The outline has all definitions of a source, and no others."""
    assert lines_of(case.source, case.file) == list(case.wanted)


@pytest.mark.parametrize("case", CASES)
def test_line_ends_and_marks_change_no_definition(case: Case) -> None:
    """A file has the same outline with CRLF, and behind a byte order mark."""
    for source in (case.source.replace("\n", "\r\n"), "\ufeff" + case.source):
        assert lines_of(source, case.file) == list(case.wanted)


PYTHON_PARTS = """
def first():
    return 1


class A:
    def get(self):
        return 2


def last():
    return 3
"""


@pytest.mark.parametrize(
    ("at", "broken", "wanted"),
    [
        ("def first", "def )( first", "A get last"),
        ("return 1", "return ((1", "A get last"),
        ("def get(self):", "def get(self:", "first last"),
        ("return 2", "return 'x", "first A get last"),
        ("return 3", "return }", "first A get"),
        ("class A:", "<<<<<<< ours\nclass A:\n=======\nclass B:\n>>>>>>> theirs", "first last"),
        ("return 1", "return 1\n\x00\x01\x02", "A get last"),
    ],
    ids=range(7),
)
def test_a_fault_hides_only_what_is_around_it(at: str, broken: str, wanted: str) -> None:
    """Definitions before and behind a syntax error are found, and none that is not there."""
    assert at in PYTHON_PARTS
    found = outline(PYTHON_PARTS.replace(at, broken), "a.py") or []
    names = {one.name for one in found}
    assert set(wanted.split()) <= names <= {"first", "A", "B", "get", "last"}


def test_of_a_faulty_file_only_sound_blocks_are_read() -> None:
    """Blocks without a fault have definitions, and a block with a fault has none."""
    fault = "def b(x):\n    return 1\n" + ")))) (((( ::\n" * 9
    content = f"def a():\n    return 1\n\n{fault}\nclass C:\n    x = 1\n"
    assert lines_of(content, "a.py") == ["function a 1-2", "class C 16-17"]
