"""Files on disk are not trusted: identity of store and index, checksums, bounds, lost data."""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import eventually
from reader_helpers import Daemon, note, vector

import vikingd
from vikingd.client import ClientError
from vikingd.domain.errors import Corrupt, StoreDamaged
from vikingd.engine import Engine, EngineSettings
from vikingd.index.index import IndexSettings
from vikingd.index.metadata.where import parse
from vikingd.index.segment import disk as bases
from vikingd.index.segment import files
from vikingd.index.segment.arrays import FIELDS, GROWING
from vikingd.ingest.prepare import prepare
from vikingd.models.embed.provider import EmbedSettings
from vikingd.store import identity
from vikingd.store import reader as readers
from vikingd.store.store import Store
from vikingd.system.sealed_files import seal, unseal

DATABASE = "store.sqlite3"


def settings(path: Path, **options: Any) -> EngineSettings:
    """A store with given vectors, whose bases have an inverted file."""
    index = IndexSettings(minimum=10_000, ivf_rows=20)
    return EngineSettings(path, EmbedSettings(provider="none"), index, **options)


def put(engine: Engine, *numbers: int) -> None:
    """Writes a file for each number."""
    engine.put([prepare(replace(note(n), metadata={"n": n, "of": ["a", n % 3]})) for n in numbers])
    engine.put([]).result()


def numbers(engine: Engine) -> list[int]:
    """Those that are found in the snapshot, once it is known to be the store's."""
    report = engine.verify()
    assert report.ok, report.problems
    return [n for n in range(100) if engine.snapshot.find(note(n).uri) is not None]


def made(path: Path, *given: int) -> None:
    """A store with these files, all of them in the base."""
    with closing(Engine(settings(path))) as engine:
        put(engine, *given)
        engine.optimize()


def copied(path: Path, to: Path) -> Path:
    """The database as it is now, and what lies beside it."""
    return Path(shutil.copytree(path, to))


def put_back(copy: Path, path: Path) -> None:
    """Puts an older copy of the database in its place."""
    for old in path.glob(f"{DATABASE}*"):
        old.unlink()
    for old in copy.glob(f"{DATABASE}*"):
        shutil.copy(old, path)


def kept_files(path: Path) -> dict[str, bytes]:
    """The files of a store but for SQLite's shared memory and what is empty."""
    files = {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}
    return {name: data for name, data in files.items() if data and not name.endswith("-shm")}


def refused(path: Path) -> str:
    """The store is refused and stays as it is; why."""
    before = kept_files(path)
    with pytest.raises(StoreDamaged, match="accept-data-loss") as found:
        Engine(settings(path))
    assert kept_files(path) == before
    return str(found.value)


def accepted(path: Path) -> list[int]:
    """What is there once the loss is accepted, which is so at the next start too."""
    with closing(Engine(settings(path, accept_loss=True))) as engine:
        found = numbers(engine)
    with closing(Engine(settings(path))) as engine:
        assert numbers(engine) == found
    return found


# --- identity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", ["mark", "index", "both"])
def test_a_missing_database_is_no_new_store(tmp_path: Path, kept: str) -> None:
    """A mark or an index tells that there was one; nothing that is gone is found."""
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
    """By the mark, and by the index alone."""
    path = tmp_path / "store"
    made(path, 1, 2)
    copy = copied(path, tmp_path / "copy")
    made(path, 3, 4)
    put_back(copy, path)
    if evidence == "index":
        (path / "mark").unlink()
    else:
        shutil.rmtree(path / "index")
    assert "stands at revision" in refused(path)
    assert accepted(path) == [1, 2]


def with_another_history(tmp_path: Path) -> Path:
    """A store in whose place an older copy stands that got more revisions than it had."""
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
    """However high its revision: an index of what is lost is not taken for one of it."""
    path = with_another_history(tmp_path)
    assert "another history" in refused(path)
    (path / "mark").unlink()
    assert "another history" in refused(path)
    assert accepted(path) == [1, *range(10, 20)]


def test_an_index_of_another_history_is_made_anew_by_a_reader(tmp_path: Path) -> None:
    """It has no mark to tell it more, and answers from the store."""
    path = with_another_history(tmp_path)
    (path / "mark").unlink()
    with closing(Engine(settings(path, reader=True))) as engine:
        assert numbers(engine) == [1, *range(10, 20)]
        assert "another history" in engine.stats().index.rebuilt


