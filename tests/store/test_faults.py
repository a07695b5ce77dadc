"""Temporary faults of the machine: no room on the disk, no threads, no pause between writes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from grpc import StatusCode

from tests.commands import serve
from tests.nodes.reader_helpers import note, serving, uris
from tests.programs import unshared
from vikingd import client as clients
from vikingd.client import Internal
from vikingd.daemon import kernel_warm_up
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import Corrupt, DiskFull, StoreDamaged, StoreFailed
from vikingd.domain.store_changes import Change, Upsert
from vikingd.engine import Engine, EngineSettings
from vikingd.index.settings import IndexSettings
from vikingd.index.tail.tail import Tail
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed import e5_weights
from vikingd.models.embed.e5_file import E5File
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store.damage import Damage
from vikingd.store.reads import Reads
from vikingd.store.sqlite.sqlite_database import SqliteReads

ROOT = "viking://resources"


def engine(path: Path, minimum: int = 10**6) -> Engine:
    """Return an engine that writes, without an embedder, and compacts at `minimum` changes."""
    return Engine(
        EngineSettings(path, EmbedSettings(provider="none"), IndexSettings(compact_min=minimum))
    )


def put(to: Engine, first: int, count: int) -> None:
    """Write some files in one commit."""
    drafts = [Draft(f"{ROOT}/{n}.md", content=f"word{n}") for n in range(first, first + count)]
    to.writable_store.put([prepare(draft) for draft in drafts]).result()


def fill_the_disk_and_compact(path: Path) -> None:
    """Compact on a full disk, and again when the disk has room."""
    at, ballast = engine(path / "store", minimum=3000), path / "ballast"
    put(at, 0, 2900)
    free = os.statvfs(path).f_bavail * os.statvfs(path).f_bsize
    ballast.write_bytes(bytes(free - 600_000))
    with pytest.raises(DiskFull, match=r"compaction failed: .*No space left"):
        at.optimize()
    assert not list((path / "store" / "index").glob("*.tmp"))
    before = at.stats().index
    put(at, 2900, 200)  # a compaction is due, but it does not start on a full disk
    assert not at.stats().index.compacting
    assert at.stats().index.problem == before.problem
    assert at.verify().ok
    ballast.unlink()
    at.optimize()
    assert at.stats().index.problem == ""
    assert at.stats().index.base_texts > 3000
    assert at.verify().ok
    at.close()


def convert_weights_on_a_full_disk(path: Path) -> None:
    """Load the weights with 1 MB of free room, then with enough."""
    source, ballast = E5File(), path / "ballast"
    free = os.statvfs(path).f_bavail * os.statvfs(path).f_bsize
    ballast.write_bytes(bytes(free - 1_000_000))
    said = []
    e5_weights._log.warning = lambda message, *values, **_: said.append(message % values)
    made = e5_weights.load(source, path / "cache")
    (told,) = said
    assert "can't be kept" in told
    assert "No space left" in told
    assert list((path / "cache").iterdir()) == []
    ballast.unlink()
    kept = e5_weights.load(source, path / "cache")
    assert len(said) == 1
    assert len(list((path / "cache").iterdir())) == 1
    for name, array in kept.items():
        np.testing.assert_array_equal(array, made[name])


@pytest.mark.deep
def test_a_full_disk_keeps_the_embedders_weights_out_of_the_cache_alone(tmp_path: Path) -> None:
    """Weights that a full disk can't cache stay in memory; the next load with room caches them."""
    assert fault_on_small_disk(tmp_path, "convert_weights_on_a_full_disk") == ""


def fault_on_small_disk(path: Path, function: str) -> str:
    """Run a function of this module on a file system of 32 MiB; return its error, or ""."""
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    unshared(*alone)
    code = f"import pathlib, {__name__} as t; t.{function}(pathlib.Path('.').resolve())"
    script = f'mount -t tmpfs -o size=32m tmpfs . && cd "$PWD" && exec {sys.executable} -c "{code}"'
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [*alone, "sh", "-c", script],
        cwd=path,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    return done.stderr or "no message" if done.returncode else ""


