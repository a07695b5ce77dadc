"""The protobuf messages of the hooks, encoded and decoded without a library.

Loading protobuf takes longer than a whole hook may. `MESSAGES` names the fields that a hook writes
or reads, with their numbers in the proto; all others are skipped. A test compares it with the
descriptors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

MESSAGES: Mapping[str, Mapping[str, int | tuple[int, str]]] = {
    "google.protobuf.Timestamp": {"seconds": 1, "nanos": 2},
    "MemoryScope": {"with_global": 1, "project": 2},
    "RecallRequest": {
        "query": 1,
        "scope": (3, "MemoryScope"),
        "max_tokens": 4,
        "top_k": 6,
        "time_zone": 14,
    },
    "RecallResponse": {"results": (1, "Memory"), "confidence": (11, "Confidence")},
    "Confidence": {"strength": 3},
    "Memory": {
        "id": 1,
        "uri": 2,
        "content": 3,
        "score": 4,
        "memory_type": 5,
        "section": 6,
        "time": (12, "google.protobuf.Timestamp"),
    },
    "SessionMessage": {"role": 1, "content": 2, "time": (3, "google.protobuf.Timestamp")},
    "SearchSession": {"messages": (2, "SessionMessage"), "id": 3},
    "ExtractRequest": {
        "session": (1, "SearchSession"),
        "first": 2,
        "scope": (3, "MemoryScope"),
        "time": (4, "google.protobuf.Timestamp"),
        "time_zone": 5,
        "request_id": 7,
    },
    "ExtractResponse": {},
    "ListRequest": {"uri": 1, "page_size": 2},
    "ListResponse": {"contexts": (1, "Context")},
    "GetRequest": {"uri": 1},
    "GetResponse": {"context": (1, "Context")},
    "Context": {"uri": 1, "content": 6, "passages": (9, "Passage")},
    "Passage": {
        "section": 1,
        "start": 2,
        "end": 3,
        "memory": (5, "MemoryState"),
        "continues": 6,
    },
    "MemoryState": {"id": 1, "reinforcement": 2, "time": (4, "google.protobuf.Timestamp")},
}
"""Numbers of fields by message and name; a field that is a message has its type, too.

The fields are text, numbers and messages. Only replies have fractions.
"""

_names: dict[str, dict[int, tuple[str, str]]] = {}  # of the fields by number, for messages in use

_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5  # types on the wire
_SIZES = {_FIXED64: 8, _FIXED32: 4}

Decoded = dict[str, list[Any]]
"""The values of each field of a message that was sent, in their order."""


def encoded(name: str, values: Mapping[str, Any]) -> bytes:
    """Return the bytes of a protobuf message.

    Args:
        name: the message.
        values: text, an int, a bool, a mapping for a message, or a list of these, by field. Empty
            ones are left out.
    """
    fields = MESSAGES[name]
    parts = bytearray()
    for field, value in values.items():
        kind = fields[field]
        number, of = kind if isinstance(kind, tuple) else (kind, "")
        for one in value if isinstance(value, list) else [value] if value else []:
            if isinstance(one, int):
                parts += varint(number << 3 | _VARINT) + varint(one & (1 << 64) - 1)
                continue
            content = encoded(of, one) if of else one.encode(errors="replace")
            parts += varint(number << 3 | _SIZED) + varint(len(content)) + content
    return bytes(parts)


def decoded(name: str, data: bytes) -> Decoded:
    """Return the fields of a protobuf message that `MESSAGES` names.

    Raises:
        ValueError: the bytes are no message.
    """
    names = _names.get(name)
    if names is None:
        names = _names[name] = {}
        for field, kind in MESSAGES[name].items():
            number, of = kind if isinstance(kind, tuple) else (kind, "")
            names[number] = field, of
    found: Decoded = {}
    for number, value in _fields(data):
        field, of = names.get(number, ("", ""))
        if not field:
            continue
        if isinstance(value, bytes):
            found.setdefault(field, []).append(
                decoded(of, value) if of else value.decode(errors="replace")
            )
        else:
            found.setdefault(field, []).append(value)
    return found


def first(message: Decoded, field: str, default: Any = "") -> Any:
    """Return the value of a field that is not repeated; `default` if it was not sent."""
    return message[field][-1] if field in message else default


def seconds_of(message: Decoded, field: str) -> float:
    """Return a field that is a Timestamp, in seconds since 1970; 0 if it was not sent."""
    time: Decoded = first(message, field, {})
    seconds = int(first(time, "seconds", 0))
    return seconds - (1 << 64 if seconds >> 63 else 0) + int(first(time, "nanos", 0)) / 1e9


def timestamp(time: float) -> dict[str, int]:
    """Return a time in seconds since 1970 as a Timestamp, in whole microseconds."""
    seconds, micros = divmod(round(time * 1_000_000), 1_000_000)
    return {"seconds": seconds, "nanos": micros * 1000}


def varint(number: int) -> bytes:
    """Encode an integer, at least 0, as a protobuf varint."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number of a message does not end")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield the number and the value of each field."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
            continue
        size = _SIZES.get(kind)
        if kind == _SIZED:
            size, at = _read_varint(data, at)
        if size is None or at + size > len(data):
            raise ValueError("a field of a message does not end")
        if kind == _SIZED:
            yield tag >> 3, data[at : at + size]
        elif kind == _FIXED64:
            yield tag >> 3, struct.unpack_from("<d", data, at)[0]
        at += size
