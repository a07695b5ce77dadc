"""Size limits of an embeddings endpoint's replies, and the end of its client."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from vikingd.domain.errors import EmbedderFailed, StoreInUse
from vikingd.engine import Engine, EngineSettings
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.openai_embedder import OpenAIEndpoint
from vikingd.models.embed.provider import EmbedderUnreachable

VECTOR = [3.0, 4.0]
ANSWER = json.dumps({"data": [{"index": 0, "embedding": VECTOR}]}).encode()
PACKED = {"Content-Encoding": "gzip"}


class Handler(BaseHTTPRequestHandler):
    """A handler that gives the answer of its server."""

    def do_POST(self) -> None:
        """Answer as soon as the server permits."""
        server = self.server
        assert isinstance(server, Endpoint)
        self.rfile.read(int(self.headers["Content-Length"]))
        server.asked.set()
        server.may_answer.wait(20)
        with suppress(OSError):  # the client has gone
            self.send_response(server.status)
            for name, value in {**server.headers, "Content-Length": len(server.body)}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(server.body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Endpoint(ThreadingHTTPServer):
    """A server that gives one answer to all requests, as soon as the test permits."""

    daemon_threads = True

    def __init__(self, body: bytes, status: int, headers: dict[str, str]) -> None:
        self.body, self.status, self.headers = body, status, headers
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        super().__init__(("127.0.0.1", 0), Handler)

    def settings(self) -> EmbedSettings:
        """Return the settings of a provider that uses this endpoint."""
        url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        return EmbedSettings(
            "openai", openai_base_url=url, openai_model="test", timeout=20.0, retries=0
        )


@contextmanager
def endpoint(
    body: bytes = ANSWER, status: int = 200, headers: dict[str, str] | None = None
) -> Iterator[Endpoint]:
    """Yield an endpoint with this answer."""
    with Endpoint(body, status, headers or {}) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def opened(server: Endpoint) -> closing[OpenAIEndpoint]:
    """Return a client of an endpoint."""
    return closing(OpenAIEndpoint(replace(server.settings(), batch_size=16)))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def clients() -> Callable[[], int]:
    """Return a function that counts open clients by their threads."""

    def threads() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "embeddings"}

    others = threads()
    return lambda: len(threads() - others)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("headers", [{}, PACKED], ids=["plain", "packed"])
def test_an_answer_has_a_limit(status: int, headers: dict[str, str]) -> None:
    """A reply above the size limit is refused, also a compressed reply or an error."""
    body = b" " * (16 << 20)
    body = gzip.compress(body) if headers else body
    with endpoint(body, status, headers) as server, opened(server) as client:
        message = "speaks another protocol: a reply of more than 9,437,184 bytes"
        with pytest.raises(EmbedderFailed, match=message):
            client.embed_query("x")


def test_an_answer_may_be_packed() -> None:
    """The client accepts a compressed reply."""
    packed = gzip.compress(ANSWER)
    with endpoint(packed, headers=PACKED) as server, opened(server) as client:
        np.testing.assert_allclose(client.embed_query("x"), [0.6, 0.8], rtol=1e-6)


def test_a_closed_client_leaves_no_thread_and_no_caller_waiting(clients: Callable[[], int]) -> None:
    """A closed client fails waiting and later callers, and leaves no thread."""
    with endpoint() as server, ThreadPoolExecutor(1) as pool:
        server.may_answer.clear()
        client = OpenAIEndpoint(server.settings())
        waits = pool.submit(client.embed_query, "x")
        assert server.asked.wait(20)
        client.close()
        with pytest.raises(EmbedderUnreachable, match="closed"):
            waits.result(20)
        with pytest.raises(EmbedderUnreachable, match="closed"):
            client.embed_query("x")
        server.may_answer.set()
    assert clients() == 0


def test_an_engine_ends_its_client(tmp_path: Path, clients: Callable[[], int]) -> None:
    """An engine closes its client, also if the engine could not be opened."""
    with endpoint() as server:
        settings = EngineSettings(tmp_path, server.settings())
        with closing(Engine(settings)):
            assert clients() == 1
            with pytest.raises(StoreInUse):
                Engine(settings)
            assert clients() == 1
    assert clients() == 0
