"""The circuit breaker, by a clock that the tests turn."""

from __future__ import annotations

import pytest

from vikingd.models.http.circuit_breaker import Breaker, BreakerOpen


class Clock:
    """Seconds that pass when they are told to."""

    now = 1000.0

    def __call__(self) -> float:
        """Return the time that the clock shows."""
        return self.now


def opened(clock: Clock) -> Breaker:
    """A breaker that has just opened."""
    breaker = Breaker(clock)
    for _ in range(3):
        breaker.failed(breaker.admit(), "answered 500")
    return breaker


def refusal(breaker: Breaker) -> str:
    """Why it lets nobody through."""
    with pytest.raises(BreakerOpen) as caught:
        breaker.admit()
    return str(caught.value)


def test_opens_after_three_failures_in_a_row() -> None:
    """Two failures, or three with a success among them, are nothing."""
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
    """While it does, all others fail at once; its success closes the breaker."""
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
    """5 s, 10, 20, 40, 60, 60; a success begins anew."""
    clock = Clock()
    breaker = opened(clock)
    for pause in (5, 10, 20, 40, 60, 60):
        clock.now += pause - 0.25
        assert "asked again in 1 s" in refusal(breaker)
        clock.now += 0.25
        assert breaker.admit() is True
        assert breaker.failed(True, "x") == min(2 * pause, 60)  # of the next
    clock.now += 60
    breaker.admit()
    breaker.succeeded()
    for _ in range(3):
        breaker.failed(False, "x")
    assert "asked again in 5 s" in refusal(breaker)


def test_calls_in_flight_together_open_it_once() -> None:
    """Eight that began before it opened and fail after it do not make the pause longer."""
    clock = Clock()
    breaker = opened(clock)
    for _ in range(5):
        assert breaker.failed(False, "late") == 0
    assert refusal(breaker) == "failed 8 times in a row (late); asked again in 5 s"
    clock.now += 5
    assert breaker.admit() is True


def test_a_trial_that_was_given_up_lets_the_next_one_try() -> None:
    """A caller who went away leaves no breaker that is for ever being tried."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 5
    assert breaker.admit() is True
    breaker.gave_up(True)
    assert breaker.admit() is True
    breaker.gave_up(False)  # another call, of before it opened
    assert "being asked again now" in refusal(breaker)


def test_a_pause_that_the_server_asks_for_is_kept() -> None:
    """From the first failure on, as long as it says, up to ten minutes; a shorter one too."""
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
    """A call that gave up is no failure, and does not end a row of failures."""
    breaker = Breaker(Clock())
    for _ in range(2):
        breaker.failed(breaker.admit(), "x")
    for _ in range(2):
        breaker.gave_up(breaker.admit())
    assert breaker.failures == 2
    breaker.failed(breaker.admit(), "x")
    assert "3 times in a row" in refusal(breaker)


def test_a_late_success_ends_the_trial() -> None:
    """When a call of before answers while another tries, that one's failure is an ordinary one."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 5
    assert breaker.admit() is True
    breaker.succeeded()
    breaker.failed(True, "x")
    assert breaker.admit() is False
