"""Definitions of source code that no grammar reads, by their first lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vikingd.domain.text import lazy, one_line
from vikingd.ingest.file_syntax import ending

_MAX_LINE = 160

# A word that begins a definition at the beginning of a line, of most languages.
_KEYWORD = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|sealed|async|"
    r"partial|override|virtual|inline|extern|unsafe|local|pub(?:\([a-z]+\))?)[ \t]+)*"
    r"(?:class|interface|struct|enum|trait|protocol|record|module|namespace|object|def|defp|defmodule"
    r"|defmacro|fn|func|fun|function|sub|proc|message|service|rpc|newtype|data|type|instance|impl|"
    r"macro_rules!|(?i:create)[ \t]+(?:(?i:or[ \t]+replace)[ \t]+)?"
    r"(?i:table|view|index|function|procedure|trigger))"
    r"[ \t]+[\w\"`'(\[][^\n]*"
)
_FUNCTION = r"[A-Za-z_][\w-]*[ \t]*\(\)[ \t]*\{"  # of a shell
_TYPED = r"[a-z_][\w']*(?:[ \t]*,[ \t]*[a-z_][\w']*)*[ \t]*::[^\n]+"  # of Haskell
_LISP = r"\((?:def\w*|ns)[ \t]+[^\s()]+"
_SELECTOR = r"(?:[.#&@:]?[\w-][\w .:>+~#*@()&,\[\]=\"'$-]*)\{"
_KEYS = {
    ".json": lazy(r"^(?: {2,4}|\t)\"([^\"\n]+)\"[ \t]*:", 8),
    ".yaml": lazy(r"^([\w.-]+):(?=\s|$)", 8),
    ".yml": lazy(r"^([\w.-]+):(?=\s|$)", 8),
    ".toml": lazy(r"^\[{1,2}([^\]\n]+)\]", 8),
    ".ini": lazy(r"^\[([^\]\n]+)\]", 8),
    ".cfg": lazy(r"^\[([^\]\n]+)\]", 8),
}
_STYLES = frozenset((".css", ".scss", ".less"))
_DEFINITION = lazy(rf"^(?:{_KEYWORD}|{_FUNCTION}|{_TYPED}|{_LISP})", 8)
_RULE = lazy(rf"^{_SELECTOR}", 8)


class PlainDefinition(NamedTuple):
    """The first line of a definition, and where it starts."""

    start: int
    line: str


def plain_definitions(content: str, name: str) -> Iterator[PlainDefinition]:
    """Yield the lines that look like definitions; in data the keys, in style sheets the rules."""
    suffix = ending(name)
    keys = _KEYS.get(suffix)
    pattern = keys or (_RULE if suffix in _STYLES else _DEFINITION)
    for found in pattern.finditer(content):
        line = one_line(found[1] if keys else found[0]).rstrip(" {:=(,")
        if line:
            yield PlainDefinition(found.start(), line[:_MAX_LINE])


def plain_signatures(content: str, name: str, limit: int) -> str:
    """Return the first lines of definitions of source code, at most `limit` characters in all.

    Data and styles have none.
    """
    if ending(name) in _KEYS or ending(name) in _STYLES:
        return ""
    text = ""
    for line in dict.fromkeys(one.line for one in plain_definitions(content, name)):
        if text and len(text) + len(line) + 2 > limit:
            break
        text += f"; {line}" if text else line
    return text[:limit]
