"""Enums for built prompts: style of citations, order, reasons of dropped pieces; recall paths."""

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


class RecallPath(IntEnum):
    """The way in which a recall was answered.

    FAST reads a known file that the query names. TIMELINE reads days of the journal. HYBRID
    searches all memories by meaning and words.
    """

    FAST = 1
    TIMELINE = 2
    HYBRID = 3
