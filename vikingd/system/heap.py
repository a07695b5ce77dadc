"""Free memory that the C library has not returned to the operating system."""

from __future__ import annotations

import gc

from vikingd.system.platform import trim


def collect_and_trim() -> None:
    """Collect garbage that failed calls leave, and return free memory to the operating system."""
    gc.collect(1)
    trim()
