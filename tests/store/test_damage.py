"""A damaged database: errors name the damage, writes are refused, and no call gets a traceback."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.commands import serve
from tests.daemons import start
from tests.nodes.reader_helpers import note, serving
from tests.patience import SECONDS
from tests.store.store_helpers import (
    DOCS,
    GUIDE,
    ONE,
    directory,
    edited,
    file,
    log_kept,
    opened,
    put,
)
from vikingd import client as clients
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import StoreDamaged, VikingError
from vikingd.domain.uri import ROOT
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.draft_preparation import prepare
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.store import Store
from vikingd.store.damage import Damage
from vikingd.store.sqlite.sqlite_schema import DATABASE, MIGRATIONS

PAGE = 4096


def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it does not come")


BAD_ROWS = {
    "metadata that is no JSON": "UPDATE contexts SET metadata = '{\"a' WHERE uri LIKE '%guide.md'",
    "metadata that is no object": "UPDATE contexts SET metadata = '[1]' WHERE uri LIKE '%guide.md'",
    "a title that is not UTF-8": "UPDATE contexts SET title = CAST(x'ff41' AS TEXT) "
    "WHERE uri LIKE '%guide.md'",
    "an abstract that is bytes": "UPDATE contexts SET abstract = x'33' WHERE uri LIKE '%guide.md'",
    "a content that is bytes": "UPDATE contexts SET content = x'00' WHERE uri LIKE '%guide.md'",
    "a vector of another size": "UPDATE texts SET vector = x'00' WHERE id = 1",
    "a section that is not UTF-8": "UPDATE texts SET section = CAST(x'ff' AS TEXT) WHERE ordinal=2",
}


@pytest.mark.deep_after(2)
@pytest.mark.parametrize("sql", BAD_ROWS.values(), ids=list(BAD_ROWS))
def test_a_row_that_cannot_be_decoded_is_named_and_all_others_are_served(
    tmp_path: Path, sql: str
) -> None:
    """A read names the URI of the damaged context; other contexts are read and written."""
    with opened(tmp_path) as store:
        put(store, file(GUIDE, "one\ntwo\n", title="Guide", metadata={"a": 1}))
        put(store, file(f"{DOCS}/other.md", "sound", vector=ONE))
    edited(tmp_path, sql)
    with opened(tmp_path) as store:
        with pytest.raises(StoreDamaged, match=rf"{GUIDE}.* `vikingd restore BACKUP "):
            list(store.scan())
        found: list[Damage] = []
        assert f"{DOCS}/other.md" in [upsert.uri for upsert in store.scan(found.append)]
        assert [damage.uri for damage in found] == [GUIDE]
        put(store, file(f"{DOCS}/new.md"))
        assert store.get(f"{DOCS}/other.md").content == "sound"
        assert store.failure == ""


@pytest.mark.deep_after(2)
@pytest.mark.parametrize("name", ["store.sqlite3", "store.sqlite3-wal"])
@pytest.mark.parametrize("harm", ["deleted", "replaced", "truncated", "emptied"])
def test_no_write_into_a_lost_or_shortened_file_is_acknowledged(
    tmp_path: Path, name: str, harm: str
) -> None:
    """A write is refused after a file of the store was deleted, replaced or truncated."""
    path = tmp_path / name
    with opened(tmp_path) as store:
        put(store, file(GUIDE, "one"))
        content = path.read_bytes()
        if harm in ("deleted", "replaced"):
            path.unlink()
        if harm == "replaced":
            path.write_bytes(content)
        if harm in ("truncated", "emptied"):
            os.truncate(path, len(content) - 1 if harm == "truncated" else 0)
        told = "truncated" if harm in ("truncated", "emptied") else "deleted or replaced"
        for _ in range(2):
            with pytest.raises(StoreDamaged, match=f"{name} was {told}"):
                put(store, file(f"{DOCS}/new.md", "lost"))
        assert name in store.failure


def test_a_creation_that_was_killed_begins_again(tmp_path: Path) -> None:
    """A store opens after its creation was killed and left a rollback journal."""
    code = (
        "import os, sqlite3, sys\n"
        "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "db.execute('PRAGMA cache_size = 1'); db.execute('BEGIN IMMEDIATE')\n"
        "db.execute('CREATE TABLE t (x)')\n"
        "db.executemany('INSERT INTO t VALUES (zeroblob(9999))', [()] * 99)\n"
        "os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / DATABASE)], check=False)
    assert (tmp_path / f"{DATABASE}-journal").stat().st_size
    assert (tmp_path / DATABASE).stat().st_size
    with opened(tmp_path) as store:
        put(store, file(GUIDE, "one"))
        assert store.get(GUIDE).content == "one"


def test_a_log_of_another_database_is_refused(tmp_path: Path) -> None:
    """A log of another database is refused, and the files stay unchanged."""
    killed, other = tmp_path / "killed", tmp_path / "other"
    with opened(tmp_path / "mine") as store, log_kept(tmp_path / "mine"):
        put(store, file(GUIDE, "one"))
        shutil.copytree(tmp_path / "mine", killed)
    with opened(other) as store:
        put(store, file(f"{DOCS}/other.md", "other"))
    with opened(killed) as store:
        assert store.get(GUIDE).content == "one"
        again = shutil.copytree(killed, tmp_path / "again")
    shutil.copyfile(other / DATABASE, again / DATABASE)
    before = {path.name: path.read_bytes() for path in again.iterdir() if path.name != "lock"}
    for accept_loss in (False, True):
        with (
            pytest.raises(StoreDamaged, match=r"sqlite3-wal belongs to another database"),
            opened(again, accept_loss=accept_loss),
        ):
            pass
    for name in (DATABASE, f"{DATABASE}-wal"):
        assert (again / name).read_bytes() == before[name]
    (again / f"{DATABASE}-wal").unlink()
    with opened(again, accept_loss=True) as store:
        assert store.get(f"{DOCS}/other.md").content == "other"


def test_a_row_that_cannot_be_decoded_is_named_to_a_writer(tmp_path: Path) -> None:
    """A write that reads a damaged row fails with StoreDamaged and the URI of the row."""
    with opened(tmp_path) as store:
        put(store, file(GUIDE, "one\ntwo\n", title="Guide"))
    edited(tmp_path, "UPDATE contexts SET metadata = '{' WHERE uri LIKE '%guide.md'")
    with opened(tmp_path) as store, pytest.raises(StoreDamaged, match=r"guide\.md"):
        store.move(DOCS, "viking://resources/moved").result(timeout=10)


CHANGED = {
    "content": "replace(content, 'one', 'onf')",
    "overview": "'All  of it'",
    "title": "'Guidf'",
    "abstract": "'Abstrbct'",
    "metadata": "'{\"a\":3}'",
    "time": "time + 1024",
    "content_hash": "zeroblob(32)",
}


@pytest.mark.deep_after(2)
@pytest.mark.parametrize("column", CHANGED)
def test_a_value_that_is_another_one_is_refused_and_can_be_written_anew(
    tmp_path: Path, column: str
) -> None:
    """The checksum of a context finds damage that SQLite does not; other contexts are readable."""
    draft = Draft(
        GUIDE,
        content="one\ntwo\n",
        overview="All of it",
        title="Guide",
        abstract="Abstract",
        metadata={"a": 1},
        time=7_000_000,
    )
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:
        engine.writable_store.put(
            [prepare(draft), prepare(Draft(f"{DOCS}/other.md", content="sound"))]
        ).result()
        assert engine.verify().ok
    edited(tmp_path, f"UPDATE contexts SET {column} = {CHANGED[column]} WHERE uri = '{GUIDE}'")
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:
        with pytest.raises(StoreDamaged, match=rf"{GUIDE} .*put it again, or delete it"):
            engine.store.get(GUIDE)
        assert any(GUIDE in problem for problem in engine.verify().problems)
        assert engine.store.get(f"{DOCS}/other.md").content == "sound"
        engine.writable_store.delete([GUIDE]).result()
        engine.writable_store.put([prepare(draft)]).result()
        assert engine.store.get(GUIDE).content == draft.content
        assert engine.verify().ok


def test_a_text_that_no_read_asked_for_is_not_damage(tmp_path: Path) -> None:
    """An error in our own code is not reported as damage if all rows are sound."""
    with opened(tmp_path) as store:
        put(store, file(GUIDE, "one\n"))
        with pytest.raises(KeyError), store.at_revision(store.revision):
            raise KeyError("a bug")
        assert store.failure == ""


def test_a_clean_end_is_known_from_an_unclean_one(tmp_path: Path) -> None:
    """A database is checked after an unclean end only, in the background."""
    with opened(tmp_path / "live") as store:
        assert store._check is None
        put(store, file(GUIDE, "one"))
        shutil.copytree(tmp_path / "live", tmp_path / "left")
    with opened(tmp_path / "live") as store:
        assert store._check is None
    with opened(tmp_path / "left") as store:
        check = store._check
        assert check is not None
        until(lambda: not check._thread.is_alive())
        assert store.failure == ""
        assert put(store, file(GUIDE, "two")).revision == 3
    with opened(tmp_path / "left") as store:
        assert store._check is None


def damaged_index_page(path: Path) -> None:
    """Overwrite a page of an index of memories that a start and a find do not read."""
    with closing(sqlite3.connect(path / DATABASE)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_entries_1'"
        ).fetchone()
    with (path / DATABASE).open("r+b") as database:
        database.seek((page - 1) * PAGE)
        database.write(b"\x55" * PAGE)


@pytest.mark.deep
def test_damage_that_no_read_meets_is_found_after_a_kill(tmp_path: Path) -> None:
    """A check after a kill finds damage that no read meets; writes fail, and reads succeed."""
    with serving(tmp_path) as daemon:
        daemon.client.put([note(1)])
        daemon.kill()
    damaged_index_page(tmp_path)
    with serving(tmp_path) as daemon:
        until(lambda: daemon.client.stats().problem)
        assert "vikingd restore BACKUP" in daemon.client.stats().problem
        for _ in range(2):
            with pytest.raises(clients.StoreDamaged) as refused:
                daemon.client.put([note(2)])
            assert refused.value.code is StatusCode.DATA_LOSS
        health = health_pb2_grpc.HealthStub(daemon.client._channel)
        until(
            lambda: (
                health.Check(health_pb2.HealthCheckRequest()).status
                == health_pb2.HealthCheckResponse.NOT_SERVING
            )
        )
        assert daemon.client.find("word1").resources
        assert daemon.client.get(note(1).uri).context.content


def test_a_damaged_page_is_found_after_an_unclean_end(tmp_path: Path) -> None:
    """The check after a kill finds a page that no read meets; writes fail, reads succeed."""
    left = left_open(tmp_path)
    damaged_index_page(left)
    with opened(left) as store:
        until(lambda: store.failure)
        assert "vikingd restore BACKUP" in store.failure
        with pytest.raises(StoreDamaged):
            put(store, file(GUIDE, "two"))
        assert store.get(GUIDE).content == "one"


def left_open(path: Path) -> Path:
    """Return a copy of a store with one file, as its writer leaves it when it is killed."""
    with opened(path / "live") as store:
        put(store, file(GUIDE, "one"))
        return Path(shutil.copytree(path / "live", path / "left"))


def test_a_row_that_no_read_meets_is_found_after_an_unclean_end(tmp_path: Path) -> None:
    """The check after an unclean end finds a row that SQLite accepts and no read can decode."""
    left = left_open(tmp_path)
    edited(left, BAD_ROWS["metadata that is no JSON"])
    with opened(left) as store:
        until(lambda: store.failure)
        assert GUIDE in store.failure


def test_a_start_does_not_wait_for_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store is written while the check after an unclean end still runs."""
    written = threading.Event()
    monkeypatch.setattr(
        "vikingd.store.sqlite.database_check.quick_check",
        lambda _: [] if written.wait(SECONDS) else ["too late"],
    )
    with opened(left_open(tmp_path)) as store:
        put(store, file(GUIDE, "two"))
        written.set()
        check = store._check
        assert check is not None
        until(lambda: not check._thread.is_alive())
        assert store.failure == ""


