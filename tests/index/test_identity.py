"""The identity of a store and of its index, and lost data."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from tests.index.integrity_helpers import DATABASE, copied, made, numbers, put, settings
from tests.patience import eventually
from tests.store.store_helpers import log_kept
from vikingd.domain.errors import StoreDamaged
from vikingd.engine import Engine
from vikingd.store import history
from vikingd.store.sqlite import rollback_detection as identity
from vikingd.store.sqlite import sqlite_reader as readers
from vikingd.store.sqlite.sqlite_store import Store


def put_back(copy: Path, path: Path) -> None:
    """Put an older copy of the database in its place."""
    for old in path.glob(f"{DATABASE}*"):
        old.unlink()
    for old in copy.glob(f"{DATABASE}*"):
        shutil.copy(old, path)


def kept_files(path: Path) -> dict[str, bytes]:
    """Return the files of a store, without SQLite's shared memory and empty files."""
    files = {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
    return {name: data for name, data in files.items() if data and not name.endswith("-shm")}


def refused(path: Path) -> str:
    """Check that an open fails and changes nothing; return the error."""
    before = kept_files(path)
    with pytest.raises(StoreDamaged, match="accept-data-loss") as found:
        Engine(settings(path))
    assert kept_files(path) == before
    return str(found.value)


def accepted(path: Path) -> list[int]:
    """Accept the loss, check the next start, and return the numbers of the files."""
    with closing(Engine(settings(path, accept_loss=True))) as engine:
        found = numbers(engine)
    with closing(Engine(settings(path))) as engine:
        assert numbers(engine) == found
    return found


# --- identity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["mark", "index", "both"])
def test_a_missing_database_is_no_new_store(tmp_path: Path, kept: str) -> None:
    """A mark or an index without a database is refused; an accepted loss gives an empty store."""
    made(tmp_path, 1, 2)
    for path in tmp_path.glob(f"{DATABASE}*"):
        path.unlink()
    if kept == "mark":
        shutil.rmtree(tmp_path / "index")
    if kept == "index":
        (tmp_path / "mark").unlink()
    assert "missing" in refused(tmp_path)
    assert accepted(tmp_path) == []
    with closing(Engine(settings(tmp_path))) as engine:
        put(engine, 7)
    with closing(Engine(settings(tmp_path))) as engine:
        assert numbers(engine) == [7]


@pytest.mark.parametrize("evidence", ["mark", "index"])
def test_an_older_copy_of_the_database_is_told(tmp_path: Path, evidence: str) -> None:
    """The mark or the index alone reveals an older copy of the database."""
    path = tmp_path / "store"
    made(path, 1, 2)
    copy = copied(path, tmp_path / "copy")
    made(path, 3, 4)
    put_back(copy, path)
    if evidence == "index":
        (path / "mark").unlink()
    else:
        shutil.rmtree(path / "index")
    assert "has revision" in refused(path)
    assert accepted(path) == [1, 2]


def with_another_history(tmp_path: Path) -> Path:
    """Make a store from an older copy that has more revisions than the original."""
    path = tmp_path / "store"
    made(path, 1)
    copy = copied(path, tmp_path / "copy")
    made(path, 2, 3)
    with closing(Engine(settings(copy))) as engine:
        for number in range(10, 20):
            put(engine, number)
    put_back(copy, path)
    return path


def test_an_older_copy_that_got_more_revisions_has_another_history(tmp_path: Path) -> None:
    """An older copy with newer revisions of its own is refused as another history."""
    path = with_another_history(tmp_path)
    assert "another history" in refused(path)
    (path / "mark").unlink()
    assert "another history" in refused(path)
    assert accepted(path) == [1, *range(10, 20)]


def test_an_index_of_another_history_is_made_anew_by_a_reader(tmp_path: Path) -> None:
    """A reader rebuilds an index of another history from the store."""
    path = with_another_history(tmp_path)
    (path / "mark").unlink()
    with closing(Engine(settings(path, reader=True))) as engine:
        assert numbers(engine) == [1, *range(10, 20)]
        assert "another history" in engine.stats().index.rebuilt


def test_the_index_of_another_store_is_not_used(tmp_path: Path) -> None:
    """The index of another store is rebuilt, and Stats give the reason."""
    ours, other = tmp_path / "ours", tmp_path / "other"
    made(ours, 1)
    made(other, 2)
    made(other, 3)
    shutil.rmtree(ours / "index")
    shutil.copytree(other / "index", ours / "index")
    with closing(Engine(settings(ours))) as engine:
        assert numbers(engine) == [1]
        assert engine.stats().index.rebuilt == "the index is of another store"
    with closing(Engine(settings(ours))) as engine:
        assert numbers(engine) == [1]
        assert engine.stats().index.rebuilt == ""


@pytest.mark.parametrize(
    "name",
    ["base-00000009", "../../other/index/base-00000001", "../index/{own}", "", "x\0"],
)
def test_what_names_the_base_may_point_elsewhere(tmp_path: Path, name: str) -> None:
    """The index is rebuilt if its CURRENT file names anything but a base of the index."""
    made(tmp_path / "store", 1)
    made(tmp_path / "other", 2)
    current = tmp_path / "store" / "index" / "CURRENT"
    current.write_text(name.format(own=current.read_text().strip()))
    with closing(Engine(settings(tmp_path / "store"))) as engine:
        assert numbers(engine) == [1]
        assert engine.stats().index.rebuilt


@pytest.mark.parametrize("cut", [False, True])
def test_a_log_that_was_deleted_or_cut_is_told(tmp_path: Path, cut: bool) -> None:
    """After a kill, a store whose log was deleted or truncated is refused."""
    path = tmp_path / "store"
    made(path, 1)
    with closing(Engine(settings(path))) as engine, log_kept(path):
        put(engine, 2, 3)
        engine.optimize()
        copy = copied(path, tmp_path / "copy")  # the state after a kill
    log = copy / f"{DATABASE}-wal"
    assert log.stat().st_size > 0
    if cut:
        os.truncate(log, 0)
    else:
        log.unlink()
    (copy / f"{DATABASE}-shm").unlink()
    refused(copy)
    assert accepted(copy) == [1]


def test_a_store_of_the_version_before_gets_an_id(tmp_path: Path) -> None:
    """A store of the previous version gets an id, and its index is rebuilt once."""
    made(tmp_path, 1, 2)
    import sqlite3

    with closing(sqlite3.connect(tmp_path / DATABASE)) as db, db:
        db.execute("DELETE FROM meta WHERE key IN ('store.id', 'store.epoch', 'history.epochs')")
    (tmp_path / "mark").unlink()
    index = tmp_path / "index"
    manifest = index / (index / "CURRENT").read_text() / "manifest.json"
    manifest.write_text(json.dumps({"format": 5, "revision": 2}))
    with closing(Engine(settings(tmp_path, reader=True))) as engine:
        assert numbers(engine) == [1, 2]
    with closing(Engine(settings(tmp_path))) as engine:
        assert numbers(engine) == [1, 2]
        assert "another version" in engine.stats().index.rebuilt
        assert len(engine.store.point.store) == 32  # type: ignore[union-attr]
    with closing(Engine(settings(tmp_path))) as engine:
        assert engine.stats().index.rebuilt == ""


def test_a_restored_copy_is_accepted(tmp_path: Path) -> None:
    """A restored copy opens without an error, and the index of lost commits is not used."""
    path = tmp_path / "store"
    made(path, 1)
    copy = copied(path, tmp_path / "copy")
    made(path, 2, 3)
    put_back(copy, path)
    refused(path)
    identity.adopt_restored(path)
    with closing(Engine(settings(path))) as engine:
        assert numbers(engine) == [1]


def test_a_start_without_a_write_changes_no_file(tmp_path: Path) -> None:
    """It begins no epoch, so that any number of starts forgets none and waits for no disk."""
    made(tmp_path, 1)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}
    for _ in range(3):
        with closing(Engine(settings(tmp_path))) as engine:
            assert numbers(engine) == [1]
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files} == before


