"""The document worker when texts, providers, children or stores fail."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.models.embed_helpers import DIMENSION, POISON, Endpoint, until
from tests.models.worker_helpers import Backlog, alive, working
from vikingd.domain.contexts import Draft
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed import backlog_worker as worker
from vikingd.models.embed.backlog_worker import BacklogWorker
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.embedding_process import DocumentEmbedder
from vikingd.models.embed.provider import PROBE, EmbedderBroke, EmbedderUnreachable


@pytest.mark.deep
def test_a_child_that_hangs_is_killed_and_replaced(endpoint: Endpoint) -> None:
    """A child that does not answer within its limit is killed, and a new child replaces it."""
    embedder = DocumentEmbedder(endpoint.settings(timeout=5.0, retries=2))
    embedder.embed(["a"])
    limit, embedder._limit = embedder._limit, 1.0
    assert 15 < limit < DocumentEmbedder(EmbedSettings())._limit
    pid = embedder.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    killer = threading.Timer(20, os.kill, (pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(EmbedderBroke, match="did not answer within 1 s"):
        embedder.embed(["b"])
    killer.cancel()
    assert not alive(pid)
    embedder._limit = limit
    assert embedder.embed(["b"]).shape == (1, DIMENSION)
    embedder.close()


@pytest.mark.deep
def test_a_killed_child_is_replaced(endpoint: Endpoint) -> None:
    """After kill -9, a new child embeds the texts of the old child, and no text is skipped."""
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(20), None)[1]
    backlog = Backlog("a", "b", "c")
    with working(endpoint.settings(timeout=30.0), backlog, DIMENSION) as running:
        until(lambda: bool(endpoint.requests))
        first = running._embedder.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        answer.set()
        until(lambda: not backlog.waiting)
        until(lambda: not running.state().busy)
        assert running._embedder.pid != first
        assert running.state().last_error == ""


@pytest.mark.deep_after(1)
@pytest.mark.parametrize(
    ("status", "told"),
    [(400, "indigestible"), (500, "indigestible"), (504, "indigestible"), (0, "can't be reached")],
)
def test_a_poison_text_is_skipped_and_holds_up_nobody(
    endpoint: Endpoint, status: int, told: str
) -> None:
    """A text that always fails is skipped and named in the state; all others are embedded."""
    endpoint.misbehave = lambda request, _data: (
        (status, b'{"error": {"message": "indigestible"}}') if POISON in request["input"] else None
    )
    backlog = Backlog("a", POISON, "b", POISON, "c", "d")
    with working(endpoint.settings(batch_size=2), backlog, DIMENSION) as running:
        until(lambda: len(backlog.waiting) == 2 and not running.state().busy)
        until(lambda: "text 4" in running.state().skipped)
        sent = len(endpoint.requests)
        backlog.add("e")
        running.wake()
        until(lambda: len(backlog.vectors) == 5)
        state = running.state()
    assert set(backlog.waiting) == {2, 4}
    assert "2 skipped" in state.skipped
    assert told in state.skipped
    assert state.last_error == ""
    assert state.retry_at is None
    assert len(endpoint.requests) == sent + 1


@pytest.mark.deep
def test_a_text_that_is_skipped_leaves_the_embedder_serving(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    """A skipped text appears in the stats, but does not count as a failure of the embedder."""
    endpoint.misbehave = lambda request, _data: (
        (400, b"indigestible") if POISON in request["input"] else None
    )
    with contextlib.closing(Engine(EngineSettings(tmp_path, endpoint.settings()))) as engine:
        engine.writable_store.put(
            [prepare(Draft("viking://resources/a.md", content=POISON))]
        ).result()
        until(lambda: engine.stats().embedder.last_error != "")
        assert "1 skipped" in engine.stats().embedder.last_error
        assert "indigestible" in engine.stats().embedder.last_error
        assert engine.embedding.failure() is None
        endpoint.misbehave = lambda _request, _data: (503, b"down")
        engine.writable_store.put(
            [prepare(Draft("viking://resources/b.md", content="tea"))]
        ).result()
        until(lambda: "down" in (engine.embedding.failure() or ""))
        assert "down" in engine.stats().embedder.last_error


def test_the_state_is_of_one_moment_while_texts_are_skipped() -> None:
    """The number of skipped texts always matches the last skipped text of the same state."""
    interval, told = sys.getswitchinterval(), list[str]()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(20):
            running = BacklogWorker(EmbedSettings(), Backlog(), DIMENSION)
            skipped = ((text_id, "indigestible") for text_id in range(1, 2001))
            skipping = threading.Thread(target=running._skipped.update, args=(skipped,))
            skipping.start()
            while skipping.is_alive():
                told.append(running.state().skipped)
            skipping.join()
    finally:
        sys.setswitchinterval(interval)
    for said in filter(None, told):
        count, last = map(int, re.findall(r"^\d+|(?<=text )\d+", said))
        assert count == last


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("fails", ["batch, text", "batch, text, probe"])
def test_an_endpoint_that_falters_costs_no_text(endpoint: Endpoint, fails: str) -> None:
    """A text that fails once, or together with all others, is not skipped."""
    answers = [(500, b""), None, (500, b""), *([(500, b"")] if "probe" in fails else [])]
    endpoint.misbehave = lambda _request, _data: answers.pop(0) if answers else None
    backlog = Backlog("a", "b")
    with working(endpoint.settings(), backlog, DIMENSION) as running:
        until(lambda: not backlog.waiting and not running.state().busy)
        assert running.state().last_error == ""


@pytest.mark.deep
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_text_alone_in_a_killed_child_has_a_second_try(endpoint: Endpoint, deaths: int) -> None:
    """A text alone in a killed child is tried again, and is skipped after a second death."""

    def kill(request: dict[str, Any], _: list[Any]) -> None:
        nonlocal left
        if POISON in request["input"] and left:
            left -= 1
            pid = running._embedder.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    left = 1 + deaths  # the first death is in the whole batch
    endpoint.misbehave = kill
    backlog = Backlog(POISON, "b")
    with working(endpoint.settings(timeout=30.0), backlog, DIMENSION) as running:
        until(lambda: 2 in backlog.vectors and not running.state().busy)
        assert (1 in backlog.waiting) == ("process died" in running.state().skipped)
        assert (1 in backlog.waiting) == (deaths == 2)
        assert not left


@pytest.mark.deep
@pytest.mark.parametrize("status", [500, 503])
def test_a_failing_provider_leaves_the_backlog(endpoint: Endpoint, status: int) -> None:
    """A failing provider skips no text; the state has the reason and the time of the retry."""
    arrived: list[int] = []  # microseconds since the epoch

    def fail(_request: dict[str, Any], _data: list[Any]) -> tuple[int, bytes]:
        arrived.append(time.time_ns() // 1000)
        return status, b'{"error": {"message": "down"}}'

    endpoint.misbehave = fail
    backlog = Backlog("a", "b")
    with working(endpoint.settings(), backlog, DIMENSION) as running:
        until(lambda: running.state().retry_at is not None)
        state = running.state()
        assert "down" in state.last_error
        assert not state.busy
        assert state.retry_at is not None
        assert 0 < state.retry_at - time.time_ns() // 1000 + 1_000_000 <= 2_000_000
        woken = time.time_ns() // 1000
        running.wake()
        until(lambda: arrived[-1] > woken)
        first = next(at for at in arrived if at > woken)
        assert first >= state.retry_at - 10_000  # the clocks of both may differ a little
        endpoint.misbehave = lambda _request, _data: None
        until(lambda: not backlog.waiting)
        until(lambda: running.state().last_error == "")
        assert running.state().retry_at is None


def test_a_child_that_cannot_load_is_reported() -> None:
    """A provider that fails to open leaves the backlog, and the state has the reason."""
    backlog = Backlog("a")
    with working(EmbedSettings(provider="e6"), backlog, DIMENSION) as running:
        until(lambda: "'e6' is not one of" in running.state().last_error)
        assert running.state().retry_at is not None
        assert backlog.waiting


@pytest.mark.deep
def test_a_child_that_dies_while_it_loads_is_reported() -> None:
    """A crash of the child during its start raises an error with the exit code."""
    embedder = DocumentEmbedder(EmbedSettings(threads=-1))  # an invalid number
    with pytest.raises(EmbedderUnreachable, match=r"while it started \(exit code 1\)"):
        embedder.embed(["a"])
    assert embedder.pid is None


@pytest.mark.deep
def test_vectors_of_another_dimension_are_not_stored() -> None:
    """Vectors of another dimension than the store's are not stored, and the state says so."""
    backlog = Backlog("a", "b")
    with working(EmbedSettings(), backlog, 512) as running:
        until(lambda: "384 numbers, the store has 512" in running.state().last_error)
    assert len(backlog.waiting) == 2


