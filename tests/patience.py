"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60
"""More than anything takes, also on a busy machine."""


def eventually(holds: Callable[[], object]) -> float:
    """Waits until something holds; seconds that it took."""
    started = time.perf_counter()
    while not holds():
        assert time.perf_counter() - started < SECONDS
        time.sleep(0.002)
    return time.perf_counter() - started
