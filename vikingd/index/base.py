"""The base: arrays in depth-first order, a file of plain bytes each, memory-mapped.

Everything here can be made again from the store. The manifest says of which store a base is, and
has type, shape and checksum of each file, and a checksum of its own. A base is written once into a
directory of its own and named in `CURRENT` when it is complete; nothing in it is changed
afterwards. Pages are mapped copy-on-write: vectors that arrive late fill their slots in memory
only, until the next compaction (a restart takes them from the store).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import COUNTS, F32, I8, I32, I64, SCRIPTS, U8, U16, U64, Int4
from viking_kernels.quantize import int4_room
from viking_kernels.rotation import rotated_size
from viking_kernels.simd import padded

from vikingd.domain.errors import Corrupt
from vikingd.index import bounds, ivf, rows, tokens
from vikingd.index.columns import Columns
from vikingd.index.files import (
    ArrayRecord,
    FileRecord,
    Files,
    read_checked,
    record_of,
    write_array,
)
from vikingd.system.sealed_files import replace_durably, seal, sync, unseal

FORMAT = 6
_MANIFEST = "manifest.json"
_CURRENT = "CURRENT"
_CONDEMNED = "damaged: "
_METADATA = ("dir_columns", "file_columns")


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
    uri_row: I32  # [D + F] nodes, see viking_kernels.arrays.encode_file

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
    arrays = coded._asdict()
    arrays["error"] = arrays.pop("residual")  # its name on disk
    return {f"int4_{name}": array for name, array in arrays.items()}


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a base is of: which generation, store, revision, model, and how it was made.

    `store` and `epoch` are those of the store at `revision`, see its `identity`.
    """

    generation: int
    revision: int
    dimension: int
    model: str
    store: str = ""
    epoch: str = ""
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
    kinds = {
        "dir_names": np.uint8,
        "file_names": np.uint8,
        "dir_abstracts": np.uint8,
        "file_abstracts": np.uint8,
        "text_shown": np.uint8,
        "text_start": np.int32,
        "file_dir": np.int32,
        "file_id": np.int64,
        "text_file": np.int32,
        "text_dir": np.int32,
        "text_script": np.uint8,
        "text_length": np.int32,
        "text_id": np.int64,
        "text_ordinal": np.int32,
        "text_has_vector": np.uint8,
        "text_embeddable": np.uint8,
        "scale": np.float32,
        "error": np.float32,
        "term_key": np.uint64,
        "posting_text": np.int32,
        "posting_tf": np.uint16,
        "mean_count": np.int64,
        "mean_scale": np.float32,
        "mean_square": np.float32,
    }
    for name, kind in kinds.items():
        arrays[name] = np.zeros(0, kind)
    return Base(**arrays)


@dataclass(frozen=True, slots=True)
class Stored:
    """A base with what belongs to it; `inverted_file` is FAISS's, None below its threshold.

    `columns` are `rows.columns_of` the base, with room behind its rows; {} where none were mapped.
    `files` are those that were mapped.
    """

    base: Base
    dir_columns: Columns
    file_columns: Columns
    manifest: Manifest
    inverted_file: Any
    columns: rows.Columns = field(default_factory=dict)
    files: Files | None = None


def save(root: Path, stored: Stored, room: int) -> Path:
    """Writes a base below `root`, makes it the current one when all of it is on disk.

    Its columns are written with room for so many more rows, which takes no blocks of the disk.
    """
    target = _folder(root, stored.manifest.generation)
    scratch = root / f"{target.name}.tmp"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        _write(scratch, stored, room)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)  # the store needs the room, if that ran out
        raise
    shutil.rmtree(target, ignore_errors=True)
    scratch.rename(target)
    replace_durably(root / _CURRENT, target.name)
    return target


def _write(folder: Path, stored: Stored, room: int) -> None:
    folder.mkdir(parents=True)
    columns = rows.columns_of(stored.base)
    arrays = {
        spec.name: write_array(folder, spec.name, getattr(stored.base, spec.name))
        for spec in fields(Base)
        if spec.name not in columns
    }
    arrays |= {name: write_array(folder, name, column, room) for name, column in columns.items()}
    stored.dir_columns.save(folder / _METADATA[0])
    stored.file_columns.save(folder / _METADATA[1])
    names = [*_METADATA]
    if stored.inverted_file is not None:
        names.append(ivf.save(stored.inverted_file, folder))
    record = {
        **{spec.name: getattr(stored.manifest, spec.name) for spec in fields(Manifest)},
        "arrays": {name: array._asdict() for name, array in arrays.items()},
        "files": {name: record_of(folder / name)._asdict() for name in names},
    }
    (folder / _MANIFEST).write_text(seal(json.dumps(record, indent=1)))
    for path in [p for p in folder.rglob("*") if p.is_file()] + [folder]:
        sync(path)


