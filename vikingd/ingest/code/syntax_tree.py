"""The syntax tree of a source file of limited size.

The parser may take any time: see parser_process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from vikingd.ingest.code.grammars import Grammar, parser_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_BYTES = 1 << 19
"""The most bytes of a file that is parsed; a larger one is hardly written by hand."""

_MAX_ERRORS = 0.2  # of the bytes: more is another language, or a dialect
_BLOCK = re.compile(rb"\n[ \t\r]*\n(?=[^\s)\]}])")  # the blank line before an unindented one
_CONTINUATIONS = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that begin no character
_STEP = 256  # bytes; the characters before each are counted once


class Piece(NamedTuple):
    """The bytes [start, end) of a file, and the root of their syntax tree.

    `root` is None if the syntax cannot be read. Positions of its nodes are relative to `start`.
    """

    start: int
    end: int
    root: Node | None


@lru_cache(maxsize=1)  # passages and signatures of a file are read one after the other
def syntax_trees(data: bytes, grammar: Grammar) -> tuple[Piece, ...]:
    """Return the syntax tree of a file; if it has many errors, a tree for each of its blocks.

    A block begins at an unindented line after a blank one. The blocks of a file that is too large
    have no trees.
    """
    whole = Piece(0, len(data), None)
    if len(data) > MAX_BYTES:
        return (whole,)
    root = _parsed(data, grammar, _MAX_ERRORS)
    if root is not None:
        return (whole._replace(root=root),)
    starts = [0, *(found.end() for found in _BLOCK.finditer(data))]
    return tuple(
        Piece(start, end, _parsed(data[start:end], grammar, 0.0))
        for start, end in pairwise([*starts, len(data)])
    )


def _parsed(data: bytes, grammar: Grammar, most_errors: float) -> Node | None:
    """Return the root of the syntax tree; None if more than `most_errors` of its bytes are errors.

    `most_errors` is a share in [0, 1].
    """
    root = parser_of(grammar).parse(data).root_node
    return None if _is_faulty(root, most_errors * len(data)) else root


def _is_faulty(root: Node, most: float) -> bool:
    """Return True if more than `most` bytes of a tree are in error nodes."""
    if not root.has_error:
        return False
    if root.type == "ERROR":
        return True
    if not most:  # a missing sign that is hidden is an end of a line, as in Kotlin
        return next(_errors(root), None) is not None
    return most < sum(error.end_byte - error.start_byte for error in _errors(root))


def _errors(root: Node) -> Iterator[Node]:
    """Yield the outermost error nodes of a tree, and the signs that are missing, of 0 bytes."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "ERROR" or node.is_missing:
            yield node
        elif node.has_error:
            waiting += node.children


class Characters:
    """A conversion of byte positions in UTF-8 to character positions."""

    def __init__(self, data: bytes) -> None:
        self._is_ascii = data.isascii()
        self._data = data
        starts = () if self._is_ascii else range(0, len(data), _STEP)
        self._before = [0, *accumulate(_characters(data[at : at + _STEP]) for at in starts)]

    def at(self, byte: int) -> int:
        """Return the number of characters before a byte, which must begin a character."""
        if self._is_ascii:
            return byte
        step = byte // _STEP
        return self._before[step] + _characters(self._data[step * _STEP : byte])


def _characters(data: bytes) -> int:
    """Return the number of characters whose first byte is in `data`."""
    return len(data.translate(None, _CONTINUATIONS))
