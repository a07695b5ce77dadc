"""Hostile sources: they are read within the limits, and nothing of them is lost."""

from __future__ import annotations

import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.code_cases import SUFFIXES, cases
from tests.ingest.test_code_passages import assert_whole
from tests.tiers import examples
from vikingd.ingest.code import syntax_tree
from vikingd.ingest.code.grammars import grammar_of
from vikingd.ingest.code.outline import outline
from vikingd.ingest.code.syntax_tree import MAX_BYTES, syntax_trees
from vikingd.ingest.passages import split

_SIGNS = "abc (){}[]<>;:,.'\"`\\/*#@!&|=+-\n\t 01$%^~?_"
_WORDS = (
    "if else class def fn func function return { } ( ) [ ] ; : , a b 1 'x' end do begin # // /* */ "
    "=> -> = < > \n"
)


def _random(count: int, words: list[str], between: str) -> str:
    return between.join(random.Random(7).choices(words, k=count))


NESTED = {
    "brackets": "x = " + "(" * 5_000 + "1" + ")" * 5_000,
    "openers": "".join("([{"[i % 3] for i in range(5_000)),
    "braces": "{" * 5_000 + "}" * 5_000,
    "conditions": "if (a) {\n" * 5_000,
    "calls": "f(" * 5_000 + ")" * 5_000,
    "classes": "class A {\n" * 1_000 + "}\n" * 1_000,
    "modules": "module A\n" * 1_000 + "end\n" * 1_000,
    "indents": "".join(" " * i + "def f():\n" for i in range(500)),
    "types": "A<" * 5_000,
    "directives": "#ifdef a\nint x;\n" * 1_000 + "#endif\n" * 1_000,
    "selects": "select (select " * 2_000,
}
LARGE = {
    "one line": "a = 1; " * 300_000,
    "one line within the limit": "a = 1; " * 74_000,
    "one line of wide signs": "中 = f(中); " * 30_000,
    "lines": "a = 1\n" * 200_000,
    "lines within the limit": "a = 1\n" * 87_000,
    "random signs": _random(300_000, list(_SIGNS), ""),
    "random words": _random(100_000, _WORDS.split(" "), " "),
    "binary": random.Random(7).randbytes(300_000).replace(b"\0", b"\1").decode("latin-1"),
    "calls that do not end": "f(" * 60_000,
    "a chain": "a" + ".b(c)" * 50_000,
    "a sum": "a" + "+b" * 200_000,
    "branches": "if a {} " + "else if b {} " * 20_000,
    "strings that do not end": "'" * 300_001,
    "documents that do not end": '"""' * 100_001,
    "a comment that does not end": "/* " + "a\n" * 200_000,
    "comments": "a /*b*/ " * 50_000,
    "comment lines": "#a\n" * 170_000,
    "here-documents": "cat <<A <<B <<C\n" * 30_000,
    "quoted bodies": "$$ " * 100_000,
    "decorators": "@a(\n" * 20_000,
    "directives": "#if a\n" * 50_000,
    "attributes": "#[a]\n" * 50_000,
    "templates": "template<" * 50_000,
    "pointers": "int " + "*" * 200_000 + "a;",
    "functions that do not end": "int f() {\n" * 20_000,
    "insertions": "insert into a values " + ",".join(f"({i}, 'x')" for i in range(30_000)) + ";",
    "lone surrogates": "a = '\ud800'\n" * 30_000,
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in ("brackets", "braces") else pytest.mark.deep)
        for kind in NESTED
    ],
)
def test_nested_sources_are_cut_whole(kind: str, suffix: str) -> None:
    """Thousands of nested brackets and blocks lose nothing, and are no recursion too deep."""
    content = NESTED[kind]
    assert_whole(content, split(content, f"a.{suffix}"))
    outline(content, f"a.{suffix}")


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        ("cs", "<a "),
        pytest.param("py", "(A<B>)", marks=pytest.mark.deep),
        pytest.param("rs", "%w(", marks=pytest.mark.deep),
        pytest.param("swift", "a /* ", marks=pytest.mark.deep),
        pytest.param("java", "a => ", marks=pytest.mark.deep),
        pytest.param("c", "(a) => ", marks=pytest.mark.deep),
        pytest.param("go", "-> ", marks=pytest.mark.deep),
        pytest.param("js", "-> ", marks=pytest.mark.deep),
        pytest.param("cpp", ".b(", marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize(
    "before", ["", pytest.param("\n\n// 1\nx = 1;\n" * 9_000, marks=pytest.mark.deep)]
)
def test_what_a_parser_does_not_understand_is_cut_whole(
    suffix: str, text: str, before: str
) -> None:
    """At the end of such a text a parser works for minutes, and does not look at the time."""
    content = before + text * (20_000 // len(text))
    assert_whole(content, split(content, f"a.{suffix}"))


_SUFFIXES = ("py", "ts", "h", "rb", "sh", "sql", "cs", "php", "swift", "scala", "tsx")


# Each kind in every fifth language: all of them take ten minutes.
@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        (kind, suffix)
        for i, kind in enumerate(LARGE)
        for j, suffix in enumerate(_SUFFIXES)
        if (i + j) % 5 == 0
    ],
)
def test_large_sources_are_cut_in_seconds(kind: str, suffix: str) -> None:
    """Sources of any kind are cut whole, and soon: what is not parsed takes linear time."""
    content = LARGE[kind]
    begin = thread_time()
    assert_whole(content, split(content, f"a.{suffix}"))
    outline(content, f"a.{suffix}")
    assert thread_time() - begin < 12


def test_a_file_that_is_too_large_is_not_parsed() -> None:
    """The limit counts bytes."""
    grammar = grammar_of(".py")
    assert grammar is not None
    line = f"a = '{'é' * 50}'\n".encode()
    (within,) = syntax_trees(line * (MAX_BYTES // len(line)), grammar)
    (beyond,) = syntax_trees(line * (MAX_BYTES // len(line) + 1), grammar)
    assert within.root is not None
    assert beyond.root is None


def test_threads_find_the_same() -> None:
    """Passages and outlines of several threads are those of one."""
    sources = [(case.source, case.file) for case in cases()] * 3
    expected = [(split(*each), outline(*each)) for each in sources]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda each: (split(*each), outline(*each)), sources))
    assert found == expected


def test_parsing_leaves_no_memory() -> None:
    """A source that the parser reads again and again leaves nothing behind."""
    content = "中 = f(中); " * 300
    outline(content, "a.sh")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        outline(content, "a.sh")
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()


_SOURCES = [(case.source, case.file) for case in cases()] + [
    (path.read_text(encoding="utf-8"), path.name)
    for path in sorted(Path(syntax_tree.__file__).parent.glob("*.py"))
]
_EDITS = st.tuples(
    st.integers(0, 1 << 20),
    st.integers(0, 40),
    st.sampled_from(
        [*_WORDS.split(" "), "\r\n", "\x00", "\ud800", "中", "🎉", '"""', "/*", "<<A", ""]
    ),
    st.integers(0, 3),
)


@examples(400)
@given(st.sampled_from(_SOURCES), st.lists(_EDITS, max_size=8))
def test_random_edits_lose_nothing(
    source: tuple[str, str], edits: list[tuple[int, int, str, int]]
) -> None:
    """Any damage to a source leaves passages that are whole and in order."""
    content, name = source
    for place, length, text, times in edits:
        at = place % (len(content) + 1)
        content = content[:at] + text * times + content[at + length :]
    assert_whole(content, split(content, name))
    lines = content.count("\n") + 1
    for one in outline(content, name) or ():
        assert 1 <= one.first_line <= one.last_line <= lines
