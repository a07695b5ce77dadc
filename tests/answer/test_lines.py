"""The search for lines in one text, against Python's `re` line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.answer.grep_helpers import (
    PATTERNS,
    SHORT_PATTERNS,
    TEXTS,
    Found,
    found_in,
    lines_of,
    plain_lines,
)
from tests.tiers import examples
from vikingd.browse import work_limit as work
from vikingd.browse.compiled_patterns import MAX_PROGRAM, line_pattern
from vikingd.browse.matching_lines import LineSearch
from vikingd.browse.work_limit import Work
from vikingd.domain import cancellation
from vikingd.domain.errors import InvalidField
from vikingd.domain.pattern_queries import MAX_SHOWN


def search_of(pattern: str, slice_bytes: int = 0, **options: bool) -> LineSearch:
    """Return a search; `slice_bytes` is the size of its slices."""
    compiled = line_pattern(pattern, **{"case_insensitive": False, "literal": False, **options})
    made = LineSearch(compiled, Work())
    made._slice = slice_bytes or made._slice
    return made


def found(search: LineSearch, text: str, after: int = 0) -> Iterator[Found]:
    """Yield all matches of a text."""
    for line in search.lines(text.encode(), after):
        assert not isinstance(line, int)
        yield found_in(*line)


@examples(800)
@given(PATTERNS, TEXTS, st.sampled_from([0, 16, 64]), st.integers(0, 5))
def test_the_lines_are_those_of_re(pattern: str, text: str, slice_bytes: int, after: int) -> None:
    """Line, column and match are those of `re`, also from a later line on."""
    longest = max((len(line.encode()) for line in text.split("\n")), default=0)
    if slice_bytes <= longest:  # in windows long matches may be missed
        slice_bytes = 0
    expected = plain_lines(text, re.compile(pattern, re.ASCII))
    came = list(found(search_of(pattern, slice_bytes), text, after))
    assert came == [one for one in expected if one.line > after]


@examples(500)
@given(SHORT_PATTERNS, st.lists(TEXTS, min_size=1, max_size=4).map("".join), st.integers(64, 90))
def test_a_long_line_is_searched_in_windows(pattern: str, text: str, slice_bytes: int) -> None:
    """In a line longer than a slice, matches of up to a quarter of a slice are found as ever."""
    text = text.replace("\n", "x") + "\nab\n"
    expected = plain_lines(text, re.compile(pattern, re.ASCII))
    assert list(found(search_of(pattern, slice_bytes), text)) == list(expected)


@pytest.mark.parametrize("pattern", ["a+b+", "b{1,3}", "aabbb|b", "b+$|a", "字", "[^-]+", "bb?"])
def test_a_match_is_whole_wherever_a_window_ends(pattern: str) -> None:
    """The first match of a long line is found, with its full length, at each place."""
    for before in range(120):
        text = "é" * (before // 3) + "-" * before + "aabbb字" + "-" * 70
        expected = plain_lines(text, re.compile(pattern.replace("-", "-é"), re.ASCII))
        search = search_of(pattern.replace("-", "-é"), 64)
        assert list(found(search, text)) == list(expected), before


@pytest.mark.parametrize("pattern", [r"^b", r"b$", r"\bb", r"b\b", r"\Ab", r"b\z", r"\Bb"])
def test_the_edge_of_a_window_is_no_edge_of_a_line(pattern: str) -> None:
    """What stands beside a window is seen by anchors and word boundaries."""
    text = "a" * 50 + "b" * 50 + "a" * 50
    wanted = [51] if pattern == r"\Bb" else []
    for slice_bytes in range(20, 60):
        assert [one.column for one in found(search_of(pattern, slice_bytes), text)] == wanted


@examples(300)
@given(st.text(alphabet="aAbB.*[(\\Q字É\t", min_size=1, max_size=4), TEXTS)
def test_a_literal_is_no_regular_expression(pattern: str, text: str) -> None:
    """A literal finds itself, whatever it means as a regular expression."""
    expected = plain_lines(text, re.compile(re.escape(pattern), re.IGNORECASE))
    search = search_of(pattern, literal=True, case_insensitive=True)
    assert list(found(search, text)) == list(expected)


@examples(300)
@given(st.sampled_from(["Ab", "é+b", "[^A]b", "字|AB", r"b\Z"]), TEXTS)
def test_the_case_of_letters_is_ignored(pattern: str, text: str) -> None:
    """With case_insensitive, letters match both cases, those beyond ASCII too."""
    expected = plain_lines(text, re.compile(pattern.replace(r"\Z", "$"), re.IGNORECASE))
    search = search_of(pattern.replace(r"\Z", "$"), case_insensitive=True)
    assert list(found(search, text)) == list(expected)


@pytest.mark.parametrize("before", [0, 3, 99, 100, 101, 400, 900])
@pytest.mark.parametrize("after", [0, 3, 399, 400, 900])
def test_a_long_line_is_cut_around_the_match(before: int, after: int) -> None:
    """Of a long line 500 characters are shown; the match is at its place in them."""
    line = "字" * before + "match" + "é" * after
    [cut] = search_of("match").lines(f"first\n{line}\nlast".encode(), 0)
    assert not isinstance(cut, int)
    assert cut.text in line
    assert len(cut.text) == min(len(line), MAX_SHOWN)
    assert cut.text[cut.start : cut.end] == "match"
    assert line[cut.column - 1 : cut.column + 4] == "match"
    assert line[cut.column - 1 - cut.start :].startswith(cut.text)
    assert (cut.number, cut.length) == (2, len(line))
    [cut] = search_of(".*").lines(line.encode(), 0)
    assert (cut.start, cut.end, cut.text) == (0, len(cut.text), line[:MAX_SHOWN])


def test_what_is_not_utf8_is_replaced() -> None:
    """A damaged text is searched as far as it goes."""
    [line] = search_of("b+").lines(b"\xff\xffbb\xe5\xad", 0)
    assert (line.column, line.text, line.start, line.end) == (3, "\ufffd\ufffdbb\ufffd", 2, 4)


@pytest.mark.parametrize("each", [2, 3, 7, 11, 40])
def test_a_text_goes_on_where_the_work_ran_out(monkeypatch: pytest.MonkeyPatch, each: int) -> None:
    """The search stops at the end of a line, tells which one, and goes on after it."""
    text = "".join(f"line {number} {'hit' * (number % each == 0)}\n" for number in range(1, 200))
    expected = [one.line for one in plain_lines(text, re.compile("hit"))]
    monkeypatch.setattr(work, "MAX_WORK", 32 * 300)
    came, after, calls = [], 0, 0
    while after is not None:
        search, calls, reached = search_of("hit", 100), calls + 1, None
        for line in search.lines(text.encode(), after):
            if isinstance(line, int):
                reached = line
            else:
                came.append(line.number)
        assert reached is None or after + 10 < reached < after + 60
        after = reached
    assert (came, calls > 5) == (expected, True)


@pytest.mark.parametrize(
    ("pattern", "text", "lines"),
    [
        ("international", "An inter\xadnational\nday", [("An international", 1, 4)]),
        (
            "data.?base",
            "a\nthe data\u200bbase, \ufeffdata\u2060base",
            [("the database, database", 2, 5)],
        ),
        ("^tea", "\ufefftea\r\n\u202atea\u202c", [("tea", 1, 1), ("tea", 2, 1)]),
        ("数据库", "数\u200b据库", [("数据库", 1, 1)]),
        ("میخواهم", "می\u200cخواهم", []),
        ("می\u200cخواهم", "می\u200cخواهم", [("می\u200cخواهم", 1, 1)]),
        ("❤\ufe0f", "❤\ufe0f", [("❤\ufe0f", 1, 1)]),
        ("r\xadn", "inter\xadnational", [("international", 1, 5)]),
        ("inter\u200bnational", "international", [("international", 1, 1)]),
        ("\xad", "inter\xadnational", [("inter\xadnational", 1, 6)]),
        (r"\x{ad}", "inter\xadnational", [("inter\xadnational", 1, 6)]),
        (r"\p{Cf}", "inter\xadnational", [("inter\xadnational", 1, 6)]),
        (r"a\x07", "a\x07é", [("a\x07é", 1, 1)]),
    ],
)
def test_hidden_characters_divide_no_word(
    pattern: str, text: str, lines: list[tuple[str, int, int]]
) -> None:
    """Lines are searched and shown without hidden characters, unless the pattern has some."""
    found = search_of(pattern).lines(text.encode(), 0)
    shown = [(one.text, one.number, one.column) for one in found if not isinstance(one, int)]
    assert shown == lines


def test_a_line_is_never_left_in_its_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long line is searched to its end, however little work is allowed."""
    monkeypatch.setattr(work, "MAX_WORK", 1)
    text = "a" * 1000 + "\n" + "a" * 1000 + "b\n" + "b"
    assert list(search_of("b", 40).lines(text.encode(), 0)) == [1]
    [line, reached] = search_of("b", 40).lines(text.encode(), 1)
    assert (line[:2], reached) == ((2, 1001), 2)


