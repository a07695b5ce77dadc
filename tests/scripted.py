"""An HTTP server on loopback with scripted answers and faults."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Request:
    """A received request; `json` is the parsed body."""

    path: str  # with the query string
    headers: Mapping[str, str]  # by name in lower case
    body: bytes

    @property
    def json(self) -> Any:
        """Return the parsed body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """A reply, whose body is sent as JSON unless it is bytes."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    after: float = 0.0  # seconds before the reply
    cut: int | None = None  # the connection ends after this many bytes of the body
    reset: bool = False  # the connection is reset without a reply


class ScriptedServer:
    """A server that replies to each POST by its script, as a context manager.

    Attributes:
        url: The URL of the server, without a slash at the end.
        answer: The script, which runs on a thread for each request.
        requests: The received requests, in order.
    """

    def __init__(self, answer: Callable[[Request], Reply]) -> None:
        self.answer = answer
        self.requests: list[Request] = []
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, headers, self.rfile.read(length))
                server.requests.append(request)
                reply = server.answer(request)
                server._closing.wait(reply.after)
                if reply.reset:
                    # A close with a linger time of 0 sends a reset.
                    linger = struct.pack("ii", 1, 0)
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    self.connection.close()
                    self.close_connection = True
                    return
                raw = isinstance(reply.body, bytes)
                body = reply.body if raw else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: reply.cut])
                self.close_connection = self.close_connection or reply.cut is not None

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (OSError, ValueError):  # the client or the test closed the connection
                    self.close_connection = True

            def finish(self) -> None:
                try:
                    super().finish()
                except (OSError, ValueError):
                    return

            def log_message(self, *_: object) -> None:
                return

        return Handler
