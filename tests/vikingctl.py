"""vikingctl as a process of its own, forked from the nursery: a new interpreter takes .7 s."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress

from tests.daemons import Forked, nursery


def started(
    arguments: Sequence[str], environment: Mapping[str, str], out: int, err: int, *, text: bool
) -> Forked:
    """Start vikingctl with these variables; the descriptors may be `subprocess.PIPE`."""
    return Forked(
        nursery(),
        "tests.ctl.forked_ctl",
        arguments,
        stdout=out,
        stderr=err,
        text=text,
        env=environment,
    )


def shown(
    arguments: Sequence[str], columns: int, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Run vikingctl on a terminal of this width; return its exit code and all it printed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = started(arguments, environment, theirs, theirs, text=True)
    os.close(theirs)
    printed = b""
    with suppress(OSError):  # a read at the end of a pty fails
        while some := os.read(ours, 1 << 16):
            printed += some
    os.close(ours)
    return process.wait(), printed.decode()


def on_a_terminal(arguments: Sequence[str], columns: int, **variables: str) -> str:
    """Run vikingctl on a terminal of this width; return all it printed. Its exit code is 0."""
    without = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    code, printed = shown(arguments, columns, without | variables)
    assert code == 0, printed
    return printed


def piped(*arguments: str) -> bytes:
    """Run vikingctl in a pipe; return what it printed to standard output. Its exit code is 0."""
    process = started(arguments, os.environ, subprocess.PIPE, subprocess.PIPE, text=False)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return bytes(out)
