"""Archives by the address of a local server that misbehaves."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from vikingd.client import Client, NotFetched
from vikingd.client.messages import MessageClient
from vikingd.sources import archive_downloads

TOP = "viking://resources/tea"
WITHOUT_WEB = """
import json, sys
sys.modules |= dict.fromkeys(["httpx", "idna", "lxml", "markdownify", "protego", "trafilatura"])
from vikingd.client import Client, NotFetched
told = []
for address in ("http://127.0.0.1:9/", "http://127.0.0.1:9/tea.zip"):
    with Client(sys.argv[1]) as client:
        try:
            client.import_path(address, "viking://resources/tea")
        except NotFetched as error:
            told.append(error.message)
print(json.dumps(told))
"""


def archive() -> bytes:
    """Return a zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("tea.md", "# Tea\n\nOolong: 90 degrees.\n")
    return out.getvalue()


class Handler(BaseHTTPRequestHandler):
    """A server with an archive, redirects to it, in a circle and to another loopback address."""

    def do_GET(self) -> None:
        """Answer."""
        port = self.server.server_address[1]
        places = {
            "/moved.zip": "/tea.zip",
            "/circle.zip": "/circle.zip",
            "/inward.zip": f"http://127.0.0.2:{port}/tea.zip",
            "/file.zip": "file:///etc/passwd",
        }
        if self.path in places:
            self.send_response(302)
            self.send_header("Location", places[self.path])
            self.end_headers()
        elif self.path != "/tea.zip":
            self.send_error(404)
        elif self.headers.get("If-None-Match") == '"1"':
            self.send_response(304)
            self.end_headers()
        else:
            self.send_response(200)
            self.send_header("ETag", '"1"')
            self.end_headers()
            self.wfile.write(archive())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """Yield the address of the server, on all loopback addresses."""
    with ThreadingHTTPServer(("", 0), Handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()


def test_an_archive_is_downloaded_once(typed: Client, client: MessageClient, server: str) -> None:
    """A redirect is followed, the origin is the given address, and an equal ETag sends nothing."""
    assert typed.import_path(f"{server}/moved.zip", TOP).created == 2
    source = f"{server}/moved.zip#tea.md"
    assert client.get(f"{TOP}/tea.md").context.metadata["source"] == source
    assert typed.import_path(f"{server}/moved.zip", TOP, delete=True).unchanged == 1
    assert client.get(f"{TOP}/tea.md")


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none.zip", "answers 404"),
        ("circle.zip", "redirects more than"),
        ("inward.zip", "is not public"),
        ("file.zip", "redirects to no page"),
    ],
)
def test_a_download_that_fails_is_told(typed: Client, server: str, path: str, reason: str) -> None:
    """The error names the address and the reason; nothing is imported."""
    with pytest.raises(NotFetched, match=f"{path}.*{reason}"):
        typed.import_path(f"{server}/{path}", TOP)


def test_a_download_beyond_the_limit_ends(
    typed: Client, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes is counted."""
    monkeypatch.setattr(archive_downloads, "MAX_ARCHIVE", 10)
    with pytest.raises(NotFetched, match="more than 10 bytes"):
        typed.import_path(f"{server}/tea.zip", TOP)


def test_missing_packages_are_named_with_the_command_that_installs_them(daemon: str) -> None:
    """Without the extra `web` the client works, and pages and archives say what is missing."""
    command = [sys.executable, "-c", WITHOUT_WEB, daemon]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert len(told) == 2
    for one in told:
        assert one.startswith("httpx is not installed; install it with: pip install")
        assert "[web]" in one
