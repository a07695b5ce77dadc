"""Random sequences of all writes for a given time: `pytest -m soak`."""

from __future__ import annotations

import os
import random
import time

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.soak_model import SoakMachine

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
SHRINKING = 900  # seconds to find the minimal sequence of a failure

ROUND = settings(
    max_examples=5,
    stateful_step_count=60,
    phases=[Phase.generate, Phase.shrink],
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + SHRINKING)
def test_the_engine_agrees_with_its_model_for_a_long_time() -> None:
    """Random sequences of writes leave the engine equal to its model, round after round.

    SOAK_SECONDS is the time. SOAK_SEED is the seed of the first round; each round adds one to it.
    """
    first = int(os.environ.get("SOAK_SEED") or random.SystemRandom().randrange(1 << 32))
    end = time.monotonic() + SECONDS
    rounds = 0
    while time.monotonic() < end:
        print(f"SOAK_SEED={first + rounds}")  # pytest shows the last seed if its round fails
        run_state_machine_as_test(seed(first + rounds)(SoakMachine), settings=ROUND)
        rounds += 1
    print(f"{rounds} rounds, seeds {first} to {first + rounds - 1}")
    assert rounds  # the assertions on the engine are in SoakMachine
