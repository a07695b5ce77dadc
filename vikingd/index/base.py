"""The base: arrays in depth-first order, one .npy file each, memory-mapped.

Everything here can be made again from the store. A base is written once into a directory of its
own and named in `CURRENT` when it is complete; nothing in it is changed afterwards. Pages are
mapped copy-on-write: vectors that arrive late fill their slots in memory only, until the next
compaction (a restart takes them from the store).
"""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import COUNTS, F32, I8, I32, I64, SCRIPTS, U8, U16, U64, Int4
from viking_kernels.quantize import int4_room
from viking_kernels.rotation import rotated_size
from viking_kernels.simd import padded

from vikingd.errors import Corrupt
from vikingd.index import ivf, rows, tokens
from vikingd.index.columns import Columns

FORMAT = 5
_MANIFEST = "manifest.json"
_CURRENT = "CURRENT"


@dataclass(frozen=True, slots=True)
class Base:
    """The base's arrays; see viking_kernels.arrays for what rows are.

    D, F, T are its directories, files and texts, V its terms, M its means.
    """

    dir_parent: I32  # [D]
    dir_end: I32  # [D]
    dir_files: I32  # [D + 1]
    dir_texts: I32  # [D + 1]
    dir_key: U64  # [D]
    dir_type: I8  # [D] ContextType
    dir_id: I64  # [D] context ids of the store
    dir_name_at: I64  # [D + 1] names are dir_names[at[d] : at[d + 1]], UTF-8
    dir_names: U8
    dir_abstract_at: I64  # [D + 1] as dir_name_at
    dir_abstracts: U8
    file_dir: I32  # [F]
    file_texts: I32  # [F, 2]
    file_id: I64  # [F]
    file_name_at: I64  # [F + 1]
    file_names: U8
    file_abstract_at: I64  # [F + 1]
    file_abstracts: U8
    text_file: I32  # [T]
    text_dir: I32  # [T]
    text_script: U8  # [T]
    text_length: I32  # [T]
    text_id: I64  # [T] text ids of the store
    text_ordinal: I32  # [T]
    text_has_vector: U8  # [T]
    text_embeddable: U8  # [T]
    text_start: I32  # [T] where the passage starts in the content, code points
    text_shown_at: I64  # [T + 1]
    text_shown: U8  # section, NUL (which no section has), passage as it stands in the content
    codes: I8  # [T, dim padded]
    raw: F32  # [T, dim]
    scale: F32  # [T]
    error: F32  # [T]
    int4_axis: F32  # [dim rotated] for this and the next four see arrays.Int4
    int4_codes: U8
    int4_scale: F32  # [T]
    int4_error: F32  # [T]
    int4_along: F32  # [T]
    term_key: U64  # [V] rising hashes of the terms
    term_at: I64  # [V + 1] postings of term v: [at[v], at[v + 1])
    posting_text: I32
    posting_tf: U16
    counts: I64  # [D, COUNTS]
    mean_slot: I32  # [D, SCRIPTS]
    mean_count: I64  # [M]
    mean_sum: I64  # [M, dim] fixed point
    mean: F32  # [M, dim]
    mean_code: I8  # [M, dim padded] mean / scale, rounded
    mean_scale: F32  # [M]
    mean_square: F32  # [M] |mean|^2
    uri_key: U64  # [D + F] rising hashes of the URIs
    uri_row: I32  # [D + F] directory d as d, file f as -1 - f

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(D, F, T)."""
        return len(self.dir_end), len(self.file_texts), len(self.codes)

    @property
    def int4(self) -> Int4:
        """int4 codes of the texts' vectors."""
        return Int4(
            self.int4_axis, self.int4_codes, self.int4_scale, self.int4_error, self.int4_along
        )


def int4_arrays(coded: Int4) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a Base that hold int4 codes, by their names."""
    return {f"int4_{name}": array for name, array in coded._asdict().items()}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a base is of: which generation, revision, model, and how it was made."""

    generation: int
    revision: int
    dimension: int
    model: str
    format: int = FORMAT
    tokens: int = tokens.VERSION


