"""Daemons as processes: forked from a nursery, which is cheap, or in a new interpreter."""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

from tests.commands import VIKINGD, serve_only
from tests.nursery import LARGEST, READY
from vikingd.system.scratch import scratch

ROOT = Path(__file__).parents[1]
_LOADED_BY = (
    "COVERAGE",
    "GRPC_",
    "HOME",
    "LANG",
    "LC_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "NUMBA_",
    "OMP_",
    "OPENBLAS_",
    "OTEL_",
    "PYTHON",
    "VIKING_",
    "XDG_CACHE_HOME",
)
"""The first letters of variables that a process reads while it loads code."""

# An installed daemon has its bytecode. So have those of the tests, whatever the shell says:
# without it each start compiles some 250 modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
_ENVIRONMENT = dict(os.environ)  # before any test has changed it


class Nursery:
    """The process that forks daemons; see nursery.py.

    Args:
        more: modules that it imports and warms, too.
    """

    def __init__(self, *more: str) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LARGEST)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", ROOT / "tests" / "nursery.py", *more],
                cwd=ROOT,
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                env=_ENVIRONMENT,
                start_new_session=True,
            )
        if self._orders.recv(len(READY)) != READY:
            raise RuntimeError("the nursery of daemons did not start")

    def send(self, order: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Start a process; the descriptors are its standard ones and the pipe of its report."""
        socket.send_fds(self._orders, [json.dumps(order).encode()], descriptors)

    def close(self) -> None:
        """End the nursery and its daemons."""
        self._orders.close()
        self._process.wait()


@functools.cache
def nursery() -> Nursery:
    """Return the nursery of this process, which ends with it."""
    made = Nursery()
    atexit.register(made.close)
    return made


class Forked:
    """A process forked by a nursery, with the interface of `subprocess.Popen`."""

    def __init__(
        self,
        nursery: Nursery,
        module: str,
        arguments: Sequence[str],
        *,
        stdin: Any = subprocess.DEVNULL,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        fresh: Sequence[str] = (),
        address_space: int = 0,
    ) -> None:
        self.args = [sys.executable, "-m", module, *arguments]
        self.returncode: int | None = None
        order = {
            "module": module,
            "arguments": list(arguments),
            "environment": dict(os.environ if env is None else env),
            "directory": str(cwd or Path.cwd()),
            "umask": _umask(),
            "fresh": list(fresh),
            "address_space": address_space,
        }
        self._waiting = threading.Lock()
        self._report, report = os.pipe()
        theirs, ours = [], []
        for number, given in enumerate((stdin, stdout, stderr)):
            end, pipe = _end(number, given, theirs, text)
            theirs.append(end)
            ours.append(pipe)
        self.stdin, self.stdout, self.stderr = ours
        nursery.send(order, [*theirs, report])
        for descriptor in (*theirs, report):
            os.close(descriptor)
        self.pid = int(self._line())

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            some = os.read(self._report, 1)
            if not some:
                raise RuntimeError("the nursery of daemons has ended")
            line += some
        return line

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal that ended it; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end, and return the exit code."""
        with self._waiting:
            if self.returncode is None:
                ends = select.poll()  # `select` takes no descriptor above 1,023
                ends.register(self._report, select.POLLIN)
                if not ends.poll(None if timeout is None else timeout * 1000):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
                self.returncode = int(self._line())
                os.close(self._report)
            return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """Read standard output and error to their ends, and wait for that of the process."""
        until = None if timeout is None else time.monotonic() + timeout
        if self.stdin is not None:
            self.stdin.close()
        read: dict[str, Any] = {}
        readers = [
            threading.Thread(target=lambda n=n, p=p: read.update({n: p.read()}), daemon=True)
            for n, p in (("out", self.stdout), ("err", self.stderr))
            if p is not None and not p.closed
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(None if until is None else max(0, until - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if until is None else max(0, until - time.monotonic()))
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        return read.get("out"), read.get("err")

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()


def _end(number: int, given: Any, theirs: list[int], text: bool) -> tuple[int, IO[Any] | None]:
    """Return a standard descriptor of the process, and the other end of a pipe."""
    if given == subprocess.PIPE:
        read, write = os.pipe()
        end, ours, mode = (read, write, "w") if number == 0 else (write, read, "r")
        return end, open(ours, mode if text else f"{mode}b")
    if given == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if given == subprocess.STDOUT:
        return os.dup(theirs[1]), None
    if given is None:
        return os.dup(number), None
    return os.dup(given if isinstance(given, int) else given.fileno()), None


def _umask() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("Umask:")[2].split()[0], 8)


def start(
    command: Sequence[str],
    *,
    fresh: bool = False,
    env: Mapping[str, str] | None = None,
    **more: Any,
) -> Any:
    """Start the command of a daemon or a gateway, as `subprocess.Popen` does; return the process.

    It is forked from the nursery. It runs in a new interpreter with `fresh`, and with variables
    that a process reads while it loads code.
    """
    words = tuple(command)
    if fresh or words[: len(VIKINGD)] != VIKINGD or _is_own(os.environ if env is None else env):
        return subprocess.Popen(command, env=env, **more)
    return Forked(nursery(), VIKINGD[-1], words[len(VIKINGD) :], env=env, **more)


def _is_own(environment: Mapping[str, str]) -> bool:
    """Return whether code would load in another way than in the nursery."""
    names = {n for n in (*environment, *_ENVIRONMENT) if n.startswith(_LOADED_BY)}
    names.discard("GRPC_VERBOSITY")  # a vikingctl that ran in this process has set it
    return any(environment.get(name) != _ENVIRONMENT.get(name) for name in names)


@contextmanager
def serving(*options: str, fresh: bool = False) -> Iterator[str]:
    """Run a daemon on a temporary store and a free port, and yield its address.

    Further options of `vikingd serve` replace these.
    """
    with scratch("tests") as store:
        log = store.parent / "log"
        with log.open("w") as err:
            process = start(
                serve_only(store, "--listen", "127.0.0.1:0", *options),
                fresh=fresh,
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )
        try:
            words = process.stdout.readline().split()
            assert words, log.read_text()
            yield words[-1]
        finally:
            process.terminate()
            process.communicate(timeout=60)
