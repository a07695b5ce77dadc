"""An endpoint on loopback that can misbehave, and a wait, for the tests of embedders."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from vikingd.models.embed.embed_settings import EmbedSettings

DIMENSION = 8
POISON = "poison"
PATIENCE = 240.0  # seconds: the child has a low priority, and the machine may be busy


class Endpoint:
    """An embeddings endpoint that calls `misbehave` with each request before it answers.

    `misbehave` may change the list of embeddings, or return (status, body) to send instead; a
    status of 0 closes the connection.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.authorization = ""
        self.drips: bytes | None = None  # sent instead of an answer, followed by slow bytes
        self.misbehave: Callable[[dict[str, Any], list[Any]], tuple[int, bytes] | None] = (
            lambda _request, _data: None
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on."""
        self._server.shutdown()
        self._server.server_close()

    def settings(self, **changes: Any) -> EmbedSettings:
        """Return the settings of a provider that uses this endpoint."""
        given = {"provider": "openai", "openai_base_url": self.url, "openai_model": "test"}
        return EmbedSettings(**{**given, "timeout": 5.0, "retries": 0, **changes})

    def vector(self, text: str, dimension: int = DIMENSION) -> list[float]:
        """Return a vector that is not of unit length and differs from those of other texts."""
        return [
            float(x) for x in np.random.default_rng(list(text.encode())).normal(0, 3, dimension)
        ]

    def _answer(self, request: dict[str, Any]) -> tuple[int, bytes]:
        dimension = request.get("dimensions", DIMENSION)
        data: list[Any] = [
            {"object": "embedding", "index": i, "embedding": self.vector(text, dimension)}
            for i, text in enumerate(request["input"])
        ]
        answer = self.misbehave(request, data)
        return answer or (200, json.dumps({"object": "list", "model": "t", "data": data}).encode())

    def _handler(endpoint) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append(request)
                endpoint.authorization = self.headers["Authorization"]
                status, body = endpoint._answer(request)
                if not status:
                    return  # the connection closes without an answer
                with contextlib.suppress(OSError):  # the client gave up
                    if endpoint.drips is not None:
                        self.wfile.write(endpoint.drips)
                        for _ in range(200):
                            time.sleep(0.05)
                            self.wfile.write(b" ")
                        return
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.send_header("retry-after-ms", "1")
                    if 300 <= status < 400:
                        self.send_header("Location", body.decode())
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
