"""The end of a child process together with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def end_with_parent(ending: signal.Signals, parent: int | None = None) -> None:
    """Make the kernel send a signal to this process when its parent thread ends (Linux only).

    Args:
        ending: the signal.
        parent: the parent's process id, if it was read earlier: this process exits at once if that
            parent has ended since.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, ending, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        sys.exit(1)
