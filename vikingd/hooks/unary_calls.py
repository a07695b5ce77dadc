"""Unary calls of gRPC over one HTTP/2 connection, with only the standard library.

Loading gRPC takes longer than a whole hook may. This client makes one call after another, only to
this machine, and gives each a deadline. RFC 9113 is HTTP/2, RFC 7541 its headers.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence

from vikingd.hooks.wire_messages import Decoded, decoded, encoded

MOST_REPLY = 8 << 20
"""The most bytes of a reply; a daemon sends at most half as many."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PUSH, _PING, _GOAWAY, _WINDOW, _CONTINUATION = (
    *(0, 1, 3, 4, 5, 6, 7, 8, 9),
)
_ACK = _END_STREAM = 0x1
_END_HEADERS, _PADDED, _PRIORITY = 0x4, 0x8, 0x20
_TABLE_SIZE, _ENABLE_PUSH, _INITIAL_WINDOW = 1, 2, 4  # settings
_FIRST_WINDOW = 65_535  # bytes that a side may send before it receives settings
_OUR_WINDOW = 1 << 24
_LARGEST_FRAME = 1 << 14
_LARGEST_HEADERS = 1 << 16
_MOST_OUTPUT = 1 << 16  # bytes of frames that wait to be sent
INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE = 3, 5, 14
"""The gRPC status codes that the hooks use."""