@pytest.mark.parametrize("text", ["ab" * 500_000, "ab\n" * 300_000], ids=["a line", "lines"])
@pytest.mark.parametrize("pattern", ["c", "[ab]{900}c", r"(?:\pL.){7}c"])
def test_no_search_is_long_without_a_step(pattern: str, text: str) -> None:
    """RE2 is never called with more than its share of the work, and there is a step after it."""
    search, called, steps = search_of(pattern), [], 0
    compiled = search._pattern

    class Counted:
        size = compiled.size

        def search(self, _: bytes, start: int, end: int) -> None:
            called.append((end - start) * self.size)

    def look() -> None:
        nonlocal steps
        steps += 1

    search._pattern = Counted()  # type: ignore[assignment]
    with cancellation.Checking(look):
        assert all(isinstance(line, int) for line in search.lines(text.encode(), 0))
    assert max(called) <= 1 << 25
    assert steps == len(called)
    assert sum(called) < 2 * len(text) * compiled.size


@pytest.mark.parametrize("text", ["", "\n", "\n\n", "a", "a\n", "\r\n", "\n\r\n\n", "\r", "a\r"])
def test_the_last_line_end_begins_no_line(text: str) -> None:
    """An empty pattern part matches once in each line, and not after the last one."""
    numbers = [one.line for one in found(search_of("^"), text)]
    assert numbers == list(range(1, len(lines_of(text)) + 1))
    ends = [one.column for one in found(search_of("$"), text)]
    assert ends == [len(line) + 1 for line in lines_of(text)]


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(?=a)", "no lookaround, no backreferences"),
        ("(?<!a)b", "no lookaround, no backreferences"),
        (r"(a)\1", "no lookaround, no backreferences"),
        ("(?>a)", "no atomic groups"),
        ("(", "missing ): ("),
        ("[a", "missing ]"),
        ("*a", "no argument for repetition"),
        ("a**", "bad repetition"),
        ("a{1001}", "invalid repetition size"),
        ("(?:(?:a{100}){100}){10}", "invalid repetition size"),
        (r"(?:\pL.){70}", f"compiles to more than {MAX_PROGRAM:,} instructions"),
        (r"(?:\pL.){900}", f"compiles to more than {MAX_PROGRAM:,} instructions"),
        ("a\nb", "has a line break"),
        (r"a\nb", r"has \n"),
        (r"[\]]\n", r"has \n"),
        (r"[^]\n]\n", r"has \n"),
        (r"\Q\n\E\n", r"has \n"),
        (r"a\C", r"has \C"),
        (r"\8", "invalid escape"),
        ("\\", "trailing"),
    ],
)
def test_what_is_no_pattern_is_told(pattern: str, says: str) -> None:
    """The error names the field and what is wrong, in the words of the pattern."""
    with pytest.raises(InvalidField) as caught:
        search_of(pattern)
    assert caught.value.field == "pattern"
    assert says in caught.value.description
    assert "(?m)" not in caught.value.description


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"[^\n]", "-a"),
        (r"\\n", r"-\n"),
        (r"\Q\n\E", r"-\n"),
        (r"[\n]|a", "-a"),
        (r"\Q\C", r"-\C"),
        ("[[:alpha:]\\n]", "-a"),
    ],
)
def test_no_pattern_is_refused_for_a_line_break_that_it_does_not_need(
    pattern: str, text: str
) -> None:
    """A class may have a line break, and a text may have a backslash before an n; they match."""
    [one] = found(search_of(pattern), f"\n{text}\n")
    assert one.line == 2


def test_the_cache_of_the_library_keeps_no_pattern() -> None:
    """A compiled pattern has up to 8 MiB, so it is gone when its search is over."""
    import re2

    search_of("first")
    with pytest.raises(InvalidField):
        search_of("(")
    assert re2._Regexp._make.cache_info().currsize == 0