def load(
    root: Path, why_not: Callable[[Manifest], str] = lambda _: ""
) -> tuple[Stored, int] | None:
    """Maps the current base, and tells how many bytes of disk it takes; None where there is none.

    All that is asked of its directory is asked here: a reader's writer may delete it at any moment.
    What is large is not checked yet, see `Files`.

    Args:
        root: directory of the bases.
        why_not: says why a base is of no use; "" where it is of use.

    Raises:
        Corrupt: it is of no use or of another format, or a file is missing or damaged.
    """
    path = _current(root)
    if path is None:
        return None
    files = Files(path)
    try:
        text = (path / _MANIFEST).read_text()
        manifest, arrays, others = _read(path, text)
        if problem := why_not(manifest):
            raise Corrupt(problem)
        with ThreadPoolExecutor(1) as beside:
            inverted = beside.submit(_inverted_file, path, others, files)
            columns = {name: files.array(name, arrays[name]) for name in rows.KINDS}
            found = {
                spec.name: files.array(spec.name, arrays[spec.name])
                for spec in fields(Base)
                if spec.name not in columns
            }
            for name in columns.keys() & {spec.name for spec in fields(Base)}:
                found[name] = columns[name][: arrays[name].shape[0]]
            base = Base(**found)
            bounds.check(base, columns, empty(manifest.dimension))
            metadata = _metadata(path, base, others)
            stored = Stored(base, *metadata, manifest, inverted.result(), columns, files)
        # In blocks: there is room in files that takes none.
        size = sum(p.stat().st_blocks * 512 for p in path.rglob("*") if p.is_file())
        # A reader loads beside the writer, which may put another base in this one's place.
        if (path / _MANIFEST).read_text() != text:
            raise Corrupt(f"{path.name} was replaced while it was read")
    except (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        files.close()
        raise Corrupt(f"the base {path.name} can't be read: {error}") from error
    except BaseException:
        files.close()
        raise
    return stored, size


def _metadata(path: Path, base: Base, others: dict[str, FileRecord]) -> tuple[Columns, Columns]:
    """The metadata of directories and of files."""
    of_dirs, of_files = (
        Columns.of_bytes(read_checked(path / name, others[name]), count)
        for name, count in zip(_METADATA, (len(base.dir_end), len(base.file_dir)), strict=True)
    )
    return of_dirs, of_files


def _inverted_file(path: Path, others: dict[str, FileRecord], files: Files) -> Any:
    """FAISS's inverted file; None where the base has none."""
    if ivf.FILE not in others:
        return None
    # FAISS believes what it reads.
    if record_of(path / ivf.FILE) != others[ivf.FILE]:
        raise Corrupt(f"{path.name}/{ivf.FILE} is damaged")
    inverted = ivf.load(path)
    files.watch(path / ivf.FILE)
    return inverted


def _current(root: Path) -> Path | None:
    try:
        # What is no UTF-8 any more names a directory that is not there.
        name = (root / _CURRENT).read_text(errors="replace").strip()
    except FileNotFoundError:
        if any(root.glob("base-*")):
            raise Corrupt(f"{_CURRENT} is missing") from None
        return None
    if not re.fullmatch(r"base-\d+", name):
        raise Corrupt(f"{_CURRENT} does not name a base")
    return root / name


def _read(path: Path, text: str) -> tuple[Manifest, dict[str, ArrayRecord], dict[str, FileRecord]]:
    """A manifest as `_write` writes it, with the records of arrays and other files by their names.

    Raises:
        Corrupt: it is of another version, or the base was found damaged.
        ValueError: it is something else, or damaged.
    """
    if text.startswith(_CONDEMNED):
        raise Corrupt(text.removeprefix(_CONDEMNED).strip())
    try:
        record = json.loads(unseal(text))
    except ValueError as error:
        with suppress(ValueError, AttributeError):
            if json.loads(text).get("format", FORMAT) != FORMAT:  # such a one had no checksum
                raise Corrupt(f"{path.name} was made by another version") from None
        raise ValueError(f"{_MANIFEST}: {error}") from None
    match record:
        case {
            "generation": int(),
            "revision": int(),
            "dimension": int(),
            "model": str(),
            "store": str(),
            "epoch": str(),
            "format": int(version),
            "tokens": int(known),
            "arrays": dict(arrays),
            "files": dict(others),
        }:
            if (version, known) != (FORMAT, tokens.VERSION):
                raise Corrupt(f"{path.name} was made by another version")
            del record["arrays"], record["files"]
            return (
                Manifest(**record),
                {name: _array_record(**array) for name, array in arrays.items()},
                {name: FileRecord(**other) for name, other in others.items()},
            )
    raise ValueError(f"{_MANIFEST} is of another shape")


def _array_record(dtype: str, shape: list[int], room: int, crc32: int) -> ArrayRecord:
    sizes = [*shape, room, crc32]
    if not shape or not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ValueError(f"{_MANIFEST} has an array of shape {shape}")
    return ArrayRecord(np.dtype(dtype).str, tuple(shape), room, crc32)


def manifest_of(root: Path) -> Manifest | None:
    """The manifest of the current base; None where there is none, or a damaged one."""
    try:
        path = _current(root)
        return _read(path, (path / _MANIFEST).read_text())[0] if path is not None else None
    except (Corrupt, OSError, ValueError, KeyError, TypeError):
        return None


def condemn(root: Path, generation: int, reason: str) -> None:
    """Takes a damaged base out of use for good; the next start says the reason."""
    replace_durably(_folder(root, generation) / _MANIFEST, _CONDEMNED + reason)


def _folder(root: Path, generation: int) -> Path:
    return root / f"base-{generation:08d}"


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
