"""Servers as child processes on free loopback ports: the daemon, and what the kernel says of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from vikingd.client.messages import MessageClient

_STOP_SECONDS = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Server:
    """A running child process, with the seconds that it took to serve."""

    address: str
    pid: int
    start_seconds: float = 0.0

    def cpu_seconds(self) -> float:
        """User and system time so far, in steps of the kernel's clock tick (10 ms)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_bytes(self, kind: str = "VmRSS") -> int:
        """Memory in use; `kind` RssAnon is what no file backs."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                return int(line.split()[1]) * 1024
        raise KeyError(kind)


@contextmanager
def running(*arguments: str) -> Iterator[Server]:
    """Runs `python ARGUMENTS`, which says its address as the last word of its first line.

    Settings in the environment (VIKINGD_*) do not reach it. What it says on stderr is shown.

    Raises:
        RuntimeError: it ended without saying it.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
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
) -> Iterator[Server]:
    """A daemon on a store, ready to be asked; with default settings but for those of `config`."""
    started = time.perf_counter()
    with running(
        "-m",
        "vikingd.daemon.server",
        "serve",
        "--listen",
        listen,
        "--path",
        str(store),
        "--config",
        str(config),
        "--log-level",
        "warning",
        "--provider",
        provider,
        *(["--reader"] if reader else []),
    ) as server:
        _wait_until_serving(server.address)
        yield Server(server.address, server.pid, time.perf_counter() - started)


def knows_readers() -> bool:
    """Whether the daemon can be started as a reader of another's store."""
    command = [sys.executable, "-m", "vikingd.daemon.server", "serve", "--help"]
    return "--reader" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextmanager
def temporary_store() -> Iterator[Path]:
    """A directory for a store, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="vikingd-benchmark-") as path:
        yield Path(path)


def _wait_until_serving(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)  # its types know no methods
        request = health_pb2.HealthCheckRequest()
        serving = health_pb2.HealthCheckResponse.SERVING
        while health.Check(request, wait_for_ready=True, timeout=60.0).status != serving:
            time.sleep(0.01)


def wait_for_vectors(client: MessageClient) -> None:
    """Returns when no text waits for its vector any more; says how many do meanwhile."""
    while (embedder := client.stats().embedder).backlog:
        say(f"{embedder.backlog} texts wait for their vector {embedder.last_error}")
        time.sleep(5)


def say(message: str) -> None:
    """Progress, on stderr."""
    print(message, file=sys.stderr, flush=True)
