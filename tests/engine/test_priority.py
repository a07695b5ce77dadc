"""The priorities of threads that write and of threads that answer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from vikingd.domain.contexts import Draft
from vikingd.engine import Engine, EngineSettings
from vikingd.index import index as indexes
from vikingd.index.tail.tail import Tail
from vikingd.ingest.draft_preparation import prepare
from vikingd.lanes.call_pools import Threads
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store import store_writes


def nice() -> int:
    """Return the nice value of the calling thread."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_who_writes_goes_after_who_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that prepare, write, index or compact run at a lower priority than light answers."""
    seen: dict[str, int] = {}

    def noting(owner: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def noted(*arguments: Any, **named: Any) -> Any:
            seen[name] = nice()
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, noted)

    noting(store_writes, "put")
    noting(Tail, "apply")
    noting(indexes, "compacted")
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:
        seen.clear()
        engine.writable_store.put(
            [prepare(Draft("viking://resources/a.md", content="tea"))]
        ).result(10)
        went = dict(seen)
        engine.optimize()
    pools = Threads()
    preparing, answering, heavy = (
        pool.submit(nice).result(10)
        for pool in (pools.preparing, pools.queues.light.pool, pools.queues.heavy.pool)
    )
    pools.shutdown()
    assert went == {"put": nice() + 5, "apply": nice() + 5}
    assert seen["compacted"] == preparing == heavy == nice() + 5
    assert answering == nice()
