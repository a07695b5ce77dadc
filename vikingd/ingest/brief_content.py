"""Abstracts of files that have neither prose nor definitions.

Nothing is parsed here. Regular expressions find the keys of data files, the selectors of style
sheets, the XML elements with names, and the properties, components and form fields of pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vikingd.domain.text import lazy, one_line
from vikingd.ingest.file_syntax import ending
from vikingd.ingest.first_prose import is_prose

_READ = 8192  # characters that are read
_STYLES = (".css", ".scss", ".less")
_DATA = (".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".properties")
_PAGES = (".html", ".htm", ".xhtml", ".ejs", ".erb")
_COMPONENTS = (".vue", ".svelte", ".astro")
_NO_PAGES = (*_COMPONENTS, ".xml", ".js", ".jsx", ".ts", ".tsx", ".php")

# The marks of comments; a comment for tools ("/* eslint-disable */", "* @param a") as a whole.
_MARKS = lazy(
    r"/\*+[ \t]*(?:@|istanbul|eslint|prettier)[^*\n]*\*/|/\*+|\*+/"
    r"|^[ \t]*\*(?:[ \t]*@[^\n]*|[ \t]+|$)",
    8,
)
# A stated description: "<description>A tool</description>".
_STATED = lazy(
    r"<description>([^<]+)</description>|<meta\s+name=\"description\"\s+content=\"([^\"]+)\""
)
_SHORT = "short_description"
# A name or a description of data: "name: tool", '"description": "A tool",'.
_NAMED = lazy(
    r"^([ \t]*(?:- )?)\"?(name|title|(?:short_)?description|summary|desc)\"?[ \t]*[:=](?>[ \t]*)"
    r"(?![|>{\[])([^\n]{1,400})$",
    8,
)
# Lines that say nothing about a file: "import os", "#include <a.h>", "'use strict';", "---".
_IMPORT = lazy(
    r"^(?:import\b(?:[^\n;{(]*(?:\{[^{}]*\}|\([^()]*\)))?[^\n]*"
    r"|from [\w.]+ import (?:\([^()]*\)|[^\n]*)"
    r"|[\"']use strict[\"'];?|(?:const|let|var)[^=\n]*= require\([^\n]*|package [\w.]+;?"
    r"|#include[^\n]*|<\?xml[^\n]*|---)$",
    8,
)
# A key with or without a short value: "  host:", "port: 80", "name = demo".
_KEY = lazy(
    r"^([ \t]*)(?:- )?[\"']?((?!//)[\w@$.*/-]+(?: [\w-]+)*)[\"']?[ \t]*[:=](?:[ \t]+|$)"
    r"(?:[\"']?([\w@./-][^\n\"',{\[]{0,39})[\"']?,?[ \t]*$)?",
    8,
)
_SECTION = lazy(r"^()\[{1,2}([^\]\n]+)\]()", 8)
# The beginning of a style rule or a mixin: ".menu a:hover {", "@mixin round($size) {".
_RULE = lazy(r"^([ \t]*)((?:@(?:include|mixin) )?[^\s{};/@&+\d][^{};\n]{0,200}?)[ \t]*\{", 8)
# An XML element with a name: '<bean id="mailer"', "<artifactId>core<".
_ELEMENT = lazy(
    r"<([\w:.-]+)(?:\s[^<>]*?)?\s(?:id|name|namespace|key|class)=[\"']([^\"'<>]+)[\"']"
    r"|<(name|artifactId|title|module|packaging)>([^<>]+)<"
)
# The properties of a component, in lines between "props: {" and "}".
_PROPS = lazy(
    r"^((?>[ \t]*))(?:(?>[^\n{]*?\bdefineProps\b)[^\n{]*|props: ?)\{\n(.*?)^\1\}", 8 | re.DOTALL
)
_PROP = lazy(r"^([ \t]+)(\w+)\??:", 8)
_SECRET = lazy(r"(?i)passw|secret|token|credential|(?:api|private|access)[-_ ]?key")
_META = lazy(r"<(?:meta|link|html)\b[^<>]*>")
# The tag of a component: "<UserList " or "<user-list>".
_COMPONENT = lazy(r"<([A-Z]\w+|(?!router-|keep-)[a-z]+-[\w-]+)(?=[\s/>])")
# A form field: ' name="email"', ' v-model="query"'.
_FIELD = lazy(
    r"\s(?:name|id|placeholder|v-model|action|v-for|formControlName)=(?:\"([^\"\n]+)\"|'([^'\n]+)')"
)


def brief(text: str, name: str, limit: int, told: str = "") -> str:
    """Return one line about a file: its whole text if that is short, else its keys or components.

    Args:
        text: the content after the first comments.
        name: the name of the file.
        limit: the most characters of the result.
        told: signatures of definitions, which precede the other names; "" for none.
    """
    text = _MARKS.sub("", _IMPORT.sub("", text[:_READ]).strip() or text[:_READ])
    suffix = ending(name)
    is_page = suffix in _PAGES or (text.lstrip().startswith("<") and suffix not in _NO_PAGES)
    whole = one_line(text)
    is_short = len(whole) <= limit and len(text) < _READ
    if is_short and not (is_page and told) and not _SECRET.search(whole):
        return whole
    if stated := next(_stated(text), ""):
        return stated
    named = _of_markup(text) if is_page or suffix in _COMPONENTS else _names_by_suffix(text, suffix)
    if parts := _joined(named, limit - len(told) - 2):
        return f"{told}; {parts}" if told else parts
    if is_page and told:
        return told
    whole = whole if whole.startswith(told) else f"{told}; {whole}"
    return f"{whole[: limit - 1].rstrip()}…"


def _stated(text: str) -> Iterator[str]:
    """Yield the descriptions that a text states of itself, and not of a part.

    In data they are indented as little as any name or description, and have a key of their own.
    """
    named = list(_NAMED.finditer(text))
    least = min((len(one[1]) for one in named), default=0)
    keys = [one[2] for one in named if len(one[1]) == least]
    found = [
        (one[2] == _SHORT, one[3])
        for one in named
        if len(one[1]) == least and keys.count(one[2]) == 1 and one[2] not in ("name", "title")
    ]
    found += [(False, one[1] or one[2]) for one in _STATED.finditer(text)]
    for is_short, line in found:
        line = one_line(line).rstrip(", ").strip("\"'")
        if is_short or is_prose(line):
            yield line


def _names_by_suffix(text: str, suffix: str) -> Iterator[str]:
    """Yield names by the suffix of the file: selectors of CSS, keys of data, or XML elements.

    A key is "host", or "port: 80" if it is outermost and has a short value. An XML element is its
    tag and its name, such as "bean mailer".
    """
    if suffix in _STYLES:
        yield from _by_depth((one[1], one[2]) for one in _RULE.finditer(text))
    elif suffix in _DATA:
        keys = sorted([*_SECTION.finditer(text), *_KEY.finditer(text)], key=re.Match.start)
        top = min((len(one[1]) for one in keys), default=0)
        yield from _by_depth(
            (
                one[1],
                f"{one[2]}: {one[3]}"
                if one[3] and len(one[1]) == top and not _SECRET.search(one[2])
                else one[2],
            )
            for one in keys
        )
    elif suffix == ".xml":
        for found in _ELEMENT.finditer(text):
            yield f"{found[1] or found[3]} {found[2] or found[4]}"


def _of_markup(text: str) -> Iterator[str]:
    """Yield the names of the properties, components and form fields in a page or a component."""
    text = _META.sub("", text)
    for props in _PROPS.finditer(text):
        yield from _by_depth((one[1], one[2]) for one in _PROP.finditer(props[2]))
    yield from (found[1] for found in _COMPONENT.finditer(text))
    yield from (found[1] or found[2] for found in _FIELD.finditer(text))


def _by_depth(found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the names of (indentation, name) pairs, the least indented names first."""
    yield from (name for _, name in sorted(found, key=lambda one: len(one[0].expandtabs(4))))


def _joined(parts: Iterable[str], limit: int) -> str:
    """Join the parts with commas, without duplicates, as many as fit into `limit` characters."""
    text = ""
    for part in dict.fromkeys(map(one_line, parts)):
        if len(text) + len(part) + 3 > limit:
            return f"{text}, …" if text else part[: max(limit, 0)]
        text += f", {part}" if text else part
    return text
