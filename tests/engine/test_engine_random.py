"""Random sequences of all writes, compared with a plain dict and float64 scores."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.engine_model import EngineMachine
from tests.postgres_servers import LEFT_OUT, Server

LENGTHS = settings(
    max_examples=20,
    stateful_step_count=30,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.deep
def test_an_engine_and_its_reader() -> None:
    """An engine over SQLite, beside a reader of the same files."""
    run_state_machine_as_test(EngineMachine, settings=LENGTHS)


@pytest.mark.deep
@pytest.mark.skipif(LEFT_OUT, reason="TEST_POSTGRES=0")
def test_two_nodes(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nodes over PostgreSQL."""
    monkeypatch.setattr(EngineMachine, "server", postgres)
    run_state_machine_as_test(EngineMachine, settings=settings(LENGTHS, max_examples=10))
