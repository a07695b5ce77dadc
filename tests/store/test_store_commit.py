"""Group commit: waiting requests share a commit, and a failing request fails alone."""

from __future__ import annotations

import resource
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from tests.patience import eventually
from tests.store.store_helpers import DOCS, GUIDE, ONE, TWO, Mirror, file, opened, put, scanned
from vikingd.domain.errors import Corrupt, InvalidField, NotFound, Stopping, VikingError
from vikingd.domain.store_changes import Change
from vikingd.domain.uri import ROOT
from vikingd.store import Store


def blocked(event: threading.Event) -> None:
    """Wait for an event, as a slow `on_commit` does."""
    assert event.wait(10)


def test_requests_that_wait_share_one_commit(tmp_path: Path) -> None:
    """All requests share one revision; a failing one is undone alone and gets its own error."""
    heard: list[tuple[list[Change], int]] = []
    with closing(Store(tmp_path, model="none", dimension=None)) as store:
        first = store.put([file(GUIDE, "x")])
        bad = store.put([file(f"{DOCS}/a/b", vector=ONE + TWO), file(f"{GUIDE}/below")])
        last = store.put([file(f"{DOCS}/a/c", vector=ONE)])
        moved = store.move(GUIDE, f"{DOCS}/moved.md")
        missing = store.delete([GUIDE])
        store.start(lambda changes, revision: heard.append((changes, revision)))
        assert {f.result(timeout=10).revision for f in (first, moved, last)} == {2}
        assert isinstance(bad.exception(), InvalidField)
        assert isinstance(missing.exception(), NotFound)
        assert list(scanned(store))[2:] == [DOCS, f"{DOCS}/a", f"{DOCS}/a/c", f"{DOCS}/moved.md"]
        ((changes, revision),) = heard
        mirror = Mirror({ROOT: scanned(store)[ROOT]})
        mirror.apply(changes, revision)
        assert mirror == scanned(store)


def test_a_request_that_breaks_the_group_breaks_its_own_commit_alone(tmp_path: Path) -> None:
    """A fault at the commit of a group fails only the request that causes it."""
    heard: list[int] = []
    with closing(Store(tmp_path, model="none", dimension=None)) as store:
        first = store.put([file(f"{DOCS}/a", "x")])
        bad = store.put([replace(file(f"{DOCS}/b"), abstract="half of a pair: \ud800")])
        last = store.put([file(f"{DOCS}/c", "x")])
        store.start(lambda _, revision: heard.append(revision))
        revisions = [future.result(timeout=10).revision for future in (first, last)]
        assert isinstance(bad.exception(), UnicodeError)
        assert heard == revisions == [2, 3]
        assert list(scanned(store))[2:] == [DOCS, f"{DOCS}/a", f"{DOCS}/c"]
        again = store.put([file(f"{DOCS}/b", "x")]).result(timeout=10)
        assert again.revision == 4


def test_on_commit_is_heard_before_the_writers(tmp_path: Path) -> None:
    """A future is done only after the commit is on disk and in the index."""
    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        future = store.put([file(GUIDE)])
        seen: list[tuple[bool, str]] = []
        store.start(lambda *_: seen.append((future.done(), store.get(GUIDE).uri)))
        future.result(timeout=10)
        assert seen == [(False, GUIDE)]


def test_the_next_group_is_written_while_the_index_follows(tmp_path: Path) -> None:
    """A commit on disk is not acknowledged before the index has it."""
    heard: list[int] = []
    go_on = threading.Event()

    def follow(_: list[Change], revision: int) -> None:
        blocked(go_on)
        heard.append(revision)

    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        store.start(follow)
        first = store.put([file(f"{DOCS}/a/{i}") for i in range(200)])
        eventually(lambda: store.revision == 2)
        second = store.put([file(f"{DOCS}/b")])
        eventually(lambda: store.revision == 3)
        assert store.get(f"{DOCS}/b").revision == 3
        assert not first.done()
        assert not second.done()
        go_on.set()
        assert [future.result(timeout=10).revision for future in (first, second)] == [2, 3]
        assert heard == [2, 3]


