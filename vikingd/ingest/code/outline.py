"""The outline of a file: its definitions, or its headings, with their lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from vikingd.domain.line_numbers import lines_at
from vikingd.domain.text import SECTION_SEPARATOR, one_line
from vikingd.ingest import asciidoc, markdown, restructured
from vikingd.ingest.code.cells import cell_code, is_notebook
from vikingd.ingest.code.components import HOOKS, is_component, options, scripts_are_read, sections
from vikingd.ingest.code.definition_comments import comment_of
from vikingd.ingest.code.definitions import (
    HOLDING,
    Definition,
    body_of,
    definition,
    level_of,
)
from vikingd.ingest.code.grammars import (
    FUNCTION,
    MODULE,
    VALUE,
    Grammar,
    grammar_of,
    language_is_there,
)
from vikingd.ingest.code.headings import CODE, SCRIPT
from vikingd.ingest.code.parser_process import OUTLINE, is_parsed, parser_process
from vikingd.ingest.code.sql_statements import Statement, sql_statements
from vikingd.ingest.code.syntax_tree import syntax_trees
from vikingd.ingest.file_syntax import Syntax, comment_mark, ending, syntax_of
from vikingd.ingest.frontmatter import front_matter
from vikingd.ingest.markup_pieces import Piece

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_SIGNATURE = 160  # characters
_ATTRIBUTES = "attribute_list"  # the node of "[Fact]" in C#
_NEWLINE = re.compile(rb"\n")
_MAX_DEPTH = 12  # of definitions within definitions
_MAX_LINES = 65_536  # of markup whose headings are read

_MAX_COMMENT = 160  # characters of a comment beside a signature

# A plain value: "= 3", '= "text"', "= [", "= true".
_CONSTANT = re.compile(r"=\s*(?:[bfru]?[\"'\[({\d-]|(?:true|false|null|None)\b)", re.IGNORECASE)
_WORD = re.compile(r"\w")
# Definitions that say little: "x = require(", "func init()", "const a = useState".
_IMPORTS = re.compile(
    r"\brequire\(|\bimport\(|\bTypeVar\(|^module [\"']|^func init\(\)|^__\w+(?: =|\Z)"
    r"|^(?:const|let|var) [^=]* = "
    r"(?:(?:define|use|with)[A-Z]\w*|(?:shallow)?[rR]ef|inject|reactive)\b"
)
# The words before the place of the name in a function or a class without one.
_UNNAMED = re.compile(r"(?:async\b\s*(?=function|[(<]))?(?:function\b\s*\*?|class\b)?")
_OTHER_NAME = re.compile(r"(?!(?:extends|implements)\b)[^\W\d]")
_LINE_COMMENT = re.compile(r"(?:^|(?<=[\s)]))// [^\n]*\n", re.MULTILINE)
# Annotations before a signature: "@Override ", '@Get("/a") '.
_ANNOTATIONS = re.compile(r"^(?:@[\w.]+(?:\((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*\))?\s+)+")
_GROUP = re.compile(r"^(?:var|const|type) \((?: |\Z)")  # the beginning of a group in Go
_CUT_TYPE = re.compile(r"(?::| =)[^:=]*[\[(]\Z")  # of a value, whose text goes on
_SPACED = re.compile(r"(?<=[(\[]) | (?=[)\]])|,(?= ?[)\]])")
_MARKUP = (Syntax.MARKDOWN, Syntax.RST, Syntax.ASCIIDOC)
# The line above the next heading.
_OVERLINE = re.compile(r"\n([!-/:-@\[-`{-~])\1{2,}\Z")

HEADING, PART = "heading", "part"
"""The kinds of symbols that are headings of markup, and parts of a component."""


class Symbol(NamedTuple):
    """A definition in a source file, or a heading in markup.

    Attributes:
        path: the names of the definitions around it, or the headings above it.
        name: its name.
        kind: "class", "function", "type", "value", "module", "heading", or "part" of a component.
        first_line, last_line: its lines, from 1 on; of a heading those of its section.
        signature: its first line, without what follows the parameters; "" of a heading or a part.
    """

    path: tuple[str, ...]
    name: str
    kind: str
    first_line: int
    last_line: int
    signature: str

    @property
    def heading(self) -> str:
        """The path and the name, joined as in the headings of passages."""
        return SECTION_SEPARATOR.join((*self.path, self.name))


class _Source:
    """The bytes of a syntax tree, its grammar, and the number of lines before it."""

    def __init__(self, data: bytes, grammar: Grammar, before: int) -> None:
        self.data, self.grammar = data, grammar
        self._before = before

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(line.end() for line in _NEWLINE.finditer(self.data))]

    def line(self, byte: int) -> int:
        """Return the line of a byte."""
        return self._before + bisect_right(self._starts, byte)


class _Stated:
    """A definition in SQL that the grammar cannot read, with the attributes of its Symbol."""

    def __init__(self, found: Statement, source: _Source) -> None:
        self.path, self.name, self.kind = found.path, found.name, found.kind
        self.signature, self.first_line = found.signature, source.line(found.first)
        self._last_line = source.line(max(found.end - 1, found.first))

    def symbol(self) -> Symbol:
        """Return the definition as a symbol."""
        return Symbol(
            self.path, self.name, self.kind, self.first_line, self._last_line, self.signature
        )


class _Found:
    """A definition in a syntax tree, with the attributes of its Symbol.

    The signature and the lines are computed when they are needed: an abstract shows few definitions
    of a file.
    """

    def __init__(
        self, path: tuple[str, ...], name: str, outer: Node, found: Definition, source: _Source
    ) -> None:
        """Make a definition; `outer` is its node with the decorators and other wrappers."""
        self.path, self.name, self.kind = path, name, found.kind
        self._outer, self._source = outer, source
        self._node = found.node if len(found.names) == 1 else outer

    @cached_property
    def signature(self) -> str:
        signature = _signature(self._node, self._source.grammar, self._source.data)
        # The signature of a constructor has the name of its class, or a word such as "init".
        return signature if "constructor" in self._node.type else _with_name(signature, self.name)

    @property
    def first_line(self) -> int:
        return self._source.line(self._outer.start_byte)

    def symbol(self) -> Symbol:
        """Return the definition as a symbol."""
        last = self._source.line(_last_byte(self._outer, self._source.data))
        return Symbol(self.path, self.name, self.kind, self.first_line, last, self.signature)


def outline(content: str, name: str) -> list[Symbol] | None:
    """Return the definitions of a file in order, or the headings of markup.

    None if the language is not known, its grammar is not installed, or the syntax cannot be read.
    Source code is parsed in a child process.
    """
    if is_parsed(content, name):
        rows = parser_process.ask(OUTLINE, content, name)
        return None if rows is None else [Symbol(tuple(path), *rest) for path, *rest in rows]
    syntax = syntax_of(name, content)
    return _headings(content, syntax) if syntax in _MARKUP else None


def read_outline(content: str, name: str) -> list[Symbol] | None:
    """Return the outline of a file with source code, which is parsed in this process.

    This may take any time.
    """
    if is_notebook(name):
        return _notebook(content)
    if is_component(name, content):
        return _component(content, name)
    found = _definitions(content, name)
    return None if found is None else [one.symbol() for one in found]


def has_outline(name: str) -> bool:
    """Return True if files of this name can have an outline; source code also needs its grammar."""
    known = syntax_of(name) in _MARKUP or is_component(name)
    return known or grammar_of(ending(name)) is not None


def lacks_grammar(name: str) -> bool:
    """Return True for a file whose language is known, but whose grammar is not installed."""
    grammar = grammar_of(ending(name))
    if is_component(name):
        return not scripts_are_read()
    return grammar is not None and not language_is_there(grammar.package)


def _definitions(content: str, name: str) -> list[_Found | _Stated] | None:
    """Return the definitions of a file in order; None if its syntax cannot be read."""
    grammar = grammar_of(ending(name))
    if grammar is None or not language_is_there(grammar.package):
        return None
    return _definitions_of(content.removeprefix("\ufeff").encode(errors="replace"), grammar)


def _definitions_of(data: bytes, grammar: Grammar) -> list[_Found | _Stated] | None:
    pieces = syntax_trees(data, grammar)
    whole = _Source(data, grammar, 0)
    stated = [_Stated(one, whole) for one in sql_statements(data, pieces, grammar)]
    if all(piece.root is None for piece in pieces):
        return list(stated) or None
    found, before = list[_Found | _Stated](stated), 0  # lines before a piece
    for start, end, root in pieces:
        source = _Source(data[start:end], grammar, before)
        if root is not None:
            found += _found_below(root, source, (), 0)
        before += source.data.count(b"\n")
    return sorted(found, key=lambda one: one.first_line) if stated else found


def _symbols(data: bytes, grammar: Grammar) -> Iterator[Symbol]:
    return (one.symbol() for one in _definitions_of(data, grammar) or ())


def _notebook(content: str) -> list[Symbol] | None:
    """Return the headings of a notebook and the definitions in its cells; None if it is too long.

    A definition is below the headings of its cell.
    """
    headings = _headings(content, Syntax.MARKDOWN)
    if headings is None:
        return None
    blocks = list(markdown.outline(content, 0))
    found = list(headings)
    for block, line in zip(blocks, lines_at(content, (one.start for one in blocks)), strict=True):
        text = content[block.start : block.end]
        if (code := cell_code(text)) is None:
            continue
        above = line + text.count("\n", 0, code.start) - 1
        path = (*(h.name for h in headings if h.first_line <= line <= h.last_line), CODE)
        data = code.source.encode(errors="replace")
        found += (
            one._replace(
                path=(*path, *one.path),
                first_line=one.first_line + above,
                last_line=one.last_line + above,
            )
            for one in _symbols(data, code.grammar)
        )
    return sorted(found, key=lambda one: one.first_line)


def _component(content: str, name: str) -> list[Symbol] | None:
    """Return the parts of a component and the definitions in its scripts; None if it has none."""
    if not scripts_are_read():
        return None
    found: list[Symbol] = []
    before, line = 0, 1  # the characters of which the lines are counted, and their lines
    for part in sections(content, name):
        line += content.count("\n", before, part.start)
        before = part.start
        text = content[part.start : part.end].rstrip()
        if part.name:
            found.append(Symbol((), part.name, PART, line, line + text.count("\n"), ""))
        if part.grammar is None:
            continue
        data = content[part.code : part.close].encode(errors="replace")
        above = line + content.count("\n", part.start, part.code) - 1
        script = [
            one._replace(
                path=(SCRIPT, *one.path),
                first_line=one.first_line + above,
                last_line=one.last_line + above,
            )
            for one in _symbols(data, part.grammar)
        ]
        code = content[part.code : part.close]
        known = {(one.name, one.first_line) for one in script}
        for one in options(data, part.grammar):
            first = above + 1 + code.count("\n", 0, one.start)
            last = first + code.count("\n", one.start, one.end)
            path = (SCRIPT, one.group) if one.group else (SCRIPT,)
            if (one.name, first) not in known:
                script.append(Symbol(path, one.name, FUNCTION, first, last, one.signature))
        found += sorted(script, key=lambda one: (one.first_line, -one.last_line))
    return found or None


def read_signatures(content: str, name: str, limit: int) -> str:
    """Return the signatures of a file's definitions, joined by "; ", in at most `limit` characters.

    The text is "" without definitions. Definitions at the top level come first, then members, then
    modules, then constants; public names come before others. Each signature gets the first sentence
    of its comment if there is room for all of these sentences. If not, only the first definition
    with a comment gets it. Source code is parsed in this process, without a limit of time.
    """
    found: Iterable[_Found | _Stated | Symbol]
    if is_component(name):
        found = (one for one in _component(content, name) or () if one.kind != PART)
    else:
        found = _definitions(content, name) or ()
    kept: dict[str, _Found | _Stated | Symbol] = {}
    room = limit + 2
    for one in sorted(found, key=lambda one: (_rank(one), len(one.path), one.name.startswith("_"))):
        if _says_little(one.name, one.signature):
            continue
        signature = _ANNOTATIONS.sub("", one.signature)
        if signature and signature not in kept:
            room -= len(signature) + 2
            if kept and room < 0:
                break
        if signature:
            kept[signature] = one
    return "; ".join(_with_comments(kept, content, name, limit))[:limit]


def _says_little(name: str, signature: str) -> bool:
    """Return True for the signature of an import, of a hook, or of no name."""
    return (
        not _WORD.search(signature)
        or _IMPORTS.search(signature) is not None
        or (name in HOOKS and signature == f"{name}()")
    )


def _rank(one: _Found | _Stated | Symbol) -> int:
    """Return the rank of a definition: 2 for a constant, 1 for a module, 0 for any other.

    Definitions of a lower rank come first.
    """
    if one.kind == VALUE and _CONSTANT.search(one.signature):
        return 2
    return 1 if one.kind == MODULE else 0


def _with_comments(
    kept: Mapping[str, _Found | _Stated | Symbol], content: str, name: str, limit: int
) -> list[str]:
    """Return signatures with comments: all if they fit, else the first one that has a comment."""
    text = content.removeprefix("\ufeff")
    lines = text.split("\n")
    mark = comment_mark(name)
    plain = list(kept)
    both, main = list(plain), -1
    length = sum(map(len, plain)) + 2 * len(plain)
    for at, (signature, one) in enumerate(kept.items()):
        if one.kind in (VALUE, MODULE) or len(one.path) > 1:
            continue
        comment = comment_of(
            text, sum(map(len, lines[: one.first_line - 1])) + one.first_line - 1, mark
        )
        if 0 < len(comment) <= _MAX_COMMENT:
            both[at] = f"{signature}: {comment.rstrip('.')}"
            length += len(both[at]) - len(signature)
            main = at if main < 0 else main
            if length > limit:
                break
    if length <= limit:
        return both
    if main < 0:
        return plain
    shown, room = [both[main]], limit - len(both[main])
    for at, signature in enumerate(plain):
        if at != main and len(signature) + 2 <= room:
            shown.insert(len(shown) if at > main else at, signature)
            room -= len(signature) + 2
    return shown


def _found_below(
    node: Node, source: _Source, path: tuple[str, ...], depth: int
) -> Iterator[_Found]:
    grammar = source.grammar
    nodes = body_of(node, grammar) if depth else level_of(node, grammar)
    for child in nodes:
        found = definition(child, grammar, is_top=not depth)
        if found is None:
            continue
        inside = path + found.path
        for name in found.names:
            yield _Found(inside, name, child, found, source)
        if found.kind in HOLDING and depth < _MAX_DEPTH:
            within = (*inside, found.names[-1]) if found.names else inside
            yield from _found_below(found.node, source, within, depth + 1)


def _with_name(signature: str, name: str) -> str:
    """Return the signature with the name in it, unless it has the name already.

    The signature of a function without a name is `(a, b)`; with the name "add" it is `add(a, b)`.
    That of `async function (a)` is `async function add(a)`. That of a `typedef` ends with it. A
    function with another name is assigned: `add = function plus(a)`.
    """
    if not _WORD.search(signature) or re.search(
        rf"(?<![\w$]){re.escape(name)}(?![\w$])", signature
    ):
        return signature
    if signature.startswith("typedef "):
        return f"{signature} {name}"
    unnamed = _UNNAMED.match(signature)
    before = unnamed[0] if unnamed else ""
    rest = signature[len(before) :].lstrip()
    if before and _OTHER_NAME.match(rest):
        return f"{name} = {signature}"
    before = f"{before.rstrip()} " if before else ""
    return f"{before}{name}{'' if rest[:1] in ('(', '<') else ' '}{rest}".rstrip()


def _last_byte(node: Node, data: bytes) -> int:
    """Return the last byte of a node that is no white space, which some grammars include."""
    return node.start_byte + max(len(data[node.start_byte : node.end_byte].rstrip()) - 1, 0)


def _signature(node: Node, grammar: Grammar, data: bytes) -> str:
    """Return the text of a definition before its body, in one line, without attributes of C#."""
    start, kinds = node.start_byte, {_ATTRIBUTES, *grammar.comments}
    above = list(takewhile(lambda child: child.type in kinds, node.named_children))
    if any(child.type == _ATTRIBUTES for child in above):
        start = above[-1].end_byte
    ends = (
        child
        for child in node.named_children
        if child.type in grammar.bodies
        or (child.type in grammar.comments and child.start_byte > start)
    )
    body = next(ends, None)
    end = body.start_byte if body else node.end_byte
    text = data[start : min(end, start + 4 * _MAX_SIGNATURE)].decode(errors="ignore")
    if body is None:
        text = text.lstrip().partition("\n")[0]
    text = _LINE_COMMENT.sub("", text)
    text = _SPACED.sub("", _GROUP.sub("", one_line(text))).rstrip(" {:=;(")
    text = _CUT_TYPE.sub("", text).removesuffix(" =>")
    text = _ANNOTATIONS.sub("", text) if len(text) > _MAX_SIGNATURE else text
    return text if len(text) <= _MAX_SIGNATURE else text[: _MAX_SIGNATURE - 1].rstrip() + "…"


