"""Servers as child processes on free loopback ports, and their CPU time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from vikingd.client.file_import import Importer
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.ingest.jsonl import read_jsonl

_SERVE = ("-m", "vikingd.daemon.server", "serve")
_STOP_SECONDS = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")
_STAT_TIMES = slice(11, 13)  # utime and stime after the name, see proc_pid_stat(5)


@dataclass(frozen=True, slots=True)
class Server:
    """A running child process, with the seconds that its start took."""

    address: str
    pid: int
    start_seconds: float = 0.0

    def cpu_seconds(self) -> float:
        """Return the user and system time so far, in steps of the clock tick (10 ms)."""
        text = Path(f"/proc/{self.pid}/stat").read_text()
        fields = text.rpartition(")")[2].split()  # the name before it may contain spaces
        user, system = fields[_STAT_TIMES]
        return (int(user) + int(system)) / _TICKS

    def resident_bytes(self, kind: str = "VmRSS") -> int:
        """Return the memory in use; kind `RssAnon` counts only memory that no file backs."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) * 1024
        raise KeyError(kind)


@contextmanager
def running(*arguments: str) -> Iterator[Server]:
    """Run `python ARGUMENTS`; the last word of the first line that it prints is its address.

    The child does not see VIKINGD_* variables. It inherits stderr.

    Raises:
        RuntimeError: the child ended without a first line.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed daemon has its bytecode
    child = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert child.stdout is not None
        words = child.stdout.readline().split()
        if not words:
            raise RuntimeError(f"{' '.join(arguments)} did not start: exit code {child.wait()}")
        yield Server(words[-1], child.pid)
    finally:
        child.terminate()
        try:
            child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextmanager
def serving(
    store: Path,
    provider: str = "none",
    listen: str = "127.0.0.1:0",
    reader: bool = False,
    config: Path = Path(os.devnull),
    processes: int = 1,
) -> Iterator[Server]:
    """Start a daemon on a store and wait until it serves; `config` may override defaults.

    The readers of more than one process may start later.
    """
    started = time.perf_counter()
    options = {
        "--listen": listen,
        "--path": str(store),
        "--config": str(config),
        "--log-level": "warning",
        "--provider": provider,
        **({"--processes": str(processes)} if processes > 1 else {}),
    }
    arguments = [*_SERVE, *chain(*options.items()), *(["--reader"] if reader else [])]
    with running(*arguments) as server:
        _wait_until_serving(server.address)
        yield Server(server.address, server.pid, time.perf_counter() - started)


def knows_readers() -> bool:
    """Return True if the daemon has the option --reader."""
    command = [sys.executable, *_SERVE, "--help"]
    return "--reader" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def temporary_store() -> Iterator[Path]:
    """Make a directory for a store and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="vikingd-benchmark-") as path:
        yield Path(path)


def _wait_until_serving(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)  # the type has no methods
        request = health_pb2.HealthCheckRequest()
        serving = health_pb2.HealthCheckResponse.SERVING
        while health.Check(request, wait_for_ready=True, timeout=60.0).status != serving:
            time.sleep(0.01)


def import_set(client: MessageClient, source: Path) -> None:
    """Import the documents of a set.

    Raises:
        SystemExit: the daemon refused some, or some were unreadable.
    """
    importer = Importer(client, uris.ROOT)
    importer.run(read_jsonl(source), lambda _: None)
    summary = importer.summary
    if summary.failed or summary.unreadable:
        raise SystemExit(f"{source}: the import of some documents failed")
    say(f"{source.name}: {summary.created} new contexts, {summary.unchanged} unchanged")


def wait_for_vectors(client: MessageClient) -> None:
    """Wait until all texts have vectors, and print the progress."""
    while (embedder := client.stats().embedder).backlog:
        say(f"{embedder.backlog} texts without a vector {embedder.last_error}")
        time.sleep(5)


def say(message: str) -> None:
    """Print progress to stderr."""
    print(message, file=sys.stderr, flush=True)
