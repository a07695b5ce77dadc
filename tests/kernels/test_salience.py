"""Salience: its parts, the order and the budget, compared with the plain twins."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import itemgetter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels.arrays import NEVER
from viking_kernels.salience import ACCESS, RECENCY, REINFORCEMENT, rank

from tests.kernels import naive
from tests.tiers import examples
from vikingd.memory_calls.budget_choice import within_budget

DAY = 24 * 60 * 60 * 1_000_000
NOW = 1_760_000_000_000_000
DEFAULT = (0.5, 0.2, 0.2, 0.1, 30.0)


def ranked(semantic, known, weights=DEFAULT, now=NOW):
    """Return (order, saliences, parts) of the kernel; None is a missing time."""
    rows = [(r, a, NEVER if t is None else t) for r, a, t in known]
    order, scores, parts = rank(
        np.array(semantic, np.float64),
        np.array(rows, np.int64).reshape(-1, 3),
        np.array(weights, np.float64),
        now,
    )
    return order.tolist(), scores, parts


@pytest.mark.parametrize(
    ("days", "recency"),
    [(0, 1), (7, 0.851), (15, 0.707), (30, 0.5), (60, 0.25), (90, 0.125), (-1, 1), (10**8, 0)],
)
def test_recency_halves_with_each_half_life(days: int, recency: float) -> None:
    """The recency halves every 30 days, and a time in the future has age 0 (behaviour 17)."""
    _, _, parts = ranked([0.5], [(0, 0, NOW - days * DAY)])
    assert parts[0, RECENCY] == pytest.approx(recency, abs=5e-4)


def test_a_missing_time_counts_as_the_oldest() -> None:
    """A memory without a time has recency 0 (behaviour 17)."""
    _, _, parts = ranked([0.5, 0.5], [(0, 0, None), (0, 0, NOW - 400 * DAY)])
    assert parts[0, RECENCY] == 0 < parts[1, RECENCY]


def test_reinforcement_and_access_are_shares_of_the_most() -> None:
    """A part is log(n + 1) / log(max n + 2), so 0 gives 0 and no part reaches 1."""
    _, _, parts = ranked([0] * 3, [(0, 63, NOW), (3, 0, NOW), (7, 1, NOW)])
    assert parts[:, REINFORCEMENT] == pytest.approx(
        [0, math.log(4) / math.log(9), math.log(8) / math.log(9)]
    )
    assert parts[:, ACCESS] == pytest.approx(
        [math.log(64) / math.log(65), 0, math.log(2) / math.log(65)]
    )


def test_salience_is_the_weighted_sum_of_its_parts() -> None:
    """The salience is the sum of its parts by the default weights."""
    _, scores, _ = ranked([0.4], [(1, 0, NOW - 30 * DAY)])
    assert scores[0] == pytest.approx(0.5 * 0.4 + 0.2 * math.log(2) / math.log(3) + 0.2 * 0.5)


def chosen(tokens: Iterable[int], budget: int, limit: int, skip: bool) -> list[int]:
    """Return the places of the texts that fit."""
    texts = within_budget(enumerate(tokens), itemgetter(1), budget, limit, skip)
    return [place for (place, _), fits in texts if fits]


def test_the_choice_ends_at_the_first_that_does_not_fit() -> None:
    """The choice ends at the first text beyond the budget, or skips it on request."""
    tokens = [50, 60, 30, 20]
    for budget, skip, taken in (
        (100, False, [0]),
        (100, True, [0, 2, 3]),
        (110, False, [0, 1]),
        (49, False, []),
        (49, True, [2]),
        (1000, False, [0, 1, 2, 3]),
    ):
        assert chosen(tokens, budget, 10, skip) == taken
    assert chosen(tokens, 1000, 3, False) == [0, 1, 2]


def test_no_more_texts_are_counted_than_the_budget_needs() -> None:
    """Tokens are counted only as far as the budget needs, because counting is slow."""
    asked = []

    def tokens():
        for one in (50, 60, 30, 20):
            asked.append(one)
            yield one

    assert chosen(tokens(), 60, 10, False) == [0]
    assert asked == [50, 60]
    asked.clear()
    assert chosen(tokens(), 1000, 2, False) == [0, 1]
    assert asked == [50, 60]


@examples(200)
@given(
    st.lists(st.integers(0, 50), max_size=30),
    st.integers(0, 300),
    st.integers(1, 40),
    st.booleans(),
)
def test_any_texts_are_taken_as_by_hand(tokens, budget, limit, skip) -> None:
    """The choice equals that of the plain twin and never exceeds the budget."""
    taken = chosen(tokens, budget, limit, skip)
    assert taken == naive.within_budget(tokens, budget, limit, skip)
    assert sum(tokens[i] for i in taken) <= budget


def test_equal_saliences_keep_the_order_in_which_they_came() -> None:
    """Memories of equal salience keep their order, whatever the time is."""
    known = [(2, 3, NOW - 5 * DAY)] * 6
    for shift in (-DAY, 0, DAY, -10 * DAY):
        assert ranked([0.3] * 6, known, now=NOW + shift)[0] == list(range(6))


def test_nothing_makes_nothing() -> None:
    """Without candidates there are no memories."""
    chosen, scores, parts = ranked([], [])
    assert (chosen, scores.shape, parts.shape) == ([], (0,), (0, 4))


times = st.none() | st.integers(-(2**62), 2**62) | st.integers(NOW - 100 * DAY, NOW + DAY)
candidate = st.tuples(
    st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1),
    st.tuples(st.integers(0, 2**40) | st.integers(0, 3), st.integers(0, 3), times),
)


@examples(200)
@given(
    st.lists(candidate, max_size=30),
    st.sampled_from([DEFAULT, (1.0, 0.0, 0.0, 0.0, 1e-9), (0.0, 0.5, 0.25, 0.25, 1e6)]),
)
def test_any_candidates_are_ranked_as_by_hand(candidates, weights) -> None:
    """Parts and order equal those of the plain twin; saliences are in [0, 1] without NaN."""
    semantic, known = [s for s, _ in candidates], [k for _, k in candidates]
    order, scores, parts = ranked(semantic, known, weights)
    by_hand, wanted = naive.rank(semantic, known, weights, NOW)
    np.testing.assert_allclose(parts, np.reshape(wanted, (-1, 4)), atol=1e-9)
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()
    assert (scores <= 1 + 1e-9).all()
    # Rounding may make equal saliences differ, or different ones equal.
    apart = np.diff(np.sort(scores))
    if not len(apart) or apart.min() > 1e-9:
        assert order == by_hand
