"""Intervals of confidence, compared with published values and with the normal distribution."""

from __future__ import annotations

import math
import random
from statistics import fmean, pstdev

import pytest

from vikingd.domain.ranking_metrics import bootstrap_interval, wilson_interval


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe, 1998, table I
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_wilson_has_the_published_limits(hits: int, count: int, low: float, high: float) -> None:
    """The interval of a share has the limits of Newcombe's table."""
    assert wilson_interval(hits, count) == pytest.approx((low, high), abs=5e-5)


def test_the_bootstrap_is_near_the_normal_interval_and_repeats() -> None:
    """The limits of the mean of many values are 1.96 standard errors away, the same each time."""
    draw = random.Random(5)
    values = [draw.random() for _ in range(400)]
    found = bootstrap_interval(values)
    half = 1.96 * pstdev(values) / math.sqrt(len(values))
    assert found == pytest.approx((fmean(values) - half, fmean(values) + half), abs=half / 5)
    assert bootstrap_interval(values) == found
    assert bootstrap_interval([0.25] * 9) == (0.25, 0.25)
