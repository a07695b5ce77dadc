"""Source code cut by its syntax: definitions with their comments, and statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vikingd.ingest.code.definitions import (
    MAX_DEPTH,
    Definition,
    body_of,
    definition,
    level_of,
    members,
)
from vikingd.ingest.code.grammars import Grammar
from vikingd.ingest.code.headings import heading_of
from vikingd.ingest.code.sql_statements import Statement, sql_statements
from vikingd.ingest.code.syntax_tree import Characters, syntax_trees

if TYPE_CHECKING:
    from tree_sitter import Node

_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_MAX_INDENT = 1024  # bytes of white space before a comment

_CLOSING_SIGNS = re.compile(rb"[ \t]*[;,)\]}]+")


class Part(NamedTuple):
    """A part of a source file: characters [start, end).

    Attributes:
        path: the names of the definitions around it.
        names: the definitions that begin in it; the first may hold the others.
    """

    path: tuple[str, ...]
    names: tuple[str, ...]
    start: int
    end: int

    def headings(self, texts: Sequence[str]) -> Iterator[str]:
        """Yield the heading of each text into which the part is cut."""
        last = self.names[:1]
        for names in _names_by_text(self.names, texts):
            last = names[-1:] or last
            yield heading_of(self.path, names) if names else heading_of((*self.path, *last), ())


def parts(data: bytes, grammar: Grammar, fits: Callable[[int, int], bool]) -> list[Part] | None:
    """Return the parts of a source file in order, without gaps.

    A definition that fits is one part. A longer definition is divided into its head, its members
    and its statements. A statement that does not fit is divided again.

    Args:
        data: the file.
        grammar: the grammar of its language.
        fits: returns True if characters [start, end) are short enough for one part.

    Returns:
        The parts; None if no syntax tree can be made of the file.
    """
    pieces = syntax_trees(data, grammar)
    stated = list(sql_statements(data, pieces, grammar))
    if all(piece.root is None for piece in pieces) and not stated:
        return None
    found, before = list[Part](), 0  # characters before a piece
    for start, end, root in pieces:
        cutter = _Cutter(data[start:end], grammar, fits, before)
        nodes = () if root is None else level_of(root, grammar)
        if root is None:
            cutter.statements((one for one in stated if start <= one.start < end), start)
        cutter.sequence(nodes, 0, end - start, (), 0)
        found += (
            Part(path, names, cutter.at(first), cutter.at(last))
            for path, names, first, last in cutter.parts
        )
        before = cutter.at(end - start)
    return found


class _Cutter:
    """Cuts one syntax tree into parts.

    All positions are in bytes, from the start of the piece of the file that the tree covers.
    """

    def __init__(
        self,
        data: bytes,
        grammar: Grammar,
        fits: Callable[[int, int], bool],
        before: int,
    ) -> None:
        self.parts: list[Part] = []
        self._characters = Characters(data)
        self._done = 0  # the end of the last part in bytes
        self._data, self._grammar, self._before = data, grammar, before
        self._fits = fits

    def statements(self, stated: Iterable[Statement], offset: int) -> None:
        """Add statements of SQL as parts; `offset` is the start of the piece in the file."""
        for one in stated:
            start, end = one.start - offset, min(one.end - offset, len(self._data))
            self._add((), (), self._done, start)
            self._add(one.path, (one.name,), start, end)

    def sequence(
        self, nodes: Iterable[Node], start: int, end: int, path: tuple[str, ...], depth: int
    ) -> None:
        """Cut the bytes [start, end), which contain the sibling nodes `nodes`, into parts."""
        done, comment = start, -1  # the start of the comments before the next node
        before = start
        for node in nodes:
            begin = node.start_byte
            if comment >= 0 and _BLANK_LINE.search(self._data, before, begin):
                self._add(path, (), done, comment)  # a comment that belongs to nothing
                self._add(path, (), comment, before)
                done, comment = before, -1
            before = node.end_byte
            if node.type in self._grammar.comments:
                if comment < 0 and self._ends_a_line(begin) and self._continues(before):
                    done = before
                elif comment < 0:
                    comment = begin
                continue
            begin = comment if comment >= 0 else begin
            comment = -1
            self._add(path, (), done, begin)
            done = self._after_closing_signs(node.end_byte, end)
            found = definition(node, self._grammar, is_top=not depth)
            if found is None:
                self._statement(node, begin, done, path, depth)
            else:
                self._definition(found, node, begin, done, path, depth)
        if comment >= 0:
            self._add(path, (), done, comment)
            done = comment
        self._add(path, (), done, end, closes=True)

    def _definition(
        self,
        found: Definition,
        node: Node,
        begin: int,
        end: int,
        path: tuple[str, ...],
        depth: int,
    ) -> None:
        path += found.path
        if self._has_room(begin, end):
            self._add(path, (*found.names, *members(found, self._grammar)), begin, end)
            return
        # A part of a declaration of several names is not within any of these names.
        within = (*path, *found.names) if len(found.names) == 1 else path
        below = list(body_of(found.node, self._grammar, depth))
        if not below or depth > MAX_DEPTH:
            first = len(self.parts)
            self._statement(node, begin, end, within, depth)
            self._assign_names(first, path, found.names)
            return
        head = self._with_comments(below[0].start_byte, begin)
        self._add(path, found.names, begin, head)
        self.sequence(below, head, end, within, depth + 1)

    def _assign_names(self, first: int, path: tuple[str, ...], names: tuple[str, ...]) -> None:
        """Assign names to the parts from index `first` on, see `_names_by_text`.

        A part that gets a name also gets the path.
        """
        found = self.parts[first:]
        texts = [self._data[part.start : part.end].decode(errors="ignore") for part in found]
        for at, here in enumerate(_names_by_text(names, texts)):
            if here:
                self.parts[first + at] = found[at]._replace(path=path, names=here + found[at].names)

    def _statement(
        self, node: Node, begin: int, end: int, path: tuple[str, ...], depth: int
    ) -> None:
        """Add a statement as a part; one that does not fit is cut between its child nodes."""
        if self._has_room(begin, end) or depth > MAX_DEPTH or node.named_child_count == 0:
            self._add(path, (), begin, end)
            return
        if node.type in self._grammar.bodies:
            self.sequence(level_of(node, self._grammar, depth), begin, end, path, depth + 1)
            return
        start = begin
        for child in node.named_children:
            if self._has_room(start, child.end_byte) or child.start_byte < start:
                continue
            first = self._with_comments(child.start_byte, start)
            is_long = not self._has_room(first, child.end_byte)
            # The beginning of a line, such as `TABLE = `, stays in one part with a long `[...]`
            # that begins in the same line.
            if not is_long or b"\n" in self._data[start:first].rstrip(b" \t"):
                self._add(path, (), start, first)
                start = first
            if is_long:
                self._statement(child, start, child.end_byte, path, depth + 1)
                start = child.end_byte
        self._add(path, (), start, end, closes=True)

    def _has_room(self, begin: int, end: int) -> bool:
        return self._fits(self.at(begin), self.at(end))

    def _add(
        self,
        path: tuple[str, ...],
        names: tuple[str, ...],
        begin: int,
        end: int,
        *,
        closes: bool = False,
    ) -> None:
        """Add the bytes [begin, end) as a part.

        With `closes` the bytes end a construct. If they are short, such as `);`, they are appended
        to the last part instead.
        """
        begin = max(begin, self._done)
        text = self._data[begin:end].strip()
        if not text:
            return
        self._done = end
        last = self.parts[-1] if self.parts else None
        if last and closes and len(text) < 40 and b"\n" not in text and not names:
            self.parts[-1] = last._replace(end=end)
            return
        self.parts.append(Part(path, names, begin, end))

    def _continues(self, end: int) -> bool:
        """Extend the last part to `end`.

        Return False, and change nothing, if it would be too long.
        """
        if not self.parts or not self._has_room(self.parts[-1].start, end):
            return False
        self.parts[-1] = self.parts[-1]._replace(end=max(self._done, end))
        self._done = self.parts[-1].end
        return True

    def _after_closing_signs(self, at: int, end: int) -> int:
        """Return the position after the closing characters at `at`, such as `;` or `)`."""
        signs = _CLOSING_SIGNS.match(self._data, at, end)
        return signs.end() if signs else at

    def _ends_a_line(self, at: int) -> bool:
        """Return True if other text precedes position `at` in its line."""
        start = max(at - _MAX_INDENT, 0)
        return bool(self._data[start:at].rpartition(b"\n")[2].strip())

    def at(self, byte: int) -> int:
        """Convert a byte position of the piece to a character position of the file."""
        return self._before + self._characters.at(byte)

    def _with_comments(self, at: int, start: int) -> int:
        """Return the start of the line that contains `at`; `at` if code precedes it in that line.

        `at` is the start of a node, or of the comments above it. The result is at least `start`.
        """
        line = max(self._data.rfind(b"\n", start, at) + 1, start)
        return at if self._data[line:at].strip() else line


def _names_by_text(names: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield, for each text, the names that occur in it and in no earlier text.

    Names that occur in no text, such as `init`, go to the first text.
    """
    if len(texts) == 1:
        yield tuple(names)
        return
    places = {
        name: next((at for at, text in enumerate(texts) if name in text), 0) for name in names
    }
    for at in range(len(texts)):
        yield tuple(name for name in names if places[name] == at)


