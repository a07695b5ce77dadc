"""Fields of the JSON objects that agents write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def text_of(given: Mapping[str, Any], field: str) -> str:
    """Return a field that holds a text; "" if it is absent or null.

    Raises:
        ValueError: the field holds another value than a text.
    """
    value = given.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{field} is no text")
    return value
