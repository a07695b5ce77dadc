"""A damaged database: told by name, refused for writes, never a traceback."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from grpc_health.v1 import health_pb2, health_pb2_grpc
from reader_helpers import note, serving
from store_helpers import DOCS, GUIDE, ONE, directory, file, opened, put

from vikingd import client as clients
from vikingd.domain.errors import StoreDamaged, VikingError
from vikingd.domain.model import Draft
from vikingd.domain.uri import ROOT
from vikingd.engine import Engine, EngineSettings
from vikingd.ingest.prepare import prepare
from vikingd.models.embed.settings import EmbedSettings
from vikingd.store import Store
from vikingd.store.schema import DATABASE

PAGE = 4096


def edited(path: Path, sql: str) -> None:
    """Changes the database of a store that nobody has open."""
    with closing(sqlite3.connect(path / DATABASE)) as db, db:
        db.execute("PRAGMA foreign_keys = OFF")
        assert db.execute(sql).rowcount


def until(condition: Callable[[], object]) -> None:
    """Waits for what comes soon."""
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
    "a vector of another size": "UPDATE texts SET vector = x'00' WHERE ordinal = 1",
    "a section that is not UTF-8": "UPDATE texts SET section = CAST(x'ff' AS TEXT) WHERE ordinal=2",
}


@pytest.mark.parametrize("sql", BAD_ROWS.values(), ids=list(BAD_ROWS))
def test_a_row_that_cannot_be_decoded_is_named_and_ends_the_writes(
    tmp_path: Path, sql: str
) -> None:
    """By the URI of its context, to whoever meets it; nothing is written from then on."""
    with opened(tmp_path) as store:
        put(store, file(GUIDE, "one\ntwo\n", title="Guide", metadata={"a": 1}))
        put(store, file(f"{DOCS}/other.md", "sound"))
    edited(tmp_path, sql)
    with opened(tmp_path) as store:
        with pytest.raises(StoreDamaged, match=rf"{GUIDE}.* `vikingd restore BACKUP "):
            list(store.scan())
        with pytest.raises(StoreDamaged, match="vikingctl backup"):
            put(store, file(f"{DOCS}/new.md"))
        assert store.get(f"{DOCS}/other.md").content == "sound"
        assert GUIDE in store.failure


@pytest.mark.parametrize("name", ["store.sqlite3", "store.sqlite3-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_no_write_into_a_file_that_is_gone_is_acknowledged(
    tmp_path: Path, name: str, replaced: bool
) -> None:
    """The next start would not see it; writes stay refused."""
    with opened(tmp_path) as store:
        put(store, file(GUIDE, "one"))
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        if replaced:
            (tmp_path / name).write_bytes(content)
        for _ in range(2):
            with pytest.raises(StoreDamaged, match=f"{name} was deleted or replaced"):
                put(store, file(f"{DOCS}/new.md", "lost"))
        assert name in store.failure


def test_a_row_that_cannot_be_decoded_is_named_to_a_writer(tmp_path: Path) -> None:
    """A write that meets it is refused as damage too."""
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


@pytest.mark.parametrize("column", CHANGED)
def test_a_value_that_is_another_one_is_refused_and_can_be_written_anew(
    tmp_path: Path, column: str
) -> None:
    """SQLite does not notice it, the checksum of its context does; all others go on."""
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
        engine.put([prepare(draft), prepare(Draft(f"{DOCS}/other.md", content="sound"))]).result()
        assert engine.verify().ok
    edited(tmp_path, f"UPDATE contexts SET {column} = {CHANGED[column]} WHERE uri = '{GUIDE}'")
    with closing(Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))) as engine:
        with pytest.raises(StoreDamaged, match=rf"{GUIDE} .*delete it and put it again"):
            engine.store.get(GUIDE)
        assert f"{GUIDE} is not as it was written" in engine.verify().problems
        assert engine.store.get(f"{DOCS}/other.md").content == "sound"
        engine.delete([GUIDE]).result()
        engine.put([prepare(draft)]).result()
        assert engine.store.get(GUIDE).content == draft.content
        assert engine.verify().ok


def test_a_text_that_no_read_asked_for_is_not_damage(tmp_path: Path) -> None:
    """An error of the code's own stays what it is where all rows are sound."""
    with opened(tmp_path) as store:
        put(store, file(GUIDE, "one\n"))
        with pytest.raises(KeyError), store.standing_at(store.revision):
            raise KeyError("a bug")
        assert store.failure == ""