def joined(
    found: Iterable[Part], tokens: Callable[[int, int], int], target: int, small: int
) -> list[Part]:
    """Join neighbours: statements, the head of a definition with its body, and small definitions.

    Args:
        found: the parts of a file, in order.
        tokens: counts the tokens of characters [start, end).
        target: the most tokens of a joined part.
        small: the tokens below which a definition joins its neighbour.
    """
    done: list[Part] = []
    for part in found:
        while done and (both := _as_one_part(done[-1], part, tokens, target, small)):
            done.pop()
            part = both
        done.append(part)
    return done


def _as_one_part(
    a: Part, b: Part, tokens: Callable[[int, int], int], target: int, small: int
) -> Part | None:
    """Return two adjacent parts as one part; None if they must stay separate.

    They are joined if they have at most `target` tokens together, belong to the same definition,
    and one of them has fewer than `small` tokens. Two parts without names are joined at any size
    up to `target`, and so are the head of a definition and the statements of its body.
    """
    if tokens(a.start, b.end) > target:
        return None
    is_inner = b.path[:-1] == a.path and b.path[-1:] and b.path[-1] in a.names
    if not is_inner and a.path != b.path:
        return None
    is_small = min(tokens(a.start, a.end), tokens(b.start, b.end)) < small
    if not (is_small or (not b.names and (is_inner or not a.names))):
        return None
    return Part(a.path, a.names + b.names, a.start, b.end)
