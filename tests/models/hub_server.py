"""A model hub on loopback that speaks the protocol of Hugging Face's, with faults on demand.

As there, large files are redirected to another host, which has only bytes.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Self
from urllib.parse import unquote, urlsplit

PIECE = 1 << 14  # bytes that are sent at a time
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass(frozen=True)
class Request:
    """A received request; `headers` are by name in lower case."""

    place: str  # hub or store
    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """A reply, and its faults."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None  # the connection ends after so many bytes of the body
    after: float = 0.0  # seconds of silence before the reply
    pause: float = 0.0  # seconds after each piece of the body
    unsized: bool = False  # the size is not told; the connection ends after the body

    def but(self, **headers: str) -> Reply:
        """Return the reply with other headers; "_" stands for "-"."""
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers={**self.headers, **changed})


Fault = Callable[[Request, Reply], Reply]


class HubServer:
    """A hub with repositories, as a context manager.

    Args:
        tls: the hub speaks TLS by it.

    Attributes:
        url: the endpoint.
        requests: the received requests, in order.
        fault: changes the replies; None: there is no fault.
        token: the token that the hub asks for; "": none.
    """

    def __init__(self, tls: SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.fault: Fault | None = None
        self.token = ""
        self._commits: dict[tuple[str, str], str] = {}  # by repository and revision
        self._files: dict[tuple[str, str], dict[str, bytes]] = {}  # by repository and commit
        self._large: dict[str, bytes] = {}  # by SHA-256
        self._limit = 0
        self._closing = threading.Event()
        self._hub = _server(lambda request: self._answer("hub", request), self._closing)
        self._store = _server(lambda request: self._answer("store", request), self._closing)
        self.url = f"http://127.0.0.1:{self._hub.server_port}"
        if tls:  # the store has none
            self._hub.socket = tls.wrap_socket(self._hub.socket, server_side=True)
            self.url = f"https://127.0.0.1:{self._hub.server_port}"
        self._store_url = f"http://localhost:{self._store.server_port}"
        self._threads = [
            threading.Thread(target=one.serve_forever, args=(0.05,))
            for one in (self._hub, self._store)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for one in (self._hub, self._store):
            one.shutdown()
            one.server_close()
        for thread in self._threads:
            thread.join()

    def add(
        self,
        repository: str,
        files: Mapping[str, bytes],
        *,
        branch: str = "main",
        large: int = 1000,
    ) -> str:
        """Add a commit to a branch, and return it; files from `large` bytes on are LFS."""
        content = [(path, hashlib.sha256(body).hexdigest()) for path, body in files.items()]
        commit = hashlib.sha1(repr((repository, sorted(content))).encode()).hexdigest()
        self._files[repository, commit] = dict(files)
        self._commits[repository, branch] = self._commits[repository, commit] = commit
        self._limit = large
        return commit

    def change(self, repository: str, commit: str, path: str, body: bytes) -> None:
        """Change a file of a commit, which an honest hub cannot."""
        self._files[repository, commit][path] = body

    def sent(self, path: str, method: str = "GET") -> list[Request]:
        """Return the requests for a file that the hub got."""
        found = [one for one in self.requests if one.method == method]
        return [one for one in found if urlsplit(one.path).path.endswith(f"/{path}")]

    def _answer(self, place: str, request: Request) -> Reply:
        request = replace(request, place=place)
        self.requests.append(request)
        reply = self._resolve(request) if place == "hub" else self._stored(request)
        return self.fault(request, reply) if self.fault else reply

    def _resolve(self, request: Request) -> Reply:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return Reply(401, {"X-Error-Code": "RepoNotFound"}, b"Invalid username or password.")
        found = _RESOLVE.fullmatch(urlsplit(request.path).path)
        if found is None:
            return Reply(404)
        repository, revision, path = map(unquote, found.groups())
        if not any(one == repository for one, _ in self._files):
            return Reply(404, {"X-Error-Code": "RepoNotFound"})
        commit = self._commits.get((repository, revision))
        if commit is None:
            return Reply(404, {"X-Error-Code": "RevisionNotFound"})
        body = self._files[repository, commit].get(path)
        told = {"X-Repo-Commit": commit}
        if body is None:
            return Reply(404, told | {"X-Error-Code": "EntryNotFound"})
        if len(body) < self._limit:
            git = hashlib.sha1(f"blob {len(body)}\0".encode() + body).hexdigest()
            return _part(request, Reply(200, told | {"ETag": f'"{git}"'}, body))
        digest = hashlib.sha256(body).hexdigest()
        self._large[digest] = body
        linked = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(body))}
        onward = {"Location": f"{self._store_url}/{digest}?signature=secret"}
        return Reply(302, told | linked | onward)

    def _stored(self, request: Request) -> Reply:
        body = self._large.get(urlsplit(request.path).path[1:])
        if body is None:
            return Reply(403)
        return _part(request, Reply(200, {"ETag": '"of the store"'}, body))


def _part(request: Request, whole: Reply) -> Reply:
    """Return the part of a content that a request asks for."""
    found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
    if found is None:
        return whole
    begin, size = int(found[1]), len(whole.body)
    if begin >= size:
        return Reply(416, {"Content-Range": f"bytes */{size}"})
    told = {**whole.headers, "Content-Range": f"bytes {begin}-{size - 1}/{size}"}
    return Reply(206, told, whole.body[begin:])


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that end a connection."""


def _server(answer: Callable[[Request], Reply], closing: threading.Event) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = answer(Request("", self.command, self.path, headers))
            closing.wait(reply.after)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in reply.headers and not reply.unsized:
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            self._send(reply)

        do_HEAD = do_GET  # noqa: N815

        def _send(self, reply: Reply) -> None:
            body = reply.body[: reply.cut]
            for begin in range(0, len(body), PIECE):
                self.wfile.write(body[begin : begin + PIECE])
                self.wfile.flush()
                closing.wait(reply.pause)
            self.close_connection = reply.unsized or reply.cut is not None

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    return _Server(("127.0.0.1", 0), Handler)
