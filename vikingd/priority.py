"""Which threads go first when there are fewer cores than work."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path

_LATER = 5  # nice values; with 10 an import takes a sixth longer
_WAITED_FOR = 10


def let_finds_go_first() -> None:
    """Makes the thread that calls this one of those that write: they wait for those that answer.

    On Linux each thread has a nice value of its own.
    """
    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own + _LATER)


def let_all_others_go_first(pid: int | None = None) -> None:
    """Makes every thread of a process, this one unless named, one of the lowest priority.

    On Linux priority belongs to a thread, and numpy has started its own by now.
    """
    if sys.platform != "linux":
        os.nice(19)
        return
    for thread in _threads_of(pid):
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, thread, 19)
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def let_somebody_wait_less(pid: int) -> bool:
    """Gives every thread of a process a share of the processor, for somebody waits for it.

    Returns:
        Whether that is allowed: the lowest priority is left with CAP_SYS_NICE or RLIMIT_NICE only.
    """
    if sys.platform != "linux":
        return False
    for thread in _threads_of(pid):
        try:
            os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, thread, _WAITED_FOR)
        except ProcessLookupError:
            continue
        except PermissionError:
            return False
    return True


def _threads_of(pid: int | None) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(thread.name) for thread in Path(f"/proc/{pid or 'self'}/task").iterdir()]
    return []