_STATUS_NAMES = {3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED", 5: "NOT_FOUND", 14: "UNAVAILABLE"}


class CallFailed(Exception):
    """A call without a reply; `status` is gRPC's code, or 14 (UNAVAILABLE) if none came."""

    def __init__(self, status: int, message: str) -> None:
        name = _STATUS_NAMES.get(status, f"status {status}")
        super().__init__(f"{name}: {message}" if message else name)
        self.status = status


class Connection:
    """A connection to a daemon; one thread uses it, and no call begins after a failed one.

    Args:
        address: unix:PATH, or HOST:PORT with a host of this machine.
        metadata: headers of each call.
        deadline: the time by `time.monotonic` at which all calls end.

    Raises:
        ValueError: the address has another form, or is of another machine.
        OSError: nothing listens there.
    """

    def __init__(self, address: str, metadata: Mapping[str, str], deadline: float) -> None:
        self.deadline = deadline
        self.metadata = metadata
        self._stream = -1
        self._answers: dict[int, _Answer] = {}  # of the calls under way, by stream
        self._room = self._first_room = _FIRST_WINDOW
        self._socket = _connected(address, deadline)
        self._input = b""
        self._output = bytearray()  # frames that are sent together, before the next one is read
        settings = ((_TABLE_SIZE, 0), (_ENABLE_PUSH, 0), (_INITIAL_WINDOW, _OUR_WINDOW))
        self._send(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, b"".join(struct.pack(">HI", *one) for one in settings))
            + _frame(_WINDOW, 0, 0, struct.pack(">I", _OUR_WINDOW - _FIRST_WINDOW))
        )

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, method: str, request: str, reply: str, **values: object) -> Decoded:
        """Return the reply to a request with these fields, decoded; see `calls`.

        Raises:
            CallFailed: the daemon refuses, or does not speak HTTP/2 or gRPC.
            OSError: the connection broke, or the deadline passed.
            ValueError: the reply is no message.
        """
        (found,) = self.calls(method, request, reply, [values])
        if isinstance(found, CallFailed):
            raise found
        return found

    def calls(
        self, method: str, request: str, reply: str, many: Sequence[Mapping[str, object]]
    ) -> list[Decoded | CallFailed]:
        """Return the replies to requests that are sent together, or the refusals of the daemon.

        Args:
            method: the service and the method, such as "Memories/Recall".
            request: the message of the requests.
            reply: the message of the replies.
            many: the fields of each request, see `encoded`.

        Raises:
            CallFailed: the daemon does not speak HTTP/2 or gRPC.
            OSError: the connection broke, or the deadline passed.
            ValueError: a reply is no message.
        """
        left = _left(self.deadline)
        headers = {
            ":method": "POST",
            ":scheme": "http",
            ":path": f"/viking.retrieval.v1.{method}",
            ":authority": "localhost",
            "te": "trailers",
            "content-type": "application/grpc",
            "user-agent": "vikingctl-hook",
            "grpc-timeout": f"{int(left * 1000) + 1}m",
            **self.metadata,
        }
        block = b"".join(_literal(name, value) for name, value in headers.items())
        self._answers.clear()
        for values in many:
            message = encoded(request, values)
            self._stream += 2
            self._answers[self._stream] = answer = _Answer(self._first_room)
            self._send(_frame(_HEADERS, _END_HEADERS, self._stream, block))
            self._send_body(struct.pack(">BI", 0, len(message)) + message, answer)
        while not all(answer.is_done for answer in self._answers.values()):
            self._read()
        found = list[Decoded | CallFailed]()
        for answer in self._answers.values():
            try:
                found.append(decoded(reply, answer.message()))
            except CallFailed as error:
                found.append(error)
        return found

    def _send_body(self, body: bytes, answer: _Answer) -> None:
        """Send the request body of the newest call, as fast as the daemon's flow control allows."""
        at = 0
        while at < len(body) and not answer.is_done:
            most = min(self._room, answer.room, _LARGEST_FRAME)
            if most <= 0:
                self._read()
                continue
            part = body[at : at + most]
            at += len(part)
            self._room -= len(part)
            answer.room -= len(part)
            flags = _END_STREAM if at == len(body) else 0
            self._send(_frame(_DATA, flags, self._stream, part))

    def _read(self) -> None:
        """Read one frame, and pass it to the call that it belongs to."""
        kind, flags, stream, payload = self._frame()
        answer = self._answers.get(stream)
        if kind == _SETTINGS and not flags & _ACK:
            for name, value in _settings(payload):
                if name == _INITIAL_WINDOW:
                    for one in self._answers.values():
                        one.room += value - self._first_room
                    self._first_room = value
            self._send(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._send(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW and len(payload) == 4:
            by = int.from_bytes(payload, "big") & 0x7FFFFFFF
            if stream == 0:
                self._room += by
            elif answer is not None:
                answer.room += by
        elif kind == _GOAWAY:
            if int.from_bytes(payload[:4], "big") & 0x7FFFFFFF < self._stream:
                raise CallFailed(UNAVAILABLE, "the daemon closes the connection")
        elif kind == _PUSH:
            raise CallFailed(UNAVAILABLE, "the peer pushes, which a client forbids")
        elif answer is not None and not answer.is_done:  # a refused call may be reset after its end
            if kind == _RST_STREAM:
                raise CallFailed(UNAVAILABLE, "the daemon ended the call")
            if kind == _DATA and payload:
                self._send(_frame(_WINDOW, 0, 0, struct.pack(">I", len(payload))))
            answer.take(kind, flags, payload)

    def _frame(self) -> tuple[int, int, int, bytes]:
        head = self._exactly(9)
        size = int.from_bytes(head[:3], "big")
        if size > _LARGEST_FRAME:
            raise CallFailed(UNAVAILABLE, f"a frame has {size} bytes: this is no daemon")
        stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        return head[3], head[4], stream, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = [self._input]
        have = len(self._input)
        while have < size:
            self._flush()
            self._socket.settimeout(_left(self.deadline))
            part = self._socket.recv(1 << 16)
            if not part:
                raise ConnectionError("the daemon closed the connection")
            parts.append(part)
            have += len(part)
        whole = b"".join(parts)
        self._input = whole[size:]
        return whole[:size]

    def _send(self, data: bytes) -> None:
        self._output += data
        if len(self._output) >= _MOST_OUTPUT:
            self._flush()

    def _flush(self) -> None:
        if self._output:
            self._socket.settimeout(_left(self.deadline))
            self._socket.sendall(self._output)
            self._output.clear()


class _Answer:
    """The reply frames of one call.

    Attributes:
        room: the number of request bytes that the daemon still accepts, by HTTP/2's flow control.
    """

    def __init__(self, room: int) -> None:
        self.is_done = False
        self.room = room
        self._data = bytearray()
        self._block = bytearray()
        self._ends = False  # with the header block that is being read
        self._status = -1
        self._text = ""

    def take(self, kind: int, flags: int, payload: bytes) -> None:
        """Add a frame of the call's stream."""
        if kind in (_DATA, _HEADERS) and flags & _PADDED:
            payload = payload[1 : len(payload) - payload[0]] if payload else b""
        if kind == _DATA:
            self._data += payload
            if len(self._data) > MOST_REPLY:
                raise CallFailed(UNAVAILABLE, f"the reply has more than {MOST_REPLY} bytes")
            self.is_done = bool(flags & _END_STREAM)
        elif kind in (_HEADERS, _CONTINUATION):
            if kind == _HEADERS:
                payload = payload[5:] if flags & _PRIORITY else payload
                self._ends = bool(flags & _END_STREAM)
            self._block += payload
            if len(self._block) > _LARGEST_HEADERS:
                raise CallFailed(UNAVAILABLE, "the headers of the reply do not end")
            if flags & _END_HEADERS:
                for name, value in _headers(bytes(self._block)):
                    if name == b"grpc-status" and value.isdigit():
                        self._status = int(value)
                    elif name == b"grpc-message":
                        self._text = value.decode("ascii", "replace")[:300]
                self._block.clear()
                self.is_done = self._ends

    def message(self) -> bytes:
        """Return the bytes of the reply message.

        A reply whose status cannot be read counts as successful if its message is complete.

        Raises:
            CallFailed: the daemon refused the call, or the message is not complete.
        """
        if self._status > 0:
            raise CallFailed(self._status, self._text)
        data = bytes(self._data)
        if len(data) < 5 or data[0] != 0 or int.from_bytes(data[1:5], "big") != len(data) - 5:
            raise CallFailed(UNAVAILABLE, "the reply is not one message of gRPC")
        return data[5:]


def _connected(address: str, deadline: float) -> socket.socket:
    """Return a socket that is connected to an address of this machine."""
    scheme, _, path = address.partition("unix:")
    host, _, port = address.rpartition(":")
    if not scheme and path:
        made = socket.socket(socket.AF_UNIX)
        where: str | tuple[str, int] = os.path.expanduser(path)
    elif port.isascii() and port.isdigit() and _is_here(host.strip("[]")):
        made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        where = host.strip("[]").replace("localhost", "127.0.0.1"), int(port)
    else:
        raise ValueError(
            f"{address!r}: a hook needs unix:PATH, or HOST:PORT with a host of this machine"
        )
    try:
        made.settimeout(_left(deadline))
        made.connect(where)
    except BaseException:
        made.close()
        raise
    return made


def _is_here(host: str) -> bool:
    return host in ("localhost", "::1") or (
        host.startswith("127.") and host.replace(".", "").isdecimal()
    )


def _left(deadline: float) -> float:
    """Return the seconds until the deadline."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the daemon did not answer in time")
    return left


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _settings(payload: bytes) -> Iterator[tuple[int, int]]:
    return struct.iter_unpack(">HI", payload[: len(payload) // 6 * 6])


def _literal(name: str, value: str) -> bytes:
    """Return a header in HPACK's "literal, never indexed" form, which needs no table."""
    return b"\x10" + b"".join(
        _number(len(text), 7, 0) + text for text in (name.encode("ascii"), value.encode("ascii"))
    )


def _number(number: int, bits: int, high: int) -> bytes:
    """Encode an integer for HPACK: in the low `bits` of a byte, or in that and further bytes.

    `high` has the other bits of the first byte.
    """
    most = (1 << bits) - 1
    if number < most:
        return bytes([high | number])
    parts = bytearray([high | most])
    number -= most
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _headers(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and value of each header; b"" for indexed and Huffman-coded texts.

    gRPC's own headers, which a hook needs, are in no static table. They have no index, because a
    hook allows no other table.
    """
    at = 0

    def number(bits: int) -> int:
        nonlocal at
        most = (1 << bits) - 1
        found = block[at] & most
        at += 1
        shift = 0
        while found >= most:
            byte = block[at]
            at += 1
            found += (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 28:
                break
        return found

    def text() -> bytes:
        nonlocal at
        is_coded = block[at] & 0x80
        size = number(7)
        at += size
        return b"" if is_coded else block[at - size : at]

    try:
        while at < len(block):
            byte = block[at]
            if byte & 0x80:
                number(7)
            elif byte & 0xE0 == 0x20:
                number(5)
            else:
                name = b"" if number(6 if byte & 0x40 else 4) else text()
                yield name, text()
    except IndexError:
        raise CallFailed(UNAVAILABLE, "the headers of the reply cannot be read") from None
