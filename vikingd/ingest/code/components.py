"""Components of one file (Vue, Svelte, Astro) and HTML templates, cut into their parts.

The script of a component is cut at its definitions, below the heading `script`. Its markup has the
heading `template`, and its styles `style`. Of an HTML template the scripts alone have headings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from vikingd.ingest.code.code_parts import Part, parts
from vikingd.ingest.code.grammars import Grammar, grammar_of, language_is_there
from vikingd.ingest.code.headings import SCRIPT
from vikingd.ingest.code.syntax_tree import Characters, syntax_trees
from vikingd.ingest.file_syntax import Syntax, document_format, ending, syntax_of

if TYPE_CHECKING:
    from tree_sitter import Node

TEMPLATE = "template"
"""The heading of the markup of a component."""

_SUFFIXES = frozenset({".vue", ".svelte", ".astro"})
_MAX_SCRIPTS = 64  # of one file; others are cut as text
_LANGUAGES = {"ts": ".ts", "typescript": ".ts", "tsx": ".tsx", "jsx": ".tsx"}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The functions that Vue calls, and the options whose names are those of other things.
HOOKS = _names(
    "data setup render beforeCreate created beforeMount mounted beforeUpdate updated activated "
    "deactivated beforeUnmount unmounted beforeDestroy destroyed errorCaptured asyncData fetch "
    "head layout middleware validate provide"
)
_PLAIN_GROUPS = frozenset({"watch", "props", "emits", "components"})

# An attribute is short, so that no text is read twice for one that does not end.
_ATTRIBUTES = r"""(?:[^<>"']|"[^"]{0,2000}"|'[^']{0,2000}'){0,2000}"""
_OPENING = re.compile(
    rf"<!--.*?(?:-->|\Z)|<(?P<name>script|style|template)\b(?P<given>{_ATTRIBUTES})>",
    re.DOTALL | re.IGNORECASE,
)
_NESTED = re.compile(rf"<(?P<close>/)?template\b(?P<given>{_ATTRIBUTES})>", re.IGNORECASE)
_FRONT = re.compile(r"\s*---[ \t]*\r?\n(?P<code>.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_GIVEN = re.compile(r"""\b(lang|type)\s*=\s*["']?([\w./+-]+)""")
_CODE_TYPE = re.compile(r"(?:text|application)/(?:java|type|ecma)script|module|text/babel|ts|tsx")


class Section(NamedTuple):
    """A section of a component: characters [start, end); its code is [code, close).

    Attributes:
        name: "script", "template" or "style"; "" for markup of an HTML template.
        grammar: the grammar of its code; None if it is cut as text.
    """

    name: str
    start: int
    end: int
    code: int = 0
    close: int = 0
    grammar: Grammar | None = None


class Option(NamedTuple):
    """A function among the options of a component: characters [start, end) of its script.

    `group` is the option that holds it, such as "methods"; "" for none.
    """

    group: str
    name: str
    start: int
    end: int
    signature: str

    @property
    def is_hook(self) -> bool:
        """True for a function that the framework calls; an outline leaves its name out."""
        return self.group in _PLAIN_GROUPS or (not self.group and self.name in HOOKS)


def is_component(name: str, content: str = "") -> bool:
    """Return True for a Vue, Svelte or Astro file, and for HTML whose content is a template."""
    if ending(name) in _SUFFIXES:
        return True
    return document_format(name) == "html" and syntax_of(name, content) is Syntax.CODE


def scripts_are_read() -> bool:
    """Return True if the grammars of JavaScript and TypeScript are installed."""
    return all(
        grammar is not None and language_is_there(grammar.package)
        for grammar in map(grammar_of, (".js", ".ts"))
    )


def component_parts(content: str, name: str, fits: Callable[[int, int], bool]) -> list[Part] | None:
    """Return the parts of a component, see the module, in order; see `code_parts.parts`.

    A component is a Vue, Svelte or Astro file, or an HTML template.

    Returns:
        None for an HTML template whose scripts define nothing.
    """
    found: list[Part] = []
    for section in sections(content, name):
        inner = _script_parts(content, section, fits)
        if inner:
            inner[0] = inner[0]._replace(start=section.start)
            inner[-1] = inner[-1]._replace(end=section.end)
            found += inner
        else:
            is_script = section.name == SCRIPT
            path, names = ((SCRIPT,), ()) if is_script else ((), _named(section.name))
            found.append(Part(path, names, section.start, section.end))
    is_html = ending(name) not in _SUFFIXES
    return None if is_html and not any(part.path and part.names for part in found) else found


def _named(name: str) -> tuple[str, ...]:
    return (name,) if name else ()


def _script_parts(content: str, section: Section, fits: Callable[[int, int], bool]) -> list[Part]:
    if section.grammar is None:
        return []
    at = section.code
    data = content[at : section.close].encode(errors="replace")
    found = parts(data, section.grammar, lambda a, b: fits(at + a, at + b)) or []
    methods = list(options(data, section.grammar))
    return [
        Part(
            (SCRIPT, *part.path),
            part.names
            + tuple(
                one.name
                for one in methods
                if part.start <= one.start < part.end and not one.is_hook
            ),
            at + part.start,
            at + part.end,
        )
        for part in found
    ]


def sections(content: str, name: str) -> Iterator[Section]:
    """Yield the sections of a component in order; together they cover all of its text."""
    suffix = ending(name)
    markup = TEMPLATE if suffix in (".svelte", ".astro") else ""
    at = scripts = 0
    if suffix == ".astro" and (front := _FRONT.match(content)):
        given = Section(SCRIPT, 0, front.end(), front.start("code"), front.end("code"))
        yield given._replace(grammar=grammar_of(".ts"))
        at = front.end()
    while opening := _opening(content, at, suffix == ".vue"):
        start, code, kind = opening.start(), opening.end(), opening["name"].lower()
        if content[at:start].strip():
            yield Section(markup, at, start)
        close, end = _closing(content, kind, code)
        at = end
        grammar = None
        if kind == SCRIPT and scripts < _MAX_SCRIPTS:
            scripts += 1
            grammar = _grammar(opening["given"])
        yield Section(kind, start, end, code, close, grammar)
    if content[at:].strip():
        yield Section(markup, at, len(content))


def _opening(content: str, at: int, has_templates: bool) -> re.Match[str] | None:
    """Return the next tag that opens a section; tags within comments do not count."""
    for found in _OPENING.finditer(content, at):
        kind = (found["name"] or "").lower()
        if kind and not found["given"].endswith("/") and (has_templates or kind != TEMPLATE):
            return found
    return None


def _closing(content: str, kind: str, at: int) -> tuple[int, int]:
    """Return (start, end) of the tag that closes a section.

    If there is none, both are the end of the text.
    """
    if kind != TEMPLATE:
        found = re.compile(rf"</{kind}\s*>", re.IGNORECASE).search(content, at)
        return found.span() if found else (len(content), len(content))
    depth = 1
    for tag in _NESTED.finditer(content, at):
        if tag["close"]:
            depth -= 1
        elif not tag["given"].endswith("/"):
            depth += 1
        if not depth:
            return tag.span()
    return len(content), len(content)


def _grammar(given: str) -> Grammar | None:
    """Return the grammar for a script by the attributes of its tag; None if it holds no code."""
    values = dict(_GIVEN.findall(given))
    if "type" in values and not _CODE_TYPE.fullmatch(values["type"]):
        return None
    return grammar_of(_LANGUAGES.get(values.get("lang", ""), ".js"))


def options(data: bytes, grammar: Grammar) -> Iterator[Option]:
    """Yield the functions in the object that a script exports, and in its options."""
    before = 0
    for start, end, root in syntax_trees(data, grammar):
        piece = data[start:end]
        characters = Characters(piece)
        for group, name, node in _functions(root) if root is not None else ():
            body = node.child_by_field_name("body") or node.child_by_field_name("value")
            head = piece[node.start_byte : body.start_byte if body else node.end_byte]
            begin, behind = characters.at(node.start_byte), characters.at(node.end_byte)
            text = " ".join(head.decode(errors="ignore").split()).rstrip(" :{")
            yield Option(group, name, before + begin, before + behind, text)
        before += characters.at(end - start)


def _functions(root: Node) -> Iterator[tuple[str, str, Node]]:
    for statement in root.named_children:
        if statement.type != "export_statement":
            continue
        for exported in statement.named_children:
            if exported.type == "call_expression":  # defineComponent({...})
                arguments = exported.child_by_field_name("arguments")
                exported = next(iter(arguments.named_children if arguments else ()), exported)
            if exported.type != "object":
                continue
            for member in exported.named_children:
                if name := _function_name(member):
                    yield "", name, member
                value = member.child_by_field_name("value")
                if member.type == "pair" and value is not None and value.type == "object":
                    group = _key(member)
                    for one in value.named_children:
                        if name := _function_name(one):
                            yield group, name, one


def _function_name(member: Node) -> str:
    value = member.child_by_field_name("value")
    is_function = member.type == "method_definition" or (
        member.type == "pair" and value is not None and "function" in value.type
    )
    return _key(member) if is_function else ""


def _key(member: Node) -> str:
    key = member.child_by_field_name("key") or member.child_by_field_name("name")
    text = key.text.decode(errors="ignore") if key is not None and key.text else ""
    return text.strip("'\"") if len(text) < 120 else ""