@pytest.mark.deep
def test_a_compaction_on_a_full_disk_fails_and_nothing_else(tmp_path: Path) -> None:
    """A compaction on a full disk fails alone: the store works, and a later compaction succeeds."""
    assert fault_on_small_disk(tmp_path, "fill_the_disk_and_compact") == ""


def fill(path: Path) -> Path:
    """Fill all free room of a disk, and return the file that fills it."""
    ballast = path / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096):
            with suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    assert os.statvfs(path).f_bavail == 0
    return ballast


def large(number: int) -> Draft:
    """Return a file with an overview of some pages."""
    return Draft(f"{ROOT}/large{number}.md", overview="x" * 60_000, content=f"word{number}")


def kill_a_daemon_on_a_full_disk(path: Path) -> None:
    """Kill a daemon on a full disk, start it again, and free the disk at the end."""
    store = path / "store"
    with serving(store) as daemon:
        for number in range(8):
            daemon.client.put([large(number)])
        ballast = fill(path)
        with pytest.raises(clients.DiskFull) as refused:
            daemon.client.put([large(n) for n in range(100, 115)])
        assert refused.value.code is StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(clients.DiskFull):
            daemon.client.optimize()
        revision = daemon.client.stats().revision
        daemon.kill()
    fill(path)
    with serving(store) as daemon:
        client = daemon.client
        assert client.stats().revision == revision
        assert client.find("word3").resources
        assert client.get(f"{ROOT}/large3.md").context.overview
        with pytest.raises(clients.DiskFull):
            client.put([large(n) for n in range(100, 115)])
        client.delete(f"{ROOT}/large1.md")
        daemon.kill()
    (store / "reserve").unlink(missing_ok=True)
    fill(path)
    with serving(store) as daemon:  # the reserve is gone, so the store can free no room
        client = daemon.client
        assert client.find("word3").resources
        assert f"{ROOT}/large1.md" not in uris(client.find("word1"))
        assert "the disk is full" in client.stats().problem
        with pytest.raises(clients.DiskFull, match="a backup needs"):
            list(client.backup())
        ballast.unlink()
        client.put([large(9)])
        client.optimize()
        assert client.stats().problem == ""
        assert client.verify().ok
        assert (store / "reserve").stat().st_size


@pytest.mark.deep
def test_a_daemon_that_was_killed_on_a_full_disk_starts_and_deletes_and_recovers(
    tmp_path: Path,
) -> None:
    """After a kill on a full disk, a daemon answers and deletes, and writes when there is room."""
    assert fault_on_small_disk(tmp_path, "kill_a_daemon_on_a_full_disk") == ""


def test_a_commit_holds_where_no_thread_can_be_had_for_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit succeeds without a thread for its compaction, and Stats show the problem."""
    at, start = engine(tmp_path, minimum=20), threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name == "compaction":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    put(at, 0, 30)
    put(at, 30, 30)
    assert "can't start new thread" in at.stats().index.problem
    assert at.failure() is None
    monkeypatch.undo()
    at.optimize()
    assert at.stats().index.problem == ""
    assert at.verify().ok
    at.close()


def test_whatever_ends_a_compaction_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exit inside a compaction is reported as an error, and the next compaction works."""
    at = engine(tmp_path)
    put(at, 0, 30)
    with monkeypatch.context() as patched:
        patched.setattr("vikingd.index.index.compacted", lambda _: sys.exit("in the middle"))
        with pytest.raises(Corrupt, match="compaction failed: in the middle"):
            at.optimize()
    at.optimize()
    assert at.stats().index.problem == ""
    at.close()


FATAL = """
import sys
from vikingd.engine import Engine
from vikingd.store import store_writes
errors = [SystemExit(3), StopIteration(), type("Panic", (BaseException,), {})()]
def delete(*_):
    raise errors.pop()
store_writes.delete = delete
Engine.stats = lambda _: sys.exit(3)
"""


