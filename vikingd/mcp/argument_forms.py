"""The JSON schema of a tool's arguments: a short form for clients, and the repair of values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from vikingd.domain.value_faults import wanted

CHOICES = "choices"
"""The key in a schema that lists the usual words for a field that takes any word."""

_NO_LIMIT = 1 << 53
"""The bound that stands for no limit; clients do not see it."""

_UNSEEN = ("title", "$defs", "minLength", "maxLength", "maxItems", "pattern", CHOICES)
"""The keys that are left out of a client's schema; the error for a wrong value has the limit."""


class Forms:
    """The JSON schema of a tool's arguments: shortens it for clients, and repairs values by it.

    Args:
        schema: the JSON schema of the arguments, with `$defs`.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._named = schema.get("$defs", {})

    def short_form(self) -> dict[str, Any]:
        """Return the schema in the short form for `tools/list`."""
        found: dict[str, Any] = self._listed(self._schema)
        return found

    def converted(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, with values of an obvious meaning converted: "3" becomes 3."""
        known = self._schema["properties"]
        return {
            name: self._taken(value, known[name]) if name in known else value
            for name, value in arguments.items()
        }

    def allowed_values(self, fault: Mapping[str, Any]) -> str:
        """Return the allowed values in words, such as "one of a, b", for an error of pydantic."""
        schema = self._at(fault["loc"])
        if fault["type"] == "string_pattern_mismatch" and CHOICES in schema:
            return f"one of {', '.join(schema[CHOICES])} or another word in lower case"
        match schema:
            case {"enum": choices}:
                return f"one of {_joined(choices)}"
            case {"type": "integer", "minimum": least, "maximum": most}:
                return f"a whole number from {least}" + (f" to {most}" if most < _NO_LIMIT else "")
            case {"type": "array", "items": items} if fault["type"] == "list_type":
                choices = self._resolved(items).get("enum")
                return f"a list of {_joined(choices)}" if choices else "a list"
            case {"type": "object", "properties": fields} if "properties" in schema:
                return f"an object with {' and '.join(fields)}"
        return wanted(fault) or f"of the type {schema.get('type', 'object')}"

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = (
            self._named[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        )
        return found

    def _at(self, place: Iterable[int | str]) -> dict[str, Any]:
        """Return the schema of the value at a path of names and indices; {} if there is none."""
        schema = self._schema
        for step in place:
            if isinstance(step, int):
                below = schema.get("items")
            else:
                below = schema.get("properties", {}).get(step)
            if below is None:
                return {}
            schema = self._resolved(below)
        return schema

    def _listed(self, schema: dict[str, Any]) -> Any:
        shown: dict[str, Any] = {}
        for name, value in self._resolved(schema).items():
            if name in _UNSEEN or (name == "default" and not value):
                continue
            if name in ("minimum", "maximum") and (
                not 0 < value < _NO_LIMIT or schema.get("default")
            ):
                continue  # left out: few calls need these bounds, and an error names them
            if name == "properties":
                shown[name] = {one: self._listed(below) for one, below in value.items()}
            else:
                shown[name] = self._listed(value) if name == "items" else value
        if "$ref" in schema:
            shown.pop("description", None)
        return shown

    def _taken(self, value: Any, schema: dict[str, Any]) -> Any:
        schema = self._resolved(schema)
        match schema.get("type"):
            case "integer":
                return _number(value)
            case "boolean" if isinstance(value, str):
                return {"true": True, "false": False}.get(value.strip().lower(), value)
            case "array":
                return [self._taken(one, schema["items"]) for one in _list(value)]
            case "object":
                return self._fields(value, schema["properties"])
            case "string" if isinstance(value, int) and not isinstance(value, bool):
                return str(value)
            case "string" if isinstance(value, str):
                return _choice(value, schema)
        return value

    def _fields(self, value: Any, known: Mapping[str, Any]) -> Any:
        given = _parsed(value, dict)
        if not isinstance(given, dict):
            return value
        return {
            name: self._taken(one, known[name]) if name in known else one
            for name, one in given.items()
        }


def _number(value: Any) -> Any:
    """Return 3 for 3.0, which is an integer in JSON, and for "3" and "3.0"."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,16}(\.0+)?\s*", value):
        return int(value.partition(".")[0])
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _list(value: Any) -> list[Any]:
    """Return a list: the value itself, the list in a JSON text, or [value]; [] for ""."""
    found = _parsed(value, list)
    if isinstance(found, list):
        return found
    return [] if value == "" else [value]


def _parsed(value: Any, kind: type) -> Any:
    """Parse a JSON text that holds a value of type `kind`; return any other value as it is."""
    if not (isinstance(value, str) and value.lstrip().startswith(("[", "{"))):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, kind) else value


def _choice(text: str, schema: Mapping[str, Any]) -> str:
    """Return the allowed choice for a text that differs in case or number: files for "File".

    Any other text is returned in lower case.
    """
    choices = schema.get("enum") or schema.get(CHOICES)
    if not choices or text in choices:
        return text
    word = text.strip().lower()
    plural = f"{word}s", re.sub("y$", "ies", word)
    forms = (word, *plural, re.sub("ies$", "y", word), word.removesuffix("s"))
    return next((form for form in forms if form in choices), word)


def _joined(choices: Iterable[str]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last
