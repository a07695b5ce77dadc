"""The forms of the output: text for people, JSON, JSON lines, YAML, and URIs alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from vikingd.domain import hidden_characters

if TYPE_CHECKING:
    from google.protobuf.message import Message


class Form(StrEnum):
    """A form of the output; jsonl and uri have one line for each result."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    URI = "uri"


def is_structured(form: Form) -> bool:
    """Return True if programs read the form: errors are then JSON, and notes are left out."""
    return form in (Form.JSON, Form.JSONL, Form.YAML)


def value_of(message: Message) -> dict[str, Any]:
    """Return a message in protobuf's JSON form, with zeros and empty fields."""
    from google.protobuf.json_format import MessageToDict

    value: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=True)
    return value


def results_of(reply: Message) -> list[Any]:
    """Return the parts of a reply that have a URI, best first where they have a score."""
    found: list[Any] = []
    for field in result_fields(reply.DESCRIPTOR):
        part = getattr(reply, field.name)
        if field.is_repeated:
            found += part
        elif reply.HasField(field.name):
            found.append(part)
    if found and all("score" in part.DESCRIPTOR.fields_by_name for part in found):
        found.sort(key=lambda part: (-part.score, part.uri))
    return found


def result_fields(reply: Any) -> list[Any]:
    """Return the fields of a reply whose values are messages with a URI.

    Args:
        reply: the descriptor of the reply.
    """
    return [
        field
        for field in reply.fields
        if field.message_type is not None and "uri" in field.message_type.fields_by_name
    ]


def written(values: Iterable[Any], form: Form) -> str:
    """Return values as text: one JSON or YAML document, or one JSON line for each value.

    Args:
        values: one value, or the values of JSON lines.
        form: JSON, JSONL or YAML.
    """
    if form is Form.JSONL:
        return "".join(f"{escaped_json(json.dumps(one, ensure_ascii=False))}\n" for one in values)
    [value] = values
    if form is Form.YAML:
        from vikingd.ctl.yaml_output import dumped

        return dumped(value)
    return escaped_json(json.dumps(value, ensure_ascii=False, indent=2)) + "\n"


def escaped_json(text: str) -> str:
    """Return the same JSON with its hidden characters as escapes."""
    return hidden_characters.replaced(text, _json_escape)


def _json_escape(character: str) -> str:
    """Return the escape of a character in a string of JSON; a large code takes two."""
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