@pytest.mark.deep
@pytest.mark.parametrize("kind", [OSError, SystemExit])
def test_a_store_that_fails_is_tried_again(kind: type[BaseException]) -> None:
    """A group whose write failed is embedded and written again."""
    backlog = Backlog("a", "b")
    backlog.failures.append(kind("disk full"))
    with working(EmbedSettings(), backlog, 384) as running:
        until(lambda: "disk full" in running.state().last_error)
        until(lambda: not backlog.waiting)
    assert running.state().embedded == 2


@pytest.mark.parametrize(
    ("had", "is_ready", "is_remote", "said"),
    [
        (0.1, False, False, "loading its model for 40 s: it had 0% of a processor, others keep"),
        (38.0, False, False, "loading its model for 40 s, with 95% of a processor"),
        (4.0, True, False, "finished no text for 40 s: it had 10% of a processor, others keep"),
        (60.0, True, False, "finished no text for 40 s, with 150% of a processor"),
        (0.0, True, True, "the embeddings endpoint has not answered for 40 s"),
        (0.0, False, True, "loading its model for 40 s: it had 0% of a processor"),
    ],
)
def test_a_stall_has_a_reason(had: float, is_ready: bool, is_remote: bool, said: str) -> None:
    """The reason for a stall is a busy machine, a slow model or a silent endpoint."""
    assert said in worker.why_stalled(40.0, had, is_ready, is_remote)


