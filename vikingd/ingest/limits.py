"""Limits of texts and metadata."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from vikingd.domain.errors import InvalidField

MAX_TITLE_BYTES = 1024
MAX_CONTENT_BYTES = 2 << 20
MAX_METADATA_BYTES = 64 << 10
MAX_METADATA_DEPTH = 32

MAX_EXACT = (1 << 53) - 1
"""The largest magnitude of integers that are exact as doubles."""

MIN_TIME, MAX_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of the years 1 to 9999."""

_NAMED = 64  # characters of a key in the path of a field


def check_text(text: str, limit: int, field: str) -> None:
    """Raise InvalidField for a text that is too long, is no valid Unicode or has a NUL."""
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidField(field, "is not valid Unicode") from None
    if size > limit:
        raise InvalidField(field, f"has {size:,} bytes, at most {limit:,} are allowed")
    if "\0" in text:
        raise InvalidField(field, "has a NUL character")


def check_metadata(metadata: Mapping[str, Any], field: str) -> None:
    """Raise InvalidField, naming the value, for metadata that cannot be stored."""
    if not metadata:
        return
    _check_json(metadata, field, 0)
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    if size > MAX_METADATA_BYTES:
        raise InvalidField(
            field, f"has {size:,} bytes as JSON, at most {MAX_METADATA_BYTES:,} are allowed"
        )


def _check_json(value: Any, field: str, depth: int) -> None:
    if depth > MAX_METADATA_DEPTH:
        raise InvalidField(field, f"is nested deeper than {MAX_METADATA_DEPTH} levels")
    if isinstance(value, str):
        check_text(value, MAX_METADATA_BYTES, field)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidField(field, f"has the key {key!r}, which is no string")
            check_text(key, MAX_METADATA_BYTES, field)
            _check_json(item, f"{field}.{key[:_NAMED]}", depth + 1)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            _check_json(item, f"{field}[{i}]", depth + 1)
    elif isinstance(value, int | float):
        check_number(value, field)
    elif value is not None:
        raise InvalidField(field, f"is a {type(value).__name__}, which JSON does not have")


def check_number(value: float, field: str) -> None:
    """Raise InvalidField for infinity, NaN, and a number of more than MAX_EXACT.

    JSON has no infinity and no NaN. An integer beyond MAX_EXACT may have been rounded.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidField(field, f"is {value}, which JSON does not have")
    if abs(value) > MAX_EXACT:
        raise InvalidField(
            field,
            f"is {_shown(value)}; numbers of magnitude 2^53 or more are refused, since integers "
            "are rounded there: send a string",
        )


def as_sent(value: Any) -> Any:
    """Return JSON in the form that the daemon stores: sorted keys, whole numbers as integers."""
    if isinstance(value, Mapping):
        return {key: as_sent(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [as_sent(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
        return int(number) if number.is_integer() and abs(number) <= MAX_EXACT else number
    return value


def _shown(value: float) -> str:
    """Return a number as text for an error; a huge integer as its number of bits."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length():,} bits"
    return str(value)
