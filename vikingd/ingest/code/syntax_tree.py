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
_STEP = 256  # bytes; the characters before each are counted once


_CHUNK = 4  # bytes that are read at once, as many as a character has at most
_MOST_CHUNKS = 1 << 16
_chunks: dict[bytes, bytes] = {}


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
    if len(data) > MAX_BYTES:
        return [whole]
    ends = thread_time() + _MAX_SECONDS
    root = _parsed(data, grammar, ends)
    if root is not None and not _is_faulty(root, len(data)):
        return [whole._replace(root=root)]
    starts = [0, *(found.end() for found in _BLOCK.finditer(data))]
    pieces = []
    for start, end in pairwise([*starts, len(data)]):
        root = _parsed(data[start:end], grammar, ends)
        is_sound = root is not None and not root.has_error
        pieces.append(Piece(start, end, root if is_sound else None))
    return pieces


def _parsed(data: bytes, grammar: Grammar, ends: float) -> Node | None:
    """Return the root of a syntax tree; None if the time is over."""
    known = _chunks

    # The binding never frees what `read` returns, so the same few objects are returned again.
    def read(at: int, _: object) -> bytes:
        chunk = data[at : at + _CHUNK]
        found = known.get(chunk)
        if found is not None:
            return found
        if len(known) < _MOST_CHUNKS and chunk.isascii():
            return known.setdefault(chunk, chunk)
        one = data[at : at + 1]
        if one < b"\x80":
            return one  # Python has one object for each byte.
        return wide.setdefault(chunk, chunk)  # a character of several bytes is needed whole

    def is_late(*_: object) -> bool:
        return thread_time() > ends

    if is_late():
        return None
    wide: dict[bytes, bytes] = {}
    try:
        parser = parser_of(grammar)
        tree = parser.parse(read, progress_callback=is_late)
        # The same tree, whose nodes have their texts from the data and not by `read`.
        return parser.parse(data, tree).root_node
    except ValueError:  # It was ended.
        return None


def _is_faulty(root: Node, size: int) -> bool:
    if not root.has_error:
        return False
    return root.type == "ERROR" or _MAX_ERRORS * size < sum(
        error.end_byte - error.start_byte for error in _errors(root)
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
