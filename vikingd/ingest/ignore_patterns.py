"""Patterns in the syntax of gitignore(5), of ignore files and of the command line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

# Parts of the regular expressions of pathspec.
_PATH_GROUP = "(?P<ps_d>/)"  # the "/" after a matched directory
_LEVELS = "(?:/.+)?"  # "**" between two "/"
_STAR = "[^/]*"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern.

    Attributes:
        text: the pattern as it is written.
        source: its file and line, such as "docs/.gitignore:3", or the option of the command line.
        regex: matches the path of an entry; with `is_of_directory` the path ends in "/".
        is_negated: True for a pattern with "!", which takes entries in again.
        is_of_directory: True for a pattern that ends in "/", which matches directories alone.
        is_of_name: True for a pattern without another "/", which matches names at any depth.
    """

    text: str
    source: str
    regex: re.Pattern[str]
    is_negated: bool = False
    is_of_directory: bool = False
    is_of_name: bool = False

    def matches(self, path: str, *, is_directory: bool) -> bool:
        """Return True if the pattern matches the entry itself.

        Directories above it do not count.
        """
        if self.is_of_directory:
            return is_directory and self.regex.search(f"{path}/") is not None
        return self.regex.search(path) is not None


class Patterns:
    """An ordered list of patterns. The last one that matches decides."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._patterns = tuple(patterns)
        self._of_names = _joined(one for one in self._patterns if one.is_of_name)
        self._of_paths = _joined(one for one in self._patterns if not one.is_of_name)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._patterns)

    def last_match(self, path: str, *, is_directory: bool) -> Pattern | None:
        """Return the last pattern that matches an entry; None if none does.

        `path` is relative to the directory of the patterns, in NFC, with "/" between names. A
        pattern that only matches a directory above the entry does not count.
        """
        text = f"{path}/" if is_directory else path
        name = text[path.rfind("/") + 1 :]
        if not (
            (self._of_names and self._of_names.search(name))
            or (self._of_paths and self._of_paths.search(text))
        ):
            return None  # of most entries, at the price of two searches
        for pattern in reversed(self._patterns):
            if pattern.matches(path, is_directory=is_directory):
                return pattern
        return None


def pattern_of(line: str, source: str) -> Pattern | None:
    """Return the pattern of a line; None for a comment, an empty line or an invalid pattern."""
    from pathspec.patterns.gitignore.base import GitIgnorePatternError  # only where one is read
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    text = unicodedata.normalize("NFC", line)
    bare = text.rstrip()
    below = f"{bare}*/" if bare.endswith("/**/") else text  # what is below, without the top
    try:
        regex, takes = GitIgnoreSpecPattern.pattern_to_regex(below)
    except GitIgnorePatternError:
        return None
    if regex is None:
        return None
    regex = _bounded(regex)
    end = r"\Z" if _PATH_GROUP in regex else ""  # the entry itself, and nothing below it
    return Pattern(
        text=line.rstrip(),
        source=source,
        regex=re.compile(regex + end),
        is_negated=not takes,
        is_of_directory=bare.endswith("/"),
        is_of_name="/" not in bare.removeprefix("!").rstrip("/"),
    )


def patterns_of(text: str, source: str) -> Patterns:
    """Return the patterns of the text of an ignore file."""
    lines = text.removeprefix("\ufeff").split("\n")
    found = (
        pattern_of(line.removesuffix("\r"), f"{source}:{number}")
        for number, line in enumerate(lines, start=1)
    )
    return Patterns(one for one in found if one is not None)


def _bounded(regex: str) -> str:
    """Return an equal regex whose match takes time linear in the length of a path.

    All wildcards but the last match as little as possible, in atomic groups without backtracking.
    """
    chunks = regex.split(_LEVELS)
    found = [_bounded_stars(chunk) for chunk in chunks]
    for i in range(1, len(found) - 1):
        found[i] = f"(?>(?:/.+?)??{found[i]}(?=/))"
    last = _LEVELS + found.pop() if len(found) > 1 else ""
    return "".join(found) + last


def _bounded_stars(chunk: str) -> str:
    first, *others = chunk.split(_STAR)
    middle = "".join(f"(?>{_STAR}?{part})" for part in others[:-1])
    return first + middle + "".join(_STAR + part for part in others[-1:])


def _joined(patterns: Iterable[Pattern]) -> re.Pattern[str] | None:
    """Return one regex that matches wherever one of the patterns does; None without patterns."""
    parts = [f"(?:{one.regex.pattern.replace(_PATH_GROUP, '/')})" for one in patterns]
    return re.compile("|".join(parts)) if parts else None


def literal_starts(globs: Sequence[Pattern]) -> Patterns:
    """Return patterns for the leading path segments of globs that have no wildcard.

    "/dist/**" gives the directory "dist", "dist/api.md" gives "dist" and "dist/api.md", and "*.md"
    gives nothing.
    """
    found = []
    for glob in globs:
        if glob.is_negated:
            continue
        segments = glob.text.removesuffix("/").split("/")
        for end, segment in enumerate(segments, start=1):
            start = "/".join(segments[:end])
            if segment and not any(sign in segment for sign in "*?["):
                anchor = "/" if len(segments) > 1 and end == 1 and start else ""
                if one := pattern_of(anchor + start, glob.source):
                    found.append(one)
    return Patterns(found)
