"""The outline of a source file: its definitions with their lines and first lines."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from vikingd.domain.text import SECTION_SEPARATOR, one_line
from vikingd.ingest.code.definitions import HOLDING, body_of, definition, level_of
from vikingd.ingest.code.grammars import (
    Grammar,
    grammar_of,
    language_is_there,
)
from vikingd.ingest.code.syntax_tree import syntax_trees
from vikingd.ingest.file_syntax import ending

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_SIGNATURE = 160  # characters
_NEWLINE = 10
_MAX_DEPTH = 12  # of definitions within definitions


class Symbol(NamedTuple):
    """A definition in a source file.

    Attributes:
        path: the names of the definitions around it.
        name: its name.
        kind: "class", "function", "type", "value" or "module".
        first_line, last_line: its lines, from 1 on.
        signature: its first line, without what follows the parameters.
    """

    path: tuple[str, ...]
    name: str
    kind: str
    first_line: int
    last_line: int
    signature: str

    @property
    def heading(self) -> str:
        """The path and the name, as in the headings of passages."""
        return SECTION_SEPARATOR.join((*self.path, self.name))


def outline(content: str, name: str) -> list[Symbol] | None:
    """Return the definitions of a file in order; None if its language or syntax is not known."""
    grammar = grammar_of(ending(name))
    if grammar is None or not language_is_there(grammar.package):
        return None
    data = content.removeprefix("\ufeff").encode(errors="replace")
    pieces = syntax_trees(data, grammar)
    if all(piece.root is None for piece in pieces):
        return None
    found, before = list[Symbol](), 0  # lines before a piece
    for start, end, root in pieces:
        piece = data[start:end]
        if root is not None:
            starts = [0, *(at + 1 for at, byte in enumerate(piece) if byte == _NEWLINE)]
            for one in _symbols(root, grammar, piece, starts, (), 0):
                lines = one.first_line + before, one.last_line + before
                found.append(one._replace(first_line=lines[0], last_line=lines[1]))
        before += piece.count(b"\n")
    return found


def signatures(content: str, name: str, limit: int) -> str:
    """Return the signatures of a file's definitions, at most `limit` characters; "" without any.

    Those at the top level come first, then those of members.
    """
    found = outline(content, name) or ()
    ordered = sorted(found, key=lambda one: len(one.path))
    text = ""
    for signature in dict.fromkeys(one.signature for one in ordered):
        if text and len(text) + len(signature) + 2 > limit:
            break
        text += f"; {signature}" if text else signature
    return text[:limit]


def _symbols(
    node: Node, grammar: Grammar, data: bytes, lines: list[int], path: tuple[str, ...], depth: int
) -> Iterator[Symbol]:
    nodes = body_of(node, grammar) if depth else level_of(node, grammar)
    for child in nodes:
        found = definition(child, grammar, is_top=not depth)
        if found is None:
            continue
        inside = path + found.path
        for name in found.names:
            yield Symbol(
                inside,
                name,
                found.kind,
                bisect_right(lines, child.start_byte),
                bisect_right(lines, _last_byte(child, data)),
                _signature(found.node if len(found.names) == 1 else child, grammar, data),
            )
        if found.kind in HOLDING and depth < _MAX_DEPTH:
            within = (*inside, found.names[-1]) if found.names else inside
            yield from _symbols(found.node, grammar, data, lines, within, depth + 1)


def _last_byte(node: Node, data: bytes) -> int:
    """Return the last byte of a node that is no white space, which some grammars include."""
    return node.start_byte + max(len(data[node.start_byte : node.end_byte].rstrip()) - 1, 0)


def _signature(node: Node, grammar: Grammar, data: bytes) -> str:
    """Return the text of a definition before its body, in one line."""
    body = next((child for child in node.named_children if child.type in grammar.bodies), None)
    start, end = node.start_byte, body.start_byte if body else node.end_byte
    text = data[start : min(end, start + 4 * _MAX_SIGNATURE)].decode(errors="ignore")
    if body is None:
        text = text.partition("\n")[0]
    text = one_line(text).rstrip(" {:=")
    return text if len(text) <= _MAX_SIGNATURE else text[: _MAX_SIGNATURE - 1].rstrip() + "…"
