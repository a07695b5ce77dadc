"""The connections of clients: those of uvicorn, with time-outs and a limit of their number."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

from vikingd.gateway.file_uploads import PREFIX as FILES
from vikingd.gateway.http_errors import Fault

MOST = 1000
"""The most open connections."""

HEAD_BYTES = 16 << 10
"""The most bytes of the head of a request that arrives in several reads."""

SECONDS = 30.0
"""The most seconds until the head of a request is complete, or until a client reads on."""


_BARE_LF = re.compile(rb"(?<!\r)\n")


class _Buffer(ReceiveBuffer):
    """A receive buffer that requires CR LF after each line of a head, as RFC 9112 says.

    h11 accepts LF alone. A proxy in front of the gateway may not, and would then see other requests
    in the same bytes (request smuggling).
    """

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines up to the first empty line, or None before it has arrived."""
        before = bytes(self)
        lines = super().maybe_extract_lines()
        if lines is not None and _BARE_LF.search(before, 0, len(before) - len(self)):
            raise h11.RemoteProtocolError("a line of the head ends with LF without CR")
        return lines


class _Parser(h11.Connection):
    """The HTTP parser of a connection; it refuses requests whose end is ambiguous.

    Attributes:
        why: the reason for the last error.
    """

    def __init__(self, *limits: Any) -> None:
        super().__init__(h11.SERVER, *limits)
        self._receive_buffer = _Buffer()
        self.why = ""

    def next_event(self) -> Any:
        """Return the next event of the parser.

        Raises:
            RemoteProtocolError: the bytes are no request, or are one that proxies read differently.
        """
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check(event)
        except h11.RemoteProtocolError as error:
            self.why = str(error)
            raise
        return event


def _check(request: h11.Request) -> None:
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" not in names:
        return
    if b"content-length" in names:
        raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding exclude each other")
    if request.http_version < b"1.1":
        raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")


class Connection(H11Protocol):
    """A connection of a client, with time-outs.

    It is closed if the head of a request is not complete in time, or if the client stops reading.
    uvicorn itself sets no time-out for the first head, and begins that of later heads with their
    first byte. A client that has closed its sending side still gets its replies.
    """

    conn: _Parser
    _has_ended = False  # the client sends nothing more
    _head: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn = _Parser(HEAD_BYTES)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time-out for the first head; refuse the connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            self._refuse(Fault(503, "too many connections are open", retry_after=1.0))
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time-outs of the connection."""
        for timer in (self._head, self._stall):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Parse the received bytes; a complete head stops its time-out."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and self._head is not None:
            self._head.cancel()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return True to keep the connection until the requests received so far are answered.

        If the client ends the connection during an upload, the upload is cancelled. asyncio ignores
        the result for TLS.
        """
        self._has_ended = True
        return self._is_answering() and not self.cycle.scope["path"].startswith(FILES)

    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and not (cycle.response_complete or cycle.more_body)

    def on_response_complete(self) -> None:
        """Start the time-out for the next head, which may have arrived already."""
        self._wait_for_head()
        super().on_response_complete()
        if self._has_ended and not self._is_answering():
            self.transport.close()

    def pause_writing(self) -> None:
        """Start the time-out for a client that does not read."""
        super().pause_writing()
        self._stall = self.loop.call_later(SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the time-out for a client that does not read."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's
        """Answer bytes that are not HTTP with an error, and close the connection."""
        limit = f"this is not HTTP, or a head of more than {HEAD_BYTES:,} bytes"
        self._refuse(Fault(400, f"{limit}: {self.conn.why}"))

    def _wait_for_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
        self._head = self.loop.call_later(SECONDS, self.transport.abort)

    def _refuse(self, fault: Fault) -> None:
        """Send an error and close the connection."""
        response = fault.response()
        headers = [*response.raw_headers, (b"connection", b"close")]
        try:
            for event in (
                h11.Response(status_code=fault.http, headers=headers),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # a response has begun already
            pass
        self.transport.close()
