"""Kernels compared with their plain twins, at a size that is feasible for the twins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from viking_kernels import postings, quantize, select

from benchmarks.data import DIMENSION
from tests.kernels import naive

ROWS = 300
TOP_K = 10

_rng = np.random.default_rng(1)
_raw = _rng.standard_normal((ROWS, DIMENSION), np.float32)
_coded = (
    np.empty((ROWS, DIMENSION), np.int8),
    np.empty(ROWS, np.float32),
    np.empty(ROWS, np.float32),
)
_final = _rng.random(ROWS, np.float32)
_terms = _rng.zipf(1.3, (ROWS, 60)).clip(1, 1 << 40).astype(np.uint64)
_lengths = np.full(ROWS, 60)

PAIRS: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
    "quantize_rows": (
        lambda: quantize.quantize_rows(_raw, *_coded),
        lambda: naive.quantize_rows(_raw.astype(np.float64)),
    ),
    "best_rows": (
        lambda: select.best_rows(_final.astype(np.float64), TOP_K, 0.0),
        lambda: naive.best_rows(_final.tolist(), TOP_K, 0.0),
    ),
    "best_positions": (
        lambda: select.best_positions(_final, TOP_K),
        lambda: naive.best_positions(_final.tolist(), TOP_K),
    ),
    "grouped": (
        lambda: postings.grouped(_terms.ravel(), _lengths, 0),
        lambda: naive.grouped(_terms.tolist(), 0),
    ),
}


@pytest.mark.parametrize("which", ["kernel", "twin"])
@pytest.mark.parametrize("name", PAIRS)
def test_pair(benchmark: BenchmarkFixture, name: str, which: str) -> None:
    """Time a kernel or its twin on the same rows."""
    benchmark.group = name
    benchmark(PAIRS[name][which == "twin"])
