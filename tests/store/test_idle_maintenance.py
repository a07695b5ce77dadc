"""Deleted text leaves the files of a store, and its room goes back to the disk."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.patience import eventually
from tests.store.store_helpers import Mirror, file, log_kept, opened, put, scanned
from vikingd.access.keys_schema import connect as connect_keys
from vikingd.domain.errors import StoreDamaged
from vikingd.store import Store
from vikingd.store.reads.change_reads import all_damage
from vikingd.store.sqlite import idle_maintenance
from vikingd.store.sqlite.sqlite_schema import DATABASE, connect

DOCS = "viking://resources/docs"
LARGE = 40_000  # characters, in pages of their own
ROUNDS = 8


def size(path: Path) -> int:
    """Return the bytes of the database and its log."""
    return sum(one.stat().st_size for one in path.glob(f"{DATABASE}*") if "-shm" not in one.name)


def holders(path: Path, secret: str) -> list[str]:
    """Return the names of the files below a directory that have a text."""
    files = [one for one in path.rglob("*") if one.is_file()]
    return [one.name for one in files if secret.encode() in one.read_bytes()]


def fill(store: Store, files: int, name: str = "large", length: int = LARGE) -> None:
    """Put large files between small ones."""
    for n in range(files):
        put(store, file(f"{DOCS}/{name}{n}.md", f"{name} {n} " + "x" * length))
        put(store, file(f"{DOCS}/small/{name}{n}.md", f"small {n}\n"))


def drop(store: Store, files: int, name: str = "large") -> None:
    """Delete the large files."""
    store.delete([f"{DOCS}/{name}{n}.md" for n in range(files)]).result(timeout=10)


def check(path: Path) -> None:
    """Check the whole database by SQLite's own means."""
    with closing(sqlite3.connect(path / DATABASE)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.parametrize("open_database", [connect, connect_keys])
def test_connections_that_write_overwrite_what_they_delete(
    tmp_path: Path,
    open_database: Callable[[Path], sqlite3.Connection],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An SQLite that was built without secure_delete overwrites deleted rows all the same."""
    plain = sqlite3.connect

    def without(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = plain(*args, **kwargs)
        db.execute("PRAGMA secure_delete = OFF")
        return db

    monkeypatch.setattr(sqlite3, "connect", without)
    with closing(open_database(tmp_path / "new.sqlite3")) as db:
        assert db.execute("PRAGMA secure_delete").fetchone() == (1,)


@pytest.mark.deep
def test_the_mark_is_synced_while_a_reader_delays_the_log(tmp_path: Path) -> None:
    """Writes beside a long read have their mark on disk, and so has each emptying of the log."""
    with opened(tmp_path) as store:
        put(store, file(f"{DOCS}/a.md", "a"))
        with store._snapshot() as db:
            db.execute("SELECT count(*) FROM contexts").fetchall()
            for name in "bcd":
                put(store, file(f"{DOCS}/{name}.md", name))
                eventually(lambda: store._mark.is_synced)
        put(store, file(f"{DOCS}/e.md", "e"))
        store.give_back()
        assert store._mark.is_synced


def test_all_free_pages_are_given_back(tmp_path: Path) -> None:
    """After the deletion of large files the database is as small as it was without them."""
    with opened(tmp_path / "without") as store:
        for n in range(60):
            put(store, file(f"{DOCS}/small/large{n}.md", f"small {n}\n"))
        store.give_back()
        least = size(tmp_path / "without")
    with opened(tmp_path / "with") as store:
        fill(store, 60)
        kept = {uri: upsert for uri, upsert in scanned(store).items() if "/small" in uri}
        drop(store, 60)
        assert store.give_back() > 60 * LARGE
        assert size(tmp_path / "with") < 1.5 * least
        assert {uri: upsert for uri, upsert in scanned(store).items() if "/small" in uri} == kept
        assert store.give_back() == 0
    check(tmp_path / "with")


@pytest.mark.deep
def test_an_idle_store_gives_back_most_of_its_free_pages(tmp_path: Path) -> None:
    """Without a request, a store keeps only as many free pages as new texts soon take."""
    with opened(tmp_path) as store:
        fill(store, 200)
        drop(store, 200)
        eventually(lambda: size(tmp_path) < 50 * LARGE)
        fill(store, 20, "again")
        assert len(scanned(store)) > 220
    check(tmp_path)


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("means", ["delete", "overwrite"])
@pytest.mark.parametrize("length", [10, 2_000, LARGE])
def test_deleted_text_leaves_all_files(tmp_path: Path, length: int, means: str) -> None:
    """A moment after a deletion or a new content no file of the store has the old text."""
    secret = "secret7391word"
    with opened(tmp_path) as store:
        fill(store, 20, length=3_000)
        put(store, file(f"{DOCS}/secret.md", f"{secret} {'x' * length} {secret}end\n"))
        assert holders(tmp_path, secret)
        if means == "delete":
            store.delete([f"{DOCS}/secret.md"]).result(timeout=10)
        else:
            put(store, file(f"{DOCS}/secret.md", "nothing\n"))
        eventually(lambda: not holders(tmp_path, secret))


@pytest.mark.parametrize(
    "at_most", [0.2, pytest.param(idle_maintenance.AT_MOST, marks=pytest.mark.deep)]
)
def test_deleted_text_leaves_the_log_while_writes_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_most: float
) -> None:
    """Commits that never pause do not keep a deleted text in the log."""
    monkeypatch.setattr(idle_maintenance, "AT_MOST", at_most)
    secret = "secret7391word"
    with opened(tmp_path) as store:
        put(store, file(f"{DOCS}/secret.md", f"{secret}\n"))
        store.delete([f"{DOCS}/secret.md"]).result(timeout=10)
        number = count()

        def is_gone() -> bool:
            put(store, file(f"{DOCS}/other.md", f"other {next(number)}\n"))
            return not holders(tmp_path, secret)

        eventually(is_gone)


def test_a_reader_delays_the_end_of_a_deleted_text(tmp_path: Path) -> None:
    """The log is emptied when the last reader of an old revision ends."""
    secret = "secret7391word"
    with opened(tmp_path) as store:
        put(store, file(f"{DOCS}/secret.md", f"{secret}\n"))
        with closing(connect(tmp_path / DATABASE, read_only=True)) as db:
            db.execute("BEGIN")
            (found,) = db.execute("SELECT count(*) FROM contexts").fetchone()
            store.delete([f"{DOCS}/secret.md"]).result(timeout=10)
            assert not store.give_back()  # it does not wait for the reader
            assert holders(tmp_path, secret)
            assert db.execute("SELECT count(*) FROM contexts").fetchone() == (found,)
        eventually(lambda: not holders(tmp_path, secret))


def _delete_and_die(path: Path, secret: str) -> None:
    with opened(path) as store:
        put(store, file(f"{DOCS}/secret.md", f"{secret}\n"))
        store.delete([f"{DOCS}/secret.md"]).result(timeout=10)
        os._exit(1)


def test_deleted_text_leaves_the_log_after_a_crash(tmp_path: Path) -> None:
    """The start after a kill empties the log that the killed process left."""
    secret = "secret7391word"
    child = multiprocessing.get_context("fork").Process(
        target=_delete_and_die, args=(tmp_path, secret)
    )
    child.start()
    child.join()
    assert holders(tmp_path, secret)
    with opened(tmp_path):
        eventually(lambda: not holders(tmp_path, secret))


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Return dice with a seed that a failure names."""
    seed = int(os.environ.get("TEST_SEED", "42"))
    print(f"TEST_SEED={seed}")
    return random.Random(f"{seed}/{request.node.name}")


@pytest.mark.deep
def test_random_writes_between_the_steps(tmp_path: Path, dice: random.Random) -> None:
    """Writes of all sizes with pages given back between them change nothing that is stored."""
    mirror = Mirror()
    with closing(Store(tmp_path, model="m", dimension=2)) as store:
        mirror.apply(*store.changes_since(0))
        store.start(mirror.apply)
        for _ in range(400):
            uri = f"{DOCS}/{dice.randrange(8)}/{dice.randrange(12)}.md"
            kind = dice.randrange(8)
            if kind == 0 and uri in mirror:
                store.delete([uri]).result(timeout=10)
            elif kind == 1 and uri in mirror:
                target = f"{DOCS}/moved/{dice.randrange(10**9)}.md"
                store.move(uri, target).result(timeout=10)
            elif kind == 2:
                store.give_back()
            elif kind == 3 and (above := uri.rsplit("/", 1)[0]) in mirror:
                store.delete([above]).result(timeout=10)
            else:
                text = f"{dice.random()} " * dice.choice((1, 100, 3_000))
                put(store, file(uri, text))
        store.give_back()
        assert scanned(store) == dict(mirror)
        with store._snapshot() as db:
            assert all_damage(db) == []
    check(tmp_path)
    with opened(tmp_path) as store:
        assert scanned(store) == dict(mirror)


def _give_back_until_killed(path: Path, said: Connection) -> None:
    with opened(path) as store:
        for n in count():
            uri = f"{DOCS}/new{n}.md"
            put(store, file(uri, f"new {n} " + "y" * LARGE))
            said.send(uri)
            if n % 3:
                store.delete([uri]).result(timeout=10)
                said.send(f"gone {uri}")
            store.give_back()


@pytest.mark.deep
def test_a_kill_within_the_steps_loses_nothing(tmp_path: Path, dice: random.Random) -> None:
    """After SIGKILL while pages move, all acknowledged contexts are there in a sound file."""
    with opened(tmp_path) as store:
        fill(store, 40)
        drop(store, 40)
        small = {uri for uri in scanned(store) if "/small/" in uri}
    context = multiprocessing.get_context("fork")
    for _ in range(ROUNDS):
        heard, said = context.Pipe(duplex=False)
        child = context.Process(target=_give_back_until_killed, args=(tmp_path, said))
        child.start()
        said.close()
        state: dict[str, bool] = {}
        try:
            for _ in range(dice.randrange(1, 40)):
                message = heard.recv()
                state[message.removeprefix("gone ")] = not message.startswith("gone ")
        finally:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            child.join()
        last = next(reversed(state))  # the next write may have happened
        with closing(heard):
            while heard.poll():
                try:
                    message = heard.recv()
                except EOFError:
                    break
                last = message.removeprefix("gone ")
                state[last] = not message.startswith("gone ")
        with opened(tmp_path) as store:
            found = set(scanned(store))
            assert small <= found
            for uri, is_there in state.items():
                assert (uri in found) == is_there or uri == last
            with store._snapshot() as db:
                assert all_damage(db) == []
            store.delete([uri for uri in found if "/new" in uri], allow_missing=True).result(10)
        check(tmp_path)


@pytest.mark.deep
def test_the_reserve_grows_with_the_database(tmp_path: Path) -> None:
    """The room for deletes on a full disk is that of the database, up to 2 MiB."""
    reserve = tmp_path / "reserve"
    with opened(tmp_path) as store:
        assert reserve.stat().st_size == 256 << 10
        fill(store, 25)
        eventually(lambda: 1_000_000 < reserve.stat().st_size < 2 << 20)
        fill(store, 40, "more")
        eventually(lambda: reserve.stat().st_size == 2 << 20)


OLD = """
PRAGMA auto_vacuum = NONE;
VACUUM;
"""


def make_old(path: Path) -> None:
    """Turn a store into one of an older vikingd, which cannot give back pages."""
    with closing(sqlite3.connect(path / DATABASE, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.executescript(OLD)
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (0,)
        db.execute("PRAGMA journal_mode = WAL")


def test_an_older_store_is_converted_at_its_next_start(tmp_path: Path) -> None:
    """A store of an older vikingd keeps all rows, and gives back room from its next start on."""
    with opened(tmp_path) as store:
        fill(store, 30)
        before, point = scanned(store), store.point
    make_old(tmp_path)
    with opened(tmp_path) as store:
        assert scanned(store) == before
        assert store.point[:2] == point[:2]
        drop(store, 30)
        assert store.give_back() > 20 * LARGE
    check(tmp_path)
    assert not list(tmp_path.glob("*.rewritten*"))


def test_an_interrupted_conversion_begins_again(tmp_path: Path) -> None:
    """What a killed process left of a conversion is removed, and the store is converted."""
    with opened(tmp_path) as store:
        fill(store, 3)
        before = scanned(store)
    make_old(tmp_path)
    (tmp_path / f"{DATABASE}.rewritten").write_bytes(b"half")
    (tmp_path / f"{DATABASE}.rewritten-journal").write_bytes(b"half")
    with opened(tmp_path) as store:
        assert scanned(store) == before
        drop(store, 3)
        assert store.give_back()
    assert not list(tmp_path.glob("*.rewritten*"))


def test_a_store_that_is_read_is_not_converted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With a reader the conversion waits for a start without one, and the log says so."""
    with opened(tmp_path) as store:
        fill(store, 3)
        before = scanned(store)
    make_old(tmp_path)
    with closing(connect(tmp_path / DATABASE, read_only=True)) as reader:
        assert reader.execute("SELECT count(*) FROM contexts").fetchone() == (len(before),)
        with opened(tmp_path) as store:
            drop(store, 3)
            assert store.give_back() == 0
    assert "start the daemon once without readers" in caplog.text
    with opened(tmp_path):
        assert size(tmp_path) < 3 * LARGE


def test_a_damaged_store_is_not_rewritten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A database with damage keeps its bytes: a rewrite could hide it."""
    with opened(tmp_path) as store:
        fill(store, 3)
    make_old(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
        (page,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'contexts_revision'"
        ).fetchone()
    with (tmp_path / DATABASE).open("r+b") as file_:
        file_.seek((page - 1) * 4096 + 8)
        file_.write(b"\xff" * 24)
    with closing(Store(tmp_path, model="m", dimension=2)):
        pass
    assert "cannot give back the room" in caplog.text
    with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
        assert db.execute("PRAGMA auto_vacuum").fetchone() == (0,)


def test_a_backup_has_neither_free_pages_nor_deleted_text(tmp_path: Path) -> None:
    """A backup is as small as its contexts, and has no byte of a deleted one."""
    with opened(tmp_path) as store:
        fill(store, 30)
        with closing(store.backup(lambda: None)) as whole:
            assert whole.size > 30 * LARGE
        put(store, file(f"{DOCS}/secret.md", "secret7391word\n"))
        store.delete([f"{DOCS}/secret.md"]).result(timeout=10)
        drop(store, 30)
        with closing(store.backup(lambda: None)) as small:
            data = b"".join(small.chunks())
        assert len(data) == small.size < 10 * LARGE
        assert b"secret7391word" not in data


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("harm", ["deleted", "truncated"])
def test_a_damaged_log_is_found_before_it_is_emptied(tmp_path: Path, harm: str) -> None:
    """A log that was deleted or truncated below a store ends its writes, also without a request."""
    log = tmp_path / f"{DATABASE}-wal"
    with opened(tmp_path) as store:
        with log_kept(tmp_path):
            put(store, file(f"{DOCS}/a.md", "text\n"))
            if harm == "deleted":
                log.unlink()
            else:
                os.truncate(log, 4_000)
        eventually(lambda: store.failure)
        assert f"{log.name} was {harm}" in store.failure
        with pytest.raises(StoreDamaged, match=f"{log.name} was {harm}"):
            store.give_back()