@pytest.mark.deep
def test_a_stall_is_told_once_and_until_it_is_over(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stall is logged once and stays in the state until a vector arrives."""
    monkeypatch.setattr(worker, "STALL", 0.0)
    monkeypatch.setattr(worker, "_LOOK", 0.01)
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(200), None)[1]
    backlog = Backlog("a")
    with working(endpoint.settings(timeout=300.0), backlog, DIMENSION) as running:
        until(lambda: "endpoint has not answered" in running.state().stalled)
        answer.set()
        until(lambda: not backlog.waiting and not running.state().busy)
        until(lambda: running.state().stalled == "")
    assert caplog.text.count("no vector comes") == 1


@pytest.mark.deep
def test_a_bad_group_does_not_lose_the_others(endpoint: Endpoint) -> None:
    """The texts of a failed group are tried one by one; other groups in flight are kept."""
    endpoint.misbehave = lambda request, _: (
        (400, b"indigestible") if POISON in request["input"] else None
    )
    backlog = Backlog("a", "b", POISON, "c", "d", "e", "f")
    with working(endpoint.settings(batch_size=2), backlog, DIMENSION) as running:
        until(lambda: list(backlog.waiting) == [3] and not running.state().busy)
    asked = [text for request in endpoint.requests for text in request["input"]]
    assert asked.count("c") == 2  # in the group, and alone
    assert all(asked.count(text) == 1 for text in "abdef")


@pytest.mark.deep
def test_a_dead_child_loses_no_group(endpoint: Endpoint) -> None:
    """After the death of the child, all groups in flight are tried again as groups."""
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(200), None)[1]
    backlog = Backlog(*"abcdef")
    with working(endpoint.settings(batch_size=2, timeout=300.0), backlog, DIMENSION) as running:
        until(lambda: len(endpoint.requests) == 3)
        pid = running._embedder.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        answer.set()
        until(lambda: not backlog.waiting and not running.state().busy)
        assert running.state().skipped == ""
    tried = [request["input"] for request in endpoint.requests]
    assert sorted(tried) == sorted([*[["a", "b"], ["c", "d"], ["e", "f"]] * 2, [PROBE]])
