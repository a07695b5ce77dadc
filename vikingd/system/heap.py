"""Free memory that the C library has not returned to the system."""

from __future__ import annotations

import gc

from vikingd.system.platform import trim


def collect_and_trim() -> None:
    """Free the reference cycles that failed calls leave behind, then return free memory."""
    gc.collect(1)
    trim()
