"""Definitions of SQL that the grammar cannot read, such as procedures of T-SQL, Oracle and MySQL.

They are known by their first line, which begins with CREATE or ALTER at the left margin.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vikingd.ingest.code.grammars import FUNCTION, MODULE, TYPE, Grammar
from vikingd.ingest.code.syntax_tree import MAX_BYTES, Piece

_PACKAGE = "tree_sitter_sql"
_KINDS = {"procedure": FUNCTION, "proc": FUNCTION, "function": FUNCTION, "package": MODULE}
_NAME = rb"(?:\w+|\"[^\"\n]{1,120}\"|\[[^\]\n]{1,120}\]|`[^`\n]{1,120}`)"
_FIRST_LINE = re.compile(
    rb"^(?:create(?:[ \t]+or[ \t]+(?:replace|alter))?|alter(?=[ \t]+(?:proc|function)))[ \t]+"
    rb"(?:(?:definer[ \t]*=[ \t]*\S+|editionable|noneditionable|materialized|unique|global"
    rb"|temporary|temp)[ \t]+)*"
    rb"(?P<kind>procedure|proc|function|package|table|view|trigger|type)[ \t]+(?:body[ \t]+)?"
    rb"(?:if[ \t]+not[ \t]+exists[ \t]+)?"
    rb"(?P<name>" + _NAME + rb"(?:\." + _NAME + rb"){0,3})(?![\w#@$])[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
# A line that ends a batch or a statement, for the programs that run scripts.
_END = re.compile(
    rb"^(?:go|/|delimiter\b[^\n]*|end[ \t]*(?://|\$\$))[ \t\r]*$", re.IGNORECASE | re.MULTILINE
)
_COMMENTS_BEFORE = re.compile(rb"(?:^[ \t]*--[^\n]*\n)+\Z", re.MULTILINE)
# A string, or a comment; in one "/*" has no meaning.
_COMMENT_OR_STRING = re.compile(rb"--[^\n]*|'[^']*+'|/\*.*?(?:\*/|\Z)", re.DOTALL)
_NO_LINE_END = re.compile(rb"[^\n]")
_PARTS = re.compile(_NAME)
_MOST_BEFORE = 2000  # bytes of comments before a statement
_MAX_SIGNATURE = 160  # characters


class Statement(NamedTuple):
    """A statement that defines a name: bytes [start, end) of a text, from its comment on.

    Attributes:
        path: the names before the last one, such as ("dbo",).
        kind: "function", "type" or "module".
        first: its first byte after the comment.
        signature: its first line.
    """

    path: tuple[str, ...]
    name: str
    kind: str
    start: int
    first: int
    end: int
    signature: str


def sql_statements(data: bytes, pieces: Sequence[Piece], grammar: Grammar) -> Iterator[Statement]:
    """Yield the statements that define a name in the pieces of SQL without a syntax tree, in order.

    A statement goes to the end of its batch, else to the next one, at most to the end of the piece.

    Args:
        data: the file.
        pieces: the pieces of the file, see `syntax_trees`.
        grammar: the grammar of its language; for another one than SQL there are no statements.
    """
    unread = [piece for piece in pieces if piece.root is None]
    if grammar.package != _PACKAGE or not unread or len(data) > MAX_BYTES:
        return
    plain = _COMMENT_OR_STRING.sub(
        lambda one: _NO_LINE_END.sub(b" ", one[0]) if one[0][:2] == b"/*" else one[0], data
    )
    ends = [one.end() for one in _END.finditer(plain)]
    begins = [one.start() for one in _FIRST_LINE.finditer(plain)]
    for piece in unread:
        found = list(_FIRST_LINE.finditer(plain, piece.start, piece.end))
        starts = [one.start() - _comments_before(data, one.start(), piece.start) for one in found]
        for one, start, behind in zip(found, starts, [*starts, piece.end][1:], strict=True):
            # The end of the batch, unless another statement begins before it.
            closing = bisect_left(ends, one.end())
            following = bisect_left(begins, one.end())
            end = behind
            if closing < len(ends) and (
                following == len(begins) or ends[closing] <= begins[following]
            ):
                end = ends[closing]
            names = [
                part.decode(errors="ignore").strip('"[]`') for part in _PARTS.findall(one["name"])
            ]
            line = " ".join(one[0].decode(errors="ignore").split()).rstrip(" (;")
            kind = _KINDS.get(one["kind"].decode().lower(), TYPE)
            yield Statement(
                tuple(names[:-1]), names[-1], kind, start, one.start(), end, line[:_MAX_SIGNATURE]
            )


def _comments_before(data: bytes, at: int, start: int) -> int:
    """Return the number of bytes of the comment lines directly before a byte, from `start` on."""
    found = _COMMENTS_BEFORE.search(data[max(start, at - _MOST_BEFORE) : at])
    return len(found[0]) if found else 0
