"""The standard streams of a process whose parent has closed some of them, and SIGHUP."""

from __future__ import annotations

import os
import signal
import sys


def open_closed() -> None:
    """Open each of stdin, stdout and stderr that is closed, on the null device.

    Otherwise the next file that is opened, such as the store, would get the descriptor number of a
    standard stream, and printed text would be written into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            made = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115  stays open
            setattr(sys, name, made)


def say(line: str) -> None:
    """Print a line and flush; if stdout is broken, send all further output to the null device."""
    try:
        print(line, flush=True)
    except OSError:
        # The rest of the buffer would be written at the end, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ends_by_hangup() -> bool:
    """Return True if SIGHUP (a closed terminal) ends this process; False under nohup."""
    return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
