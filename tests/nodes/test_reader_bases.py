"""Readers while the writer replaces its bases, and while they lack file descriptors."""

from __future__ import annotations

import resource
import shutil
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.nodes.reader_helpers import SECONDS, SMALL, answer, note, serving, vector
from tests.patience import eventually
from vikingd.client import ClientError, Method
from vikingd.engine import Engine, EngineSettings
from vikingd.index.segment import disk as bases
from vikingd.index.settings import IndexSettings
from vikingd.index.tail.tail import Commit
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings


@pytest.mark.parametrize("turns", [1, pytest.param(20, marks=pytest.mark.deep)])
def test_compactions_of_the_writer_change_no_answer_of_the_reader(
    tmp_path: Path, turns: int
) -> None:
    """Writer and reader give the same answers at one revision while bases are replaced."""
    with (
        serving(tmp_path, **SMALL) as writing,
        serving(tmp_path, "--reader") as reading,
        ExitStack() as stack,
    ):
        writer, reader = writing.client, reading.client
        revision = writer.put([note(number) for number in range(100)]).revision
        reader.find("harbour", min_revision=revision)
        done = threading.Event()
        stack.callback(done.set)
        problems: list[str] = []
        finds = 0

        def keep_finding() -> None:
            nonlocal finds
            newest = 0
            while not done.is_set():
                try:
                    reply = reader.find("harbour", vector=vector(1), limit=50)
                except ClientError as error:
                    problems.append(str(error))
                    return
                if reply.revision < newest:
                    problems.append(f"revision {reply.revision} after {newest}")
                if len(reply.resources) != 50:
                    problems.append(f"{len(reply.resources)} results")
                newest, finds = reply.revision, finds + 1

        thread = threading.Thread(target=keep_finding)
        thread.start()
        for turn in range(1, turns + 1):
            start = 100 * turn
            writer.put([note(number) for number in range(start, start + 70)])
            gone = [note(number).uri for number in range(start, start + 30)]
            revision = writer.delete(*gone).revision
            writer.optimize()
            for method in (Method.EXHAUSTIVE, Method.BEST_FIRST):
                ours = answer(reader, turn, revision, method)
                assert ours == answer(writer, turn, revision, method)
        eventually(lambda: finds > 10 or problems)
        done.set()
        thread.join()
        assert problems == []
        assert finds > 10
        generation = writer.stats().index.generation
        assert generation > turns
        eventually(lambda: reader.stats().index.generation == generation)
        assert reader.verify().ok
        assert reader.stats().index.tail_texts < 60


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("when", ["start", "later"])
def test_a_base_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A removed context stays removed if the base is replaced while a reader loads it."""
    settings = EngineSettings(
        tmp_path, EmbedSettings(provider="none"), IndexSettings(compact_min=10_000)
    )
    writer = Engine(settings)
    writer.writable_store.put([prepare(note(number)) for number in range(20)]).result()
    writer.optimize()
    load, reading = bases.load, threading.get_ident() if when == "start" else 0
    replaced = 0

    def replaced_meanwhile(root: Path, *options: Any) -> Any:
        nonlocal replaced
        found = load(root, *options)
        mine = threading.current_thread().name == ("MainThread" if reading else "store-reader")
        if mine and replaced < 2:
            replaced += 1
            writer.writable_store.delete([note(replaced).uri]).result()
            writer.optimize()
        return found

    if when == "start":
        monkeypatch.setattr(bases, "load", replaced_meanwhile)
    reader = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none"), reader=True))
    if when == "later":
        monkeypatch.setattr(bases, "load", replaced_meanwhile)
        writer.writable_store.delete([note(9).uri]).result()
        writer.optimize()
        eventually(lambda: replaced == 2)
    reader.wait_for_revision(writer.store.revision, SECONDS)
    assert replaced == 2
    assert reader.snapshot.find(note(1).uri) is None
    assert reader.snapshot.find(note(2).uri) is None
    assert reader.snapshot.find(note(3).uri) is not None
    assert reader.verify().ok
    assert reader.failure() is None
    reader.close()
    writer.close()


def test_a_base_that_is_deleted_once_it_is_read_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loaded base needs none of its files any more."""
    writer = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    writer.writable_store.put([prepare(note(number)) for number in range(20)]).result()
    writer.optimize()
    size = writer.stats().index.bytes_on_disk
    load = bases.load

    def deleted_then(root: Path, *options: Any) -> Any:
        found = load(root, *options)
        shutil.rmtree(root, ignore_errors=True)
        return found

    monkeypatch.setattr(bases, "load", deleted_then)
    reader = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none"), reader=True))
    assert reader.stats().index.bytes_on_disk == size > 0
    assert reader.verify().ok
    assert reader.failure() is None
    reader.close()
    writer.close()