def empty(dimension: int) -> Base:
    """A base of the root alone, without texts; its row 0 is the root as in every base."""
    counts = np.zeros((1, COUNTS), np.int64)
    counts[0, 1] = 1  # DIRECTORIES
    arrays: dict[str, npt.NDArray[Any]] = {
        "dir_parent": np.array([-1], np.int32),
        "dir_end": np.array([1], np.int32),
        "dir_files": np.zeros(2, np.int32),
        "dir_texts": np.zeros(2, np.int32),
        "dir_key": np.array([tokens.term_hash("viking://")], np.uint64),
        "dir_type": np.zeros(1, np.int8),
        "dir_id": np.array([-1], np.int64),
        "dir_name_at": np.zeros(2, np.int64),
        "dir_abstract_at": np.zeros(2, np.int64),
        "file_name_at": np.zeros(1, np.int64),
        "file_abstract_at": np.zeros(1, np.int64),
        "text_shown_at": np.zeros(1, np.int64),
        "file_texts": np.zeros((0, 2), np.int32),
        "term_at": np.zeros(1, np.int64),
        "codes": np.zeros((0, padded(dimension)), np.int8),
        "raw": np.zeros((0, dimension), np.float32),
        **int4_arrays(int4_room(0, np.zeros(rotated_size(dimension), np.float32))),
        "mean_sum": np.zeros((0, dimension), np.int64),
        "mean": np.zeros((0, dimension), np.float32),
        "mean_code": np.zeros((0, padded(dimension)), np.int8),
        "counts": counts,
        "mean_slot": np.full((1, SCRIPTS), -1, np.int32),
        "uri_key": np.array([tokens.term_hash("viking://")], np.uint64),
        "uri_row": np.zeros(1, np.int32),
    }
    kinds = {"dir_names": np.uint8, "file_names": np.uint8, "dir_abstracts": np.uint8,
             "file_abstracts": np.uint8, "text_shown": np.uint8, "text_start": np.int32,
             "file_dir": np.int32,
             "file_id": np.int64, "text_file": np.int32, "text_dir": np.int32,
             "text_script": np.uint8, "text_length": np.int32, "text_id": np.int64,
             "text_ordinal": np.int32, "text_has_vector": np.uint8, "text_embeddable": np.uint8,
             "scale": np.float32, "error": np.float32, "term_key": np.uint64,
             "posting_text": np.int32, "posting_tf": np.uint16, "mean_count": np.int64,
             "mean_scale": np.float32, "mean_square": np.float32}  # fmt: skip
    for name, kind in kinds.items():
        arrays[name] = np.zeros(0, kind)
    return Base(**arrays)


@dataclass(frozen=True, slots=True)
class Stored:
    """A base with what belongs to it; `inverted_file` is FAISS's, None below its threshold.

    `columns` are `rows.columns_of` the base, with room behind its rows; {} where none were mapped.
    """

    base: Base
    dir_columns: Columns
    file_columns: Columns
    manifest: Manifest
    inverted_file: Any
    columns: rows.Columns = field(default_factory=dict)


def save(root: Path, stored: Stored, room: int) -> Path:
    """Writes a base below `root`, makes it the current one when all of it is on disk.

    Its columns are written with room for so many more rows, which takes no blocks of the disk.
    """
    target = root / f"base-{stored.manifest.generation:08d}"
    scratch = root / f"{target.name}.tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        _write(scratch, stored, room)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)  # the store needs the room, if that ran out
        raise
    shutil.rmtree(target, ignore_errors=True)
    scratch.rename(target)
    current = root / f"{_CURRENT}.tmp"
    current.write_text(target.name)
    _fsync(current)
    current.rename(root / _CURRENT)
    _fsync(root)
    return target


