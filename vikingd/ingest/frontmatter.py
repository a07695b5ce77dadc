"""YAML front matter: the block between two `---` lines at the beginning of a file."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, time
from functools import cache, lru_cache, partial
from typing import Any

from vikingd.domain.text import one_line
from vikingd.ingest.limits import check_metadata

_MAX_CHARS = 16_384  # of a block; a longer block is content
_MAX_REASON = 200  # characters: a reason may quote a number of thousands of digits

_BLOCK = re.compile(
    r"---[ \t]*(?>\r\n?|\n)(.*?)^(?:---|\.\.\.)[ \t]*(?=[\r\n]|\Z)", re.DOTALL | re.MULTILINE
)


@cache
def _parser() -> Callable[[str], Any]:
    """Return a parser that refuses aliases: a few lines of them can expand to gigabytes."""
    import yaml  # a program that reads no files does not need it

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not allowed")
            return super().compose_node(parent, index)

    return partial(yaml.load, Loader=Loader)


def load() -> None:
    """Import the package of the parser and make it, so that no thread has to."""
    _parser()


def front_matter(content: str) -> tuple[dict[str, Any], int]:
    """Return the front matter as JSON values, and the position of the text after it.

    Dates become ISO 8601. A block that is no YAML mapping, or has a value that cannot be stored, is
    part of the text. A byte order mark never is.
    """
    start, block = _block(content)
    values = _mapping(block[1])[0] if block else None
    return (dict(values), block.end()) if block and values is not None else ({}, start)


def with_front_matter(content: str, values: Mapping[str, Any]) -> str:
    """Return the content with these values as its front matter, in place of its own."""
    import yaml

    block = yaml.safe_dump(dict(values), allow_unicode=True, sort_keys=False, width=math.inf)
    rest = content[front_matter(content)[1] :]
    return f"---\n{block}---{rest}" if rest[:1] in ("\r", "\n") else f"---\n{block}---\n\n{rest}"


def fault(content: str) -> str:
    """Return why a block is no front matter; "" if it is, or there is no block."""
    _, block = _block(content)
    return _mapping(block[1])[1] if block else ""


def stated(values: Mapping[str, Any], *keys: str) -> str:
    """Return the first of these values that is a text or a number, in one line; or ""."""
    for key in keys:
        value = values.get(key)
        if isinstance(value, str | int | float) and (line := " ".join(str(value).split())):
            return line
    return ""


def _block(content: str) -> tuple[int, re.Match[str] | None]:
    start = 1 if content.startswith("\ufeff") else 0
    return start, _BLOCK.match(content, start, start + _MAX_CHARS)


@lru_cache(maxsize=8)  # Title, abstract and passages of a file ask for the same block.
def _mapping(block: str) -> tuple[dict[str, Any] | None, str]:
    """Return the values of a block, or None and the reason; no reason for prose and lists."""
    try:
        loaded = _parser()(block)
        if not (loaded is None or isinstance(loaded, dict)):
            return None, ""
        values = _json_value(loaded or {})
        check_metadata(values, "metadata")
    except Exception as error:
        # The block may be no YAML at all. For `!!int ""` or `!!timestamp x` PyYAML raises errors
        # that are not its own.
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