@pytest.mark.deep
def test_a_reader_without_file_descriptors_follows_again_once_it_has_some(tmp_path: Path) -> None:
    """A reader without file descriptors answers from its snapshot until it can follow again."""
    with (
        serving(tmp_path, **SMALL) as writing,
        serving(tmp_path, "--reader") as reading,
    ):
        writer, reader, pid = writing.client, reading.client, reading.process.pid
        revision = writer.put([note(number) for number in range(100)]).revision
        assert reader.find("harbour", min_revision=revision).resources
        eventually(lambda: writer.optimize().generation > 1)  # all kernels are loaded by then
        eventually(lambda: reader.stats().index.generation == writer.stats().index.generation)
        usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, usual[1]))
        writer.put([note(number) for number in range(100, 200)])
        generation = writer.optimize().generation
        assert reading.process.stderr is not None
        assert any("cannot follow the store" in line for line in reading.process.stderr)
        assert reader.find("harbour").resources
        assert reader.stats().index.generation < generation
        assert reading.process.poll() is None
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        eventually(lambda: reader.stats().index.generation == generation)
        assert reader.verify().ok


def test_a_commit_that_was_taken_by_half_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that fails within a commit loads the base and all later commits again."""
    settings = IndexSettings(compact_min=10_000)
    writer = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none"), settings))
    writer.writable_store.put([prepare(note(number)) for number in range(20)]).result()
    writer.optimize()
    reader = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none"), reader=True))
    fill, failures = Commit.finish, 0

    def fails(commit: Commit) -> None:
        nonlocal failures
        if threading.current_thread().name == "store-reader" and not failures:
            failures += 1
            raise MemoryError
        fill(commit)

    monkeypatch.setattr(Commit, "finish", fails)
    committed = writer.writable_store.put([prepare(note(30))]).result()
    reader.wait_for_revision(committed.revision, SECONDS)
    assert failures == 1
    assert reader.verify().ok
    assert reader.failure() is None
    reader.close()
    writer.close()


@pytest.mark.deep
def test_verify_says_so_where_a_reader_can_not_reach_the_revision_of_its_store(
    tmp_path: Path,
) -> None:
    """Verify fails until the reader can reach the revision of its store."""
    fewer = "from vikingd.engine import engine; engine._MAX_ATTEMPTS = 5"
    with (
        serving(tmp_path, **SMALL) as writing,
        serving(tmp_path, "--reader", changed=fewer) as reading,
    ):
        writer, reader, pid = writing.client, reading.client, reading.process.pid
        revision = writer.put([note(number) for number in range(10)]).revision
        assert reader.find("harbour", min_revision=revision).resources
        assert reader.verify().revision == revision
        usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, usual[1]))
        writer.optimize()  # the reader can't open the new base, so it takes no commit
        newer = writer.put([note(10)]).revision
        with pytest.raises(ClientError) as refused:
            reader.verify()
        assert refused.value.reason == "REVISION_NOT_REACHED"
        assert reader.find("harbour").revision == revision
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        assert reader.find("harbour", min_revision=newer).resources
        assert reader.verify().revision == newer
