"""The parts that several adapters share: imports of extras, file names, and JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from vikingd.client import Client, Context, NotFound
from vikingd.client.batches import MAX_COUNT
from vikingd.system.install_command import install_command

MAX_COPY = 48 << 10
"""The most bytes of a JSON text that is copied into metadata, which listings return."""

_RESERVED = re.compile(r"[%/\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Run imports in a `with` block that need an extra of vikingd.

    Args:
        name: the name of the extra.

    Raises:
        ImportError: a package of the block is missing; the message names the extra to install.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{error.name} is not installed; install it with: {install_command(name)}",
            name=error.name,
        ) from error


def encoded(name: str) -> str:
    """Return any text as a part of one segment of a URI; `unquote` is its reverse.

    A percent sign, a slash and control characters are percent-encoded. A name that consists of
    dots alone, or an empty one, is no segment; the caller adds a suffix.
    """
    return _RESERVED.sub(lambda found: quote(found[0], safe=""), name)


def to_json(value: Any, name: str) -> str:
    """Return a value as one line of JSON that `json.loads` turns into the same value.

    Args:
        value: dicts with text keys, lists, tuples (they become lists), text, numbers, None.
        name: the name of the value for errors.

    Raises:
        TypeError: a part of the value is of another type; the message names its place.
        ValueError: a number is NaN or infinite, or the value contains itself.
    """
    _check(value, name, ())
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # The wire carries valid Unicode only. JSON has escapes for all else.
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _check(value: Any, place: str, above: tuple[int, ...]) -> None:
    """Raise an error for a value that JSON would change without an error."""
    if id(value) in above:
        raise ValueError(f"{place} contains itself, which JSON cannot hold")
    match value:
        case Mapping():
            if not isinstance(value, dict):
                raise TypeError(f"{place} is of type {type(value).__name__}; give a dict")
            for key, item in value.items():
                if not isinstance(key, str):
                    raise TypeError(f"{place} has the key {key!r}; the keys of JSON are text")
                _check(item, f"{place}[{key!r}]", (*above, id(value)))
        case list() | tuple():
            for i, item in enumerate(value):
                _check(item, f"{place}[{i}]", (*above, id(value)))
        case float() if not math.isfinite(value):
            raise ValueError(f"{place} is {value}, which JSON does not have")
        case None | str() | bool() | int() | float():
            return
        case _:
            raise TypeError(f"{place} is of type {type(value).__name__}, which JSON does not have")


def copy_of(text: str) -> dict[str, Any]:
    """Return metadata with a copy of a JSON text, because listings return no content.

    The metadata is empty if the text has more than `MAX_COPY` bytes.
    """
    return {"json": text} if len(text.encode()) <= MAX_COPY else {}


def delete(client: Client, uris: Iterable[str]) -> None:
    """Delete contexts; missing ones are no error."""
    pending = list(dict.fromkeys(uris))
    for start in range(0, len(pending), MAX_COUNT):
        client.delete(*pending[start : start + MAX_COUNT], allow_missing=True)


def existing(client: Client, uri: str) -> Context | None:
    """Return a context, or None if it does not exist."""
    try:
        return client.get(uri)
    except NotFound:
        return None


def children(client: Client, directory: str) -> list[str]:
    """Return the URIs of the children of a directory; [] if the directory does not exist."""
    try:
        return [context.uri for context in client.list(directory)]
    except NotFound:
        return []


def directory_of(uri: str) -> str:
    """Return the URI of a directory without a slash at its end."""
    return uri.rstrip("/") if not uri.endswith("://") else uri