def ended(path: Path) -> tuple[int, list[str]]:
    """Return exit code and stderr of a daemon that cannot start."""
    daemon = start(serve(path, "--provider", "none"), stderr=subprocess.PIPE, text=True)
    _, err = daemon.communicate(timeout=120)
    return daemon.returncode, err.splitlines()


LOST = {
    "the schema": lambda data: data[:100] + bytes(PAGE - 100) + data[PAGE:],
    "a character of the schema": lambda data: data.replace(b"links (", b"links`(", 1),
    "all but the first page": lambda data: data[:PAGE],
    "the end": lambda data: data[: len(data) // 2],
    "every page but the first": lambda data: data[:PAGE] + b"\xff" * (len(data) - PAGE),
}


@pytest.mark.deep_after(1)
@pytest.mark.parametrize("lose", LOST.values(), ids=list(LOST))
def test_a_start_on_a_damaged_file_ends_with_one_line(
    tmp_path: Path, lose: Callable[[bytes], bytes]
) -> None:
    """A start on a damaged file ends with exit code 1 and a remedy, without a traceback."""
    with opened(tmp_path, model="none", dimension=None) as store:
        put(store, *[file(f"{DOCS}/{n}.md", f"word{n}\n" * n) for n in range(200)])
    database = tmp_path / DATABASE
    database.write_bytes(lose(database.read_bytes()))
    code, lines = ended(tmp_path)
    assert (code, [line for line in lines if "Traceback" in line]) == (1, [])
    assert lines[-1].startswith("vikingd: the store is damaged: ")
    assert "vikingd restore BACKUP" in lines[-1]


def test_a_tree_that_hangs_together_no_more_is_damage(tmp_path: Path) -> None:
    """A tree without one of its directories is served, and the verification names it."""
    with opened(tmp_path, model="none", dimension=None) as store:
        put(store, directory(f"{DOCS}/sub"), file(f"{DOCS}/sub/a.md", "text"))
    edited(tmp_path, "DELETE FROM contexts WHERE uri LIKE '%/sub'")
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:
        assert any(f"{DOCS}/sub is damaged" in problem for problem in engine.verify().problems)
        assert engine.store.get(f"{DOCS}/sub/a.md").content == "text"


def test_a_link_of_a_missing_context_is_named(tmp_path: Path) -> None:
    """A link with an end that is not there is served without, and the verification names it."""
    with opened(tmp_path, model="none", dimension=None) as store:
        put(store, file(GUIDE, "text"), file(f"{DOCS}/other.md", "text"))
        store.link(GUIDE, f"{DOCS}/other.md", "beside").result()
    edited(tmp_path, "UPDATE links SET b = 99")
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:
        assert any("its link with context 99" in one for one in engine.verify().problems)


def used(engine: Engine) -> None:
    """Call most operations; only domain errors may come out."""
    calls: list[Callable[[], Any]] = [
        lambda: [engine.store.get(one.uri) for one in engine.store.tree(ROOT, 0, "", 1000)],
        lambda: engine.store.children(ROOT, "", 100),
        lambda: engine.store.memories_below("viking://user/memories"),
        engine.stats,
        engine.verify,
        lambda: engine.writable_store.put(
            [prepare(Draft("viking://user/memories/2.md", content="x"))]
        ).result(),
        lambda: engine.writable_store.delete(["viking://user/memories/3.md"]).result(),
        lambda: engine.writable_store.move(
            "viking://user/memories", "viking://resources/m"
        ).result(),
        lambda: engine.store.backup(lambda: None).close(),
    ]
    for call in calls:
        try:
            call()
        except VikingError:
            continue


@pytest.mark.parametrize("rounds", [6, pytest.param(72, marks=pytest.mark.deep)])
def test_no_damage_of_any_file_is_an_error_that_nobody_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    """Random damage to the database, its log or its shared memory raises only domain errors."""
    monkeypatch.setattr("vikingd.store.sqlite.sqlite_faults._MAX_SECONDS", 1.0)
    settings = EngineSettings(tmp_path / "live", EmbedSettings(provider="none"))
    with closing(Engine(settings)) as engine:
        for n in range(30):
            uri = f"viking://user/memories/{n}.md"
            draft = Draft(uri, content=f"# {n}\n\n- word{n}\n" * 20, metadata={"n": n}, vector=ONE)
            engine.writable_store.put([prepare(draft)]).result()
        shutil.copytree(tmp_path / "live", tmp_path / "left")
    rng, refused = random.Random(5), 0
    for round_ in range(rounds):
        of = tmp_path / ("left" if round_ % 3 else "live")
        path = tmp_path / f"damaged-{round_}"
        shutil.copytree(of, path)
        names = sorted(p.name for p in path.iterdir() if p.name.startswith(DATABASE))
        at = path / names[round_ % len(names)]
        data = bytearray(at.read_bytes())
        start = rng.randrange(len(data))
        match round_ % 4:
            case 0:
                data[start] ^= 1 << rng.randrange(8)
            case 1:
                data[start : start + 64] = rng.randbytes(len(data[start : start + 64]))
            case 2:
                page = start // PAGE * PAGE
                data[page : page + PAGE] = bytes(len(data[page : page + PAGE]))
            case 3:
                del data[start:]
        at.write_bytes(data)
        try:
            with closing(Engine(EngineSettings(path, EmbedSettings(provider="none")))) as engine:
                used(engine)
        except VikingError:
            refused += 1
    assert 0 < refused < rounds  # some starts are refused, and not all


def test_a_store_of_a_schema_that_cannot_be_is_damage(tmp_path: Path) -> None:
    """A store with an impossible schema version is refused as damaged."""
    Store(tmp_path, model="m", dimension=2).close()
    for version in range(-3, len(MIGRATIONS)):
        with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
            db.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(StoreDamaged, match="schema"):
            Store(tmp_path, model="m", dimension=2)
