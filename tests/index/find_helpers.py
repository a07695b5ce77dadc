"""Finds on the newest snapshot, without a daemon."""

from __future__ import annotations

from viking_kernels.arrays import F32

from vikingd.answer.find import Find
from vikingd.domain.find import FindQuery, FindResult
from vikingd.engine import Engine


def find(engine: Engine, query: FindQuery, vector: F32 | None) -> FindResult:
    """Answer a query; see Find."""
    return Find(engine, query, vector).answer()
