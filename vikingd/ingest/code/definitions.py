"""The definitions in a syntax tree: their nodes, their names, and the enclosing names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from vikingd.ingest.code.grammars import CLASS, FUNCTION, MODULE, TYPE, VALUE, Grammar

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 60
"""The largest depth in the syntax tree; deeper nodes are ignored."""

HOLDING = frozenset({CLASS, TYPE, MODULE})
"""The kinds of definitions that hold others."""

_MAX_NAME = 120  # characters
_MAX_NAMES = 60  # of one declaration

_SPACE = re.compile(rb"\s+")
_WORD = re.compile(r"[^\W\d]\w*[?!=]?\Z")
_PATH = re.compile(r"::|\.")
_TYPE_ARGUMENTS = re.compile(r"<[^<>]*>")  # the innermost ones
_BEHIND_NAME = re.compile(r"(?<=\w)\s*[<\[(].*", re.DOTALL)
# The name of an operator of C++: "operator==" or "A::operator()".
_OPERATOR = re.compile(r"(?:\A|(?<=::))operator\b\s*(?:\(\)|[^\s\w(]+|[^(]+)")
_RECEIVER = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*\)\Z")  # `Stack` in `(s *Stack[T])`
_TYPE_NAME = re.compile(r"(?<!['\w])(?!(?:mut|dyn|const|for)\b)(?:\w+::)*(\w+)")

_NAMES = frozenset({"identifier", "constant", "type_identifier", "pattern"})
_MORE_NAMES = frozenset({"pattern_list", "variable_declaration", "left_assignment_list"})


class Definition(NamedTuple):
    """A definition: its names, the enclosing names, its kind, and the node with its body.

    An anonymous namespace or class has no names; its members count as those of its parent.
    """

    names: tuple[str, ...]
    path: tuple[str, ...]
    kind: str
    node: Node


def level_of(node: Node, grammar: Grammar, depth: int = 0) -> Iterator[Node]:
    """Yield the named children of a node.

    A child such as `#ifdef` or `export`, which only wraps definitions, is replaced by its own
    children.
    """
    is_around = node.type in grammar.outer or node.type in grammar.wrappers
    for child in node.named_children:
        opened = is_around and child.type in grammar.bodies
        if child.type in grammar.outer:
            opened = _holds_more(child, grammar, 0)
        elif child.type in grammar.wrappers:
            itself = definition(child, grammar, is_top=True)
            opened = _holds_more(child, grammar, 1 if itself else 0)
        if opened and depth <= MAX_DEPTH:
            yield from level_of(child, grammar, depth + 1)
        else:
            yield child


def _holds_more(node: Node, grammar: Grammar, than: int) -> bool:
    """Return True if more than `than` definitions are below a node that wraps definitions."""
    opened = grammar.bodies | grammar.outer | grammar.wrappers
    waiting, count = [(node, 0)], 0
    while waiting:
        one, depth = waiting.pop()
        for child in one.named_children:
            count += child.type in grammar.definitions
            if count > than:
                return True
            if child.type in opened and depth < MAX_DEPTH:
                waiting.append((child, depth + 1))
    return False


def body_of(node: Node, grammar: Grammar, depth: int = 0) -> Iterator[Node]:
    """Yield the members or statements of a definition."""
    for child in node.named_children:
        if child.type in grammar.bodies:
            if child.named_child_count == 1 and child.named_children[0].type in grammar.bodies:
                child = child.named_children[0]
            yield from level_of(child, grammar, depth)


def members(found: Definition, grammar: Grammar, depth: int = 0) -> Iterator[str]:
    """Yield the names that a class, a type or a module defines, at all depths."""
    if found.kind not in HOLDING or depth > MAX_DEPTH:
        return
    for child in body_of(found.node, grammar):
        if inner := definition(child, grammar, is_top=False):
            yield from inner.names
            yield from members(inner, grammar, depth + 1)


def definition(node: Node, grammar: Grammar, *, is_top: bool) -> Definition | None:
    """Return the definition at a node or in its wrappers, such as decorators; None for a statement.

    Args:
        is_top: the node is at the top level of the file; constants count as definitions only there.
    """
    inside = (grammar.definitions, grammar.values, grammar.wrappers)
    while node.type in grammar.wrappers:
        inner = next(
            (
                child
                for child in node.named_children
                if any(child.type in kinds for kinds in inside)
            ),
            None,
        )
        if inner is None:
            break
        node = inner
    kind = grammar.definitions.get(node.type)
    if kind is not None and not _is_plain(node):
        path, names = _name_of(node)
        is_open = kind in (CLASS, MODULE)
        return Definition(names, path, kind, node) if names or path or is_open else None
    if is_top and (field := grammar.values.get(node.type)):
        return _value(node, field)
    return None


def _is_plain(node: Node) -> bool:
    """Return True for a node that looks like a definition, but has no body or no code.

    Examples are `struct A` in `struct A x;` and the field `count = 0` of a class.
    """
    if node.type.endswith("_specifier"):
        return node.child_by_field_name("body") is None
    if node.type == "preproc_def" and node.child_by_field_name("value") is None:
        # The name of `#ifndef A_H` before `#define A_H`: the guard of a header.
        above = node.parent
        guard = above.child_by_field_name("name") if above is not None else None
        return guard is not None and _text(guard) == _text(node.child_by_field_name("name"))
    if node.type.endswith("field_definition"):
        value = node.child_by_field_name("value")
        return value is None or "function" not in value.type
    return False


def _value(node: Node, field: str) -> Definition | None:
    """Return the definition that a declaration or an assignment makes; None if it has no name.

    In `limit = 3` the name "limit" has the kind "value". In `add = function () {}` the name "add"
    has the kind "function", and the node is the function.

    Args:
        node: the declaration or the assignment.
        field: the field of the node, or the type of child, that holds the names.
    """
    names: list[str] = []
    body = node
    waiting = [(node, 0)]
    while waiting and len(names) < _MAX_NAMES:
        one, depth = waiting.pop(0)
        if one.type.startswith("augmented_"):
            continue
        # Operations and loops have a left side too.
        if field == "left" and one is not node and "assignment" not in one.type:
            continue
        named = one.children_by_field_name(field)
        named = named or [child for child in one.named_children if child.type == field]
        value = one.child_by_field_name("value") or one.child_by_field_name("right")
        holds = value is not None and ("function" in value.type or "class" in value.type)
        for name in named:
            for each in name.named_children if name.type in _MORE_NAMES else [name]:
                text = _text(each) if each.type in _NAMES else ""
                if each.type == "member_expression" and value is not None and holds:
                    text = _text(each.child_by_field_name("property"))
                    if text == "exports":
                        text = _text(value.child_by_field_name("name"))
                if _WORD.match(text):
                    names.append(text)
        if value is not None and holds:
            body = value
        if depth < 3:
            inner = [value] if named and value is not None else one.named_children[:_MAX_NAMES]
            waiting += [
                (child, depth + 1) for child in inner if not named or child.type == one.type
            ]
    if not names:
        return None
    if body is node or len(names) > 1:
        return Definition(tuple(names), (), VALUE, node)
    return Definition(tuple(names), (), CLASS if "class" in body.type else FUNCTION, body)


def _name_of(node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the path and the names of a definition; `A::b` has the path ("A",) and the name "b".

    Both may be empty.
    """
    kind = node.type
    if kind == "impl_item":
        implementing = _TYPE_NAME.search(_text(node.child_by_field_name("type")))
        return ((implementing[1],) if implementing else ()), ()
    if "constructor" in kind or kind in ("init_declaration", "deinit_declaration"):
        # A constructor has the name of its class, and a search for that has to find the class.
        is_named = kind in ("deinit_declaration", "secondary_constructor")
        return (), (_text(node.children[0]) if is_named else "init",)
    if declarator := node.child_by_field_name("declarator"):
        path, names = _split(_text(_declared(declarator)).strip(": "))
        if kind == "type_definition":
            names = _tag_of(node, names) + names
        # An unknown macro before a name counts as a part of it.
        return path, tuple(n if "operator" in n else n.split()[-1] for n in names)
    name = next(filter(None, map(node.child_by_field_name, ("name", "property", "left"))), None)
    if name is None:
        named = ("object_reference", "identifier", "simple_identifier")
        name = next((child for child in node.named_children if child.type in named), None)
    path, names = _split(_text(name))
    if kind == "method_declaration" and (receiver := node.child_by_field_name("receiver")):
        found = _RECEIVER.search(_text(receiver))
        path = (found[1],) if found else ()
    if _text(node.child_by_field_name("declaration_kind")) == "extension":
        return path + names, ()
    return path, names


