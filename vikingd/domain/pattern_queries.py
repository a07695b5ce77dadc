"""The domain of Glob and Grep: paths that match a glob, lines that match a regular expression."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from vikingd.domain.contexts import ContextType

MAX_GLOB_BYTES = 1024
MAX_PATTERN_BYTES = 4096
MAX_SHOWN = 500
"""The most characters of a line that a match shows."""

ABSTRACT, CONTENT = 0, 2
"""The levels of the texts of a context."""


class NodeKind(IntEnum):
    """A kind of a node of the tree, as in the proto."""

    FILE = 1
    DIRECTORY = 2


@dataclass(frozen=True, slots=True)
class GlobQuery:
    """A glob over the paths below a directory.

    Attributes:
        pattern: see GlobRequest in the proto.
        target_uri: the directory.
        kind: the kind of nodes to return; None for both.
        after: the last URI of the previous page; "" for the first page.
        limit: entries of a page, at most.
    """

    pattern: str
    target_uri: str
    kind: NodeKind | None
    after: str
    limit: int


@dataclass(frozen=True, slots=True)
class GlobEntry:
    """A context whose path matches a glob."""

    uri: str
    context_type: ContextType
    is_directory: bool


class Position(NamedTuple):
    """A position in the result of a grep, which is sorted by URI, level and line.

    The position after the last line of a context is `(uri, CONTENT + 1, 0)`.
    """

    uri: str
    level: int
    line: int


START = Position("", 0, 0)


@dataclass(frozen=True, slots=True)
class GrepQuery:
    """A search for lines below a directory.

    Attributes:
        pattern: a regular expression in the syntax of RE2, or a text if `literal`.
        target_uri: the directory, or one file.
        glob: search only files whose path below the directory matches; "": all files.
        context_types: search these types only; empty for all.
        with_abstracts: search abstracts too.
        after: the position at which the previous page ended; START for the first page.
        limit: matches of a page, at most.
    """

    pattern: str
    target_uri: str
    case_insensitive: bool
    literal: bool
    glob: str
    context_types: frozenset[ContextType]
    with_abstracts: bool
    after: Position
    limit: int


@dataclass(frozen=True, slots=True)
class GrepMatch:
    """A line with a match.

    Attributes:
        uri: the URI of the context.
        level: the text with the line: 0 the abstract, 2 the content.
        line: the number of the line in that text, from 1.
        column: the first character of the first match in the line, in code points, from 1.
        text: the line; if it has more than 500 characters, the part around the match.
        start: the first character of the match in `text`, in code points, from 0.
        end: the index after the last character of the match; if the match is cut, the length of
            `text`.
        line_length: the length of the whole line, in code points.
    """

    uri: str
    level: int
    line: int
    column: int
    text: str
    start: int
    end: int
    line_length: int
