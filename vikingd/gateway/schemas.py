"""The messages of the proto as OpenAPI schemas, in protobuf's JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import resources
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.rpc.status_pb2 import Status

Schema = dict[str, Any]

COMMENTS: Final[dict[str, str]] = json.loads(
    resources.files("vikingd.pb").joinpath("comments.json").read_text(encoding="utf-8")
)
"""The comments of the proto, by the full name of a message, a field, an enum, a value or an RPC."""

_WELL_KNOWN: Final[dict[str, Schema]] = {
    "google.protobuf.Any": {
        "type": "object",
        "properties": {"@type": {"type": "string"}},
        "required": ["@type"],
    },
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"},
    "google.protobuf.FieldMask": {"type": "string"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
}

_UNSIGNED_64: Final[Schema] = {"type": ["string", "integer"], "format": "uint64"}
_SIGNED_64: Final[Schema] = {"type": ["string", "integer"], "format": "int64"}

_SCALARS: Final[dict[int, Schema]] = {
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.TYPE_FLOAT: {"type": "number", "format": "float"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_INT64: _SIGNED_64,
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_UINT32: {"type": "integer", "format": "uint32", "minimum": 0},
    FieldDescriptor.TYPE_UINT64: _UNSIGNED_64,
}


def schemas(messages: Iterable[Descriptor]) -> dict[str, Schema]:
    """Return by name the schemas of messages and of all messages that they contain."""
    found: dict[str, Schema] = {}
    waiting: list[Descriptor | EnumDescriptor] = [Status.DESCRIPTOR, *messages]
    while waiting:
        one = waiting.pop()
        if one.name in found or one.full_name in _WELL_KNOWN:
            continue
        if isinstance(one, EnumDescriptor):
            found[one.name] = _of_enum(one)
            continue
        found[one.name] = _of_message(one)
        for field in one.fields:
            waiting += [kind for kind in (field.message_type, field.enum_type) if kind is not None]
    return dict(sorted(found.items()))


def reference(message: Descriptor | EnumDescriptor) -> Schema:
    """Return a reference to the schema of a message or an enum."""
    return {"$ref": f"#/components/schemas/{message.name}"}


def of_field(field: FieldDescriptor) -> Schema:
    """Return the schema of a field with its comment. No message has a map."""
    one = _value(field)
    if field.is_repeated:
        one = {"type": "array", "items": one}
    comment = COMMENTS.get(field.full_name)
    return {**one, "description": comment} if comment else one


def _value(field: FieldDescriptor) -> Schema:
    if field.message_type is not None:
        known = _WELL_KNOWN.get(field.message_type.full_name)
        return dict(known) if known else reference(field.message_type)
    if field.enum_type is not None:
        return reference(field.enum_type)
    return dict(_SCALARS[field.type])


def _of_message(message: Descriptor) -> Schema:
    schema: Schema = {"type": "object"}
    if comment := COMMENTS.get(message.full_name):
        schema["description"] = comment
    schema["properties"] = {field.json_name: of_field(field) for field in message.fields}
    schema["additionalProperties"] = False
    return schema


def _of_enum(enum: EnumDescriptor) -> Schema:
    lines = [COMMENTS.get(enum.full_name, "")]
    lines += [
        f"- `{value.name}`: {COMMENTS.get(f'{enum.full_name}.{value.name}', '')}"
        for value in enum.values
    ]
    return {
        "type": "string",
        "description": "\n".join(lines),
        "enum": [value.name for value in enum.values],
    }
