"""Fusion by rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels.fusion import rrf

from tests.kernels import naive
from tests.tiers import examples

lists = st.lists(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 9), unique=True), max_size=4)


def fused(ranked, weights, k):
    """Return (rows, scores) of the kernel."""
    rows = np.array([row for one in ranked for row in one], np.int32)
    ends = np.cumsum([len(one) for one in ranked]).astype(np.int64)
    return rrf(rows, ends, np.array(weights, np.float64), float(k))


def test_the_example_of_two_lists():
    """The published example gives its published order: A, B, C and B, D, A with k 60."""
    a, b, c, d = range(4)
    rows, scores = fused([[a, b, c], [b, d, a]], [1, 1], 60)
    assert rows.tolist() == [b, a, d, c]
    assert scores == pytest.approx([0.0325, 0.0323, 0.0161, 0.0159], abs=5e-5)


@examples(100)
@given(lists, st.data(), st.sampled_from([0, 1, 60]))
def test_any_number_of_lists_is_fused_as_by_hand(ranked, data, k):
    """Weighted fusion equals that of the plain twin; ties are in order of row."""
    weights = [data.draw(st.sampled_from([0.0, 0.5, 1.0])) for _ in ranked]
    rows, scores = fused(ranked, weights, k)
    wanted = naive.rrf(ranked, weights, k)
    assert rows.tolist() == [row for row, _ in wanted]
    assert scores.tolist() == [score for _, score in wanted]
