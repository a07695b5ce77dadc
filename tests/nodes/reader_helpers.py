"""Helpers of the readers' tests: daemon processes on one store, and files found by a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.commands import VIKINGD, serve, serve_only
from tests.daemons import start
from vikingd.client import Method
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.pb.retrieval_pb2 import FindResponse

ROOT = "viking://resources/notes"
SMALL = {"VIKINGD_INDEX__COMPACT_MIN": "60"}  # compacts every 60 texts or so
SECONDS = 10.0  # time-out for a busy machine


def vector(number: int) -> bytes:
    """Return a unit vector of 16 numbers; the same number gives the same vector."""
    raw = np.random.default_rng(number).normal(size=16)
    return (raw / np.linalg.norm(raw)).astype("<f4").tobytes()


def note(number: int, name: str = "") -> Draft:
    """Return a file with a word of its own, by which a query finds it."""
    uri = f"{ROOT}/{number % 5}/{name or number}.md"
    return Draft(uri, content=f"note word{number} of the harbour", vector=vector(number))


class Daemon:
    """A vikingd as a process with its own client.

    `changed` is code that runs first, in a new interpreter. `fresh` is that of `start`.
    """

    def __init__(
        self,
        store: Path,
        *options: str,
        changed: str = "",
        fresh: bool = False,
        **environment: str,
    ) -> None:
        command = (serve_only if "--listen" in options else serve)(
            store, "--provider", "none", "--log-level", "warning", *options
        )
        if changed:
            code = f"{changed}\nfrom vikingd.daemon.server import main\nmain()"
            command[: len(VIKINGD)] = [sys.executable, "-c", code]
        own = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
        self.process = start(
            command,
            fresh=fresh,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=own | environment,
        )
        words = self.process.stdout.readline().split()
        assert words, self.ended()
        self.address = self.alone = words[-1]
        if "--writer-listen" in options and "--reader" not in options:
            self.alone = self.process.stdout.readline().split()[-1]
        self.client = MessageClient(self.alone, timeout=SECONDS)

    def ended(self) -> tuple[int, str]:
        """Return exit code and stderr of a process that ends by itself."""
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End the process if it runs; a failing test shows its output."""
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
        sys.stderr.write(self.process.communicate(timeout=30)[1] or "")


@contextmanager
def serving(
    store: Path, *options: str, changed: str = "", fresh: bool = False, **environment: str
) -> Iterator[Daemon]:
    """Start a daemon on a free port, unless the options name one."""
    daemon = Daemon(store, *options, changed=changed, fresh=fresh, **environment)
    try:
        yield daemon
    finally:
        daemon.stop()


def uris(reply: FindResponse) -> list[str]:
    """Return the URIs that were found."""
    return [match.uri for match in reply.resources]


def answer(client: MessageClient, number: int, revision: int, method: Method) -> bytes:
    """Return the whole answer to a query, without its times."""
    reply = client.find(
        f"harbour word{number}",
        vector=vector(number),
        limit=20,
        min_revision=revision,
        method=method,
    )
    assert reply.revision == revision
    reply.ClearField("timings")
    return reply.SerializeToString(deterministic=True)