def _tag_of(node: Node, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return ("a",) for `typedef struct a { } b`; () without a body, or if "a" is in `names`."""
    kind = node.child_by_field_name("type")
    if kind is None or kind.child_by_field_name("body") is None:
        return ()
    tag = _text(kind.child_by_field_name("name"))
    return (tag,) if tag and tag not in names else ()


def _declared(declarator: Node) -> Node:
    """Return the node of the name in a declarator of C: `f` in `*f(int)`."""
    for _ in range(MAX_DEPTH):
        inner = declarator.child_by_field_name("declarator")
        if declarator.type in ("parenthesized_declarator", "reference_declarator"):
            inner = inner or next(reversed(declarator.named_children), None)
        if inner is None or declarator.type == "operator_cast":
            break
        declarator = inner
    return declarator


def _text(node: Node | None) -> str:
    """Return the first characters of a node in one line."""
    if node is None or node.text is None:
        return ""
    return _SPACE.sub(b" ", node.text[: 4 * _MAX_NAME]).decode(errors="ignore").strip()


def _split(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a name such as `A<T>::b` into its path ("A",) and its last name ("b",)."""
    if text.isidentifier() and text != "operator":
        return (), (text[:_MAX_NAME],)
    operator = _OPERATOR.search(text)
    before = text[: operator.start()] if operator else text.strip(" &*'\"`")
    if not before[:1].isalpha() and before[:1] not in "_$~#":
        parts = []  # an operator, or a computed name such as `[key]`
    else:
        parts = _PATH.split(_BEHIND_NAME.sub("", _without_arguments(before)))
    parts = [part.strip() for part in parts]
    last = operator[0].strip() if operator else parts.pop() if parts else text
    path = tuple(part[:_MAX_NAME] for part in parts if part)
    return path, (last[:_MAX_NAME],) if last else ()


def _without_arguments(text: str) -> str:
    while (shorter := _TYPE_ARGUMENTS.sub("", text)) != text:
        text = shorter
    return text
