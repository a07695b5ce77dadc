"""Statements of .gitattributes files about generated, vendored and documenting files.

Source: gitattributes(5), and the attributes that GitHub's linguist reads.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from vikingd.ingest.ignore_patterns import Pattern, Patterns, pattern_of

Attribute: TypeAlias = Literal["linguist-generated", "linguist-vendored", "linguist-documentation"]

NAME: Final = ".gitattributes"
ATTRIBUTES: Final[tuple[Attribute, ...]] = (
    "linguist-vendored",
    "linguist-generated",
    "linguist-documentation",
)

_MAX_LINES = 10_000
_MAX_PATTERNS = 1_000  # of a tree, about the three attributes; each takes .1 ms
_MAX_LINE = 2_048  # characters; git ignores longer lines too
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"\s+(.*)')
_FALSE = frozenset(("false", "0", "no", "off"))


class GitAttributes:
    """The .gitattributes files of a tree. The deepest file decides, and in it the last match."""

    def __init__(self) -> None:
        self._files: dict[str, dict[Attribute, _Rules]] = {}
        self._macros: dict[str, str] = {}
        self._patterns = 0

    def add(self, directory: str, text: str) -> None:
        """Read the .gitattributes file of a directory; "" is the top.

        Lines without one of the three attributes, invalid lines, and those after the 1,000th
        pattern of the tree are skipped.
        """
        found: dict[Attribute, _Rules] = {}
        for number, raw in enumerate(text.removeprefix("\ufeff").split("\n", _MAX_LINES), start=1):
            line = raw.strip()
            if number > _MAX_LINES or not line or line[0] == "#" or len(line) > _MAX_LINE:
                continue
            pattern, states = _parts(line)
            if pattern.startswith("[attr]"):
                self._macros.setdefault(pattern.removeprefix("[attr]"), states)
                continue
            if pattern.startswith("!") or pattern.endswith("/"):
                continue  # a negative pattern is forbidden, and no file is a directory
            if not (values := self._values(states)):
                continue
            self._patterns += 1
            if self._patterns > _MAX_PATTERNS:
                break
            if one := pattern_of(pattern, str(number)):
                for attribute, value in values.items():
                    found.setdefault(attribute, _Rules()).add(one, value)
        if found:
            self._files[directory.strip("/")] = found

    def __bool__(self) -> bool:
        return bool(self._files)

    def value(self, path: str, attribute: Attribute) -> bool | None:
        """Return the value of an attribute of a file; None where no file states one."""
        directory = path
        while self._files and directory:
            directory = directory.rpartition("/")[0]
            rules = self._files.get(directory, {}).get(attribute)
            below = path[len(directory) + 1 :] if directory else path
            if rules and (match := rules.last_match(below)):
                return rules.values[match.source]
        return None

    def _values(self, states: str) -> dict[Attribute, bool | None]:
        """Return the attributes that a line sets: True, False, or None for `!name`."""
        found: dict[Attribute, bool | None] = {}
        words = states.split()
        for word in [inner for one in words for inner in self._macros.get(one, one).split()]:
            name, _, value = word.lstrip("-!").partition("=")
            for attribute in ATTRIBUTES:
                if attribute == name:
                    is_set = word[0] != "-" and value.lower() not in _FALSE
                    found[attribute] = None if word[0] == "!" else is_set
        return found


class _Rules:
    """The patterns of one file for one attribute, with a value for each."""

    def __init__(self) -> None:
        self.values: dict[str, bool | None] = {}
        self._waiting: list[Pattern] = []
        self._patterns: Patterns | None = None

    def add(self, pattern: Pattern, value: bool | None) -> None:
        self.values[pattern.source] = value
        self._waiting.append(pattern)

    def last_match(self, path: str) -> Pattern | None:
        if self._patterns is None:
            self._patterns = Patterns(self._waiting)
        return self._patterns.last_match(path, is_directory=False)


def _parts(line: str) -> tuple[str, str]:
    """Split a line into its pattern and its attributes."""
    if quoted := _QUOTED.match(line):
        return re.sub(r"\\(.)", r"\1", quoted[1]), quoted[2]
    pattern, _, states = line.replace("\t", " ").partition(" ")
    return pattern, states
