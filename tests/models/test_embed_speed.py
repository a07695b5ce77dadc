"""The rate of embedding and the estimate of the time left."""

from __future__ import annotations

import pytest

from vikingd.ctl.progress import time_left
from vikingd.models.embed.embedding_speed import WINDOW, Speed


def test_the_rate_is_that_of_the_last_minute() -> None:
    """The rate covers the last minute without pauses, and is 0 before the first piece."""
    speed = Speed()
    speed.begin(100.0)
    assert speed.rate(101.0) == 0
    for second in range(1, 11):
        speed.add(100.0 + second, 50)
    assert speed.rate(110.5) == pytest.approx(50)
    speed.begin(200.0)
    assert speed.rate(201.0) == 0
    for second in range(1, 301):
        speed.add(200.0 + second, 50 if second < 200 else 500)
    assert speed.rate(500.0) == pytest.approx(500, rel=0.02)
    assert len(speed._done) <= WINDOW + 2


def test_the_rate_falls_when_nothing_comes() -> None:
    """The rate falls if no further piece ends for longer than a usual piece takes."""
    speed = Speed()
    speed.begin(0.0)
    for second in range(1, 10):
        speed.add(float(second), 10)
    assert speed.rate(10.0) == pytest.approx(10)
    assert speed.rate(90.0) == pytest.approx(80 / (89 * 8 / 9))


def test_the_time_left_is_true_within_a_factor_of_two() -> None:
    """After three pieces the estimate is within a factor of two, even after a slow first piece."""
    speed, pieces = Speed(), [(3.2, 8000), *((3.2 + 0.35 * i, 30_000) for i in range(1, 40))]
    speed.begin(0.0)
    left, end = sum(cost for _, cost in pieces), pieces[-1][0]
    for done, (now, cost) in enumerate(pieces, start=1):
        speed.add(now, cost)
        left -= cost
        if 3 <= done < len(pieces):
            told = time_left(left, speed.rate(now + 0.2))
            assert told is not None
            assert 0.5 < told / (end - now) < 2


def test_nobody_knows_the_time_left_before_there_is_a_rate() -> None:
    """The time left is unknown without a rate, else it is the work divided by the rate."""
    assert time_left(1000, 0.0) is None
    assert time_left(1000, 50.0) == 20
