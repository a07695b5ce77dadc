"""The records of the failed or missing parts of an answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


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


@dataclass(frozen=True, slots=True)
class Degradation:
    """A failed or missing part of an answer; `detail` explains it to people."""

    reason: DegradationReason
    detail: str


Degraded = tuple[Degradation, ...]
