"""Messages in wire format without chance, with all other bytes in their order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import groupby

from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import Default
from google.protobuf.timestamp_pb2 import Timestamp

MASKED = frozenset(
    (
        "BackupResponse.data",
        "BackupResponse.size",
        "DeleteTenantResponse.bytes",
        "IndexStats.bytes_on_disk",
        "OptimizeResponse.given_back_bytes",
        "StatsResponse.store_bytes",
        "StatsResponse.store_path",
    )
)
"""Fields with a value by chance: the mask is a fixed value."""

LEFT_OUT = frozenset(
    (
        "EmbedderStats.characters_per_second",
        # A recall counts its accesses in a commit of its own, or in that of the next write.
        "ExtractResponse.revision",
        "ForgetResponse.revision",
        "EmbedderStats.retry_time",
        "IndexStats.base_revision",
        "IndexStats.base_texts",
        "IndexStats.compacting",
        "IndexStats.dead_texts",
        "IndexStats.old_bases",
        "IndexStats.tail_texts",
        "RecallResponse.revision",
        "ReinforceResponse.revision",
        "RememberResponse.revision",
    )
)
"""Fields that exist by chance. A node of a shared store folds its index in the background."""

_DAY = 86_400
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}


def masked(data: bytes, kind: Descriptor) -> bytes:
    """Return a message in wire format without chance.

    Fields keep their order. Entries of a map are sorted, because protobuf orders them by chance.
    Stages of timings are sorted, because some of them run at once.
    """
    pieces = []
    for tag, value in _fields(data):
        number, wire = tag >> 3, tag & 7
        field = kind.fields_by_number.get(number)
        name = f"{kind.name}.{field.name}" if field is not None else ""
        if name in LEFT_OUT:
            continue
        if name in MASKED:
            value = b"\1" if wire == _VARINT else bytes(_WIDTHS.get(wire, 0))
        elif field is not None and field.message_type is not None:
            value = _masked_message(value, field.message_type)
        length = _varint(len(value)) if wire == _BYTES else b""
        pieces.append((number if _has_no_order(field) else 0, _varint(tag) + length + value))
    parts = []
    for sorts, group in groupby(pieces, key=lambda piece: piece[0]):
        found = [piece for _, piece in group]
        parts += sorted(found) if sorts else found
    return b"".join(parts)


def _has_no_order(field: FieldDescriptor | None) -> bool:
    if field is None or field.message_type is None:
        return False
    return field.message_type.GetOptions().map_entry or field.message_type.name == "StageTiming"


def _masked_message(data: bytes, kind: Descriptor) -> bytes:
    if kind.full_name == "google.protobuf.Duration":
        return b""
    if kind.full_name == "google.protobuf.Timestamp":
        seconds = Timestamp.FromString(data).seconds
        return b"" if abs(seconds - time.time()) < _DAY else data
    if kind.full_name == "google.protobuf.Any":
        packed = Packed.FromString(data)
        inner = Default().FindMessageTypeByName(packed.type_url.rpartition("/")[2])
        packed.value = masked(packed.value, inner)
        return packed.SerializeToString(deterministic=True)
    return masked(data, kind)


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and value of each field."""
    at = 0
    while at < len(data):
        tag, at = _read(data, at)
        wire = tag & 7
        start = at
        if wire == _VARINT:
            _, at = _read(data, at)
        elif wire == _BYTES:
            length, start = _read(data, at)
            at = start + length
        else:
            at += _WIDTHS[wire]
        yield tag, data[start:at]


def _read(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at a place, and the place behind it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
