"""Which threads go first when there are fewer cores than work."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

_LATER = 5  # nice values; with 10 an import takes a sixth longer


def let_finds_go_first() -> None:
    """Makes the thread that calls this one of those that write: they wait for those that answer.

    On Linux each thread has a nice value of its own.
    """
    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own + _LATER)


def let_all_others_go_first() -> None:
    """Makes every thread of this process one of the lowest priority.

    On Linux priority belongs to a thread, and numpy has started its own by now.
    """
    if sys.platform != "linux":
        os.nice(19)
        return
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 19)
            os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
