"""The record of answers: metrics, and spans if tracing is on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vikingd.domain.account import Stage, seconds_of
from vikingd.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from vikingd.telemetry.tracing import Tracing


class Observer:
    """Records every answer and its stages."""

    def __init__(self, metrics: Metrics, tracing: Tracing | None) -> None:
        self._metrics = metrics
        self._tracing = tracing
        self.answered = metrics.answered
        self.planned = metrics.planned
        self.reranked = metrics.reranked

    def took(self, rpc: str, stages: Sequence[Stage]) -> None:
        """Record the finished stages of the call of this task."""
        self._metrics.took(rpc, seconds_of(stages))
        if self._tracing is not None:
            self._tracing.record(stages)
