"""A reader beside the writer: real processes on one store, asked over gRPC."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from vikingd.client import ClientError, Draft, Method
from vikingd.client.messages import MessageClient
from vikingd.embed.provider import EmbedSettings
from vikingd.engine import Engine, EngineSettings
from vikingd.errors import StoreMismatch
from vikingd.index import base as bases
from vikingd.index.commit import Commit
from vikingd.index.index import IndexSettings
from vikingd.ingest.prepare import prepare
from vikingd.pb.retrieval_pb2 import FindResponse
from vikingd.store import Store
from vikingd.store.schema import MIGRATIONS

ROOT = "viking://resources/notes"
SMALL = {"VIKINGD_INDEX__COMPACT_MIN": "60"}  # compacts every 60 texts or so
SECONDS = 10.0  # that a machine with much else to do may take for what takes milliseconds


def vector(number: int) -> bytes:
    """A unit vector of 16 numbers, the same for the same number."""
    raw = np.random.default_rng(number).normal(size=16)
    return (raw / np.linalg.norm(raw)).astype("<f4").tobytes()


def note(number: int, name: str = "") -> Draft:
    """A file that a query finds by the word it alone has."""
    uri = f"{ROOT}/{number % 5}/{name or number}.md"
    return Draft(uri, content=f"note word{number} of the harbour", vector=vector(number))


class Daemon:
    """A vikingd as a child process, with a client of it alone."""

    def __init__(self, store: Path, *options: str, **environment: str) -> None:
        own = {k: v for k, v in os.environ.items() if not k.startswith("VIKINGD_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vikingd.server", "serve", "--path", str(store), "--config",
             os.devnull, "--provider", "none", "--log-level", "warning", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own | environment,
        )  # fmt: skip
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert words, self.ended()
        self.address = self.alone = words[-1]
        if "--writer-listen" in options and "--reader" not in options:
            self.alone = self.process.stdout.readline().split()[-1]
        self.client = MessageClient(self.alone, timeout=SECONDS)

    def ended(self) -> tuple[int, str]:
        """Exit code and stderr of a process that ends by itself."""
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err

    def kill(self) -> None:
        """Kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Ends it, if it runs; what it said is shown where a test fails."""
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
        sys.stderr.write(self.process.communicate(timeout=30)[1])


@contextmanager
def serving(store: Path, *options: str, **environment: str) -> Iterator[Daemon]:
    """A daemon on a free port, unless the options name one."""
    where = () if "--listen" in options else ("--listen", "127.0.0.1:0")
    daemon = Daemon(store, *where, *options, **environment)
    try:
        yield daemon
    finally:
        daemon.stop()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[MessageClient, MessageClient]]:
    """Clients of a writer and of a reader on a new store."""
    with serving(tmp_path, **SMALL) as writer, serving(tmp_path, "--reader") as reader:
        yield writer.client, reader.client


def uris(reply: FindResponse) -> list[str]:
    """What was found."""
    return [match.uri for match in reply.resources]


def answer(client: MessageClient, number: int, revision: int, method: Method) -> bytes:
    """All that is answered to a query but how long it took."""
    reply = client.find(
        f"harbour word{number}", vector=vector(number), limit=20, min_revision=revision,
        method=method,
    )  # fmt: skip
    assert reply.revision == revision
    reply.ClearField("timings")
    return reply.SerializeToString(deterministic=True)


def eventually(holds: Callable[[], Any]) -> float:
    """Waits until something holds; seconds that it took."""
    started = time.perf_counter()
    while not holds():
        assert time.perf_counter() - started < SECONDS
        time.sleep(0.002)
    return time.perf_counter() - started


def test_a_reader_follows_within_a_fraction_of_a_second(
    pair: tuple[MessageClient, MessageClient],
) -> None:
    """Also without being asked for a revision; who asks for one is not kept any longer."""
    writer, reader = pair
    lags, waits = [], []
    for number in range(20):
        writer.put([note(number)])
        lags.append(eventually(lambda n=number: f"{n}.md" in str(reader.find(f"word{n}", limit=1))))
        revision = writer.delete(note(number).uri).revision
        waits.append(eventually(lambda at=revision: reader.find("note", min_revision=at)))
    assert np.median(lags) < 0.3, lags
    assert np.median(waits) < 0.3, waits


def test_what_was_acknowledged_holds_at_the_reader_with_its_revision(
    pair: tuple[MessageClient, MessageClient],
) -> None:
    """Writes, moves, links and deletes are seen, and nothing of what was deleted, not once."""
    writer, reader = pair
    other = writer.put([note(1000, "other")]) and f"{ROOT}/0/other.md"
    for number in range(25):
        draft = note(number)
        at = writer.put([draft]).revision
        assert uris(reader.find(f"word{number}", limit=1, min_revision=at)) == [draft.uri]
        assert reader.get(draft.uri, min_revision=at).context.content == draft.content

        at = writer.link(draft.uri, other, "why").revision
        (match,) = reader.find(f"word{number}", limit=1, min_revision=at).resources
        assert [(r.uri, r.reason) for r in match.relations] == [(other, "why")]
        if number % 2:
            at = writer.unlink(draft.uri, other).revision
            (match,) = reader.find(f"word{number}", limit=1, min_revision=at).resources
            assert not match.relations

        moved = f"{ROOT}/moved/{number}.md"
        at = writer.move(draft.uri, moved).revision
        assert uris(reader.find(f"word{number}", limit=1, min_revision=at)) == [moved]
        listed = [c.uri for c in reader.list(f"{ROOT}/moved", min_revision=at)]
        assert moved in listed

        at = writer.delete(moved).revision
        found = reader.find(f"word{number}", vector=vector(number), limit=99, min_revision=at)
        assert moved not in uris(found)
        assert draft.uri not in uris(found)
        with pytest.raises(ClientError) as gone:
            reader.get(moved, min_revision=at)
        assert gone.value.reason == "NOT_FOUND"
        assert moved not in [c.uri for c in reader.tree(ROOT, min_revision=at)]
    report = reader.verify()
    assert report.ok, report.problems


def test_a_reader_refuses_every_write_and_says_where_the_writer_is(tmp_path: Path) -> None:
    """Nothing is changed, and the address is there for programs too."""
    with serving(tmp_path, "--writer-listen", "127.0.0.1:0") as writer:
        alone = writer.alone
        uri, other = note(1).uri, note(2).uri
        revision = writer.client.put([note(1), note(2)]).revision
        with (
            serving(
                tmp_path, "--reader", "--listen", writer.address, "--writer-listen", alone
            ) as shared,
            serving(tmp_path, "--reader", "--writer-listen", alone) as reader,
        ):
            assert shared.address == writer.address
            for write in (
                lambda c: c.put([note(3)]),
                lambda c: c.delete(uri),
                lambda c: c.move(uri, f"{ROOT}/x.md"),
                lambda c: c.link(uri, other, "why"),
                lambda c: c.unlink(uri, other),
                lambda c: c.optimize(),
                lambda c: c.reembed(),
            ):
                with pytest.raises(ClientError) as refused:
                    write(reader.client)
                assert refused.value.reason == "READ_ONLY"
                assert refused.value.code is grpc.StatusCode.FAILED_PRECONDITION
                assert refused.value.metadata == {"writer": alone}
                assert alone in refused.value.message
            assert reader.client.stats().reader
            stats = writer.client.stats()
            assert not stats.reader
            assert stats.revision == revision


def test_compactions_of_the_writer_change_no_answer_of_the_reader(tmp_path: Path) -> None:
    """During finds bases are replaced again and again; at one revision both say the same."""
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
        for turn in range(1, 9):
            start = 100 * turn
            writer.put([note(number) for number in range(start, start + 70)])
            gone = [note(number).uri for number in range(start, start + 30)]
            revision = writer.delete(*gone).revision
            writer.optimize()
            for method in (Method.EXHAUSTIVE, Method.BEST_FIRST):
                ours = answer(reader, turn, revision, method)
                assert ours == answer(writer, turn, revision, method)
        done.set()
        thread.join()
        assert problems == []
        assert finds > 10
        generation = writer.stats().index.generation
        assert generation > 8
        eventually(lambda: reader.stats().index.generation == generation)
        assert reader.verify().ok
        assert reader.stats().index.tail_texts < 60


def test_a_killed_writer_is_followed_again_when_it_comes_back(tmp_path: Path) -> None:
    """The reader answers meanwhile, on the port that it shares with each next writer."""
    options = ("--writer-listen", "127.0.0.1:0")
    with ExitStack() as stack:
        writer = stack.enter_context(serving(tmp_path, *options, **SMALL))
        where = ("--listen", writer.address)
        writer.client.put([note(number) for number in range(80)])
        reader = stack.enter_context(serving(tmp_path, "--reader", *where))
        for turn in range(1, 4):
            word = f"word{1000 + turn}"
            revision = writer.client.put([note(1000 + turn)]).revision
            writer.kill()
            # It connects here first, when nobody else listens.
            found = reader.client.find(word, limit=1, min_revision=revision)
            assert uris(found) == [note(1000 + turn).uri]
            writer = stack.enter_context(serving(tmp_path, *where, *options, **SMALL))
            writer.client.delete(note(1000 + turn).uri)
            revision = writer.client.put([note(2000 + turn)]).revision
            found = reader.client.find("note", limit=99, min_revision=revision)
            assert note(2000 + turn).uri in uris(found)
            assert note(1000 + turn).uri not in uris(found)
        assert reader.client.stats().reader
        assert reader.client.verify().ok


def test_a_killed_reader_harms_nothing(
    pair: tuple[MessageClient, MessageClient], tmp_path: Path
) -> None:
    """Neither the writer nor the other reader notices; another one starts at once."""
    writer, reader = pair
    with serving(tmp_path, "--reader") as other:
        thread = threading.Thread(target=lambda: [writer.put([note(n)]) for n in range(50)])
        thread.start()
        other.kill()
        thread.join()
    revision = writer.put([note(60)]).revision
    assert uris(reader.find("word60", limit=1, min_revision=revision)) == [note(60).uri]
    with serving(tmp_path, "--reader") as third:
        assert uris(third.client.find("word60", limit=1)) == [note(60).uri]
        assert third.client.verify().ok
    assert writer.verify().ok


def test_a_reader_at_an_empty_store_learns_the_dimension(
    pair: tuple[MessageClient, MessageClient],
) -> None:
    """The first vector comes with a commit, as it comes to the writer."""
    writer, reader = pair
    assert not reader.find("nothing").resources
    revision = writer.put([Draft(f"{ROOT}/plain.md", content="without a vector")]).revision
    assert uris(reader.find("plain", min_revision=revision)) == [f"{ROOT}/plain.md"]
    revision = writer.put([note(number) for number in range(3)]).revision
    ours = answer(reader, 1, revision, Method.EXHAUSTIVE)
    assert ours == answer(writer, 1, revision, Method.EXHAUSTIVE)
    assert reader.stats().embedder.dimension == 16


def test_readers_are_refused_where_there_is_no_store_for_them(tmp_path: Path) -> None:
    """No store, none yet, one of another model, one of another schema: one line each."""
    store = tmp_path / "store"

    def refusal() -> str:
        with pytest.raises(StoreMismatch) as refused:
            Engine(EngineSettings(store, EmbedSettings(provider="none"), reader=True))
        return str(refused.value)

    assert "there is no store" in refusal()
    assert not store.exists()
    store.mkdir()
    sqlite3.connect(store / "store.sqlite3").close()
    assert "schema 0" in refusal()
    Store(store, model="another", dimension=8).close()
    assert "vectors of another (8 dimensions)" in refusal()
    with sqlite3.connect(store / "store.sqlite3") as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    assert f"schema {len(MIGRATIONS) + 1}" in refusal()


def test_a_reader_ends_when_its_store_gets_another_model(tmp_path: Path) -> None:
    """It never answers from vectors that its queries' vectors can't be compared with."""
    with serving(tmp_path) as writer:
        writer.client.put([note(1)])
    with serving(tmp_path, "--reader") as reader:
        Store(tmp_path, model="another", dimension=16, reembed=True).close()
        code, err = reader.ended()
    assert code == 1
    assert "the reader ends: the store has vectors of another" in err


def test_a_reader_ends_when_its_store_is_gone(tmp_path: Path) -> None:
    """It does not go on for ever with what nobody writes any more."""
    store = tmp_path / "store"
    Store(store, model="none", dimension=None).close()
    with serving(store, "--reader") as reader:
        shutil.rmtree(store)
        code, err = reader.ended()
    assert code == 1
    assert "was removed or replaced" in err


def test_a_port_is_shared_by_one_writer_and_readers_of_one_store(tmp_path: Path) -> None:
    """A second writer, a daemon of another store and one of a foreign port are told so."""
    store, other = tmp_path / "store", tmp_path / "other"
    Store(other, model="none", dimension=None).close()

    def refusal(*options: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "vikingd.server", "serve", "--provider", "none", "--config",
             os.devnull, "--log-level", "error", *options],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        return done.stderr

    with serving(store) as writer:
        where = ("--listen", writer.address)
        with serving(store, "--reader", *where), serving(store, "--reader", *where):
            assert "is in use by another vikingd" in refusal("--path", str(store), *where)
            for options in ((), ("--reader",)):
                assert "cannot listen on" in refusal("--path", str(other), *where, *options)
    with socket.socket() as foreign:
        # As another gRPC server would, with which the kernel lets us share.
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        foreign.bind(("127.0.0.1", 0))
        foreign.listen()
        where = ("--listen", f"127.0.0.1:{foreign.getsockname()[1]}")
        assert "cannot listen on" in refusal("--path", str(store), "--reader", *where)
        assert "cannot listen on" in refusal("--path", str(store), *where)


@pytest.mark.parametrize("when", ["start", "later"])
def test_a_base_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Removals that the feed has forgotten since do not come back with the older base."""
    settings = EngineSettings(
        tmp_path, EmbedSettings(provider="none"), IndexSettings(minimum=10_000)
    )
    writer = Engine(settings)
    writer.put([prepare(note(number)) for number in range(20)]).result()
    writer.optimize()
    load, reading = bases.load, threading.get_ident() if when == "start" else 0
    replaced = 0

    def replaced_meanwhile(root: Path) -> Any:
        nonlocal replaced
        found = load(root)
        mine = threading.current_thread().name == ("MainThread" if reading else "store-reader")
        if mine and replaced < 2:
            replaced += 1
            writer.delete([note(replaced).uri]).result()
            writer.optimize()
        return found

    if when == "start":
        monkeypatch.setattr(bases, "load", replaced_meanwhile)
    reader = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none"), reader=True))
    if when == "later":
        monkeypatch.setattr(bases, "load", replaced_meanwhile)
        writer.delete([note(9).uri]).result()
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
    """Nothing is looked for in its directory any more, where files may vanish one by one."""
    writer = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))
    writer.put([prepare(note(number)) for number in range(20)]).result()
    writer.optimize()
    size = writer.stats().index.bytes_on_disk
    load = bases.load

    def deleted_then(root: Path) -> Any:
        found = load(root)
        shutil.rmtree(root, ignore_errors=True)
        return found

    monkeypatch.setattr(bases, "load", deleted_then)
    reader = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none"), reader=True))
    assert reader.stats().index.bytes_on_disk == size > 0
    assert reader.verify().ok
    assert reader.failure() is None
    reader.close()
    writer.close()


