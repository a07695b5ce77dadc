"""Repositories by http from local servers: that of git itself, and one of plain files."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.sources.repositories import IDENTITY, Repository
from vikingd.client import Client, NotFetched
from vikingd.client.messages import MessageClient

TOP = "viking://resources/kettles"
SECRET = "pa@ss word"
BASIC = base64.b64encode(f"ana:{SECRET}".encode()).decode()


class PlainFiles(SimpleHTTPRequestHandler):
    """A server that knows nothing of git."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Backend(BaseHTTPRequestHandler):
    """A server that runs `git http-backend` for whoever knows the password."""

    root: Path

    def do_GET(self) -> None:
        """Answer."""
        if self.headers.get("Authorization") != f"Basic {BASIC}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="tea"')
            self.end_headers()
            return
        parts = urlsplit(self.path)
        variables = {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REQUEST_METHOD": self.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            env={**os.environ, **IDENTITY, **variables},
            capture_output=True,
            check=True,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        """Answer."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(params=["git", "files"])
def address(request: pytest.FixtureRequest, repository: Repository) -> Iterator[str]:
    """Yield the address of a bare copy of the repository."""
    bare = repository.path.with_name("bare")
    repository.git("clone", "--quiet", "--bare", ".", str(bare / "tea.git"))
    repository.git("remote", "add", "copy", str(bare / "tea.git"))
    if request.param == "git":
        handler: object = type("_Backend", (Backend,), {"root": bare})
        user = "ana:pa%40ss%20word@"
    else:
        handler, user = partial(PlainFiles, directory=str(bare)), ""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:  # type: ignore[arg-type]
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"git+http://{user}127.0.0.1:{made.server_port}/tea.git"
        made.shutdown()


def publish(repository: Repository) -> None:
    """Bring the last commit to the copy."""
    repository.git("push", "--quiet", "copy", "main")
    bare = repository.path.with_name("bare") / "tea.git"
    repository.git("--git-dir", str(bare), "update-server-info")


@pytest.mark.deep_after(1)
def test_a_repository_by_http_is_imported_and_followed(
    typed: Client, client: MessageClient, repository: Repository, address: str, homes: Path
) -> None:
    """With a password for a server of git, which no file of the user has afterwards."""
    publish(repository)
    assert typed.import_path(address, TOP).commit == repository.commit
    assert client.get(f"{TOP}/docs/boil.md")
    repository.git("mv", "docs/boil.md", "docs/heat.md")
    repository.save({"docs/new.md": "# New\n\nGreen tea.\n"})
    publish(repository)
    summary = typed.import_path(address, TOP)
    assert (summary.created, summary.moved) == (1, 1)
    if "@" in address:
        with pytest.raises(NotFetched, match="wants credentials"):
            typed.import_path(address.replace("word@", "@"), TOP)
    for file in homes.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert not any(one in data for one in (b"pa@ss", b"pa%40ss", BASIC.encode()))