def test_small_writes_that_come_while_the_index_follows_share_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small group waits for the index and takes more requests, because a commit is costly."""
    waits, go_on = threading.Event(), threading.Event()
    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        written = store._writer._written
        join = written.join
        monkeypatch.setattr(written, "join", lambda: (waits.set(), join()))
        store.start(lambda *_: blocked(go_on))
        first = store.put([file(GUIDE)])
        assert waits.wait(10)
        later = [store.put([file(f"{DOCS}/{i}")]) for i in range(3)]
        go_on.set()
        assert [future.result(timeout=10).revision for future in (first, *later)] == [2, 3, 3, 3]


def test_many_threads(store: Store) -> None:
    """Every acknowledged write is readable at once, and no reader sees half of a batch."""
    problems: list[str] = []
    done = threading.Event()

    def write(worker: int) -> None:
        for i in range(15):
            a, b = f"{DOCS}/{worker}/{i}/a", f"{DOCS}/{worker}/{i}/b"
            revision = put(store, file(a, "x"), file(b, "x")).revision
            if store.get(a).revision != revision or store.revision < revision:
                problems.append(f"{a} is not there at {revision}")

    def read() -> None:
        while not done.is_set():
            names = [upsert.uri for upsert in store.scan() if not upsert.is_directory]
            if sum(name.endswith("a") for name in names) * 2 != len(names):
                problems.append(f"half a batch: {names}")

    writers = [threading.Thread(target=write, args=(worker,)) for worker in range(6)]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert not problems
    assert store.counts().files == 180


def test_a_cancelled_request_is_not_run(tmp_path: Path) -> None:
    """A waiting future can be cancelled, and the writer continues with the others."""
    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        cancelled, other = store.put([file(GUIDE)]), store.put([file(f"{DOCS}/b")])
        assert cancelled.cancel()
        store.start(lambda *_: None)
        other.result(timeout=10)
        assert list(scanned(store))[3:] == [f"{DOCS}/b"]


@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
def test_whatever_a_request_raises_only_its_caller_hears_of(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    """An error that would end a thread is undone alone, and the other requests succeed."""

    def raising(*_: object) -> NoReturn:
        raise kind

    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        first = store.put([file(GUIDE)])
        bad = store.rewrite({GUIDE: raising})
        last = store.put([file(f"{DOCS}/b")])
        store.start(lambda *_: None)
        assert isinstance(bad.exception(timeout=10), kind)
        assert [future.result(timeout=10).revision for future in (first, last)] == [2, 2]
        assert put(store, file(f"{DOCS}/c")).revision == 3


@pytest.mark.parametrize("part", ["Transaction", "replace"])
@pytest.mark.parametrize("kind", [MemoryError, SystemExit])
def test_want_of_memory_fails_a_commit_and_no_more(
    store: Store, monkeypatch: pytest.MonkeyPatch, part: str, kind: type[BaseException]
) -> None:
    """A commit that runs out of memory is undone, and the next one succeeds."""

    def without_memory(*_: object, **__: object) -> None:
        raise kind

    with monkeypatch.context() as patched:
        patched.setattr(f"vikingd.store.writer.{part}", without_memory)
        assert isinstance(store.put([file(GUIDE)]).exception(timeout=10), kind)
    assert GUIDE not in scanned(store)
    assert put(store, file(f"{DOCS}/b")).revision == store.revision == 2


def test_a_full_disk_fails_the_write_and_no_more(store: Store, tmp_path: Path) -> None:
    """A commit without room is undone, and the store continues when there is room."""
    put(store, file(GUIDE, "x"))
    before = scanned(store)
    _, hard = soft_and_hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = (tmp_path / "store.sqlite3-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        future = store.put([file(f"{DOCS}/big.md", "x" * 100_000)])
        error = future.exception(timeout=10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft_and_hard)
    assert isinstance(error, VikingError)
    assert "could not be written" in str(error)
    assert (scanned(store), store.revision, store.failure) == (before, 2, "")
    assert put(store, file(f"{DOCS}/big.md", "x" * 100_000)).revision == 3


def test_a_group_that_sqlite_took_back(tmp_path: Path) -> None:
    """A group fails as a whole if the database file may not grow, and the next write succeeds."""
    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        before = scanned(store)
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        group = [store.put([file(f"{DOCS}/{n}", "x" * n)]) for n in (1, 100_000, 2)]
        store.start(lambda *_: None)
        assert all("full" in str(future.exception(timeout=10)) for future in group)
        assert (scanned(store), store.revision) == (before, 1)
        store._db.execute("PRAGMA max_page_count = 1000000")
        assert put(store, file(GUIDE)).revision == 2


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_a_failing_index_stops_the_writes(tmp_path: Path, kind: type[BaseException]) -> None:
    """An error of `on_commit` fails its requests and all later ones, and sets `failure`."""

    def fail(*_: object) -> None:
        raise kind("boom")

    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        store.start(fail)
        for _ in range(2):
            with pytest.raises(Corrupt, match=rf"revision 2: {kind.__name__}\('boom'\)"):
                put(store, file(GUIDE))
        assert "boom" in store.failure
    with opened(tmp_path) as store:
        assert store.get(GUIDE).revision == 2


def test_writes_behind_one_that_the_index_could_not_follow(tmp_path: Path) -> None:
    """Requests after a failure fail, although they may be on disk; the index gets none of them."""
    heard: list[int] = []
    go_on = threading.Event()

    def fail(_: list[Change], revision: int) -> None:
        heard.append(revision)
        blocked(go_on)
        raise RuntimeError("boom")

    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        store.start(fail)
        futures = []
        for i in range(4):
            futures.append(store.put([file(f"{DOCS}/{i}/{j}") for j in range(200)]))
            eventually(lambda: bool(heard))
        eventually(lambda: store.revision > 2)
        go_on.set()
        for future in futures:
            assert isinstance(future.exception(timeout=10), Corrupt)
        assert heard == [2]


def test_close_writes_what_was_accepted(tmp_path: Path) -> None:
    """Requests before close are written; later writes and reads fail."""
    with opened(tmp_path) as store:
        accepted = [store.put([file(f"{DOCS}/{i}")]) for i in range(50)]
        store.close()
        assert all(future.done() and future.result() for future in accepted)
        with pytest.raises(Stopping):
            put(store, file(GUIDE))
        with pytest.raises(Stopping):
            store.get(GUIDE)
    assert not (tmp_path / "store.sqlite3-wal").exists()
    with opened(tmp_path) as store:
        assert store.counts().files == 50


def test_close_waits_for_the_index(tmp_path: Path) -> None:
    """`close` waits for a slow index."""
    heard: list[int] = []
    store = Store(tmp_path, model="m", dimension=2)

    def follow(_: list[Change], revision: int) -> None:
        time.sleep(0.2)
        heard.append(revision)

    store.start(follow)
    future = store.put([file(f"{DOCS}/{i}") for i in range(200)])
    store.close()
    assert heard == [2]
    assert future.done()


def test_close_without_a_start(tmp_path: Path) -> None:
    """Without a start, requests fail with Stopping, unless they were cancelled."""
    store = Store(tmp_path, model="m", dimension=2)
    cancelled, future = store.put([file(GUIDE)]), store.put([file(GUIDE)])
    assert cancelled.cancel()
    store.close()
    assert isinstance(future.exception(timeout=1), Stopping)
