"""Daemons that are started, watched and killed, and whose output is checked."""

from __future__ import annotations

import itertools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from vikingd.client.messages import MessageClient

SECONDS = 60.0  # seconds for a start or an end on a busy machine; a longer one is a hang
CALL = 30.0  # seconds for a call; a longer one is a hang
BAD_WORDS = re.compile(
    r"Traceback|Fatal Python error|Segmentation fault|code=INTERNAL|code=UNKNOWN"
    r"|Exception ignored|core dumped"
)
# Python writes this for a child that was starting when the daemon was killed.
_ORPHAN = re.compile(
    r'Traceback \(most recent call last\):\n  File "<string>".*?\nEOFError: Ran out of input\n',
    re.DOTALL,
)
_SERVING = re.compile(r"serving on (\S+)")
_LOGGED = re.compile(r"^timestamp=\S+ level=\S+ ")
MOST_LOGGED = 16 << 10  # bytes of one line


class Wrong(Exception):
    """A broken promise of the daemon."""


class Nursery:
    """The process that forks daemons, see nursery.py."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.nursery"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.logs = Path(tempfile.mkdtemp(prefix="vikingd-chaos-logs-"))
        self._running: set[int] = set()
        self._started: queue.Queue[int] = queue.Queue()
        self._starting = threading.Lock()
        self._changed = threading.Condition()
        self._codes: dict[int, int] = {}
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("the nursery of daemons did not start")
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            record = json.loads(line)
            if "started" in record:
                with self._changed:
                    self._codes.pop(record["started"], None)
                    self._running.add(record["started"])
                self._started.put(record["started"])
            else:
                with self._changed:
                    self._codes[record["ended"]] = record["code"]
                    self._running.discard(record["ended"])
                    self._changed.notify_all()

    def start(self, order: dict[str, Any]) -> int:
        """Start a daemon, and return its process id."""
        assert self._process.stdin is not None
        with self._starting:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            return self._started.get(timeout=SECONDS)

    def code(self, pid: int) -> int | None:
        """Return the exit code of a daemon that has ended, or minus the signal that ended it."""
        return self._codes.get(pid)

    def wait(self, pid: int, seconds: float) -> int | None:
        """Wait for the end of a daemon; return its exit code, None if it runs."""
        with self._changed:
            self._changed.wait_for(lambda: pid in self._codes, seconds)
            return self._codes.get(pid)

    def kill_all(self) -> None:
        """End all running daemons."""
        with self._changed:
            for pid in self._running:
                os.kill(pid, signal.SIGKILL)
            self._changed.wait_for(lambda: not self._running, SECONDS)

    def discard_logs(self, name: str) -> None:
        """Remove the output of daemons whose stores are in a directory of this name."""
        for path in self.logs.glob(f"{name}-*"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """End the nursery and its daemons."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(SECONDS)
        with suppress(FileNotFoundError):  # a second close, after Ctrl-C
            if not any(self.logs.iterdir()):
                self.logs.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_numbers = itertools.count(1)


