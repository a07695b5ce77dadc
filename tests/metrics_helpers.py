"""A daemon as a child process, and readers of its metrics."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.commands import serve
from tests.daemons import start
from vikingd.client.messages import MessageClient

ROOT = "viking://resources/notes"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def free_address() -> str:
    """Return an address on loopback whose port is free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def samples(url: str) -> Samples:
    """Return every sample that Prometheus reads, by name and labels."""
    with urllib.request.urlopen(url, timeout=10) as reply:
        families = text_string_to_metric_families(reply.read().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def sample(url: str, name: str, **labels: str) -> float:
    """Return one sample, or 0 if it is missing."""
    return samples(url).get((name, tuple(sorted(labels.items()))), 0)


class Daemon:
    """A vikingd as a process; `url` is the URL of its metrics, or "" without metrics.

    `before` begins the command, such as that of another program which runs the daemon. `fresh` is
    that of `start`.
    """

    def __init__(
        self,
        store: Path,
        said: Path,
        *options: str,
        before: Sequence[str] = (),
        fresh: bool = False,
        **environment: str,
    ) -> None:
        own = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
        self._said = said
        with said.open("w") as err:
            self.process = start(
                [*before, *serve(store, *options)],
                fresh=fresh,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
                env=own | environment,
            )
        self.address = self.process.stdout.readline().split()[-1]
        (self.url, *_) = re.findall(r'event="serving metrics" url=(\S+)', self.stderr) or [""]
        self.client = MessageClient(self.address)

    @property
    def stderr(self) -> str:
        """Return the log of the daemon."""
        return self._said.read_text()

    def stop(self) -> int:
        """End the daemon by SIGTERM, and return its exit code."""
        self.client.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


@contextmanager
def running(
    store: Path, *options: str, fresh: bool = False, **environment: str
) -> Iterator[Daemon]:
    """Run a daemon with metrics on a free port, and check that it ends well."""
    said = store.with_name(f"{store.name}-{time.monotonic_ns()}.log")
    where = ("--metrics-listen", "127.0.0.1:0")
    daemon = Daemon(store, said, *where, *options, fresh=fresh, **environment)
    try:
        yield daemon
    finally:
        assert daemon.stop() == 0
        assert "event=stopped" in daemon.stderr  # a regular stop, not a forced one
        assert "Traceback" not in daemon.stderr
