"""Many tenants under load, of which few are open, and kills meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks import tenants
from benchmarks.tenants import Options, Writes


@pytest.mark.deep
def test_kills_under_load_lose_nothing_in_any_tenant(tmp_path: Path) -> None:
    """Clients ask random tenants while the daemon is killed; each acknowledged write is there."""
    options = Options(
        tenants=24, contexts=25, clients=8, seconds=1.5, most_open=5, kills=3, pause=0.01
    )
    outcome = asyncio.run(tenants.run(options, tmp_path / "store"))
    assert outcome.lost == []
    assert not outcome.failed
    assert len(outcome.restarts) == 3
    assert 8 < outcome.checked <= outcome.acknowledged
    assert {"find open", "find closed", "put closed"} <= outcome.taken.keys()
    assert outcome.memory["highest"] < 2 * outcome.memory["start"]
    assert tenants.figures(outcome)["lost"] == 0


@pytest.mark.parametrize(("found", "is_lost"), [(2, True), (3, False), (4, False), (5, True)])
def test_a_lost_write_is_told(found: int, is_lost: bool) -> None:
    """A file has the last acknowledged number, or that of a write that a kill ended."""
    writes = Writes()
    for _ in range(4):
        writes.begin("t", "uri")
    assert bool(writes.fault("t", "uri", least=3, found=found)) == is_lost
