"""Source code cut by its syntax: definitions with their comments, and statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from vikingd.ingest.code.grammars import CLASS, FUNCTION, MODULE, TYPE, VALUE, Grammar
from vikingd.ingest.code.headings import heading_of
from vikingd.ingest.code.syntax_tree import Characters, syntax_trees

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_NAME = 120  # characters
_MAX_DEPTH = 60  # of nodes; deeper ones are not looked at
_MAX_MEMBERS = 60

_SPACE = re.compile(rb"\s+")
_BLANK_LINE = re.compile(rb"\n[ \t\r]*\n")
_REST_OF_LINE = re.compile(rb"[ \t]*[;,)\]}]*[ \t]*(?:(?://|#|--|/\*)[^\n]*)?(?=\r?\n|\Z)")
_GENERIC = re.compile(r"[<\[(].*", re.DOTALL)
_WORD = re.compile(r"[^\W\d]\w*[?!=]?\Z|~\w+\Z|operator\b.*")


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

    @property
    def heading(self) -> str:
        """The heading of the part."""
        return heading_of(self.path, self.names)

    @property
    def rest(self) -> str:
        """The heading of what continues the part."""
        return heading_of((*self.path, *self.names[-1:]), ())


class Definition(NamedTuple):
    """A definition: its names, the names around it, its kind, and the node with its body."""

    names: tuple[str, ...]
    path: tuple[str, ...]
    kind: str
    node: Node


def parts(data: bytes, grammar: Grammar, fits: Callable[[int, int], bool]) -> list[Part] | None:
    """Return the parts of a source file in order, without gaps.

    A definition that fits is one part. Of a longer one the head, its members and its statements
    are parts of their own; a statement that does not fit is cut within.

    Args:
        data: the file.
        grammar: that of its language.
        fits: tells whether characters [start, end) are short enough for one part.

    Returns:
        None if nothing of the file can be read.
    """
    pieces = syntax_trees(data, grammar)
    if all(piece.root is None for piece in pieces):
        return None
    found, before = list[Part](), 0  # characters before a piece
    for start, end, root in pieces:
        cutter = _Cutter(data[start:end], grammar, fits, before)
        nodes = () if root is None else level_of(root, grammar)
        cutter.sequence(nodes, 0, end - start, (), 0)
        found += cutter.parts
        before += cutter.characters.at(end - start)
    return found


class _Cutter:
    def __init__(
        self,
        data: bytes,
        grammar: Grammar,
        fits: Callable[[int, int], bool],
        before: int,
    ) -> None:
        self.parts: list[Part] = []
        self.characters = Characters(data)
        self._done = 0  # the end of the last part in bytes
        self._data, self._grammar, self._before = data, grammar, before
        self._fits = fits

    def sequence(
        self, nodes: Iterable[Node], start: int, end: int, path: tuple[str, ...], depth: int
    ) -> None:
        """Cut the bytes [start, end), in which some nodes follow one another."""
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
                if comment < 0 and not self._ends_a_line(begin):
                    comment = begin
                continue
            begin = comment if comment >= 0 else begin
            comment = -1
            self._add(path, (), done, begin)
            done = self._end_of_line(node.end_byte, end)
            found = definition(node, self._grammar, is_top=not path)
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
        holds = found.kind in (CLASS, TYPE, MODULE)
        if self._has_room(begin, end):
            inner = _members(found.node, self._grammar) if holds else ()
            self._add(path, (*found.names, *inner), begin, end)
            return
        below = list(body_of(found.node, self._grammar, depth))
        if not below or depth > _MAX_DEPTH:
            self._statement(node, begin, end, path, depth, found.names)
            return
        first = self._with_comments(below[0].start_byte, begin)
        self._add(path, found.names, begin, first)
        within = (*path, found.names[-1]) if found.names else path
        self.sequence(below, first, end, within, depth + 1)

    def _statement(
        self,
        node: Node,
        begin: int,
        end: int,
        path: tuple[str, ...],
        depth: int,
        names: tuple[str, ...] = (),
    ) -> None:
        """Add a statement; a long one is cut between its nodes."""
        if self._has_room(begin, end) or depth > _MAX_DEPTH or node.named_child_count == 0:
            self._add(path, names, begin, end)
            return
        if node.type in self._grammar.bodies and not names:
            self.sequence(level_of(node, self._grammar, depth), begin, end, path, depth + 1)
            return
        start = begin
        for child in node.named_children:
            if self._has_room(start, child.end_byte) or child.start_byte < start:
                continue
            first = self._with_comments(child.start_byte, start)
            self._add(path, names, start, first)
            if first > start:
                start, names = first, ()
            if not self._has_room(start, child.end_byte):
                self._statement(child, start, child.end_byte, path, depth + 1, names)
                start, names = child.end_byte, ()
        self._add(path, names, start, end, closes=True)

    def _has_room(self, begin: int, end: int) -> bool:
        return self._fits(self._at(begin), self._at(end))

    def _add(
        self,
        path: tuple[str, ...],
        names: tuple[str, ...],
        begin: int,
        end: int,
        *,
        closes: bool = False,
    ) -> None:
        """Add bytes as a part; white space, and signs that close a part, belong to the last one."""
        begin = max(begin, self._done)
        text = self._data[begin:end].strip()
        if not text:
            return
        self._done = end
        last = self.parts[-1] if self.parts else None
        if last and closes and len(text) < 40 and b"\n" not in text and not names:
            self.parts[-1] = last._replace(end=self._at(end))
            return
        self.parts.append(Part(path, names, self._at(begin), self._at(end)))

    def _end_of_line(self, at: int, end: int) -> int:
        rest = _REST_OF_LINE.match(self._data, at, end)
        return rest.end() if rest else at

    def _ends_a_line(self, at: int) -> bool:
        """Return True if text stands before a comment, in its line."""
        start = self._data.rfind(b"\n", 0, at) + 1
        return bool(self._data[start:at].strip())

    def _at(self, byte: int) -> int:
        """Return the characters of the file before a byte."""
        return self._before + self.characters.at(byte)

    def _with_comments(self, at: int, start: int) -> int:
        """Return the start of the line of a node if nothing else stands in it."""
        line = max(self._data.rfind(b"\n", 0, at) + 1, start)
        return at if self._data[line:at].strip() else line


def level_of(node: Node, grammar: Grammar, depth: int = 0) -> Iterator[Node]:
    """Yield the named children of a node, and those of nodes such as `#ifdef` in their place."""
    for child in node.named_children:
        opened = node.type in grammar.outer and child.type in grammar.bodies
        if child.type in grammar.outer:
            opened = _count(child, grammar) > 0
        elif child.type in grammar.wrappers:
            opened = _count(child, grammar) > 1
        if opened and depth <= _MAX_DEPTH:
            yield from level_of(child, grammar, depth + 1)
        else:
            yield child


def _count(node: Node, grammar: Grammar) -> int:
    """Return the number of definitions that a node around them holds."""
    count = 0
    for child in node.named_children:
        if child.type in grammar.definitions or child.type in grammar.wrappers:
            count += 1
        elif child.type in grammar.bodies or child.type in grammar.outer:
            count += _count(child, grammar)
    return count


def body_of(node: Node, grammar: Grammar, depth: int = 0) -> Iterator[Node]:
    """Yield the members or statements of a definition."""
    for child in node.named_children:
        if child.type in grammar.bodies:
            if child.named_child_count == 1 and child.named_children[0].type in grammar.bodies:
                child = child.named_children[0]
            yield from level_of(child, grammar, depth)


def _members(node: Node, grammar: Grammar) -> tuple[str, ...]:
    found: list[str] = []
    for child in body_of(node, grammar, 0):
        inner = definition(child, grammar, is_top=False)
        if inner:
            found += inner.names
        if len(found) > _MAX_MEMBERS:
            break
    return tuple(found)


def definition(node: Node, grammar: Grammar, *, is_top: bool) -> Definition | None:
    """Return the definition that a node is, or that it wraps; None for a statement.

    `is_top` is False within a definition, where constants are no definitions.
    """
    while node.type in grammar.wrappers:
        inner = next(
            (
                child
                for child in node.named_children
                if child.type in grammar.definitions
                or child.type in grammar.values
                or child.type in grammar.wrappers
            ),
            None,
        )
        if inner is None:
            return None
        node = inner
    kind = grammar.definitions.get(node.type)
    if kind is not None and not _is_plain(node):
        path, names = _name_of(node)
        return Definition(names, path, kind, node) if names or path else None
    if is_top and (field := grammar.values.get(node.type)):
        return _value(node, field)
    return None


def _is_plain(node: Node) -> bool:
    """Return True for `struct A` of a declaration, and for a field that is no function."""
    if node.type.endswith("_specifier"):
        return node.child_by_field_name("body") is None
    if node.type.endswith("field_definition"):
        value = node.child_by_field_name("value")
        return value is None or "function" not in value.type
    return False


def _value(node: Node, field: str) -> Definition | None:
    """Return the constants that a declaration names."""
    names: list[str] = []
    body = node
    waiting = [(node, 0)]
    while waiting and len(names) < _MAX_MEMBERS:
        one, depth = waiting.pop(0)
        if one.type in ("call", "call_expression", "block", "object", "array"):
            continue
        named = one.children_by_field_name(field) if one is not node or field == "name" else []
        for name in named:
            value = one.child_by_field_name("value") or one.child_by_field_name("right")
            if name.type in ("identifier", "constant", "type_identifier", "pattern"):
                text = _text(name)
            elif (
                name.type == "member_expression"
                and value is not None
                and ("function" in value.type or "class" in value.type)
            ):
                text = _text(name.child_by_field_name("property"))
            else:
                continue
            if _WORD.match(text) and text != "exports":
                names.append(text)
            if value is not None and ("function" in value.type or "class" in value.type):
                body = value
        if depth < 3 and not named:
            waiting += [(child, depth + 1) for child in one.named_children[:_MAX_MEMBERS]]
    if not names:
        return None
    kind = VALUE if body is node else CLASS if "class" in body.type else FUNCTION
    return Definition(tuple(names), (), kind, body)


def _name_of(node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the path before the name of a definition, and its names; both may be empty."""
    kind = node.type
    name = node.child_by_field_name("name") or node.child_by_field_name("property")
    path: tuple[str, ...] = ()
    if kind == "impl_item":
        return (_plain(node.child_by_field_name("type")),), ()
    if kind == "method_declaration" and (receiver := node.child_by_field_name("receiver")):
        found = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*\)\Z", _text(receiver))
        path = (found[1],) if found else ()
    elif "constructor" in kind or kind in ("init_declaration", "deinit_declaration"):
        return (), ("init",)
    elif name is None and (declarator := node.child_by_field_name("declarator")):
        return _declared(declarator)
    elif name is None:
        name = next(
            (
                child
                for child in node.named_children
                if child.type in ("object_reference", "identifier", "simple_identifier")
            ),
            None,
        )
    text = _plain(name)
    if kind == "class_declaration" and _text(node).lstrip().startswith("extension"):
        return (text,), ()
    *around, last = re.split(r"::|\.", text) if text else [""]
    path += tuple(part for part in around if part)
    return path, (last,) if last else ()


