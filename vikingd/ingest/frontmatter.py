"""YAML front matter: the block between two `---` lines that a file may begin with."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, time
from functools import lru_cache
from typing import Any

import yaml

from vikingd.domain.text import one_line
from vikingd.ingest.limits import check_metadata

MAX_CHARS = 16_384
"""A longer block is content."""

_MAX_REASON = 200  # characters: it may quote a number of thousands of digits

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

    A block that is not a YAML mapping, or has a value that can't be stored, is no front matter but
    part of the text. A byte order mark never is.
    """
    start, block = _block(content)
    values = _mapping(block[1])[0] if block else None
    return (dict(values), block.end()) if block and values is not None else ({}, start)


def with_front_matter(content: str, values: Mapping[str, Any]) -> str:
    """Return the content with these values as its front matter, in place of its own."""
    block = yaml.safe_dump(dict(values), allow_unicode=True, sort_keys=False, width=math.inf)
    rest = content[front_matter(content)[1] :]
    return f"---\n{block}---{rest}" if rest[:1] in ("\r", "\n") else f"---\n{block}---\n\n{rest}"


def fault(content: str) -> str:
    """Why a block that may be meant as front matter is none; "" where it is, or there is none."""
    _, block = _block(content)
    return _mapping(block[1])[1] if block else ""


def stated(values: Mapping[str, Any], *keys: str) -> str:
    """The first of these values that is a text or a number, in one line; "" when none is."""
    for key in keys:
        value = values.get(key)
        if isinstance(value, str | int | float) and (line := " ".join(str(value).split())):
            return line
    return ""


def _block(content: str) -> tuple[int, re.Match[str] | None]:
    start = 1 if content.startswith("\ufeff") else 0
    return start, _BLOCK.match(content, start, start + MAX_CHARS)


@lru_cache(maxsize=8)  # a file's title, abstract and passages all ask for the same block
def _mapping(block: str) -> tuple[dict[str, Any] | None, str]:
    """The values of a block, or None and why; "" of prose and lists, which nobody means as such."""
    try:
        loaded = yaml.load(block, Loader=_Loader)
        if not (loaded is None or isinstance(loaded, dict)):
            return None, ""
        values = _json_value(loaded or {})
        check_metadata(values, "metadata")
    except Exception as error:
        # A text may begin with a ruled-off block that is no YAML at all, and what PyYAML raises of
        # `!!int ""` or `!!timestamp x` is no error of its own.
        reason = getattr(error, "problem", None) or error
        return None, one_line(str(reason))[:_MAX_REASON] or type(error).__name__
    return values, ""


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_json_value(item) for item in value]
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float) else str(value)
