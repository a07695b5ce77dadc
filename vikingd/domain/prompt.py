"""The forms of a context for a prompt."""

from __future__ import annotations

from enum import IntEnum


class CitationStyle(IntEnum):
    """The form of a citation in a built context."""

    NONE = 1
    NUMBERED = 2
    URI = 3


class ContextOrder(IntEnum):
    """The order of passages in a built context."""

    SCORE = 1
    TREE = 2


class DropReason(IntEnum):
    """The reason why a piece is not in a built context."""

    DUPLICATE = 1
    EMPTY = 2
    BUDGET = 3
    GONE = 4
