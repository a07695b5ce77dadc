"""The paths of a recall."""

from __future__ import annotations

from enum import IntEnum


class RecallPath(IntEnum):
    """The path that answered a recall: a known file, the timeline, or a search."""

    FAST = 1
    TIMELINE = 2
    HYBRID = 3