class Daemon:
    """A vikingd on a store, in its own process.

    Args:
        nursery: the process that starts the daemon.
        store: the directory of the store.
        options: more options of `vikingd serve`, which override the default ones.
        fresh: True for a new interpreter, False for a fork.
        address_space: bytes of memory that the daemon may map; 0 for no limit.
        environment: variables VIKINGD_* of the daemon.
    """

    def __init__(
        self,
        nursery: Nursery,
        store: Path,
        *options: str,
        fresh: bool = False,
        address_space: int = 0,
        **environment: str,
    ) -> None:
        self.store = store
        self._nursery = nursery
        name = f"{store.parent.name}-{store.name}-{next(_numbers):06d}"
        self.out, self.err = nursery.logs / f"{name}.out", nursery.logs / f"{name}.err"
        arguments = [
            "serve",
            "--path",
            str(store),
            "--config",
            os.devnull,
            "--provider",
            "none",
            "--listen",
            "127.0.0.1:0",
            "--log-level",
            "info",
            *options,
        ]
        self.started = time.monotonic()
        self.pid = nursery.start(
            {
                "arguments": arguments,
                "environment": environment,
                "out": str(self.out),
                "err": str(self.err),
                "fresh": fresh,
                "address_space": address_space,
            }
        )
        self._killed = False
        self._address = ""

    @property
    def code(self) -> int | None:
        """Return the exit code; None while the daemon runs."""
        return self._nursery.code(self.pid)

    def is_serving(self) -> bool:
        """Wait until the daemon serves (True) or has ended (False).

        Raises:
            Wrong: the start hangs.
        """
        pause = 0.002
        while not self._address:
            ended = self.code is not None
            found = _SERVING.search(self.out.read_text()) if self.out.exists() else None
            if found:
                self._address = found[1]
            elif ended:
                return False
            elif time.monotonic() - self.started > SECONDS + 60 * self.is_compiling():
                raise Wrong(f"the start hangs: {self.said()[-400:]}")
            time.sleep(pause)
            pause = min(pause * 1.3, 0.02)
        return True

    def is_compiling(self) -> bool:
        """Return whether the daemon compiles kernels, which it does once per version."""
        return "compiling kernels" in self.said()

    @property
    def address(self) -> str:
        """Return the address of the daemon.

        Raises:
            Wrong: the daemon ended before it served.
        """
        if not self.is_serving():
            raise Wrong(f"the start ended with {self.code}: {self.said()[-400:]}")
        return self._address

    def client(self, timeout: float = CALL) -> MessageClient:
        """Return a new connection."""
        return MessageClient(self.address, timeout, retries=False)

    def said(self) -> str:
        """Return all standard error output."""
        return self.err.read_text(errors="replace") if self.err.exists() else ""

    def message(self) -> str:
        """Return the last line of standard error that is not a log line."""
        lines = [line for line in self.said().splitlines() if not _LOGGED.match(line)]
        return lines[-1] if lines else ""

    def kill(self) -> None:
        """Kill the daemon with SIGKILL."""
        self._killed = True
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
        self._gone()
        self.check()

    def stop(self) -> None:
        """Send SIGTERM, and wait for the end."""
        if self.code is None:
            os.kill(self.pid, signal.SIGTERM)
        self._gone()
        self.check()

    def _gone(self) -> None:
        if self._nursery.wait(self.pid, SECONDS) is None:
            os.kill(self.pid, signal.SIGKILL)
            raise Wrong("it does not end on a signal")

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def discard(self) -> None:
        """Delete the output so far."""
        self.out.unlink(missing_ok=True)
        self.err.unlink(missing_ok=True)

    def check(self, *, may_refuse: bool = False) -> None:
        """Raise Wrong for a forbidden output or exit code.

        With `may_refuse`, exit code 1 is allowed after a message on the last line.
        """
        said = _ORPHAN.sub("", self.said()) if self._killed else self.said()
        if bad := BAD_WORDS.search(said):
            raise Wrong(f"it said: {said[max(0, bad.start() - 200) :][:3000]}")
        long = max(map(len, said.splitlines()), default=0)
        if long > MOST_LOGGED:
            raise Wrong(f"it wrote a line of {long:,} characters")
        code = self.code
        if code is None or code == 0 or (code == -signal.SIGKILL and self._killed):
            return
        if may_refuse and code == 1 and self.message().startswith("vikingd:"):
            return
        name = signal.Signals(-code).name if code < 0 else str(code)
        raise Wrong(f"it ended with {name}: {said[-600:]}")

    def memory(self) -> dict[str, int]:
        """Return VmRSS and VmHWM in bytes, by name."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        found = {}
        for line in lines:
            name, _, value = line.partition(":")
            if name in ("VmRSS", "VmHWM"):
                found[name] = int(value.split()[0]) << 10
        return found


def eventually(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait until a condition holds, and return whether it held in time."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
