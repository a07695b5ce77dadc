"""The form that a setting or field must have, in words: "a whole number", "one of a, b or c"."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vikingd.domain.errors import shortened

_SHOWN = 60  # characters of a value

_FORMS = {
    "bool": "true or false",
    "dataclass": "an object",
    "dict": "an object",
    "finite": "a number",
    "float": "a number",
    "frozen": "a list",
    "int": "a whole number",
    "list": "a list",
    "mapping": "an object",
    "model": "an object",
    "path": "a path",
    "set": "a list",
    "tuple": "a list",
}
"""The wanted forms, by the first word of pydantic's name of a fault."""

_LIMITS = {
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "string_pattern_mismatch": "of the form {pattern}",
    "string_too_long": "text of at most {max_length:,} characters",
    "string_type": "text",
    "string_unicode": "text of valid Unicode",
    "too_long": "a list of at most {max_length:,} items",
    "too_short": "a list of at least {min_length:,} items",
}


def wanted(fault: Mapping[str, Any]) -> str:
    """Return the form that a value refused by pydantic must have; "" if it is not known.

    Args:
        fault: an error of pydantic, with its `type` and its `ctx`.
    """
    kind, limits = str(fault["type"]), fault.get("ctx", {})
    if kind in ("literal_error", "enum"):
        choices = str(limits["expected"]).replace("'", "")
        return f"one of {choices}" if " or " in choices else choices
    if kind == "string_too_short":
        few = limits["min_length"]
        return "text that is not empty" if few == 1 else f"text of at least {few} characters"
    if kind in _LIMITS:
        return _LIMITS[kind].format(**limits)
    return _FORMS.get(kind.partition("_")[0], "")


def shown(value: Any) -> str:
    """Return a value as JSON, shortened, for an error."""
    return shortened(json.dumps(value, ensure_ascii=False, default=repr), _SHOWN)
