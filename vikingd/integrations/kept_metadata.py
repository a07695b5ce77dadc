"""Metadata in the form that the daemon stores: JSON, with dates and decimals as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID

from vikingd.integrations.common import to_json

_LARGEST = 1 << 53
"""The limit below which all whole numbers are exact as doubles, the numbers of metadata."""

_DEEPEST = 100
"""The most levels that are converted; a later check refuses deeper parts, and names them."""


def kept(
    metadata: Mapping[str, Any], name: str, large: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Return metadata as JSON.

    Times and dates become ISO 8601 text, UUIDs, paths and decimals their text, members of an enum
    their values, numbers of numpy numbers, and whole numbers from 2**53 on text.

    Args:
        metadata: the metadata, or a filter over them.
        name: the name of the value for errors.
        large: called with the place of each whole number that became text.

    Raises:
        TypeError: a part is of another type; the message names its place.
        ValueError: a number is NaN or infinite, or the value contains itself.
    """
    found: dict[str, Any] = _kept(metadata, name, 0, large)
    to_json(found, name)
    return found


def _kept(value: Any, place: str, depth: int, large: Callable[[str], None]) -> Any:
    match value:
        case Enum():
            return _kept(value.value, place, depth, large)
        case datetime() | date() | time():
            return value.isoformat()
        case UUID() | PurePath() | Decimal():
            return str(value)
        case bool() | str() | float() | None:
            return value
        case int():
            if abs(value) < _LARGEST:
                return value
            large(place)
            return str(value)
        case Mapping() if depth < _DEEPEST:
            return {
                key: _kept(one, f"{place}[{key!r}]", depth + 1, large) for key, one in value.items()
            }
        case list() | tuple() if depth < _DEEPEST:
            return [_kept(one, f"{place}[{i}]", depth + 1, large) for i, one in enumerate(value)]
    number = getattr(value, "item", None)  # of numpy
    if number is None or getattr(value, "shape", None):
        return value
    return _kept(number(), place, depth, large)
