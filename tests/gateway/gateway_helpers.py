"""A gateway as a child process, and its requests."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from tests.commands import VIKINGD
from tests.daemons import start

JSON = {"content-type": "application/json"}
NOTE = "viking://resources/notes/tea.md"
MAIN = "from vikingd.daemon.server import main\nmain()"


class Gateway:
    """A gateway as a child process.

    Args:
        daemon: the address that it calls.
        said: the file of its log.
        options: of `vikingd gateway`.
        changed: code that runs before the gateway, such as one that makes a deadline shorter.
        environment: variables of its own.
        verify: how its certificate is verified.
    """

    def __init__(
        self,
        daemon: str,
        said: Path,
        *options: str,
        changed: str = "",
        environment: Mapping[str, str] = MappingProxyType({}),
        verify: ssl.SSLContext | bool = False,
    ) -> None:
        self._said = said
        program = [sys.executable, "-c", f"{changed}\n{MAIN}"] if changed else VIKINGD
        command = [*program, "gateway", "--config", os.devnull]
        command += ["--listen", "127.0.0.1:0", "--daemon", daemon, "--log-level", "debug", *options]
        own = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
        own |= environment
        with said.open("w") as err:
            self.process = start(command, stdout=subprocess.PIPE, stderr=err, text=True, env=own)
        line = self.process.stdout.readline()
        assert " gateway on http" in line, self.log
        self.url = line.split()[-1]
        self.host = self.url.partition("://")[2]
        self.http = httpx.Client(base_url=self.url, trust_env=False, verify=verify, timeout=30)

    @property
    def log(self) -> str:
        """Return what the gateway has logged."""
        return self._said.read_text()

    def post(self, rpc: str, fields: Any, **headers: str) -> httpx.Response:
        """Call an RPC."""
        return self.http.post(f"/v1/{rpc}", json=fields, headers=_named(headers))

    def get(self, path: str, **headers: str) -> httpx.Response:
        """Read a path."""
        return self.http.get(path, headers=_named(headers))

    def connect(self) -> socket.socket:
        """Return a connection without a request."""
        name, _, port = self.host.rpartition(":")
        return socket.create_connection((name.strip("[]"), int(port)), timeout=30)

    def raw(self, head: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request as it is; return the status and the body of the response."""
        with self.connect() as connection:
            connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
            return response(connection)

    def stop(self) -> int:
        """End the gateway by SIGTERM; return its exit code."""
        self.http.close()
        self.process.terminate()
        self.process.communicate(timeout=30)
        return self.process.returncode


@contextmanager
def gateway_of(daemon: str, directory: Path, *options: str, **more: Any) -> Iterator[Gateway]:
    """Run a gateway; check that it ends well and has met no fault."""
    made = Gateway(daemon, directory / f"gateway-{time.monotonic_ns()}.log", *options, **more)
    try:
        yield made
    finally:
        assert made.stop() == 0
        assert "Traceback" not in made.log


def response(connection: socket.socket) -> tuple[int, bytes]:
    """Return the status and the body of a response; (0, b"") if the connection ends without one."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return 0, b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < int(length[0].split(b":")[1]):
        body += connection.recv(65536)
    return int(head.split()[1]), body


def reason(reply: httpx.Response) -> str:
    """Return the reason of an error, whose form is checked."""
    body = reply.json()
    assert reply.headers["content-type"] == "application/json"
    assert set(body) <= {"code", "message", "details"}
    assert body["message"]
    (info,) = (d for d in body["details"] if d["@type"].endswith("google.rpc.ErrorInfo"))
    assert info["domain"] == "viking.retrieval.v1"
    return str(info["reason"])


def fields(reply: httpx.Response) -> list[str]:
    """Return the fields that an error names."""
    return [
        violation["field"]
        for detail in reply.json()["details"]
        for violation in detail.get("fieldViolations", [])
    ]


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
