"""Lower priorities for threads and processes that no caller waits for."""

from __future__ import annotations

from vikingd.system import platform

_WRITER = 5  # nice values above the daemon's; with 10 an import takes a sixth longer

# The lowest priority that still gets a tenth of a core beside a busy thread of the daemon or its
# session: 12%. A nice value of 10 gets 9%, one of 19 less than 1%, and SCHED_IDLE nothing.
_BACKGROUND = 9


def lower_writer_priority() -> None:
    """Lower the priority of the calling thread, a writer, below the threads that answer queries."""
    platform.lower_thread(_WRITER)


def lower_process_priority() -> None:
    """Lower the priority of the calling process below that of the daemon's threads.

    Beside a busy thread of the daemon it still gets about a tenth of a core.
    """
    platform.lower_process(_BACKGROUND)
