"""Conversion of protobuf messages from and to JSON; errors name the invalid field."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from vikingd.domain.value_faults import shown
from vikingd.gateway.http_errors import Fault

BODY = "body"

MOST_VALUES = 200_000
"""The most values in a request, objects and lists included; no request that is valid has more."""

_TRIED = 1000  # items of a list among which a fault is looked for

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_PREFIX = re.compile(r"^(Failed to parse \S+ field: )+")
_SUFFIX = re.compile(r" at [\w.\[\]]+\.*$")
_GOOGLE = {
    "Duration": 'a time in seconds, such as "3s"',
    "FieldMask": "the names of fields as one text, with commas between them",
    "Struct": "an object",
    "Timestamp": 'a time with its zone, such as "2026-05-01T09:30:00Z"',
}
"""The forms of the messages of protobuf itself, by their names."""

_WHOLE = "a whole number"
_NATURAL = f"{_WHOLE} from 0 to {(1 << 32) - 1:,}"
_FORMS = {
    FieldDescriptor.TYPE_BOOL: "true or false",
    FieldDescriptor.TYPE_BYTES: "text in base64",
    FieldDescriptor.TYPE_DOUBLE: "a number",
    FieldDescriptor.TYPE_FLOAT: "a number",
    FieldDescriptor.TYPE_INT32: _WHOLE,
    FieldDescriptor.TYPE_INT64: _WHOLE,
    FieldDescriptor.TYPE_STRING: "text",
    FieldDescriptor.TYPE_UINT32: _NATURAL,
    FieldDescriptor.TYPE_UINT64: f"{_WHOLE} from 0 on",
}
"""The forms of other fields by their types; a message is an object."""

_TOO_DEEP = "is nested too deeply"


def read(data: bytes) -> Any:
    """Parse a JSON text.

    Raises:
        Fault: the text is not JSON or not UTF-8, or has NaN, an infinity or a name given twice.
    """
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=_without_duplicates, parse_constant=_not_a_number
        )
        if b"\\u" in data:  # half of a surrogate pair makes json_format fail in odd ways
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError:
        raise Fault(400, "has text that is not valid Unicode", field=BODY) from None
    except UnicodeDecodeError as error:
        raise Fault(400, f"is not valid UTF-8 at byte {error.start}", field=BODY) from None
    except RecursionError:
        raise Fault(400, _TOO_DEEP, field=BODY) from None
    except ValueError as error:
        raise Fault(400, f"is not valid JSON: {error}", field=BODY) from None


def fill(message: Message, value: Any) -> bytes:
    """Set the fields of a message from a JSON value; return the message as bytes.

    Raises:
        Fault: a field does not exist, is given twice, or has a wrong value.
    """
    if not isinstance(value, dict):
        raise Fault(400, "must be an object", field=BODY)
    descriptor: Any = message.DESCRIPTOR
    _check_size(value)
    try:
        _check(descriptor, value, "")
        ParseDict(value, message)
        return message.SerializeToString()
    except (RecursionError, EncodeError):
        raise Fault(400, _TOO_DEEP, field=BODY) from None
    except _REFUSALS as error:
        raise _fault(descriptor, value, "", error) from None


def written(message: Message) -> bytes:
    """Return a message as JSON text."""
    return json.dumps(
        MessageToDict(message), ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode()


# What json_format raises for a value that does not fit; it wraps most in ParseError.
_REFUSALS = (ParseError, AttributeError, TypeError, ValueError, OverflowError)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is there twice")
        found[name] = value
    return found


def _not_a_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _check_size(value: dict[str, Any]) -> None:
    """Raise Fault if a JSON value has too many parts, since each takes json_format some µs."""
    count = 0
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        count += len(one)
        if count > MOST_VALUES:
            raise Fault(413, f"the body has more than {MOST_VALUES:,} values; send less at once")
        inner = one.values() if isinstance(one, dict) else one
        waiting += [part for part in inner if isinstance(part, dict | list)]


def _check(message: Descriptor, value: dict[str, Any], path: str) -> None:
    """Raise Fault for errors that json_format ignores.

    They are a field given under both of its names, and bytes that are not base64.
    """
    seen = set()
    for name, given in value.items():
        field = _field(message, name)
        if field is None:
            raise _unknown(message, path + name)
        if field.name in seen:
            raise Fault(400, "is there twice, under two names", field=path + name)
        seen.add(field.name)
        is_bytes = field.type == FieldDescriptor.TYPE_BYTES
        below = None if field.message_type is None else _own(field.message_type)
        if not (is_bytes or below):
            continue
        for place, one in _items(field, given, path + name):
            if isinstance(one, str) and is_bytes and not _BASE64.fullmatch(one):
                raise Fault(400, "is not base64", field=place)
            if isinstance(one, dict) and below:
                _check(below, one, f"{place}.")


def _fault(message: Descriptor, value: dict[str, Any], path: str, error: Exception) -> Fault:
    """Return the error for an object that json_format refuses, with the invalid field.

    The field is found by trying the fields one by one.
    """
    for name, given in value.items():
        field: Any = _field(message, name)
        refusal = _refusal(message, {name: given})
        if refusal is None:
            continue
        if field.is_repeated and not isinstance(given, list):
            return Fault(400, f"must be a list, not {shown(given)}", field=path + name)
        below = None if field.message_type is None else _own(field.message_type)
        for place, one in _items(field, given, path + name)[:_TRIED]:
            if below and isinstance(one, dict) and (inner := _refusal(below, one)):
                return _fault(below, one, f"{place}.", inner)
            if field.is_repeated and _refusal(message, {name: [one]}):
                return _misfit(field, one, place)
        return _misfit(field, given, path + name)
    return Fault(400, _bare_message(error), field=path.rstrip(".") or BODY)


def _misfit(field: Any, value: Any, place: str) -> Fault:
    """Return the error for a field whose value has the wrong type."""
    own = None if field.message_type is None else _GOOGLE.get(field.message_type.name)
    if field.enum_type is not None:
        names = [one.name for one in field.enum_type.values if one.number]
        form = f"one of {', '.join(names)}"
    elif own == "an object" and isinstance(value, dict):
        form = "an object whose values JSON has, not nested too deeply"
        return Fault(400, f"must be {form}", field=place)
    else:
        form = own or _FORMS.get(field.type, "an object")
    return Fault(400, f"must be {form}, not {shown(value)}", field=place)


def _refusal(message: Descriptor, value: dict[str, Any]) -> Exception | None:
    """Return the error that json_format raises for an object; None if it accepts the object."""
    try:
        ParseDict(value, GetMessageClass(message)())
    except _REFUSALS as error:
        return error
    return None


def _field(message: Descriptor, name: str) -> FieldDescriptor | None:
    return message.fields_by_camelcase_name.get(name) or message.fields_by_name.get(name)


def _own(message: Descriptor) -> Descriptor | None:
    """Return a message type; None for google.protobuf types, which have JSON forms of their own."""
    return None if message.full_name.startswith("google.protobuf.") else message


def _items(field: FieldDescriptor, value: Any, path: str) -> list[tuple[str, Any]]:
    """Return (path, value) for each element of a repeated field, or for the one value."""
    if field.is_repeated and isinstance(value, list):
        return [(f"{path}[{i}]", one) for i, one in enumerate(value)]
    return [(path, value)]


def _unknown(message: Descriptor, path: str) -> Fault:
    names = ", ".join(field.json_name for field in message.fields) or "none"
    return Fault(400, f"is not a field; the fields are: {names}", field=path)


def _bare_message(error: Exception) -> str:
    """Return the message of a json_format error without the path that json_format adds."""
    return _SUFFIX.sub("", _PREFIX.sub("", str(error))).rstrip(".")