def test_whatever_a_call_raises_is_answered_and_the_daemon_serves_on(tmp_path: Path) -> None:
    """The daemon answers INTERNAL to an error that would end a thread, and continues to serve."""
    with serving(tmp_path, changed=FATAL) as daemon:
        calls = [*[partial(daemon.client.delete, "viking://resources")] * 3, daemon.client.stats]
        for call in calls:
            with pytest.raises(Internal):
                call()
        assert daemon.client.put([note(1)]).revision == 2


@pytest.mark.deep
def test_writes_beside_it_are_no_problem_that_verify_finds(tmp_path: Path) -> None:
    """Verify reports no problem while another thread commits."""
    at, done = engine(tmp_path), threading.Event()
    put(at, 0, 1500)

    def write() -> None:
        count = 0
        while not done.is_set():
            put(at, 1500 + count, 1)
            count += 1

    thread = threading.Thread(target=write)
    thread.start()
    reports = [at.verify() for _ in range(3)]
    done.set()
    thread.join()
    assert [report.problems for report in reports] == [()] * 3
    assert reports[0].revision < reports[-1].revision
    at.close()


@pytest.mark.deep
def test_what_is_no_database_is_refused_in_one_line(tmp_path: Path) -> None:
    """A file that is no database is refused with one line at the start, and by a read."""
    (tmp_path / "store.sqlite3").write_bytes(b"nothing of the kind" * 1000)
    done = subprocess.run(
        serve(tmp_path, "--provider", "none"),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "vikingd: the store is damaged: file is not a database; "
    )
    assert "Traceback" not in done.stderr
    with pytest.raises(StoreDamaged, match="vikingd restore"):
        SqliteReads(tmp_path / "store.sqlite3").counts()


def test_a_start_needs_no_room_for_what_it_loads_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warm-up of the kernels writes no files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    kernel_warm_up.load_find()
    assert list(tmp_path.iterdir()) == []


def test_a_reader_outlasts_a_commit_that_it_took_by_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that fails within a commit rebuilds its index from the store."""
    apply, times = Tail.apply, iter([None])

    def torn(self: Tail, changes: Sequence[Change], revision: int) -> None:
        apply(self, changes, revision)
        if threading.current_thread().name == "store-reader" and next(times, 0) is None:
            raise MemoryError

    with closing(engine(tmp_path)) as writer:
        put(writer, 0, 3)
        monkeypatch.setattr(Tail, "apply", torn)
        settings = replace(writer.settings, reader=True)
        with closing(Engine(settings)) as reader:
            put(writer, 3, 3)
            reader.wait_for_revision(writer.store.revision, 20)
            put(writer, 6, 3)
            reader.wait_for_revision(writer.store.revision, 20)
            assert reader.verify().ok
            assert reader.failure() is None


def test_a_reader_answers_as_before_while_it_takes_everything_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader answers from its old snapshot during a rebuild, and restarts a failed rebuild."""
    apply, scan = Tail.apply, Reads.scan
    tears, breaks = iter([None]), iter([None])
    seen: list[tuple[int, bool]] = []

    def torn(self: Tail, changes: Sequence[Change], revision: int) -> None:
        apply(self, changes, revision)
        if threading.current_thread().name == "store-reader" and next(tears, 0) is None:
            raise MemoryError

    def watched(self: Reads, found: Callable[[Damage], object]) -> Iterator[Upsert]:
        for count, context in enumerate(scan(self, found)):
            snapshot = reader.snapshot
            seen.append((snapshot.revision, snapshot.find(f"{ROOT}/0.md") is not None))
            if count == 4 and next(breaks, 0) is None:
                raise StoreFailed("the disk is gone for a moment")
            yield context

    with closing(engine(tmp_path)) as writer:
        put(writer, 0, 6)
        with closing(Engine(replace(writer.settings, reader=True))) as reader:
            before = reader.snapshot.revision
            monkeypatch.setattr("vikingd.engine.index_follower._SCAN_BATCH", 1)
            monkeypatch.setattr(Reads, "scan", watched)
            monkeypatch.setattr(Tail, "apply", torn)
            put(writer, 6, 1)
            reader.wait_for_revision(before + 1, 20)
            assert reader.verify().ok
    assert len(seen) > 12
    assert set(seen) == {(before, True)}
