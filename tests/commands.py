"""Command lines of the daemon, for tests that run it as a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

VIKINGD = (sys.executable, "-m", "vikingd.daemon.server")


def serve(store: Path, *options: str) -> list[str]:
    """Return the command of a daemon on a store; it takes a free port and no configuration file."""
    return serve_only(store, "--listen", "127.0.0.1:0", *options)


def serve_only(store: Path, *options: str) -> list[str]:
    """Return the same command for the addresses that the options name."""
    where = ("--path", str(store), "--config", os.devnull)
    return [*VIKINGD, "serve", *where, *options]


def on_a_terminal(arguments: list[str], columns: int, **variables: str) -> str:
    """Run vikingctl on a terminal of this width; return all it printed. Its exit code is 0."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    without = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    run = subprocess.Popen(
        [sys.executable, "-m", "vikingd.ctl.main", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=without | variables,
    )
    os.close(theirs)
    printed = b""
    with suppress(OSError):  # a read at the end of a pty fails
        while some := os.read(ours, 1 << 16):
            printed += some
    os.close(ours)
    assert run.wait() == 0, printed
    return printed.decode()
