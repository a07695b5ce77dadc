"""Random sequences of all writes, compared with a plain dict and float64 scores."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.engine_model import EngineMachine
from tests.postgres_servers import NEEDS_POSTGRES, Server

LENGTHS = settings(
    max_examples=60,
    stateful_step_count=30,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


SOME = settings(LENGTHS, max_examples=4, stateful_step_count=12)
tiers = pytest.mark.parametrize(
    "lengths", [SOME, pytest.param(LENGTHS, marks=pytest.mark.deep)], ids=["some", "many"]
)


@tiers
def test_an_engine_and_its_reader(lengths: settings) -> None:
    """An engine over SQLite, beside a reader of the same files."""
    run_state_machine_as_test(EngineMachine, settings=lengths)


@pytest.mark.deep
@tiers
@NEEDS_POSTGRES
def test_two_nodes(postgres: Server, monkeypatch: pytest.MonkeyPatch, lengths: settings) -> None:
    """Two nodes over PostgreSQL."""
    monkeypatch.setattr(EngineMachine, "server", postgres)
    run_state_machine_as_test(
        EngineMachine, settings=settings(lengths, max_examples=lengths.max_examples // 2)
    )
