"""Patterns are refused before they are compiled to more instructions than allowed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from vikingd.browse.compiled_patterns import MAX_PROGRAM, glob_pattern, line_pattern
from vikingd.domain.errors import InvalidField
from vikingd.domain.pattern_queries import MAX_GLOB_BYTES, MAX_PATTERN_BYTES

MOST = 5.0
"""Seconds of processor time of a call; RE2 takes .1 s, and 50 s without a bound."""

FAMILIES: dict[str, Callable[[int], str]] = {
    "counts": lambda n: "a{1,1000}" * (n // 9),
    "optional counts": lambda n: "[ab]{0,1000}" * (n // 12),
    "optional": lambda n: "a?" * (n // 2),
    "optional in counts": lambda n: "(?:a?){1000}" * (n // 12),
    "nested counts": lambda n: "(?:" * (n // 10) + "a" + "){1,9}" * (n // 10),
    "nested stars": lambda n: "(?:a?" * (n // 7) + ")*" * (n // 7),
    "any in counts": lambda n: ".{0,1000}" * (n // 9),
    "classes": lambda n: r"\pL\PN" * (n // 6),
    "stars of classes": lambda n: r"\pL*" * (n // 4),
    "classes in counts": lambda n: r"\pL{1,100}" * (n // 10),
    "folded": lambda n: "(?i)" + "kſ" * ((n - 4) // 3),
    "folded classes": lambda n: "(?i)" + "[a-zĀ-ԥ]" * ((n - 4) // 10),
    "alternation": lambda n: "|".join(f"{number:03x}" for number in range(n // 4)),
    "common prefixes": lambda n: "|".join("a" * size for size in range(1, int((2 * n) ** 0.5))),
    "nested alternation": lambda n: "(?:a|" * (n // 7) + "b" + ")?" * (n // 7),
    "groups with names": lambda n: "".join(f"(?P<n{i:03}>a)" for i in range(n // 11)),
    "literal": lambda n: "a" * n,
    "wide literal": lambda n: "字" * (n // 3),
    "large class": lambda n: "[" + "".join(chr(0x4E00 + 2 * i) for i in range((n - 7) // 3)) + "]",
    "large class in a count": lambda n: (
        "[" + "".join(chr(0x4E00 + 2 * i) for i in range((n - 9) // 3)) + "]{300}"
    ),
}


@pytest.mark.deep_after(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_growing_pattern(family: str) -> None:
    """A pattern of any size is compiled or refused, and neither takes long."""
    size = 64
    while size <= MAX_PATTERN_BYTES:
        pattern = FAMILIES[family](size)
        assert len(pattern.encode()) <= MAX_PATTERN_BYTES
        for case_insensitive in (False, True):
            started = time.process_time()
            with suppress(InvalidField):
                made = line_pattern(pattern, case_insensitive=case_insensitive, literal=False)
                made.search(b"abc" * 1000, 0, 3000)  # RE2 also compiles it backwards
                assert made.size <= MAX_PROGRAM
            assert time.process_time() - started < MOST, (family, size)
        size *= 2


@pytest.mark.parametrize("part", ["?", "*a", "[!a]", "[!一-龥]", "*[a-z]", "字", "**/", "a/"])
def test_a_growing_glob(part: str) -> None:
    """A glob of any size is compiled or refused, and neither takes long."""
    size = 64
    while size <= MAX_GLOB_BYTES:
        started = time.process_time()
        with suppress(InvalidField):
            made = glob_pattern(part * (size // len(part.encode())) + "a", "glob")
            made.pattern.matches(b"abc/" * 100)
        assert time.process_time() - started < MOST, (part, size)
        size *= 2


@pytest.mark.parametrize("literal", [False, True])
def test_a_pattern_at_the_limit(*, literal: bool) -> None:
    """What is allowed is not refused: the longest literal, and 9,900 instructions."""
    longest = "字" * (MAX_PATTERN_BYTES // 3)
    for text in ("a" * MAX_PATTERN_BYTES, longest):
        line_pattern(text, case_insensitive=True, literal=literal)
    made = line_pattern("a{1000}" * 9 + "a{890}", case_insensitive=False, literal=False)
    assert 9_850 < made.size <= MAX_PROGRAM
    line_pattern(".{0,1000}", case_insensitive=False, literal=False)
    with pytest.raises(InvalidField, match="more than 10,000 instructions"):
        line_pattern("a{1000}" * 10, case_insensitive=False, literal=False)