def test_the_index_of_another_store_is_not_used(tmp_path: Path) -> None:
    """The index of another store is not used at any revision, and Stats give the reason."""
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
    """The index is made anew."""
    made(tmp_path / "store", 1)
    made(tmp_path / "other", 2)
    current = tmp_path / "store" / "index" / "CURRENT"
    current.write_text(name.format(own=current.read_text().strip()))
    with closing(Engine(settings(tmp_path / "store"))) as engine:
        assert numbers(engine) == [1]
        assert engine.stats().index.rebuilt


@pytest.mark.parametrize("cut", [False, True])
def test_a_log_that_was_deleted_or_cut_is_told(tmp_path: Path, cut: bool) -> None:
    """After a kill the last commits stand in it alone."""
    path = tmp_path / "store"
    made(path, 1)
    with closing(Engine(settings(path))) as engine:
        put(engine, 2, 3)
        engine.optimize()
        copy = copied(path, tmp_path / "copy")  # as a kill leaves it
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
    """Its index, which has none, is made anew, once."""
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
    """Once it has an epoch and a mark of its own; the index of what is lost is not used."""
    path = tmp_path / "store"
    made(path, 1)
    copy = copied(path, tmp_path / "copy")
    made(path, 2, 3)
    put_back(copy, path)
    refused(path)
    identity.adopt_restored(path)
    with closing(Engine(settings(path))) as engine:
        assert numbers(engine) == [1]


def test_many_starts_are_no_data_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of epochs that are no longer kept nothing is said but that their index is made anew."""
    monkeypatch.setattr(identity, "_KEPT", 3)
    made(tmp_path, 1)
    for _ in range(5):
        Store(tmp_path, model="none", dimension=16).close()
    with closing(Engine(settings(tmp_path))) as engine:
        assert numbers(engine) == [1]
        assert "another history" in engine.stats().index.rebuilt


def test_a_reader_ends_when_its_store_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written over in place, so that the file is still the same one."""
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


# --- damage --------------------------------------------------------------------------------------

PARTS = (
    *(f"{name}.bin" for name in FIELDS.keys() | GROWING.keys()),
    "manifest.json",
    "dir_columns",
    "file_columns",
    "ivf.faiss",
    "../CURRENT",
)


def _flip(path: Path, rng: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)


