"""An HTTP endpoint for metrics and health, for this machine alone or with a token."""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from vikingd.domain.daemon_addresses import Address

Render = Callable[[str], tuple[str, bytes]]
"""A function that returns the content type and the body for the value of an Accept header."""

_METRICS, _HEALTH = "/metrics", "/healthz"
_CONNECTIONS = 32  # concurrent
_SECONDS = 5.0  # for a whole exchange
_HEAD = 8 << 10  # bytes
_SHORTEST_TOKEN = 16  # characters


class Endpoint:
    """An HTTP server that answers GET /metrics and GET /healthz until it is closed.

    With a token, each request must have it (Authorization: Bearer TOKEN). Without one, the Host
    header must name the loopback interface, which stops DNS rebinding by web pages.

    Attributes:
        healthy: returns True if the daemon serves; called from the server's thread.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, render: Render, host: str, port: int, token: str = "") -> None:
        self.healthy: Callable[[], bool] = lambda: False  # until the daemon has started
        self._render = render
        self._token = token
        self._open = 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
        self.port: int = listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, sock=listener, limit=_HEAD)
        )
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the server, release the port and cancel running requests."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop):  # it cancels exchanges on exit
            self._loop.run_forever()
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _CONNECTIONS:
                async with asyncio.timeout(_SECONDS):
                    await self._exchange(reader, writer)
        except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
            pass  # the client is slow, gone or speaks another protocol
        finally:
            self._open -= 1
            with suppress(OSError):
                writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        kind, body, challenge = "text/plain; charset=utf-8", b"", ""
        if self._token and not self._is_allowed(headers.get("authorization", "")):
            status = HTTPStatus.UNAUTHORIZED
            challenge = "WWW-Authenticate: Bearer\r\n"
        elif not (self._token or _is_loopback(headers.get("host", ""))):
            status = HTTPStatus.MISDIRECTED_REQUEST
        elif path not in (_METRICS, _HEALTH):
            status = HTTPStatus.NOT_FOUND
        elif method not in ("GET", "HEAD"):
            status = HTTPStatus.METHOD_NOT_ALLOWED
        elif path == _HEALTH:
            status = HTTPStatus.OK if self.healthy() else HTTPStatus.SERVICE_UNAVAILABLE
            body = b"200 OK\n"
        else:
            status = HTTPStatus.OK
            kind, body = self._render(headers.get("accept", ""))
        if status is not HTTPStatus.OK:
            body = f"{status.value} {status.phrase}\n".encode()
        answer = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n{challenge}"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(answer.encode() + (b"" if method == "HEAD" else body))
        await writer.drain()

    def _is_allowed(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("latin-1")
        return scheme.lower() == "bearer" and hmac.compare_digest(given, self._token.encode())


def token_of(variable: str) -> str:
    """Return the token that an environment variable holds.

    Raises:
        ValueError: the variable is not set, or its value is not a valid token.
    """
    token = os.environ.get(variable, "").strip()
    if not re.fullmatch(r"[!-~]+", token) or len(token) < _SHORTEST_TOKEN:
        raise ValueError(
            f"the environment variable {variable} must hold a token of at least "
            f"{_SHORTEST_TOKEN} printable ASCII characters without spaces"
        )
    return token


def _is_loopback(host: str) -> bool:
    """Return True if a Host header names the loopback interface, such as localhost:9716."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    return Address(name.lower()).is_local
