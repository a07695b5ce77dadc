"""The paths of Recall."""

from __future__ import annotations

from enum import IntEnum


class RecallPath(IntEnum):
    """How a recall got its answer."""

    FAST = 1
    TIMELINE = 2
    HYBRID = 3