def _headings(content: str, syntax: Syntax) -> list[Symbol] | None:
    """Return the headings of markup; None if it is too long to read."""
    if content.count("\n") > _MAX_LINES:
        return None
    start = 1 if content.startswith("\ufeff") else 0
    pieces: Iterable[markdown.Part | Piece]
    if syntax is Syntax.MARKDOWN:
        pieces = markdown.outline(content, max(front_matter(content)[1], start))
    else:
        pieces = (restructured if syntax is Syntax.RST else asciidoc).pieces(content, start)
    placed = [piece for piece in pieces if piece.level]
    lines = list(lines_at(content, (piece.start for piece in placed)))
    ends = [len(content)] * len(placed)  # of the sections
    above: list[int] = []
    paths: list[tuple[str, ...]] = []
    for at, piece in enumerate(placed):
        while above and placed[above[-1]].level >= piece.level:
            ends[above.pop()] = content.rfind("\n", 0, piece.start) + 1
        paths.append(tuple(placed[i].heading for i in above[:_MAX_DEPTH]))
        if piece.heading:  # else it only ends a section
            above.append(at)
    found: list[Symbol] = []
    for piece, line, end, path in zip(placed, lines, ends, paths, strict=True):
        section = content[piece.start : end].rstrip()
        if syntax is Syntax.RST:
            section = _OVERLINE.sub("", section).rstrip()
        if piece.heading:
            last = line + section.count("\n")
            found.append(Symbol(path, piece.heading, HEADING, line, last, ""))
    return found
