"""Globs over paths, against Python's `fnmatch` name by name."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.answer.grep_helpers import GLOBS, NAMES, plain_glob
from tests.tiers import examples
from vikingd.browse.compiled_patterns import glob_pattern
from vikingd.domain.errors import InvalidField
from vikingd.domain.pattern_queries import MAX_GLOB_BYTES

TOP = "viking://resources/t"
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)


@examples(800)
@given(GLOBS, PATHS)
@example("a/**", "a")
@example("**", "a/b")
@example("a[+-9]b", "a/b")
@example("a[!x]b", "a/b")
@example("**/*.字", "a/.字")
def test_paths_match_as_name_by_name(pattern: str, path: str) -> None:
    """A path matches if its names match one by one, with any number of them for `**`."""
    glob = glob_pattern(pattern, "pattern")
    assert glob.matches(f"{TOP}/{path}", TOP) == plain_glob(path, pattern)


@examples(500)
@given(GLOBS, PATHS)
def test_all_matches_are_below_the_literal_beginning(pattern: str, path: str) -> None:
    """The walk is limited to a directory that has all matches."""
    glob = glob_pattern(pattern, "pattern")
    if plain_glob(path, pattern):
        assert f"{TOP}/{path}/".startswith(f"{glob.top(TOP)}/")


def test_the_literal_beginning_ends_before_a_wildcard() -> None:
    """Names without wildcards narrow the walk, except for the last name."""
    tops = {"a/b/*.md": "/a/b", "a/b": "/a", "a": "", "**/a": "", "a/[b]/c": "/a", "a?/b": ""}
    assert {pattern: glob_pattern(pattern, "p").top(TOP)[len(TOP) :] for pattern in tops} == tops
    assert glob_pattern("users/*", "p").top("viking://") == "viking://users"


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "an empty name"),
        ("/a", "an empty name"),
        ("a//b", "an empty name"),
        ("a//", "an empty name"),
        ("viking://resources/*", "is a URI"),
        ("a**", "stands alone"),
        ("a/**b/c", "stands alone"),
        ("***", "stands alone"),
        ("[b-a]", "reversed"),
        ("[!z-a]x", "reversed"),
    ],
)
def test_what_is_no_glob_is_told(pattern: str, says: str) -> None:
    """The error names the field and what is wrong."""
    with pytest.raises(InvalidField) as caught:
        glob_pattern(pattern, "glob")
    assert caught.value.field == "glob"
    assert says in caught.value.description


def test_a_slash_at_the_end_means_directories() -> None:
    """The slash is no part of the pattern."""
    assert glob_pattern("a/*/", "p").is_for_directories
    assert not glob_pattern("a/*", "p").is_for_directories
    assert glob_pattern("a/*/", "p").matches(f"{TOP}/a/b", TOP)


@pytest.mark.parametrize(
    "part", ["?", "*?", "[!a]", "[!\U0010ffff]", "[字-龥]", "*a", "**/", "[a-\U0010ffff]", "?/"]
)
def test_no_glob_within_the_limit_is_too_large(part: str) -> None:
    """Each glob of up to 1,024 bytes compiles."""
    glob = part * ((MAX_GLOB_BYTES - 1) // len(part.encode())) + "x"
    assert not glob_pattern(glob, "p").matches(f"{TOP}/a", TOP)
