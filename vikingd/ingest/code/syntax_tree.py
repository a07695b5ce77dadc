"""The syntax tree of a source file, made within limits of size and time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise
from time import thread_time
from typing import TYPE_CHECKING, NamedTuple

from vikingd.ingest.code.grammars import Grammar, parser_of

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_BYTES = 1 << 19
"""A larger file is hardly written by hand; its syntax is not read."""

_MAX_SECONDS = 2.0  # of processor time, so that a busy machine reads the same
_MAX_ERRORS = 0.2  # of the bytes: more is another language, or a dialect
_BLOCK = re.compile(rb"\n[ \t\r]*\n(?=[^\s)\]}])")  # the blank line before an unindented one
_CONTINUATIONS = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that begin no character
# The bytes of letters, digits and white space, and how much else a window of them may have.
_WORDS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ \t\r\n" + bytes(
    range(0x80, 0x100)
)
_WINDOW = 2048
_MOST_SIGNS = 0.6
_STEP = 256  # bytes; the characters before each are counted once
# At the end of its input the parser may need a time that grows with the square of what it has not
# understood, and cannot be stopped there. So it gets the input in steps, and goes on with the tree.
_FIRST_STEP, _USUAL_STEP = 512, 4096  # bytes; the steps between them double
_SHARE = 16  # a step has one part in so many of the bytes before, whose nodes it visits again
_MAX_STEP_SECONDS = 0.25


class Piece(NamedTuple):
    """The bytes [start, end) of a file, and the root of their syntax tree.

    `root` is None if their syntax cannot be read. Places of its nodes count from `start`.
    """

    start: int
    end: int
    root: Node | None


def syntax_trees(data: bytes, grammar: Grammar) -> list[Piece]:
    """Return the syntax trees of a file: one of the whole file, or of each block of a faulty one.

    A block begins at an unindented line behind a blank one. Of a file that is too large, or takes
    too long, no block has a tree.
    """
    whole = Piece(0, len(data), None)
    if len(data) > MAX_BYTES or not _reads_as_code(data):
        return [whole]
    ends = thread_time() + _MAX_SECONDS
    root = _parsed(data, grammar, ends, _MAX_ERRORS)
    if root is not None:
        return [whole._replace(root=root)]
    starts = [0, *(found.end() for found in _BLOCK.finditer(data))]
    return [
        Piece(start, end, _parsed(data[start:end], grammar, ends, 0.0))
        for start, end in pairwise([*starts, len(data)])
    ]


def _reads_as_code(data: bytes) -> bool:
    """Return False for data with a stretch of signs alone, whose parsing may not end in time."""
    return all(
        len(piece.translate(None, _WORDS)) <= _MOST_SIGNS * len(piece)
        for at in range(0, len(data), _WINDOW)
        if len(piece := data[at : at + _WINDOW]) > _WINDOW // 2
    )


def _parsed(data: bytes, grammar: Grammar, ends: float, most_errors: float) -> Node | None:
    """Return the root of a syntax tree; None if the time is over, or it has more errors."""
    parser = parser_of(grammar)
    tree, done, place = None, 0, (0, 0)
    while tree is None or done < len(data):
        step = min(max(done, _FIRST_STEP), _USUAL_STEP)
        end = min(done + max(step, done // _SHARE), len(data))
        begin = thread_time()
        if begin > ends:
            return None
        if tree is None:
            tree = parser.parse(data[:end])
        else:
            behind = _behind(place, data[done:end])
            tree.edit(done, done, end, place, place, behind)
            tree, place = parser.parse(data[:end], tree), behind
        if thread_time() - begin > _MAX_STEP_SECONDS:
            return None
        done = end
    root = tree.root_node
    return None if _is_faulty(root, most_errors * len(data)) else root


def _behind(place: tuple[int, int], data: bytes) -> tuple[int, int]:
    """Return the row and the column in bytes behind some bytes that begin at a place."""
    row, column = place
    if lines := data.count(b"\n"):
        return row + lines, len(data) - data.rfind(b"\n") - 1
    return row, column + len(data)


def _is_faulty(root: Node, most: float) -> bool:
    """Return True for a tree whose errors have more than some bytes."""
    if not root.has_error:
        return False
    return (
        not most
        or root.type == "ERROR"
        or most < sum(error.end_byte - error.start_byte for error in _errors(root))
    )


def _errors(root: Node) -> Iterator[Node]:
    """Yield the outermost nodes that no rule of the grammar made."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type == "ERROR":
            yield node
        elif node.has_error:
            waiting += node.children


class Characters:
    """The places of a text in characters, by those of its UTF-8 in bytes."""

    def __init__(self, data: bytes) -> None:
        self._is_ascii = data.isascii()
        self._data = data
        starts = () if self._is_ascii else range(0, len(data), _STEP)
        self._before = [0, *accumulate(_characters(data[at : at + _STEP]) for at in starts)]

    def at(self, byte: int) -> int:
        """Return the characters before a byte, which begins a character."""
        if self._is_ascii:
            return byte
        step = byte // _STEP
        return self._before[step] + _characters(self._data[step * _STEP : byte])


def _characters(data: bytes) -> int:
    """Return the characters that begin in some bytes."""
    return len(data.translate(None, _CONTINUATIONS))
