"""Descriptions by a model over a database that two nodes write: one of them describes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.engine.describing_helpers import NOTES, WORDLESS, Asked, data_of, get, prose, put
from tests.patience import eventually
from tests.postgres_servers import NEEDS_POSTGRES, Server
from vikingd.engine import Engine, EngineSettings, Shared, description_queue, description_worker
from vikingd.store.postgres import postgres_store

pytestmark = [pytest.mark.deep, NEEDS_POSTGRES]


@contextmanager
def node(path: Path, url: str, asked: Asked) -> Iterator[Engine]:
    """Yield a node whose describer asks a scripted model."""
    shared = Shared(WORDLESS, store=url, describer=asked.settings)
    engine = Engine(EngineSettings(path, embedding=WORDLESS, store=url), shared=shared)
    try:
        yield engine
    finally:
        shared.stop()
        engine.close()
        shared.close()


def test_one_of_two_nodes_describes_and_the_other_takes_over(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of both nodes are asked about once; after the end of the one the other goes on."""
    monkeypatch.setattr(postgres_store, "_LEASE_SECONDS", 2)
    monkeypatch.setattr(description_worker, "_LEAD_LOOK", 0.5)
    monkeypatch.setattr(description_queue, "PAUSE", 0.0)
    asked, url = Asked(), postgres.new_database()

    def files() -> int:
        return [data_of(one)["kind"] for one in list(asked.server.requests)].count("file")

    with asked.server, ExitStack() as second:
        with node(tmp_path / "a", url, asked) as one:
            eventually(lambda: one.describing is not None and one.describing.settle())
            two = second.enter_context(node(tmp_path / "b", url, asked))
            put(one, {f"a{n}.md": prose(f"ship {n}") for n in range(4)})
            put(two, {f"b{n}.md": prose(f"boat {n}") for n in range(4)})
            eventually(lambda: get(two, "b3.md").overview and get(one, "a3.md").overview)
            eventually(lambda: two.store.get("viking://").abstract)
            assert files() == 8
            assert two.stats().describer.described == 0
        put(two, {"late.md": prose("late boat")})
        eventually(lambda: get(two, "late.md").overview)
        assert files() == 9
        assert two.describe(f"{NOTES}/a1.md", again=True)[0] == 1
        eventually(lambda: files() == 10)
        eventually(lambda: not two.stats().describer.backlog)
        assert two.verify().ok