def test_a_reader_without_file_descriptors_follows_again_once_it_has_some(tmp_path: Path) -> None:
    """Meanwhile it answers from what it has."""
    with (
        serving(tmp_path, **SMALL) as writing,
        serving(tmp_path, "--reader") as reading,
    ):
        writer, reader, pid = writing.client, reading.client, reading.process.pid
        revision = writer.put([note(number) for number in range(100)]).revision
        assert reader.find("harbour", min_revision=revision).resources
        eventually(lambda: writer.optimize().generation > 1)  # by which all kernels are loaded
        eventually(lambda: reader.stats().index.generation == writer.stats().index.generation)
        usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, usual[1]))
        writer.put([note(number) for number in range(100, 200)])
        generation = writer.optimize().generation
        time.sleep(1.5)  # of which more than a second is spent on failing
        assert reader.find("harbour").resources
        assert reader.stats().index.generation < generation
        assert reading.process.poll() is None
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        eventually(lambda: reader.stats().index.generation == generation)
        assert reader.verify().ok


def test_a_commit_that_was_taken_by_half_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader begins anew from the base, with all that came since."""
    settings = IndexSettings(minimum=10_000)
    writer = Engine(EngineSettings(tmp_path, EmbedSettings(provider="none"), settings))
    writer.put([prepare(note(number)) for number in range(20)]).result()
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
    committed = writer.put([prepare(note(30))]).result()
    reader.wait_for_revision(committed.revision, SECONDS)
    assert failures == 1
    assert reader.verify().ok
    assert reader.failure() is None
    reader.close()
    writer.close()


def test_a_base_from_before_the_first_vector_is_passed_over(
    pair: tuple[MessageClient, MessageClient], tmp_path: Path
) -> None:
    """It may be written while that vector is taken; a reader that has it goes on without."""
    writer, reader = pair
    writer.put([Draft(f"{ROOT}/plain.md", content="without a vector")])
    assert writer.optimize().generation == 1
    revision = writer.put([note(number) for number in range(3)]).revision
    assert reader.find("note", vector=vector(1), min_revision=revision).resources
    current = tmp_path / "index" / "CURRENT"
    again = current.with_name("again")
    again.write_text(current.read_text())
    again.rename(current)
    revision = writer.put([note(4)]).revision
    ours = answer(reader, 4, revision, Method.EXHAUSTIVE)
    assert ours == answer(writer, 4, revision, Method.EXHAUSTIVE)
    assert reader.verify().ok
