"""Web servers on loopback that misbehave on demand."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import SSLContext
from typing import Any, Self

from vikingd.sources.fetch_result import Fetched
from vikingd.sources.site_options import SiteOptions
from vikingd.sources.web_site import fetch_site

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Reply:
    """A reply, and its faults."""

    body: str | bytes = b""
    type: str = HTML
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    has_tag: bool = False  # it has an ETag, and a request with it is answered 304
    cut: int | None = None  # the connection ends after so many bytes of the body
    pause: float = 0.0  # seconds after each byte of the body
    is_silent: bool = False  # there is no reply until the server ends
    is_unsized: bool = False  # the size is not told; the connection ends after the body


@dataclass(frozen=True)
class Request:
    """A received request; `headers` are by name in lower case."""

    path: str
    headers: Mapping[str, str]


Handler = Callable[[Request], Reply]


class WebServer:
    """A site, as a context manager.

    Args:
        pages: replies by path, or functions that make them; others are 404.
        otherwise: makes the replies of all other paths.
        tls: the server speaks TLS by it.

    Attributes:
        url: the address, without a slash at its end.
        requests: the requests.
        most_at_once: the largest number of requests at a time.
    """

    def __init__(
        self,
        pages: dict[str, Reply | Handler | str] | None = None,
        otherwise: Handler = lambda _: Reply("not here", status=404),
        tls: SSLContext | None = None,
        name: str = "127.0.0.1",
    ) -> None:
        self.pages = pages if pages is not None else {}
        self.otherwise = otherwise
        self.requests: list[Request] = []
        self.most_at_once = 0
        self.ended = threading.Event()
        self._running = 0
        self._lock = threading.Lock()
        site = self

        class _Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                with site._counted(), suppress(OSError):
                    site._answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        class _Server(ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None:
                pass  # a client that ends a connection is no fault

        self._server = _Server(("127.0.0.1", 0), _Handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://{name}:{self._server.server_port}"
        self.port = self._server.server_port

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def asked(self) -> list[str]:
        """The paths that were asked for, in order."""
        return [one.path for one in self.requests]

    def _counted(self) -> _Counted:
        return _Counted(self)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(handler.path, headers)
        with self._lock:
            self.requests.append(request)
        found = self.pages.get(handler.path, self.otherwise)
        reply = found(request) if callable(found) else found
        if isinstance(reply, str):
            reply = Reply(reply)
        if reply.is_silent:
            self.ended.wait()
            return
        body = reply.body.encode() if isinstance(reply.body, str) else reply.body
        sent = dict(reply.headers)
        status = reply.status
        if reply.has_tag:
            sent["ETag"] = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            if headers.get("if-none-match") == sent["ETag"]:
                status, body = 304, b""
        handler.send_response(status)
        if reply.type:
            sent.setdefault("Content-Type", reply.type)
        if reply.is_unsized:
            sent["Connection"] = "close"
            handler.close_connection = True
        elif status != 304:
            sent.setdefault("Content-Length", str(len(body)))
        for name, value in sent.items():
            handler.send_header(name, value)
        handler.end_headers()
        if reply.cut is not None:
            body = body[: reply.cut]
            handler.close_connection = True
        if reply.pause:
            for i in range(len(body)):
                handler.wfile.write(body[i : i + 1])
                if self.ended.wait(reply.pause):
                    break
        else:
            handler.wfile.write(body)


class _Counted:
    """Counts the requests that run at a time."""

    def __init__(self, server: WebServer) -> None:
        self._server = server

    def __enter__(self) -> None:
        with self._server._lock:
            self._server._running += 1
            self._server.most_at_once = max(self._server.most_at_once, self._server._running)

    def __exit__(self, *_: object) -> None:
        with self._server._lock:
            self._server._running -= 1


def page(text: str, *links: str, title: str = "A page", head: str = "") -> str:
    """Return a page with a text and links."""
    listed = "".join(f'<li><a href="{link}">see {i}</a></li>' for i, link in enumerate(links))
    return (
        f"<!DOCTYPE html><html><head><title>{title}</title>{head}</head>"
        f"<body><nav><ul>{listed}</ul></nav><main><h1>{title}</h1><p>{text}</p></main></body></html>"
    )


@dataclass
class Fetch:
    """Fetches of one source, each with the state of the one before.

    Args:
        address: the address of its first page.
        folder: its directory.
        options: the options of SiteOptions.
    """

    address: str
    folder: Path
    options: dict[str, Any]
    state: dict[str, Any] | None = None
    done: int = 0
    cancelled: threading.Event = field(default_factory=threading.Event)
    on_done: Callable[[], None] = lambda: None

    def __call__(self, **changed: Any) -> Fetched:
        """Fetch the source with the options, of which some are changed."""

        def told(count: int) -> None:
            self.done += count
            self.on_done()

        options = SiteOptions(**{"interval": 0.0, "seconds": 20.0, **self.options, **changed})
        fetched = fetch_site(self.address, options, self.folder, self.state, told, self.cancelled)
        self.state = fetched.state
        return fetched


def fetch_of(server: WebServer, folder: Path, path: str = "/", **options: Any) -> Fetch:
    """Return the fetches of a page of a server; `below` makes it a site."""
    return Fetch(server.url + path, folder, options)


def files_in(fetched: Fetched) -> dict[str, str]:
    """Return the files of a fetch by path; they are those that have an origin."""
    found = {
        file.relative_to(fetched.folder).as_posix(): file.read_text("utf-8", "replace")
        for file in fetched.folder.rglob("*")
        if file.is_file()
    }
    assert found.keys() == fetched.origins.keys()
    return found


def told_of(fetched: Fetched, address: str) -> str:
    """Return the only reason that is told of an address."""
    (reason,) = [one.reason for one in fetched.not_taken if one.address == address]
    return reason


def times_of(fetched: Fetched) -> dict[str, int]:
    """Return the time of the last write of each file, in nanoseconds."""
    return {path: (fetched.folder / path).stat().st_mtime_ns for path in fetched.origins}
