"""The connections of clients: uvicorn's, with deadlines and a limit of their number."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from vikingd.gateway.errors import Fault

MOST = 1000
"""Open connections."""

HEAD_BYTES = 16 << 10
"""Of a request: the largest head that arrives in parts."""

SECONDS = 30.0
"""The time until the head of the next request is complete, and until a client reads on."""


class Connection(H11Protocol):
    """A connection that ends if its client is too slow.

    uvicorn waits for the first head for ever, and for a later one from its first byte on.
    """

    _head: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head, or refuse a connection too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST:
            self._refuse(Fault(503, "too many connections are open", retry_after=1.0))
            return
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadlines."""
        for timer in (self._head, self._stall):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has arrived; a head ends the wait for it."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before and self._head is not None:
            self._head.cancel()

    def on_response_complete(self) -> None:
        """Begin to wait for the next head, which may have arrived already."""
        self._wait_for_head()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        self._stall = self.loop.call_later(SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's
        """Answer what is no HTTP."""
        self._refuse(Fault(400, f"this is not HTTP, or a head of more than {HEAD_BYTES:,} bytes"))

    def _wait_for_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
        self._head = self.loop.call_later(SECONDS, self.transport.abort)

    def _refuse(self, fault: Fault) -> None:
        """Send an error and end the connection."""
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
