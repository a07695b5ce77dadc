"""The parsing of requests: their bytes are first checked against the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from vikingd.domain.errors import InvalidField, Overloaded, VikingError
from vikingd.system.platform import trim
from vikingd.wire.request_limits import DAMAGED, Guard, guards

INLINE_BYTES = 64 << 10
"""The most bytes of a message that the event loop parses; a thread parses larger ones."""

MAX_WAITING_BYTES = 64 << 20
"""The most bytes of the messages that wait for the thread; a single one may be larger."""

_RETRY_AFTER = 0.5  # seconds
_TRIM_AFTER = 2.0  # seconds after a large message: one trim serves all messages of that time
_LENGTH_DELIMITED = 2  # wire type
_LOOKED_AT = 100_000  # fields of a message that does not parse: millions would take seconds


class Intake:
    """Parses requests: small ones at once, larger ones on a thread, one after the other.

    `guards` has the limits of each method's requests.
    """

    def __init__(self) -> None:
        self.guards = guards()
        self._thread = ThreadPoolExecutor(1, "intake")
        self._waiting = 0
        self._will_trim = False

    async def parsed(
        self, data: bytes, guard: Guard, parse: Callable[[bytes], Message]
    ) -> Message | VikingError:
        """Parse a message on the thread.

        Return the message, the error of a wrong message, or Overloaded if too many bytes wait
        already.
        """
        size = len(data)
        if self._waiting and self._waiting + size > MAX_WAITING_BYTES:
            return Overloaded(
                f"{self._waiting:,} bytes of requests wait to be read, at most "
                f"{MAX_WAITING_BYTES:,} may; send this one again later",
                _RETRY_AFTER,
            )
        self._waiting += size
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, parsed, data, guard, parse)
        finally:
            self._waiting -= size

    def trim_later(self, size: int) -> None:
        """After a large message, of `size` bytes, return freed memory to the system in a while."""
        if size > INLINE_BYTES and not self._will_trim:
            self._will_trim = True
            asyncio.get_running_loop().call_later(_TRIM_AFTER, self._trim)

    def _trim(self) -> None:
        self._will_trim = False
        with suppress(RuntimeError):  # the thread has ended
            self._thread.submit(trim)

    def close(self) -> None:
        """Stop the thread without waiting for its work."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def parsed(data: bytes, guard: Guard, parse: Callable[[bytes], Message]) -> Message | InvalidField:
    """Check the bytes of a request and parse them.

    An error is returned, not raised, because a traceback would keep the request in memory.

    Returns:
        The request; or InvalidField if a field exceeds a limit, or if the bytes are no message.
    """
    try:
        guard.check(data)
        return parse(data)
    except InvalidField as error:
        error.__traceback__ = None
        return error
    except DecodeError:
        return fault_in(data, guard.descriptor)


def fault_in(data: bytes, descriptor: Descriptor) -> InvalidField:
    """Return the error for bytes that do not parse as a message.

    Mostly a string is not UTF-8; then the error names the first such field, else `request`.
    """
    path = _bad_string(data, descriptor, count(_LOOKED_AT, -1))
    if path is not None:
        return InvalidField(path, "is not valid UTF-8")
    return InvalidField("request", DAMAGED)


def _bad_string(data: bytes, descriptor: Descriptor, left: Iterator[int]) -> str | None:
    """Return the path of the first string that is not UTF-8; None if there is none.

    `left` limits how many fields are read.
    """
    try:
        fields: Any = UnknownFieldSet(Empty.FromString(data))
    except DecodeError:
        return None
    counts: dict[int, int] = {}
    for raw in fields:
        if next(left) <= 0:
            break
        field: Any = descriptor.fields_by_number.get(raw.field_number)
        if field is None or raw.wire_type != _LENGTH_DELIMITED:
            continue
        name: str = field.name
        if field.is_repeated:
            index = counts[raw.field_number] = counts.get(raw.field_number, -1) + 1
            name = f"{name}[{index}]"
        if field.type == FieldDescriptor.TYPE_STRING:
            try:
                raw.data.decode()
            except UnicodeDecodeError:
                return name
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            below = _bad_string(raw.data, field.message_type, left)
            if below is not None:
                return f"{name}.{below}"
    return None
