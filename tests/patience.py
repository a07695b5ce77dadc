"""A wait for other threads or processes."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60
"""The limit of a wait, also on a busy machine."""


def eventually(holds: Callable[[], object]) -> float:
    """Wait until a condition is true, and return the seconds of the wait."""
    started = time.perf_counter()
    while not holds():
        assert time.perf_counter() - started < SECONDS
        time.sleep(0.002)
    return time.perf_counter() - started