def test_the_first_write_after_a_start_begins_an_epoch(tmp_path: Path) -> None:
    """Its mark is written when the write is acknowledged; a copy from before it is refused."""
    path = tmp_path / "store"
    made(path, 1)
    copy = copied(path, tmp_path / "copy")
    before = identity.mark_file(path).read()[-1]
    with closing(Engine(settings(path))) as engine:
        assert identity.mark_file(path).read()[-1] == before
        put(engine, 2)
        mark = identity.mark_file(path).read()[-1]
        assert mark.epoch != before.epoch
        assert mark.revision == engine.store.revision
    put_back(copy, path)
    assert "went back" in refused(path)


def test_many_starts_are_no_data_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After many starts, an index of a forgotten epoch is rebuilt without an error."""
    monkeypatch.setattr(history, "_MAX_EPOCHS", 3)
    made(tmp_path, 1)
    for _ in range(5):
        with closing(Store(tmp_path, model="none", dimension=16)) as store:
            store.set_meta("test", b"")
    with closing(Engine(settings(tmp_path))) as engine:
        assert numbers(engine) == [1]
        assert "another history" in engine.stats().index.rebuilt


def test_a_reader_ends_when_its_store_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader ends when its database is overwritten in place with an older copy."""
    monkeypatch.setattr(readers, "_PATIENCE", 1.0)
    path = tmp_path / "store"
    made(path, 1)
    copy = copied(path, tmp_path / "copy")
    made(path, 2)
    with closing(Engine(settings(path, reader=True))) as reader:
        assert numbers(reader) == [1, 2]
        for name in ("-wal", "-shm"):
            (path / f"{DATABASE}{name}").unlink(missing_ok=True)
        (path / DATABASE).write_bytes((copy / DATABASE).read_bytes())
        assert accepted(path) == [1]
        eventually(lambda: reader.is_lost)
