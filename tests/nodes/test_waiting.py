"""Calls that wait for a revision or for vectors."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.daemons import serving
from tests.patience import SECONDS, eventually
from vikingd.client import ClientError
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import DeadlinePassed, RevisionNotReached, Stopping
from vikingd.domain.store_changes import Change
from vikingd.engine import Engine, EngineSettings
from vikingd.index.index import Index
from vikingd.ingest.draft_preparation import prepare
from vikingd.lanes.call_pools import CallDeadline, Threads, wait_for_revision, wait_for_vectors
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store.sqlite.sqlite_store import Store

FAR = 1 << 40
URI = "viking://resources/note.md"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """Yield an engine without an embedder."""
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as opened:
        yield opened


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Yield the thread pools of calls."""
    pools = Threads()
    yield pools
    pools.shutdown()


def within(seconds: float | None) -> CallDeadline:
    """Return the deadline of a call with this much time, or without a limit."""
    return CallDeadline(Mock(**{"time_remaining.return_value": seconds}))


def put(engine: Engine, content: str) -> tuple[int, ...]:
    """Write the one context, and return the ids of its texts."""
    return engine.writable_store.put([prepare(Draft(URI, content=content))]).result().text_ids


@pytest.mark.parametrize("commits", [20, pytest.param(1000, marks=pytest.mark.deep)])
def test_each_commit_is_seen_by_those_who_wait_for_it(engine: Engine, commits: int) -> None:
    """A call that waits for a commit returns, while hundreds of other calls still wait."""

    async def main() -> None:
        others = [
            asyncio.create_task(wait_for_revision(engine, FAR, within(None))) for _ in range(200)
        ]
        await asyncio.sleep(0)
        for i in range(commits):
            after = engine.snapshot.revision + 1
            writing = asyncio.to_thread(put, engine, f"word{i}")
            waiting = (wait_for_revision(engine, after, within(20)) for _ in range(3))
            await asyncio.gather(writing, *waiting)
        assert not any(task.done() for task in others)
        for task in others:
            task.cancel()
        await asyncio.wait(others)

    asyncio.run(main())
    assert not engine._listeners


def test_who_waits_for_a_reader_that_is_lost_is_told_at_once(
    engine: Engine, tmp_path: Path
) -> None:
    """Waiting calls fail as soon as the reader loses its store, with reason and remedy."""
    settings = EngineSettings(tmp_path, EmbedSettings(provider="none"), reader=True)
    with closing(Engine(settings)) as reader, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(reader.wait_for_revision, FAR, SECONDS)
        (tmp_path / "store.sqlite3").rename(tmp_path / "elsewhere")
        # Amid a read, SQLite notes that its file is gone, and the reader tries again a while.
        end = "(restart the reader|disk I/O error)"
        why = f"ends at revision {engine.snapshot.revision}, ask another .*{end}"
        with pytest.raises(Stopping, match=why):
            asyncio.run(wait_for_revision(reader, FAR, within(SECONDS)))
        with pytest.raises(Stopping, match=why):
            waiting.result()
        asyncio.run(wait_for_revision(reader, engine.snapshot.revision, within(None)))


def test_what_does_not_come_in_time_is_told_before_the_deadline(
    engine: Engine, threads: Threads
) -> None:
    """The error comes before the deadline, so that the caller gets the reason."""
    text_ids = put(engine, "a text that nobody embeds")
    started = time.monotonic()
    with pytest.raises(RevisionNotReached, match=f"the newest is {engine.snapshot.revision}"):
        asyncio.run(wait_for_revision(engine, FAR, within(0.5)))
    with pytest.raises(DeadlinePassed, match="not all have their vector"):
        asyncio.run(wait_for_vectors(engine, threads, text_ids, within(0.5)))
    assert time.monotonic() - started < 1.0
    assert not engine._listeners


@pytest.mark.deep
def test_a_passed_deadline_loses_no_refusals(tmp_path: Path) -> None:
    """The error of a Put whose vectors come too late names the contexts that were not written."""
    config = tmp_path / "config.toml"
    config.write_text(
        '[embedding]\nprovider = "openai"\nopenai_model = "m"\n'
        'openai_base_url = "http://127.0.0.1:1/v1"\ndimension = 8\nretries = 0\n'
    )
    drafts = [Draft(URI, content="one"), Draft(URI, content="two")]
    with serving("--config", str(config)) as where, MessageClient(where, timeout=3) as client:
        with pytest.raises(ClientError) as caught:
            client.put(drafts, wait_for_vectors=True, partial_success=True)
        assert caught.value.reason == "DEADLINE_PASSED"
        assert f"1 contexts were refused: contexts[1].uri: {URI}" in caught.value.message
        assert client.get(URI).context.content == "one"


def test_texts_that_have_their_vectors_or_are_gone_are_not_waited_for(
    engine: Engine, threads: Threads
) -> None:
    """A wait for vectors ends if another call replaces the text."""
    text_ids = put(engine, "the first content")

    async def main() -> None:
        waiting = asyncio.create_task(wait_for_vectors(engine, threads, text_ids, within(20)))
        while not engine._listeners:
            await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.to_thread(put, engine, "another content")
        await waiting
        assert engine.store.waiting(text_ids) == (0, engine.store.revision)

    asyncio.run(main())


def test_vectors_are_waited_for_until_the_index_has_them(
    engine: Engine, threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait ends when the index has the vectors, not when the store has them."""
    store = engine.store
    assert isinstance(store, Store)
    text_ids = put(engine, "a text that gets its vector late")
    apply, may_follow = Index.apply, threading.Event()

    def late(index: Index, changes: Sequence[Change], revision: int) -> None:
        may_follow.wait(SECONDS)
        apply(index, changes, revision)

    monkeypatch.setattr(Index, "apply", late)
    vectors = [(text_id, bytes.fromhex("0000803f")) for text_id in text_ids]
    filling = threading.Thread(target=lambda: store.fill(vectors).result())
    filling.start()
    eventually(lambda: engine.store.waiting(text_ids)[0] == 0)
    with pytest.raises(DeadlinePassed):
        asyncio.run(wait_for_vectors(engine, threads, text_ids, within(0.3)))
    may_follow.set()
    revision = asyncio.run(wait_for_vectors(engine, threads, text_ids, within(SECONDS)))
    assert (engine.snapshot.vectors.vector_at <= revision).all()
    assert revision == engine.snapshot.revision
    filling.join()
