"""YAML front matter: the block between two `---` lines that a file may begin with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, time
from functools import lru_cache
from typing import Any

import yaml

MAX_CHARS = 16_384
"""A longer block is content."""

_MAX_BITS = 1023  # as a number of JSON may have

_BLOCK = re.compile(
    r"---[ \t]*(?>\r\n?|\n)(.*?)^(?:---|\.\.\.)[ \t]*(?=[\r\n]|\Z)", re.DOTALL | re.MULTILINE
)


class _Loader(yaml.SafeLoader):
    """Refuses aliases: a few lines of them can stand for gigabytes."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)


def front_matter(content: str) -> tuple[dict[str, Any], int]:
    """The front matter as JSON values, dates as ISO 8601, and where the text after it begins.

    A block that is not a YAML mapping is no front matter but part of the text. A byte order mark
    never is.
    """
    start = 1 if content.startswith("\ufeff") else 0
    block = _BLOCK.match(content, start, start + MAX_CHARS)
    if block is None:
        return {}, start
    values = _mapping(block[1])
    return ({}, start) if values is None else (dict(values), block.end())


def stated(values: Mapping[str, Any], *keys: str) -> str:
    """The first of these values that is a text or a number, in one line; "" when none is."""
    for key in keys:
        value = values.get(key)
        if isinstance(value, str | int | float) and (line := " ".join(str(value).split())):
            return line
    return ""


@lru_cache(maxsize=8)  # a file's title, abstract and passages all ask for the same block
def _mapping(block: str) -> dict[str, Any] | None:
    try:
        loaded = yaml.load(block, Loader=_Loader)
        return _json_value(loaded or {}) if loaded is None or isinstance(loaded, dict) else None
    except Exception:
        # A text may begin with a ruled-off block that is no YAML at all, and what PyYAML raises of
        # `!!int ""` or `!!timestamp x` is no error of its own.
        return None


def _json_value(value: Any) -> Any:
    """Raises ValueError of what can't be stored: half of a surrogate pair, NUL, a huge number."""
    if isinstance(value, dict):
        return {_json_value(str(key)): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_json_value(item) for item in value]
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, str):
        value.encode()  # raises of half of a surrogate pair
        if "\0" in value:
            raise ValueError("NUL")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise ValueError("a number of thousands of digits")
    return value if value is None or isinstance(value, str | int | float) else str(value)
