"""Memory that the C library keeps for later although nothing is in it."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Gives free memory back to the system, where the C library can (glibc)."""
    gc.collect(1)  # calls that failed leave cycles, with their requests in them
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
