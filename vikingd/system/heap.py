"""Memory that the C library keeps for later although nothing is in it."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

# glibc keeps freed memory, in an arena for each thread, and gives back only its end by itself.
_trim: Callable[[int], Any] = getattr(ctypes.CDLL(None), "malloc_trim", int)  # int: nothing


def trim() -> None:
    """Give free memory back to the system, where the C library can (glibc)."""
    _trim(0)


def collect_and_trim() -> None:
    """Free what failed calls have left in cycles, then give free memory back."""
    gc.collect(1)
    trim()
