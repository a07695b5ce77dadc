"""Salience: each part by hand, the order, and the cut of the budget, beside the plain twin."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from viking_kernels.arrays import NEVER
from viking_kernels.salience import ACCESS, RECENCY, REINFORCEMENT, recall

DAY = 24 * 60 * 60 * 1_000_000
NOW = 1_760_000_000_000_000
DEFAULT = (0.5, 0.2, 0.2, 0.1, 30.0)


def recalled(semantic, known, weights=DEFAULT, now=NOW, budget=10**6, limit=100, skip=False):
    """(chosen, saliences, parts) of the kernel; None for a missing time."""
    rows = [(r, a, NEVER if t is None else t, n) for r, a, t, n in known]
    chosen, scores, parts = recall(
        np.array(semantic, np.float64), np.array(rows, np.int64).reshape(-1, 4),
        np.array(weights, np.float64), now, budget, limit, skip,
    )  # fmt: skip
    return chosen.tolist(), scores, parts


@pytest.mark.parametrize(
    ("days", "recency"),
    [(0, 1), (7, 0.851), (15, 0.707), (30, 0.5), (60, 0.25), (90, 0.125), (-1, 1), (10**8, 0)],
)
def test_recency_halves_with_each_half_life(days: int, recency: float) -> None:
    """At a half-life of 30 days; what lies in the future is of age 0 (behaviour 17)."""
    _, _, parts = recalled([0.5], [(0, 0, NOW - days * DAY, 1)])
    assert parts[0, RECENCY] == pytest.approx(recency, abs=5e-4)


def test_a_missing_time_counts_as_the_oldest() -> None:
    """Behaviour 17."""
    _, _, parts = recalled([0.5, 0.5], [(0, 0, None, 1), (0, 0, NOW - 400 * DAY, 1)])
    assert parts[0, RECENCY] == 0 < parts[1, RECENCY]


def test_reinforcement_and_access_are_shares_of_the_most() -> None:
    """log(r + 1) / log(max r + 2), so that nobody reaches 1, and 0 stays 0."""
    _, _, parts = recalled([0] * 3, [(0, 63, NOW, 1), (3, 0, NOW, 1), (7, 1, NOW, 1)])
    assert parts[:, REINFORCEMENT] == pytest.approx(
        [0, math.log(4) / math.log(9), math.log(8) / math.log(9)]
    )
    assert parts[:, ACCESS] == pytest.approx(
        [math.log(64) / math.log(65), 0, math.log(2) / math.log(65)]
    )


def test_salience_is_the_weighted_sum_of_its_parts() -> None:
    """By the default weights."""
    _, scores, _ = recalled([0.4], [(1, 0, NOW - 30 * DAY, 1)])
    assert scores[0] == pytest.approx(0.5 * 0.4 + 0.2 * math.log(2) / math.log(3) + 0.2 * 0.5)


def test_the_choice_ends_at_the_first_that_does_not_fit() -> None:
    """Unless it is to skip those; a budget that is met exactly is not passed."""
    semantic, known = [0.9, 0.8, 0.7, 0.6], [(0, 0, NOW, n) for n in (50, 60, 30, 20)]
    assert recalled(semantic, known, budget=100)[0] == [0]
    assert recalled(semantic, known, budget=100, skip=True)[0] == [0, 2, 3]
    assert recalled(semantic, known, budget=110)[0] == [0, 1]
    assert recalled(semantic, known, budget=49)[0] == []
    assert recalled(semantic, known, limit=3)[0] == [0, 1, 2]


def test_equal_saliences_keep_the_order_in_which_they_came() -> None:
    """So the answer is the same each time; the clock a day off changes nothing among the old."""
    known = [(2, 3, NOW - 5 * DAY, 1)] * 6
    for shift in (-DAY, 0, DAY, -10 * DAY):
        assert recalled([0.3] * 6, known, now=NOW + shift)[0] == list(range(6))


def test_nothing_makes_nothing() -> None:
    """No candidates, no memories."""
    chosen, scores, parts = recalled([], [])
    assert (chosen, scores.shape, parts.shape) == ([], (0,), (0, 4))


times = st.none() | st.integers(-(2**62), 2**62) | st.integers(NOW - 100 * DAY, NOW + DAY)
candidate = st.tuples(
    st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1),
    st.tuples(st.integers(0, 2**40) | st.integers(0, 3), st.integers(0, 3), times,
              st.integers(0, 50)),
)  # fmt: skip


@settings(max_examples=200, deadline=None, print_blob=True)
@given(
    st.lists(candidate, max_size=30), st.integers(0, 300), st.integers(1, 40), st.booleans(),
    st.sampled_from([DEFAULT, (1.0, 0.0, 0.0, 0.0, 1e-9), (0.0, 0.5, 0.25, 0.25, 1e6)]),
)  # fmt: skip
def test_any_candidates_are_chosen_as_by_hand(candidates, budget, limit, skip, weights) -> None:
    """Parts and order as the plain twin has them, within the budget, without NaN."""
    semantic, known = [s for s, _ in candidates], [k for _, k in candidates]
    chosen, scores, parts = recalled(semantic, known, weights, NOW, budget, limit, skip)
    by_hand, wanted = naive.recall(semantic, known, weights, NOW, budget, limit, skip)
    np.testing.assert_allclose(parts, np.reshape(wanted, (-1, 4)), atol=1e-9)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()
    assert (scores <= 1 + 1e-9).all()
    # Rounding may set apart what is equal by hand, and the other way round.
    apart = np.diff(np.sort(scores))
    if not len(apart) or apart.min() > 1e-9:
        assert chosen == by_hand
