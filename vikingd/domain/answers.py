"""The parts that all answers have: stages, notes on failures, and a budget of bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

UNBOUNDED = 1 << 62

MESSAGE_BYTES = 64
"""Approximate bytes of the numbers and tags of one message."""


class Stage(NamedTuple):
    """A timed step of an answer, such as "embed" or "score"; times are of `time.perf_counter`."""

    name: str
    started: float
    ended: float


def seconds_of(stages: Iterable[Stage]) -> dict[str, float]:
    """Return the seconds of each stage by name; equal names are summed."""
    seconds: dict[str, float] = {}
    for name, started, ended in stages:
        seconds[name] = seconds.get(name, 0.0) + ended - started
    return seconds


class Strength(IntEnum):
    """The strength of an answer; see Strength in the proto for each value."""

    STRONG = 1
    WEAK = 2
    NOTHING = 3


@dataclass(frozen=True, slots=True)
class Confidence:
    """Calibrated probabilities; Confidence in the proto documents each field."""

    in_scope: float
    among_results: float
    strength: Strength

    @property
    def is_something(self) -> bool:
        """True unless the strength is NOTHING."""
        return self.strength is not Strength.NOTHING

    def is_below(self, floor: float | None) -> bool:
        """Return True if `in_scope` is below `floor`; with None, if the strength is NOTHING."""
        if floor is None:
            return self.strength is Strength.NOTHING
        return self.in_scope < floor


NO_CONFIDENCE = Confidence(0.0, 0.0, Strength.NOTHING)
"""The confidence of an answer without results."""


NAMED = Confidence(1.0, 1.0, Strength.STRONG)
"""The confidence of an answer that the question names, as a file, a day or a relation."""


class DegradationReason(IntEnum):
    """The cause of a degraded answer; see DegradationReason in the proto for each value."""

    EMBEDDER = 1
    RERANKER = 2
    PLANNER = 3
    REPLY_TOO_LARGE = 4
    CONCURRENT_WRITE = 5
    READER = 6
    NOT_CALIBRATED = 7
    VECTORS_PENDING = 8
    WORDING_KEPT = 9
    BUDGET = 10


@dataclass(frozen=True, slots=True)
class Degradation:
    """A failed or missing part of an answer; `detail` explains it to people."""

    reason: DegradationReason
    detail: str


Degraded = tuple[Degradation, ...]


class ReplyBudget:
    """The bytes that a reply has left.

    Attributes:
        limit: bytes in all.
        left: bytes that are still free; never below 0.
        left_out: number of results that did not fit.
        shortened: number of texts that fitted only in part.
    """

    __slots__ = ("left", "left_out", "limit", "shortened")

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit
        self.left_out = 0
        self.shortened = 0

    def take(self, size: int) -> bool:
        """Take `size` bytes and return True; take none and return False if fewer are left."""
        if size > self.left:
            return False
        self.left -= size
        return True

    def fit(self, text: str) -> str:
        """Take the bytes of a text, and return the text or the beginning of it that fits."""
        return text if self.take(size_of(text)) else self._cut(text[: self.left].encode())

    def fit_encoded(self, text: memoryview | bytearray) -> str:
        """Do as `fit` for a text as UTF-8 bytes; only the beginning that fits is decoded."""
        return str(text, "utf-8", "replace") if self.take(len(text)) else self._cut(text)

    def _cut(self, text: bytes | bytearray | memoryview) -> str:
        self.shortened += 1
        kept = str(text[: self.left], "utf-8", "ignore")
        self.left = 0  # A later text must not appear where this one was cut.
        return kept

    def notes(self) -> Degraded:
        """Return the notes for the reply on what is missing."""
        return cut_notes(self.left_out, self.shortened)


def size_of(text: str) -> int:
    """Return the bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def cut_notes(left_out: int, shortened: int) -> Degraded:
    """Return the notes for a reply that was cut to its limit of bytes; () if it was not cut.

    Args:
        left_out: the number of results that are not in the reply.
        shortened: the number of texts that are only in part in the reply.
    """
    if not left_out and not shortened:
        return ()
    return (
        too_large(
            f"the reply has no room for more: {left_out:,} results are left out, {shortened:,} "
            "texts shortened; ask for less, or let the operator raise limits.max_reply_bytes"
        ),
    )


def too_large(detail: str) -> Degradation:
    """Return the note on a reply that was cut."""
    return Degradation(DegradationReason.REPLY_TOO_LARGE, detail)
