"""A few rounds of `python -m tests.cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.rounds import KINDS, Outcome, run
from tests.postgres_servers import NEEDS_POSTGRES

pytestmark = [
    NEEDS_POSTGRES,
    pytest.mark.timeout(600),
]


@pytest.mark.deep
def test_a_cluster_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    """One round of each fault under load; all nodes agree with the model after each."""
    outcome = Outcome()
    run(tmp_path, outcome, rounds=len(KINDS), seed=1, writers=6, readers=6)
    assert not outcome.faults
    assert outcome.rounds == dict.fromkeys(KINDS, 1)
    assert outcome.counts["writes"] > 10


@pytest.mark.deep
def test_a_lost_history_is_told_once(tmp_path: Path) -> None:
    """After a failover that loses commits each session is told once, and all nodes agree."""
    outcome = Outcome()
    run(tmp_path, outcome, rounds=1, seed=1, only="async", writers=6, readers=6)
    assert not outcome.faults
    assert outcome.lost > 0
