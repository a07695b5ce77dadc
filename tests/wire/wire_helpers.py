"""Values of requests for the tests of the wire."""

from __future__ import annotations

import struct

from google.protobuf import struct_pb2

FILE = "viking://resources/a.md"


def floats(*numbers: float) -> bytes:
    """Return a vector in bytes, as on the wire."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


def to_struct(value: dict[str, object]) -> struct_pb2.Struct:
    """Return a Struct of a dict."""
    message = struct_pb2.Struct()
    message.update(value)
    return message
