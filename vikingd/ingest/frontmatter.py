"""Front matter: a block of YAML, TOML or JSON at the beginning of a file.

YAML stands between two lines of `---`, TOML between two of `+++`. A JSON object stands alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from vikingd.domain.text import join_lines
from vikingd.ingest import stated_dates, yaml_values
from vikingd.ingest.json_values import NO_VALUES, FrontValues, Notes, number_or_text, storable
from vikingd.ingest.limits import as_sent
from vikingd.ingest.toml_values import read_toml

_MAX_CHARS = 16_384  # of a block; a longer block is content

# A block between lines of marks: "---", "title: Setup", "---".
_BLOCK = re.compile(
    r"(?P<mark>---|\+\+\+)[ \t]*(?>\r\n?|\n)(?P<block>.*?)"
    r"^(?:(?P=mark)|(?<!\+)\.\.\.)[ \t]*(?=[\r\n]|\Z)",
    re.DOTALL | re.MULTILINE,
)
_JSON = re.compile(r'\{\s*"')
_BELOW_JSON = re.compile(r"[ \t]*(?>\r\n?|\n)\s*\S")
# A line of a block that begins an entry: neither white space, a comment, an item nor a bracket.
_ENTRY = re.compile(r"^(?![\s#\]}]|-[ \t\r\n]|-$).*", re.MULTILINE)
_TRAILING = re.compile(r"(?:^[ \t]*(?:#.*)?(?:\r\n?|\n|\Z))+\Z", re.MULTILINE)


class _Front(NamedTuple):
    """Front matter of a content: its values, and the position of the text after it."""

    found: FrontValues
    end: int
    yaml: str  # the block, if it is YAML


def load() -> None:
    """Import the YAML parser and build it now, on this thread."""
    yaml_values.load()


def front_matter(content: str) -> tuple[dict[str, Any], int]:
    """Return the front matter as JSON values, and the position of the text after it.

    Dates and times are strings, as they are written. A value that is not valid YAML is read as the
    author most likely meant it, else as a string. A value that cannot be stored is left out, see
    `faults`. A block that is not a mapping is not front matter: the text begins with it. The text
    never begins with a byte order mark.
    """
    front = _front(content)
    return dict(front.found.values or {}), front.end


def with_front_matter(content: str, values: Mapping[str, Any]) -> str:
    """Return the content with these values as its front matter, which replaces its own.

    Lines of values that do not change stay as they are.
    """
    front = _front(content)
    rest = content[front.end :]
    old = front.found.values
    eol = _eol(front.yaml)
    if old and front.yaml:
        text = f"---{eol}{_edited(front.yaml, old, values)}---{rest}"
        if canonical(front_matter(text)[0]) == canonical(values):
            return text
    block = f"---\n{_dumped(values)}---".replace("\n", eol)
    return f"{block}{rest}" if rest[:1] in ("\r", "\n") else f"{block}{eol * 2}{rest}"


def faults(content: str) -> list[str]:
    """Return the faults of front matter: a reason for each value that is lost or changed.

    For a block that looks like front matter but cannot be read, the result is the one reason.
    """
    found = _front(content).found
    if found.values is None:
        return [found.reason] if found.reason else []
    why = stated_dates.fault(found.values.get("date"))
    return [*found.notes, f"date: {why}"] if why else list(found.notes)


def stated(content: str, *keys: str) -> str:
    """Return the first of the named values that is a text or a number, in one line, or ""."""
    found = _front(content).found
    for key in keys:
        value = found.written.get(key, (found.values or {}).get(key))
        if isinstance(value, str | int | float) and (line := join_lines(str(value).splitlines())):
            return line
    return ""


def canonical(values: Mapping[str, Any]) -> str:
    """Return values as JSON text for comparisons; unlike dicts it distinguishes True from 1."""
    return json.dumps(as_sent(values))


def _front(content: str) -> _Front:
    start = 1 if content.startswith("\ufeff") else 0
    block = _BLOCK.match(content, start, start + _MAX_CHARS)
    if block:
        is_yaml = block["mark"] == "---"
        found = _yaml(block["block"]) if is_yaml else _toml(block["block"])
        end = block.end()
    elif _JSON.match(content, start, start + _MAX_CHARS):
        is_yaml = False
        found, end = _json(content[start : start + _MAX_CHARS])
        end += start
    else:
        return _Front(NO_VALUES, start, "")
    if found.values is None:
        return _Front(found, start, "")
    return _Front(found, end, block["block"] if block and is_yaml else "")


# Title, abstract and passages of a file ask for the same block.
_yaml = lru_cache(maxsize=8)(yaml_values.read_yaml)
_toml = lru_cache(maxsize=8)(read_toml)


def _json(text: str) -> tuple[FrontValues, int]:
    """Return the values of a JSON object with text below it, and where the object ends."""
    decoder = json.JSONDecoder(
        parse_int=number_or_text, parse_float=number_or_text, parse_constant=str
    )
    try:
        values, end = decoder.raw_decode(text)
    except (ValueError, RecursionError):
        return NO_VALUES, 0
    if not _BELOW_JSON.match(text, end):
        return NO_VALUES, 0
    notes = Notes()
    return FrontValues(storable(values, notes), {}, tuple(notes)), end


@cache
def _dumper() -> Any:
    """Return a YAML writer whose output YAML 1.1 and 1.2 readers understand alike."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            return True

    # Numbers only in YAML 1.2, such as "0o17" and "1e3": strings like these get quotation marks.
    number = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+|0o[0-7]+")
    Dumper.add_implicit_resolver("tag:vikingd,number", number, list("-+.0123456789"))
    return Dumper


def _dumped(values: Mapping[str, Any]) -> str:
    import yaml

    text: str = yaml.dump(
        dict(values), Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=math.inf
    )
    return text


def _eol(block: str) -> str:
    end = re.search(r"\r\n?|\n", block)
    return end[0] if end else "\n"


def _edited(block: str, old: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Return a block of front matter with new values.

    The lines of unchanged values stay the same.
    """
    starts = [match.start() for match in _ENTRY.finditer(block)]
    eol = _eol(block)
    parts = [block[: starts[0]] if starts else block]
    left = dict(values)
    for start, end in zip(starts, [*starts[1:], len(block)], strict=False):
        entry = block[start:end]
        key = next(iter(_yaml(entry).values or {}), "")
        value = left.pop(key, values.get(key))
        if key not in old or canonical({"": old[key]}) == canonical({"": value}):
            parts.append(entry)
        elif key in values:
            trailing = _TRAILING.search(entry)
            parts.append(_dumped({key: value}).replace("\n", eol))
            parts.append(trailing[0] if trailing else "")
    if left:
        parts.append(_dumped(left).replace("\n", eol))
    return "".join(parts)
