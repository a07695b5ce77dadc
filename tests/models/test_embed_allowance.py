"""The limit of texts that a tenant embeds in a day: the worker, and its count in the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.models.embed_helpers import DIMENSION, Endpoint, until
from tests.models.worker_helpers import Backlog, working
from vikingd.domain.contexts import Draft
from vikingd.engine import Engine, EngineSettings
from vikingd.engine.allowance import DailyAllowance
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed import backlog_worker as worker
from vikingd.store.sqlite.sqlite_schema import DATABASE

DAY = 86_400
NOON = 20_000 * DAY + DAY / 2


@pytest.fixture(autouse=True)
def _looks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a worker look for a new limit soon."""
    monkeypatch.setattr(worker, "LIMIT_LOOK", 0.02)


class Day:
    """A limit and a clock that the test moves, and the meta of a store."""

    def __init__(self, limit: int, backlog: Backlog) -> None:
        self.limit, self.now, self.backlog = limit, NOON, backlog

    def get_meta(self, key: str) -> bytes | None:
        """Return what was stored with the vectors."""
        return self.backlog.meta.get(key)

    def allowance(self) -> DailyAllowance:
        """Return the allowance after a start."""
        return DailyAllowance(self, lambda: self.limit, lambda: self.now)


def sent(endpoint: Endpoint) -> list[str]:
    """Return the documents that the endpoint embedded."""
    return [text for request in endpoint.requests for text in request["input"]]


@pytest.mark.deep
@pytest.mark.parametrize("batch", [1, 3, 32])
def test_a_worker_embeds_no_more_than_its_limit(endpoint: Endpoint, batch: int) -> None:
    """Other texts wait for a higher limit or the next day, also after a restart."""
    backlog = Backlog(*(f"text {i}" for i in range(20)))
    day = Day(7, backlog)
    settings = endpoint.settings(batch_size=batch, openai_requests=2)
    with working(settings, backlog, DIMENSION, day.allowance()) as running:
        until(lambda: bool(running.state().stalled))
        assert len(backlog.vectors) == len(sent(endpoint)) == 7
        state = running.state()
        assert "embedded_texts_per_day of 7" in state.stalled
        assert "2024-10-05 00:00 UTC" in state.stalled
        assert state.retry_at == 20_001 * DAY * 1_000_000
        assert not state.last_error
        assert not running.has_work  # so that its tenant may be closed
        day.limit = 10
        until(lambda: len(backlog.vectors) == 10 and bool(running.state().stalled))
        assert len(sent(endpoint)) == 10
    with working(settings, backlog, DIMENSION, day.allowance()) as running:
        until(lambda: bool(running.state().stalled))
        assert len(sent(endpoint)) == 10
        day.now += DAY / 2
        until(lambda: len(backlog.vectors) == 20)
        until(lambda: running.state().retry_at is None)
        assert not running.state().stalled
        assert len(sent(endpoint)) == 20


def test_equal_texts_and_failures_are_not_counted(endpoint: Endpoint) -> None:
    """Texts that take the vector of an equal text cost nothing; nor does a failed call."""
    backlog = Backlog("text a", "text a", "text b", "text a", "text b", "text c")
    day = Day(2, backlog)
    failures = [503, 503]
    endpoint.misbehave = lambda *_: (failures.pop(), b"{}") if failures else None
    settings = endpoint.settings(batch_size=2, openai_requests=1)
    with working(settings, backlog, DIMENSION, day.allowance()) as running:
        until(lambda: bool(running.state().stalled))
        assert sorted(backlog.vectors) == [1, 2, 3, 4, 5]
        backlog.add("text b")  # behind a text that waits for the next day
        running.wake()
        day.limit = 0
        until(lambda: not backlog.waiting)
    embedded = day.allowance()._day
    assert (embedded.day, embedded.count) == (20_000, 3)


def settings(path: Path, endpoint: Endpoint) -> EngineSettings:
    """Return the settings of an engine that embeds by the endpoint."""
    return EngineSettings(path, endpoint.settings())


@pytest.fixture
def limited(tmp_path: Path, endpoint: Endpoint) -> Iterator[Callable[..., Engine]]:
    """Yield a function that opens an engine with a limit, after the one before is closed."""
    opened: list[Engine] = []

    def open_(limit: int, day: bytes = b"") -> Engine:
        for one in opened:
            one.close()
        if day:
            with sqlite3.connect(tmp_path / DATABASE) as db:
                db.execute("UPDATE meta SET value = ? WHERE key = 'embedded_in_day'", (day,))
            db.close()
        opened[:] = [Engine(settings(tmp_path, endpoint), embedding_limit=lambda: limit)]
        return opened[0]

    yield open_
    for one in opened:
        one.close()


def vectors(engine: Engine) -> int:
    """Return the number of vectors once the worker stalls."""
    until(lambda: bool(engine.embedding.stats().work.stalled))
    return engine.store.counts().vectors


@pytest.mark.deep
def test_the_count_is_in_the_store(limited: Callable[..., Engine]) -> None:
    """A restart continues the day, a later day begins anew, and a deletion ends the stall."""
    engine = limited(4)
    for i in range(10):
        file = prepare(Draft(f"viking://resources/{i}.md", content=f"a word {i}"))
        engine.writable_store.put([file]).result()
    assert vectors(engine) == 4
    assert vectors(limited(6)) == 6
    engine = limited(6)
    assert vectors(engine) == 6
    engine = limited(3, b"[20000, 6]")
    assert vectors(engine) == 9
    engine.writable_store.delete(["viking://resources"]).result()
    stats = engine.embedding.stats()
    assert (stats.work.stalled, stats.work.retry_at) == ("", None)


@pytest.mark.deep
def test_without_a_limit_no_text_waits(limited: Callable[..., Engine]) -> None:
    """A limit of 0 is none; what it embeds counts when a limit comes."""
    engine = limited(0)
    for i in range(50):
        file = prepare(Draft(f"viking://resources/{i}.md", content=f"a word {i}"))
        engine.writable_store.put([file]).result()
    until(lambda: not engine.embedding.stats().backlog.texts)
    engine = limited(50)
    file = prepare(Draft("viking://resources/more.md", content="one more"))
    engine.writable_store.put([file]).result()
    total = engine.store.counts().texts
    assert vectors(engine) < total
