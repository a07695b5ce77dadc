"""The return of memory that the C library keeps after it was freed."""

from __future__ import annotations

import gc

from vikingd.system.platform import trim


def collect_and_trim() -> None:
    """Collect garbage that failed calls leave, and return free memory to the operating system."""
    gc.collect(1)
    trim()
