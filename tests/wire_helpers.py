"""Values of requests for the tests of the wire."""

from __future__ import annotations

import struct

from google.protobuf import struct_pb2

FILE = "viking://resources/a.md"


def floats(*numbers: float) -> bytes:
    """A vector of the wire."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


def to_struct(value: dict[str, object]) -> struct_pb2.Struct:
    """A Struct."""
    message = struct_pb2.Struct()
    message.update(value)
    return message
