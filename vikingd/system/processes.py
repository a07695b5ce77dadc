"""Threads and processes of the daemon: their priorities, and their end with their parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # of prctl(2)

_WRITER = 5  # nice values above the daemon's; with 10 an import takes a sixth longer

# The lowest priority that still gets a tenth of a core beside a busy thread of the daemon or its
# session: 12%. A nice value of 10 gets 9%, one of 19 less than 1%, and SCHED_IDLE nothing.
_BACKGROUND = 9


def let_finds_go_first() -> None:
    """Lower the priority of the calling thread, which writes, below threads that answer.

    On Linux each thread has a nice value of its own.
    """
    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own + _WRITER)


def work_in_background() -> None:
    """Lower the priority of all threads of the calling process.

    The threads of its parent go first, but it still gets at least a tenth of a core beside them.
    """
    if sys.platform != "linux":
        os.nice(_BACKGROUND)
        return
    lower = os.getpriority(os.PRIO_PROCESS, 0) + _BACKGROUND
    # On Linux each thread has its own priority, and numpy has already started threads.
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), lower)
            # A SCHED_BATCH thread does not preempt others when it wakes up.
            os.sched_setscheduler(int(thread.name), os.SCHED_BATCH, os.sched_param(0))


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
