"""The selection of the best rows, positions and bits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels import select

from tests.kernels import naive
from tests.tiers import examples

some = examples(50)
# These values are few and exact in float32, so there are many ties.
scores = st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75])


@some
@given(st.lists(scores, max_size=30), st.integers(1, 40), scores)
def test_best_rows_are_in_order_with_all_that_tie(values, k, threshold):
    """The k best rows above the threshold come in order, with all that tie at place k."""
    got = select.best_rows(np.array(values, np.float64), k, threshold)
    assert got.tolist() == naive.best_rows(values, k, threshold)


@some
@given(st.lists(scores, max_size=30), st.integers(1, 10))
def test_the_heap_keeps_the_largest(values, k):
    """The heap holds the largest values with the smallest in front."""
    heap = np.empty(k, np.float32)
    count = 0
    for i, value in enumerate(values):
        count = select.push_smallest(heap, count, value)
        kept = sorted(heap[:count].tolist())
        assert kept == naive.push_smallest(values[: i + 1], k)
        assert heap[0] == kept[0]


@some
@given(st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 5), max_size=100))
def test_rows_are_sorted_in_place(values):
    """All values are sorted in ascending order in place."""
    rows = np.array(values, np.int32)
    select.sort_rising(rows)
    assert rows.tolist() == naive.sort_rising(values)


@some
@given(st.lists(scores | st.just(-1.0), max_size=300), st.integers(1, 40))
def test_best_positions_are_in_order(values, k):
    """The best positions come best first, ties by position; negative scores do not count."""
    got = select.best_positions(np.array(values, np.float32), k)
    assert got.tolist() == naive.best_positions(values, k)


def test_what_is_not_a_number_is_never_chosen():
    """NaN is never selected."""
    scores = np.array([np.nan, 0.25, 0.5])
    assert select.best_rows(scores, 3, 0.0).tolist() == [2, 1]
    assert select.best_positions(scores.astype(np.float32), 2).tolist() == [2, 1]


@some
@given(st.lists(scores, min_size=1, max_size=200), st.data())
def test_of_a_group_those_above_a_limit_are_told(values, data):
    """The mask has the scores above a limit, also in a shorter last group."""
    first = data.draw(st.integers(0, (len(values) - 1) // select.GROUP)) * select.GROUP
    limit = data.draw(scores)
    mask = select.mask_above(np.array(values, np.float32), first, len(values), limit)
    assert bits(mask) == naive.mask_above(values, first, limit)


@given(st.sets(st.integers(0, 63), min_size=1))
def test_the_lowest_bit_is_the_least(numbers):
    """The lowest bit is found, also if it is the sign."""
    mask = sum(1 << number for number in numbers - {63}) - (1 << 63) * (63 in numbers)
    assert select.lowest(mask) == naive.lowest(mask) == min(numbers)


def bits(mask: int) -> list[int]:
    """Return the numbers of the bits that are 1."""
    return [i for i in range(64) if mask >> i & 1]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=1, max_size=20), st.data())
@examples(50)
def test_the_queue_gives_the_best_first(values, data):
    """The queue returns the best first, ties by position, in any order of pushes and pops."""
    final = np.array(values, np.float32)
    queue, count = np.empty(len(values), np.int32), 0
    plain: list[int] = []
    for position in data.draw(st.permutations(range(len(values)))):
        count = select.push_queue(queue, count, position, final)
        plain = naive.push_queue(plain, position, values)
        if data.draw(st.booleans()):
            got, (wanted, plain) = select.pop_queue(queue, count, final), naive.pop_queue(plain)
            count -= 1
            assert got == wanted
    while count:
        got, (wanted, plain) = select.pop_queue(queue, count, final), naive.pop_queue(plain)
        count -= 1
        assert got == wanted
