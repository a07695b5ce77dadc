"""Damaged files of the index."""

from __future__ import annotations

import json
import os
import shutil
import signal
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.index.integrity_helpers import copied, made, numbers, settings
from tests.nodes.reader_helpers import Daemon, note, vector
from tests.patience import eventually
from vikingd.client import ClientError
from vikingd.domain.errors import Corrupt
from vikingd.engine import Engine
from vikingd.index.segment import disk as bases
from vikingd.index.segment import segment_files as files
from vikingd.index.segment.segment_arrays import FIELDS, GROWING
from vikingd.system.sealed_files import seal, unseal

ARRAYS = tuple(f"{name}.bin" for name in sorted(FIELDS.keys() | GROWING.keys()))
OTHERS = ("manifest.json", "dir_columns", "file_columns", "ivf.faiss", "../CURRENT")


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
OLDER = "older copy"
KINDS = (*DAMAGES, OLDER)


def _parts(damage: str) -> tuple[str, ...]:
    """Return the files that a kind of damage is tried on.

    One function loads all arrays. A flip, which only a checksum finds, is tried on each of them;
    of the other kinds each is tried on a third, and each array meets two of these.
    """
    arrays = ARRAYS if damage == "flip" else ARRAYS[KINDS.index(damage) % 3 :: 3]
    return (*arrays, *OTHERS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a store, and the directory of an older base of it."""
    path = tmp_path_factory.mktemp("whole")
    made(path / "store", *range(30))
    older = copied(path / "store" / "index", path / "older")
    with closing(Engine(settings(path / "store"))) as engine:
        engine.writable_store.delete([note(3).uri]).result()
    made(path / "store", 40)
    return path / "store", older


def _answers(engine: Engine) -> object:
    snapshot = engine.snapshot
    columns = snapshot.file_columns
    from vikingd.index.metadata.metadata_filters import parse

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


@pytest.mark.parametrize(
    ("damage", "names"),
    [
        pytest.param("flip", ("raw.bin", "dir_columns"), id="some flips"),
        pytest.param("deletion", ("../CURRENT",), id="a deletion"),
        *(pytest.param(kind, _parts(kind), id=kind, marks=pytest.mark.deep) for kind in KINDS),
    ],
)
def test_damage_of_any_file_of_a_base_changes_no_answer(
    whole: tuple[Path, Path], tmp_path: Path, damage: str, names: Sequence[str]
) -> None:
    """An index with a damaged file is rebuilt with the same answers, and Stats say so."""
    source, older = whole
    rng = np.random.default_rng(zlib.crc32(damage.encode()))
    with closing(Engine(settings(copied(source, tmp_path / "whole")))) as engine:
        expected = _answers(engine)
    base = (source / "index" / "CURRENT").read_text()
    for number, name in enumerate(names):
        path = tmp_path / str(number)
        file = copied(source, path) / "index" / base / name
        before = file.read_bytes()
        if damage == OLDER:
            shutil.copy(older / (older / "CURRENT").read_text() / name, file)
        elif before or damage == "swap":
            DAMAGES[damage](file, rng)
        with closing(Engine(settings(path))) as engine:
            assert _answers(engine) == expected, name
            changed = not file.exists() or file.read_bytes() != before
            # Spare room after the rows is never read, and a swap of equal files changes nothing.
            harmless = damage == "swap" or name.removesuffix(".bin") in GROWING
            assert engine.stats().index.rebuilt or not changed or harmless, name
        shutil.rmtree(path)


def test_no_value_of_the_manifest_may_be_another_one(
    whole: tuple[Path, Path], tmp_path: Path
) -> None:
    """The checksum of the manifest finds a changed value, even a plausible one."""
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
    """Values that would lead a kernel out of bounds are refused, even with matching checksums."""
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
@pytest.mark.parametrize("name", ["raw.bin", "ivf.faiss"])
def test_damage_that_is_found_later_ends_the_answers(
    whole: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reader: bool,
    name: str,
) -> None:
    """On damage that is found after the start, a writer ends and a reader rebuilds its index."""
    path = copied(whole[0], tmp_path / "store")
    with closing(Engine(settings(path))) as engine:
        expected = _answers(engine)
    monkeypatch.setattr(files, "_LARGE", 64)
    index = path / "index"
    _flip(index / (index / "CURRENT").read_text() / name, np.random.default_rng(1))
    with closing(Engine(settings(path, reader=reader))) as engine:
        if reader:
            eventually(lambda: engine.stats().index.rebuilt)
        else:
            eventually(lambda: engine.failure())
            assert engine.is_lost
            with pytest.raises(Corrupt, match=name):
                _ = engine.snapshot
            with pytest.raises(Corrupt, match=name):
                engine.optimize()
    with closing(Engine(settings(path, reader=reader))) as engine:
        eventually(lambda: engine.stats().index.rebuilt)
        eventually(lambda: engine.failure() is None)
        assert name in engine.stats().index.rebuilt
        assert _answers(engine) == expected


@pytest.mark.deep
def test_a_file_that_is_truncated_while_it_is_mapped_ends_the_daemon(tmp_path: Path) -> None:
    """A daemon with a truncated, mapped file ends and names the file; the next start rebuilds."""
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


@pytest.mark.deep
def test_a_page_that_is_gone_ends_the_daemon_with_a_message(tmp_path: Path) -> None:
    """A daemon that reads a missing page of a mapped file ends with SIGBUS and a message."""
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
