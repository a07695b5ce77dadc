"""Free memory that the C library has not returned to the system."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

# glibc keeps freed memory in an arena for each thread, and returns only the end of an arena.
_trim: Callable[[int], Any] = getattr(ctypes.CDLL(None), "malloc_trim", int)  # int(0) does nothing


def trim() -> None:
    """Return free memory to the system, if the C library can (glibc)."""
    _trim(0)


def collect_and_trim() -> None:
    """Free the reference cycles that failed calls leave behind, then return free memory."""
    gc.collect(1)
    trim()
