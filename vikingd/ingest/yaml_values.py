"""YAML 1.2 of front matter, read so that an invalid value does not affect the others.

An unquoted value is null, a boolean or a number only by the core schema of YAML 1.2; all else is
text: `NO`, `10:30`, `1_000`, dates. A block that is not valid YAML is read entry by entry, as the
author most likely meant it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from vikingd.domain.text import join_lines, one_line
from vikingd.ingest.json_values import (
    NO_VALUES,
    FrontValues,
    Notes,
    is_storable,
    number,
    storable,
    unquoted,
)
from vikingd.ingest.limits import MAX_METADATA_BYTES, MAX_METADATA_DEPTH

_PLAIN, _QUOTED = "plain", "quoted"  # tags of scalars without a tag
_STANDARD = "tag:yaml.org,2002:"
_RESOLVED = frozenset(_STANDARD + name for name in ("int", "float", "bool", "null"))
_CONSTANTS = {
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MOST_LEVELS = 6  # of a broken block; each is parsed by itself

# The key of a line. Without a space after its colon it counts only in an invalid block.
_KEY = re.compile(
    r"""[ ]*+(?:
    (?P<quoted>"[^"\n]{1,128}"|'[^'\n]{1,128}')[ \t]*:(?=[ \t]|$)
    |(?P<plain>(?!-[ \t]|\?[ \t]|["'#\[\]{},|>&*!%:])\S(?:[^:\n]|:(?=\S)){0,127}?)[ \t]*:(?=[ \t]|$)
    |(?P<glued>[A-Za-z_][\w-]{0,63}):(?=[^\s:/\\])
    )(?P<value>.*)""",
    re.VERBOSE,
)
_WIDE_KEY = re.compile(r"(\w[\w-]{0,63})(?:：\s*|:\s+)(.*)")
_ITEM = re.compile(r"[ ]*+-(?=[ \t]|$)(?P<value>.*)")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_FLOW_ITEM = re.compile(r"""\s*("[^"]*"|'[^']*'|[^,"'\s][^,]*)\s*(?:,|$)""")
_LEADING_TABS = re.compile(r"^[ \t]+", re.MULTILINE)


class _Dropped(Exception):
    """A value cannot be stored, not even as text; the message is the reason."""


@cache
def _loader() -> Any:
    import yaml  # a program that reads no files does not need it

    class Loader(yaml.SafeLoader):
        def resolve(self, kind: Any, _value: Any, implicit: Any) -> str:
            if kind is not yaml.ScalarNode:
                return ""
            return _PLAIN if implicit[0] else _QUOTED

    return Loader


def load() -> None:
    """Import the YAML parser and build it now, on this thread."""
    _loader()


def read_yaml(block: str) -> FrontValues:
    """Return the values of a block of YAML."""
    reader = _Reader()
    values: dict[str, Any] = {}
    reason = ""
    try:
        node = reader.compose(block)
        if node is not None and node.id != "mapping":
            return NO_VALUES
        if node is not None:
            reader.pairs(node, values)
    except _Unparsed as error:
        reason = str(error)
        lines = [_with_colon(line) for line in block.splitlines()]
        if (repaired := reader.entries(lines, "", 0)) is None:
            return NO_VALUES._replace(reason=reason)
        values = repaired
    return FrontValues(storable(values, reader.notes), reader.written, tuple(reader.notes))


class _Unparsed(Exception):
    """A text is not valid YAML; the message is the reason."""


class _Reader:
    def __init__(self) -> None:
        self.notes = Notes()
        self.written: dict[str, str] = {}
        self._text = ""
        self._room = 0  # characters that the value in work may still have

    def compose(self, text: str) -> Any:
        """Return the YAML node of a text; None for an empty text."""
        import yaml

        self._text = text
        try:
            return yaml.compose(text, Loader=_loader())
        except Exception as error:  # RecursionError, and errors that are not PyYAML's own
            reason = getattr(error, "problem", None) or error
            raise _Unparsed(one_line(str(reason)) or type(error).__name__) from None

    def pairs(self, node: Any, values: dict[str, Any], above: str = "") -> None:
        """Read the pairs of a mapping into `values`.

        `above` is the prefix of their names in notes, such as "author." for a nested mapping.
        """
        for key_node, value_node in node.value:
            if key_node.id != "scalar":
                self.notes.add(self._source(key_node), "is left out: it is no name")
                continue
            key = key_node.value
            if not self._is_new(key, values, above):
                continue
            name = f"{above}{key}"
            self._room = MAX_METADATA_BYTES
            try:
                values[key] = self._value(value_node, name, 1 + above.count("."))
            except _Dropped as error:
                values.pop(key, None)
                self.notes.add(name, f"is left out: {error}")
                continue
            if not above:
                self._set_written(key, value_node, values[key])

    def _is_new(self, key: str, values: Mapping[str, Any], above: str) -> bool:
        if not is_storable(key):
            self.notes.add(above + key, "is left out: it is no valid name")
            return False
        if key in values:
            self.notes.twice(above + key)
        return True

    def _set_written(self, key: str, node: Any, value: object) -> None:
        """Set `written[key]` for a top-level value that loses its written form.

        These are numbers, booleans, and folded text that is not ASCII; see `FrontValues.written`.
        """
        self.written.pop(key, None)
        if isinstance(value, int | float):
            self.written[key] = node.value
        elif (
            isinstance(value, str)
            and not value.isascii()
            and node.style != "|"
            and node.start_mark.line != node.end_mark.line
        ):
            self.written[key] = one_line(value)  # YAML folds lines of Chinese with a space.

    def _value(self, node: Any, name: str, depth: int) -> Any:
        if depth > MAX_METADATA_DEPTH:
            raise _Dropped(f"it is nested deeper than {MAX_METADATA_DEPTH} levels")
        self._room -= 4 + (len(node.value) if node.id == "scalar" else 0)
        if self._room < 0:
            raise _Dropped(f"it has more than {MAX_METADATA_BYTES:,} characters with its aliases")
        if node.id == "scalar":
            return self._scalar(node, name)
        if node.id == "sequence":
            return [self._value(one, f"{name}[{i}]", depth + 1) for i, one in enumerate(node.value)]
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.id != "scalar":  # {{ a template }}
                return self._source(node)
            key = key_node.value
            if self._is_new(key, values, f"{name}."):
                values[key] = self._value(value_node, f"{name}.{key}", depth + 1)
        return values

    def _scalar(self, node: Any, name: str) -> Any:
        text: str = node.value
        if node.tag == _PLAIN or node.tag in _RESOLVED:
            if text in _CONSTANTS and (text or node.tag == _PLAIN):
                return _CONSTANTS[text]
            try:
                value = number(text)
            except OverflowError as error:
                self.notes.as_text(name, str(error))
                return text
            if value is not None:
                return value
        elif node.tag.startswith("!"):
            text = self._source(node)
        if is_storable(text):
            return text
        self.notes.as_text(name, "it has an escape of a character that cannot be stored")
        return unquoted(self._source(node))

    def _source(self, node: Any) -> str:
        return self._text[node.start_mark.index : node.end_mark.index]

    def entries(self, lines: Sequence[str], above: str, level: int) -> dict[str, Any] | None:
        """Read an invalid mapping entry by entry; None if it is no mapping."""
        values: dict[str, Any] = {}
        found = list(_entries(lines))
        if not found or any(match is None for match, _ in found):
            return None
        for match, entry in found:
            assert match
            try:
                self.pairs(self._pair(entry), values, above)
            except _Unparsed as error:
                key = unquoted(match["quoted"] or "") or match["plain"] or match["glued"]
                if self._is_new(key, values, above):
                    values[key] = self._repaired(
                        match["value"], entry[1:], f"{above}{key}", level, str(error)
                    )
                    if not above:
                        self.written.pop(key, None)
        return values

    def _pair(self, entry: Sequence[str]) -> Any:
        """Return the YAML node of an entry with one key; invalid tabs are removed."""
        text = "\n".join([*entry, ""])
        try:
            node = self.compose(text)
        except _Unparsed:
            if "\t" not in text:
                raise
            node = self.compose(_without_tabs(text))
        if node is None or node.id != "mapping" or len(node.value) != 1:
            raise _Unparsed("it is no pair of a key and a value")
        return node

    def _repaired(
        self, value: str, below: Sequence[str], name: str, level: int, problem: str
    ) -> Any:
        """Return the value of an entry that is not valid YAML.

        Args:
            value: the text after the key, in its line.
            below: the lines below it.
            name: the name of the value, for notes.
            level: the depth of the entry.
            problem: the reason why it is not valid, for notes.
        """
        if not _COMMENT.sub("", value).strip() and level < _MOST_LEVELS:
            lines = textwrap.dedent(_without_tabs("\n".join(below))).splitlines()
            first = next((line for line in lines if line.strip()), "")
            if _ITEM.match(first):
                return list(self._items(lines, name, level + 1))
            if _KEY.match(first):
                values = self.entries(lines, f"{name}.", level + 1)
                if values is not None:
                    return values
        text = join_lines((value, *below))
        if text[:1] == "[" and text[-1:] == "]" and not re.search(r"[\[\]{}]", text[1:-1]):
            return [self._plain(one) for one in _FLOW_ITEM.findall(text[1:-1])]
        if text[:1] in ("'", '"', "[", "{"):
            self.notes.as_text(name, problem)
            return unquoted(text)
        return join_lines(_COMMENT.sub("", line) for line in (value, *below))

    def _plain(self, text: str) -> Any:
        text = text.strip()
        if text[:1] in ("'", '"'):
            return unquoted(text)
        try:
            value = number(text)
        except OverflowError:
            return text
        return _CONSTANTS.get(text, text) if value is None else value

    def _items(self, lines: Sequence[str], name: str, level: int) -> Iterator[Any]:
        """Yield the items of an invalid list."""
        items: list[list[str]] = []
        for line in lines:
            if _ITEM.match(line) and not line.startswith(" "):
                items.append([line])
            elif items:
                items[-1].append(line)
        for i, item in enumerate(items):
            here = f"{name}[{i}]"
            try:
                node = self.compose("\n".join(item))
                self._room = MAX_METADATA_BYTES
                yield self._value(node.value[0], here, 2)
            except _Unparsed as error:
                match = _ITEM.match(item[0])
                assert match
                if any(map(_KEY.match, item[1:])):
                    yield self._repaired(
                        "", [f" {item[0][1:]}", *item[1:]], here, level, str(error)
                    )
                else:
                    yield self._repaired(match["value"], item[1:], here, level, str(error))
            except _Dropped as error:
                self.notes.add(here, f"is left out: {error}")


def _entries(lines: Sequence[str]) -> Iterator[tuple[re.Match[str] | None, list[str]]]:
    """Yield each unindented key with its lines; a line that belongs to no key has None."""
    match: re.Match[str] | None = None
    entry: list[str] = []
    is_blank = False
    for line in lines:
        was_blank, is_blank = is_blank, not line.strip()
        is_below = is_blank or line[0] in " \t#]}" or _ITEM.match(line)
        key = None if is_below else _KEY.match(line)
        if key:
            if match:
                yield match, entry
            match, entry = key, [line]
        elif match and (is_below or not was_blank):
            entry.append(line)
        elif not is_blank and line[0] != "#":
            yield None, [line]
    if match:
        yield match, entry


def _with_colon(line: str) -> str:
    """Return a line whose key has a colon of Chinese text, or a hard space after it, as YAML."""
    found = None if _KEY.match(line) else _WIDE_KEY.match(line)
    return f"{found[1]}: {found[2]}" if found else line


def _without_tabs(text: str) -> str:
    return _LEADING_TABS.sub(lambda run: run[0].expandtabs(4), text).replace("\t", " ").rstrip()