def _write(folder: Path, stored: Stored, room: int) -> None:
    folder.mkdir(parents=True)
    columns = rows.columns_of(stored.base)
    for name in (spec.name for spec in fields(Base)):
        if name not in columns:
            _save(_array(folder, name), getattr(stored.base, name))
    for name, column in columns.items():
        _save(_array(folder, name), column, room)
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.npy")}
    stored.dir_columns.save(folder / "dir_columns")
    stored.file_columns.save(folder / "file_columns")
    if stored.inverted_file is not None:
        ivf.save(stored.inverted_file, folder)
    record = {spec.name: getattr(stored.manifest, spec.name) for spec in fields(Manifest)}
    (folder / _MANIFEST).write_text(json.dumps({**record, "sizes": sizes}, indent=1))
    for path in [p for p in folder.rglob("*") if p.is_file()] + [folder]:
        _fsync(path)


def _save(path: Path, array: npt.NDArray[Any], room: int = 0) -> None:
    """Saves an array as one that is longer by `room`, in which nothing is written.

    Not by NumPy: its mapping ends the process where the disk is full, and its `save` does not say
    that this is the reason.
    """
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": (len(array) + room, *array.shape[1:]),
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        file.truncate(file.tell() + room * math.prod(array.shape[1:], start=array.itemsize))


def load(root: Path) -> tuple[Stored, int] | None:
    """Maps the current base, and tells how many bytes of disk it takes; None where there is none.

    All that is asked of its directory is asked here: a reader's writer may delete it at any moment.

    Raises:
        Corrupt: a file is missing, has another size, or is of another format.
    """
    try:
        # What is no UTF-8 any more names a directory that is not there.
        path = root / (root / _CURRENT).read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    try:
        text = (path / _MANIFEST).read_text()
        manifest, sizes = _read(text)
        if (manifest.format, manifest.tokens) != (FORMAT, tokens.VERSION):
            raise Corrupt(f"{path.name} was made by another version")
        for name, size in sizes.items():
            if (path / name).stat().st_size != size:
                raise Corrupt(f"{path.name}/{name} has not the size it was written with")
        columns = {name: _mapped(_array(path, name)) for name in rows.KINDS}
        arrays = {
            spec.name: _mapped(_array(path, spec.name))
            for spec in fields(Base)
            if spec.name not in columns
        }
        for kinds, one in zip(rows.GROUPS, ("dir_end", "file_texts", "codes"), strict=True):
            for name in kinds.keys() & {spec.name for spec in fields(Base)}:
                arrays[name] = columns[name][: len(arrays[one])]
        stored = Stored(
            Base(**arrays),
            Columns.load(path / "dir_columns"),
            Columns.load(path / "file_columns"),
            manifest,
            ivf.load(path),
            columns,
        )
        # In blocks: there is room in files that takes none.
        size = sum(p.stat().st_blocks * 512 for p in path.rglob("*") if p.is_file())
        # A reader loads beside the writer, which may put another base in this one's place.
        if (path / _MANIFEST).read_text() != text:
            raise Corrupt(f"{path.name} was replaced while it was read")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise Corrupt(f"the base {path.name} can't be read: {error}") from error
    return stored, size


def _read(text: str) -> tuple[Manifest, dict[str, Any]]:
    """A manifest as `_write` writes it, with the sizes of the files of arrays by their names.

    Raises:
        ValueError: it is something else, if JSON at all.
    """
    record = json.loads(text)
    match record:
        case {
            "generation": int(),
            "revision": int(),
            "dimension": int(),
            "model": str(),
            "sizes": dict(sizes),
        }:
            del record["sizes"]
            return Manifest(**record), sizes
    raise ValueError(f"{_MANIFEST} is of another shape")


def stamp(root: Path) -> tuple[int, int] | None:
    """Tells the current base from all that were current before; None where there is none."""
    try:
        status = (root / _CURRENT).stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def remove_others(root: Path, keep: Path) -> None:
    """Deletes all bases but one; mapped pages of a deleted one live on until they are let go."""
    for path in root.glob("base-*"):
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)


def _array(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"


def _mapped(path: Path) -> npt.NDArray[Any]:
    # numba's types tell a memmap from an array; the view is the same memory.
    return np.asarray(np.load(path, mmap_mode="c" if path.stat().st_size > 4096 else None))


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
