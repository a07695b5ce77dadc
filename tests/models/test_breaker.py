"""The circuit breaker with a clock that the tests advance."""

from __future__ import annotations

import pytest

from vikingd.models.http.circuit_breaker import Breaker, BreakerOpen


class Clock:
    """A clock that only the test advances."""

    now = 1000.0

    def __call__(self) -> float:
        """Return the time that the clock shows."""
        return self.now


def opened(clock: Clock) -> Breaker:
    """Return a breaker that has just opened."""
    breaker = Breaker(clock)
    for _ in range(3):
        breaker.failed(breaker.admit(), "answered 500")
    return breaker


def refusal(breaker: Breaker) -> str:
    """Return the message with which the breaker refuses a call."""
    with pytest.raises(BreakerOpen) as caught:
        breaker.admit()
    return str(caught.value)


def test_opens_after_three_failures_in_a_row() -> None:
    """The breaker opens after three failures in a row; a success resets the count."""
    breaker = Breaker(Clock())
    for _ in range(2):
        breaker.failed(breaker.admit(), "x")
    assert breaker.admit() is False
    breaker.succeeded()
    for _ in range(2):
        breaker.failed(breaker.admit(), "x")
    assert breaker.admit() is False
    breaker.failed(False, "answered 500")
    assert refusal(breaker) == "failed 3 times in a row (answered 500); asked again in 5 s"


def test_one_call_tries_after_the_pause() -> None:
    """After the pause, only one trial call is admitted; its success closes the breaker."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 4.5
    assert "asked again in 1 s" in refusal(breaker)
    clock.now += 0.5
    assert breaker.admit() is True
    assert "being asked again now" in refusal(breaker)
    breaker.succeeded()
    assert breaker.admit() is False
    assert breaker.failures == 0


def test_pause_doubles_up_to_a_minute() -> None:
    """Each failed trial doubles the pause, from 5 s up to 60 s; a success resets the pause."""
    clock = Clock()
    breaker = opened(clock)
    for pause in (5, 10, 20, 40, 60, 60):
        clock.now += pause - 0.25
        assert "asked again in 1 s" in refusal(breaker)
        clock.now += 0.25
        assert breaker.admit() is True
        assert breaker.failed(True, "x") == min(2 * pause, 60)  # the next pause
    clock.now += 60
    breaker.admit()
    breaker.succeeded()
    for _ in range(3):
        breaker.failed(False, "x")
    assert "asked again in 5 s" in refusal(breaker)


def test_calls_in_flight_together_open_it_once() -> None:
    """Failures of calls that began before the breaker opened do not lengthen the pause."""
    clock = Clock()
    breaker = opened(clock)
    for _ in range(5):
        assert breaker.failed(False, "late") == 0
    assert refusal(breaker) == "failed 8 times in a row (late); asked again in 5 s"
    clock.now += 5
    assert breaker.admit() is True


def test_a_trial_that_was_given_up_lets_the_next_one_try() -> None:
    """After a trial call is given up, the next call is the trial."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 5
    assert breaker.admit() is True
    breaker.gave_up(True)
    assert breaker.admit() is True
    breaker.gave_up(False)  # a call from before the breaker opened
    assert "being asked again now" in refusal(breaker)


def test_a_pause_that_the_server_asks_for_is_kept() -> None:
    """A pause that the server requests holds after the first failure, for at most ten minutes."""
    clock = Clock()
    breaker = Breaker(clock)
    assert breaker.failed(False, "answered 429", 30) == 30
    assert refusal(breaker) == "failed once (answered 429); asked again in 30 s"
    breaker.failed(False, "answered 429", 7)
    assert "asked again in 30 s" in refusal(breaker)
    clock.now += 30
    assert breaker.admit() is True
    breaker.failed(True, "answered 429", 1)
    assert "asked again in 1 s" in refusal(breaker)
    clock.now += 1
    assert breaker.admit() is True
    breaker.failed(True, "answered 429", 1e9)
    assert "asked again in 600 s" in refusal(breaker)


def test_a_call_that_was_given_up_counts_for_nothing() -> None:
    """A call that was given up does not change the count of failures."""
    breaker = Breaker(Clock())
    for _ in range(2):
        breaker.failed(breaker.admit(), "x")
    for _ in range(2):
        breaker.gave_up(breaker.admit())
    assert breaker.failures == 2
    breaker.failed(breaker.admit(), "x")
    assert "3 times in a row" in refusal(breaker)


def test_a_late_success_ends_the_trial() -> None:
    """An earlier call that succeeds during a trial closes the breaker, even if the trial fails."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 5
    assert breaker.admit() is True
    breaker.succeeded()
    breaker.failed(True, "x")
    assert breaker.admit() is False