def _declared(declarator: Node | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the path and the name in a declarator of C, which may be within others."""
    for _ in range(_MAX_DEPTH):
        inner = declarator.child_by_field_name("declarator") if declarator else None
        if declarator is None or (inner is None and declarator.type != "parenthesized_declarator"):
            break
        declarator = inner or next(iter(declarator.named_children), None)
    *around, last = _plain(declarator).split("::") if declarator else [""]
    return tuple(part for part in around if part), (last,) if last else ()


def _text(node: Node | None) -> str:
    if node is None or node.text is None:
        return ""
    return _SPACE.sub(b" ", node.text[: 4 * _MAX_NAME]).decode(errors="ignore").strip()


def _plain(node: Node | None) -> str:
    """Return a name without type arguments."""
    text = _text(node)
    if not text.startswith("operator"):
        text = _GENERIC.sub("", text)
    return text.strip(" &*'\"`")[:_MAX_NAME]


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
        while done and (both := _both(done[-1], part, tokens, target, small)):
            done.pop()
            part = both
        done.append(part)
    return done


def _both(
    a: Part, b: Part, tokens: Callable[[int, int], int], target: int, small: int
) -> Part | None:
    """Return two neighbours as one part; None if they stay apart."""
    if tokens(a.start, b.end) > target:
        return None
    is_inner = b.path[:-1] == a.path and b.path[-1:] and b.path[-1] in a.names
    if not is_inner and a.path != b.path:
        return None
    is_small = min(tokens(a.start, a.end), tokens(b.start, b.end)) < small
    if not (is_small or (not b.names and (is_inner or not a.names))):
        return None
    return Part(a.path, a.names + b.names, a.start, b.end)
