"""Command lines of the daemon, for tests that run it as a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

VIKINGD = (sys.executable, "-m", "vikingd.daemon.server")


def serve(store: Path, *options: str) -> list[str]:
    """Return the command of a daemon on a store; it takes a free port and no configuration file."""
    return serve_only(store, "--listen", "127.0.0.1:0", *options)


def serve_only(store: Path, *options: str) -> list[str]:
    """Return the same command for the addresses that the options name."""
    where = ("--path", str(store), "--config", os.devnull)
    return [*VIKINGD, "serve", *where, *options]


class Process(Protocol):
    """The part of `subprocess.Popen` that a terminal needs."""

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        ...


def shown(start: Callable[[int], Process], columns: int) -> tuple[int, str]:
    """Start a process on a terminal of this width; return its exit code and all it printed.

    Args:
        start: starts it with this descriptor as its standard output and error.
        columns: the width of the terminal.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = start(theirs)
    os.close(theirs)
    printed = b""
    with suppress(OSError):  # a read at the end of a pty fails
        while some := os.read(ours, 1 << 16):
            printed += some
    os.close(ours)
    return process.wait(), printed.decode()


def on_a_terminal(arguments: list[str], columns: int, **variables: str) -> str:
    """Run vikingctl on a terminal of this width; return all it printed. Its exit code is 0."""
    without = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    command = [sys.executable, "-m", "vikingd.ctl.main", *arguments]

    def start(terminal: int) -> Process:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env=without | variables,
        )

    code, printed = shown(start, columns)
    assert code == 0, printed
    return printed