def _burst(path: Path, rng: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    at = int(rng.integers(len(data)))
    data[at : at + 64] = rng.bytes(len(data[at : at + 64]))
    path.write_bytes(data)


def _truncate(path: Path, rng: np.random.Generator) -> None:
    os.truncate(path, int(rng.integers(path.stat().st_size)))


def _zero(path: Path, rng: np.random.Generator) -> None:
    data = path.read_bytes()
    at = int(rng.integers(len(data)))
    path.write_bytes(data[:at] + bytes(len(data) - at))


def _delete(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001  # as the others
    path.unlink()


def _swap(path: Path, rng: np.random.Generator) -> None:
    others = sorted(p for p in path.parent.iterdir() if p.is_file() and p != path)
    if not others:
        return _delete(path, rng)
    other = others[int(rng.integers(len(others)))]
    kept = other.read_bytes()
    other.write_bytes(path.read_bytes())
    path.write_bytes(kept)
    return None


DAMAGES: dict[str, Callable[[Path, np.random.Generator], None]] = {
    "flip": _flip,
    "burst": _burst,
    "truncation": _truncate,
    "zeroed tail": _zero,
    "deletion": _delete,
    "swap": _swap,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store, and an older base of it."""
    path = tmp_path_factory.mktemp("whole")
    made(path / "store", *range(30))
    older = copied(path / "store" / "index", path / "older")
    with closing(Engine(settings(path / "store"))) as engine:
        engine.delete([note(3).uri]).result()
    made(path / "store", 40)
    return path / "store", older


def _answers(engine: Engine) -> object:
    snapshot = engine.snapshot
    columns = snapshot.file_columns
    return (
        numbers(engine),
        sorted(
            snapshot.file_uri(int(row))
            for row in np.flatnonzero(
                columns.mask(parse({"n": {"$gt": 11}}), len(snapshot.file_id), snapshot.revision)
            )
        ),
        snapshot.counts(0).tolist(),
    )


@pytest.mark.parametrize("damage", [*DAMAGES, "older copy"])
def test_damage_of_any_file_of_a_base_changes_no_answer(
    whole: tuple[Path, Path], tmp_path: Path, damage: str
) -> None:
    """Damage of a file changes no answer: the index is rebuilt, and Stats say so."""
    source, older = whole
    rng = np.random.default_rng(zlib.crc32(damage.encode()))
    with closing(Engine(settings(copied(source, tmp_path / "whole")))) as engine:
        expected = _answers(engine)
    base = (source / "index" / "CURRENT").read_text()
    for number, name in enumerate(PARTS):
        path = tmp_path / str(number)
        file = copied(source, path) / "index" / base / name
        before = file.read_bytes()
        if damage == "older copy":
            shutil.copy(older / (older / "CURRENT").read_text() / name, file)
        elif before or damage == "swap":
            DAMAGES[damage](file, rng)
        with closing(Engine(settings(path))) as engine:
            assert _answers(engine) == expected, name
            changed = not file.exists() or file.read_bytes() != before
            # Nothing reads the room behind the rows, nor what two equal files have exchanged.
            harmless = damage == "swap" or name.removesuffix(".bin") in GROWING
            assert engine.stats().index.rebuilt or not changed or harmless, name
        shutil.rmtree(path)


def test_no_value_of_the_manifest_may_be_another_one(
    whole: tuple[Path, Path], tmp_path: Path
) -> None:
    """The manifest's checksum reveals any other value, even a plausible one."""
    source = copied(whole[0], tmp_path / "store") / "index"
    file = source / (source / "CURRENT").read_text() / "manifest.json"
    sealed = file.read_text()
    record = json.loads(unseal(sealed))
    numbers = {"generation": 7, "revision": record["revision"] - 1, "dimension": 17}
    texts = {"model": "other", "store": "0" * 32, "epoch": "0" * 16}
    for name, value in {**numbers, **texts}.items():
        changed = json.dumps({**record, name: value}, indent=1)
        file.write_text(sealed.replace(json.dumps(record, indent=1), changed))
        assert file.read_text() != sealed, name
        with pytest.raises(Corrupt, match="manifest"):
            bases.load(source)


def test_arrays_that_do_not_fit_are_damage_whatever_the_checksum(
    whole: tuple[Path, Path], tmp_path: Path
) -> None:
    """Indexes out of range are found, even if all checksums are right."""
    source = copied(whole[0], tmp_path / "store") / "index"
    folder = source / (source / "CURRENT").read_text()
    record = json.loads(unseal((folder / "manifest.json").read_text()))
    indexing = (
        "dir_parent",
        "dir_end",
        "dir_files",
        "dir_texts",
        "dir_name_at",
        "dir_abstract_at",
        "file_dir",
        "file_texts",
        "file_name_at",
        "file_abstract_at",
        "text_file",
        "text_dir",
        "text_script",
        "text_shown_at",
        "term_at",
        "posting_text",
        "mean_slot",
        "uri_row",
        "dir_first",
        "dir_tail",
        "dir_text",
        "file_next",
        "file_previous",
        "file_tail",
        "vector_at",
    )
    for name in indexing:
        file = folder / f"{name}.bin"
        kept = file.read_bytes()
        of = record["arrays"][name]
        for value in (-700, 10**6):
            array = np.frombuffer(bytearray(kept), of["dtype"]).copy()
            array[np.prod(of["shape"]) // 2] = np.array(value).astype(array.dtype)
            file.write_bytes(array.tobytes())
            used = array[: np.prod(of["shape"])].tobytes()
            arrays = {**record["arrays"], name: {**of, "crc32": zlib.crc32(used)}}
            (folder / "manifest.json").write_text(seal(json.dumps({**record, "arrays": arrays})))
            with pytest.raises(Corrupt, match="damaged"):
                bases.load(source)
        file.write_bytes(kept)
    (folder / "manifest.json").write_text(seal(json.dumps(record)))
    assert bases.load(source) is not None


@pytest.mark.parametrize("reader", [False, True])
def test_damage_that_is_found_later_ends_the_answers(
    whole: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: bool
) -> None:
    """A writer has to end and begins anew; a reader makes its own index from the store."""
    path = copied(whole[0], tmp_path / "store")
    with closing(Engine(settings(path))) as engine:
        expected = _answers(engine)
    monkeypatch.setattr(files, "_LARGE", 64)
    index = path / "index"
    _flip(index / (index / "CURRENT").read_text() / "raw.bin", np.random.default_rng(1))
    with closing(Engine(settings(path, reader=reader))) as engine:
        if reader:
            eventually(lambda: engine.stats().index.rebuilt)
        else:
            eventually(lambda: engine.failure())
            assert engine.is_lost
            with pytest.raises(Corrupt, match="raw"):
                _ = engine.snapshot
            with pytest.raises(Corrupt, match="raw"):
                engine.optimize()
    with closing(Engine(settings(path, reader=reader))) as engine:
        eventually(lambda: engine.stats().index.rebuilt)
        eventually(lambda: engine.failure() is None)
        assert "raw" in engine.stats().index.rebuilt
        assert _answers(engine) == expected


def test_a_file_that_is_truncated_while_it_is_mapped_ends_the_daemon(tmp_path: Path) -> None:
    """The daemon ends with the file's name, and the next start rebuilds the index."""
    made(tmp_path, *range(50))
    daemon = Daemon(tmp_path)
    index = tmp_path / "index"
    file = index / (index / "CURRENT").read_text() / "text_id.bin"
    os.truncate(file, 0)
    code, said = daemon.ended()
    assert code == 1
    assert "text_id.bin was truncated" in said
    with closing(Engine(settings(tmp_path))) as engine:
        assert numbers(engine) == list(range(50))
        assert "text_id.bin was truncated" in engine.stats().index.rebuilt


def test_a_page_that_is_gone_ends_the_daemon_with_a_message(tmp_path: Path) -> None:
    """An access to a lost page ends the daemon with a message."""
    made(tmp_path, *range(50))
    never = "from vikingd.index.index import Index; Index.look = lambda self: ''"
    daemon = Daemon(tmp_path, changed=never)
    index = tmp_path / "index"
    for file in (index / (index / "CURRENT").read_text()).glob("*.bin"):
        os.truncate(file, 0)
    with pytest.raises(ClientError):
        daemon.client.find("harbour word7", vector=vector(7))
    code, said = daemon.ended()
    assert code == -signal.SIGBUS
    assert "Bus error" in said


# --- without asserts -----------------------------------------------------------------------------


def test_no_assert_does_work() -> None:
    """Under `python -O` it would not be done: no assert calls anything or reads a property."""
    found = []
    package = Path(vikingd.__file__).parent
    for path in [*package.rglob("*.py"), *(package.parent / "kernels").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assert):
                calls = [
                    call
                    for call in ast.walk(node.test)
                    if isinstance(call, ast.Await | ast.NamedExpr | ast.Yield)
                    or (isinstance(call, ast.Call) and ast.unparse(call.func) not in PURE)
                    or (isinstance(call, ast.Attribute) and call.attr.startswith("_writable"))
                ]
                if calls:
                    found.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert found == []


PURE = ("isinstance", "len")


def test_a_reader_compacts_nothing_without_asserts(tmp_path: Path) -> None:
    """It changes nothing in its writer's directory under `python -O` either."""
    made(tmp_path, 1, 2)
    code = (
        "import sys; from pathlib import Path\n"
        "from vikingd.engine import Engine, EngineSettings\n"
        "from vikingd.models.embed.provider import EmbedSettings\n"
        "from vikingd.domain.errors import ReadOnly\n"
        "engine = Engine(EngineSettings(Path(sys.argv[1]), EmbedSettings(provider='none'),"
        " reader=True))\n"
        "for act in (engine.optimize, engine.check_writable):\n"
        "    try: act()\n"
        "    except ReadOnly: print('refused')\n"
        "engine.close()\n"
    )
    before = (tmp_path / "index" / "CURRENT").read_text()
    done = subprocess.run(
        [sys.executable, "-O", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["refused", "refused"], done.stderr
    assert (tmp_path / "index" / "CURRENT").read_text() == before
