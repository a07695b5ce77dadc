"""Priorities of threads and processes, for machines with fewer cores than work."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

_LATER = 5  # nice values; with 10 an import takes a sixth longer

# The lowest priority that still gets a tenth of a processor beside a busy thread of the daemon or
# its session: 12%. A nice value of 10 gets 9%, one of 19 less than 1%, and SCHED_IDLE nothing.
_BACKGROUND = 9


def let_finds_go_first() -> None:
    """Makes the thread that calls this one of those that write: they wait for those that answer.

    On Linux each thread has a nice value of its own.
    """
    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own + _LATER)


def work_in_background() -> None:
    """Lower the priority of the process that calls this, with all the threads that it has.

    The threads of its parent go first, but it always gets at least a tenth beside them.
    """
    if sys.platform != "linux":
        os.nice(_BACKGROUND)
        return
    lower = os.getpriority(os.PRIO_PROCESS, 0) + _BACKGROUND
    # On Linux priority belongs to a thread, and numpy has started its own by now.
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), lower)
            # It does not interrupt others when it wakes up.
            os.sched_setscheduler(int(thread.name), os.SCHED_BATCH, os.sched_param(0))