def test_a_clean_end_is_known_from_an_unclean_one(tmp_path: Path) -> None:
    """After a clean one nothing is checked; after an unclean one all is, beside all other work."""
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
    """Overwrites a page of an index of memories, which neither a start nor a find meets."""
    with closing(sqlite3.connect(path / DATABASE)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_entries_1'"
        ).fetchone()
    with (path / DATABASE).open("r+b") as database:
        database.seek((page - 1) * PAGE)
        database.write(b"\x55" * PAGE)


def test_damage_that_no_read_meets_is_found_after_a_kill(tmp_path: Path) -> None:
    """Writes and health say so; what is sound is answered."""
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


def ended(path: Path) -> tuple[int, list[str]]:
    """Exit code and stderr of a daemon that can't start."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "vikingd.daemon.server",
            "serve",
            "--provider",
            "none",
            "--config",
            os.devnull,
            "--listen",
            "127.0.0.1:0",
            "--path",
            str(path),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr.splitlines()


LOST = {
    "the schema": lambda data: data[:100] + bytes(PAGE - 100) + data[PAGE:],
    "all but the first page": lambda data: data[:PAGE],
    "the end": lambda data: data[: len(data) // 2],
    "every page but the first": lambda data: data[:PAGE] + b"\xff" * (len(data) - PAGE),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=list(LOST))
def test_a_start_on_a_damaged_file_ends_with_one_line(
    tmp_path: Path, lose: Callable[[bytes], bytes]
) -> None:
    """It says what to do; exit code 1 and no traceback."""
    with opened(tmp_path, model="none", dimension=None) as store:
        put(store, *[file(f"{DOCS}/{n}.md", f"word{n}\n" * n) for n in range(200)])
    database = tmp_path / DATABASE
    database.write_bytes(lose(database.read_bytes()))
    code, lines = ended(tmp_path)
    assert (code, [line for line in lines if "Traceback" in line]) == (1, [])
    assert lines[-1].startswith("vikingd: the store is damaged: ")
    assert "vikingd restore BACKUP" in lines[-1]


def test_a_tree_that_hangs_together_no_more_is_damage(tmp_path: Path) -> None:
    """What the index can't be made of is refused by the start."""
    with opened(tmp_path, model="none", dimension=None) as store:
        put(store, directory(f"{DOCS}/sub"), file(f"{DOCS}/sub/a.md", "text"))
    edited(tmp_path, "DELETE FROM contexts WHERE uri LIKE '%/sub'")
    with pytest.raises(StoreDamaged, match="no directory above it"):
        Engine(EngineSettings(tmp_path, EmbedSettings(provider="none")))


def used(engine: Engine) -> None:
    """Calls most of what can be called; only errors of the domain are let pass."""
    calls: list[Callable[[], Any]] = [
        lambda: [engine.store.get(one.uri) for one in engine.store.tree(ROOT, 0, "", 1000)],
        lambda: engine.store.children(ROOT, "", 100),
        lambda: engine.store.memories_below("viking://user/memories"),
        engine.stats,
        engine.verify,
        lambda: engine.put([prepare(Draft("viking://user/memories/2.md", content="x"))]).result(),
        lambda: engine.delete(["viking://user/memories/3.md"]).result(),
        lambda: engine.move("viking://user/memories", "viking://resources/m").result(),
        lambda: engine.store.backup(lambda: None).close(),
    ]
    for call in calls:
        try:
            call()
        except VikingError:
            continue


def test_no_damage_of_any_file_is_an_error_that_nobody_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever bytes are changed, zeroed or cut, in the database, its log or its shared memory."""
    monkeypatch.setattr("vikingd.store.faults._SECONDS", 1.0)
    settings = EngineSettings(tmp_path / "live", EmbedSettings(provider="none"))
    with closing(Engine(settings)) as engine:
        for n in range(30):
            uri = f"viking://user/memories/{n}.md"
            draft = Draft(uri, content=f"# {n}\n\n- word{n}\n" * 20, metadata={"n": n}, vector=ONE)
            engine.put([prepare(draft)]).result()
        shutil.copytree(tmp_path / "live", tmp_path / "left")
    rng, refused = random.Random(5), 0
    for round_ in range(24):
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
    assert 0 < refused < 24  # some starts are refused, and not all


def test_a_store_of_a_schema_that_cannot_be_is_damage(tmp_path: Path) -> None:
    """The number is part of the file like all else."""
    Store(tmp_path, model="m", dimension=2).close()
    for version in (-3, 0):
        with closing(sqlite3.connect(tmp_path / DATABASE)) as db:
            db.execute(f"PRAGMA user_version = {version}")
        with pytest.raises(StoreDamaged, match="schema"):
            Store(tmp_path, model="m", dimension=2)
