"""Whether the arrays of a base fit together: whatever indexes another array stays inside it.

Kernels check no bounds. So this is asked of every base that is opened, whatever its checksums say.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import NEVER, SCRIPTS

from vikingd.domain.errors import Corrupt
from vikingd.index import rows

if TYPE_CHECKING:
    from vikingd.index.base import Base

_Array = npt.NDArray[Any]
_BLOCK = 1 << 20


def check(base: Base, columns: rows.Columns, like: Base) -> None:
    """Checks the shapes of all arrays, and all that is an index into another one.

    `like` is an empty base of the same dimension.

    Raises:
        Corrupt: something does not fit.
    """
    _check_shapes(base, like)
    _check_tree(base)
    _check_texts(base)
    _check_terms(base)
    _check_uris(base)
    _check_columns(base, columns)


def _require(holds: Any, what: str) -> None:
    if not bool(holds):
        raise Corrupt(f"the base is damaged: {what}")


def _check_shapes(base: Base, like: Base) -> None:
    directories, files, texts = len(base.dir_end), len(base.file_dir), len(base.text_file)
    terms, postings = len(base.term_key), len(base.posting_text)
    means = len(base.mean_count)
    lengths = {
        "dir_files": directories + 1,
        "dir_texts": directories + 1,
        "dir_name_at": directories + 1,
        "dir_abstract_at": directories + 1,
        "file_name_at": files + 1,
        "file_abstract_at": files + 1,
        "text_shown_at": texts + 1,
        "term_at": terms + 1,
        "counts": directories,
        "uri_key": directories + files,
        "uri_row": directories + files,
        "int4_axis": len(like.int4_axis),
    }
    plain = {
        "dir": directories,
        "file": files,
        "text": texts,
        "term": terms,
        "posting": postings,
        "mean": means,
    }
    of_texts = (
        "codes",
        "raw",
        "scale",
        "error",
        "int4_codes",
        "int4_scale",
        "int4_error",
        "int4_along",
    )
    lengths |= dict.fromkeys(of_texts, texts) | {"mean": means, "mean_slot": directories}
    strings = ("dir_names", "dir_abstracts", "file_names", "file_abstracts", "text_shown")
    for spec in fields(base):
        name, array, model = spec.name, getattr(base, spec.name), getattr(like, spec.name)
        _require(array.dtype == model.dtype, f"{name} is of another type")
        _require(array.shape[1:] == model.shape[1:], f"{name} is of another shape")
        if name not in strings:
            length = lengths.get(name, plain.get(name.split("_")[0]))
            _require(len(array) == length, f"{name} is of another length")


def _check_tree(base: Base) -> None:
    count = len(base.dir_end)
    own = np.arange(count)
    parent, end = base.dir_parent, base.dir_end
    _require(count > 0 and parent[0] == -1, "it has no root")
    _require(((parent[1:] >= 0) & (parent[1:] < own[1:])).all(), "parents of directories")
    _require(((end > own) & (end <= count)).all() and end[0] == count, "ends of directories")
    inside = (own[1:] < end[parent[1:]]) & (end[1:] <= end[parent[1:]])
    _require(inside.all(), "directories outside of their parents")
    for name, items in (("dir_files", len(base.file_dir)), ("dir_texts", len(base.text_dir))):
        _check_offsets(name, getattr(base, name), items)
    for name in ("dir_name", "dir_abstract", "file_name", "file_abstract"):
        _check_offsets(f"{name}_at", getattr(base, f"{name}_at"), len(getattr(base, f"{name}s")))
    _require((base.counts >= 0).all(), "counts")
    _check_range("mean_slot", base.mean_slot, -1, len(base.mean_count))
    _require((base.mean_count >= 0).all(), "mean_count")


def _check_texts(base: Base) -> None:
    owners = np.arange(len(base.dir_end), dtype=np.int32)
    _require(np.array_equal(base.file_dir, np.repeat(owners, np.diff(base.dir_files))), "file_dir")
    _require(np.array_equal(base.text_dir, np.repeat(owners, np.diff(base.dir_texts))), "text_dir")
    count, files = len(base.text_file), len(base.file_dir)
    _check_range("text_file", base.text_file, -1, files)
    start, end = base.file_texts[:, 0], base.file_texts[:, 1]
    _require(((start >= 0) & (start <= end) & (end <= count)).all(), "file_texts")
    # The texts of files, in the order of the files, are just those that have a file.
    of_files = np.flatnonzero(base.text_file >= 0)
    sizes = (end - start).astype(np.int64)
    _require(sizes.sum() == len(of_files), "file_texts")
    at = np.cumsum(sizes) - sizes
    rows_of_files = np.repeat(start - at, sizes) + np.arange(len(of_files))
    owner = np.repeat(np.arange(files, dtype=np.int32), sizes)
    _require(np.array_equal(rows_of_files, of_files), "file_texts")
    _require(np.array_equal(base.text_file[of_files], owner), "text_file")
    _require(np.array_equal(base.file_dir[owner], base.text_dir[of_files]), "text_file")
    _require((base.text_script < SCRIPTS).all(), "text_script")
    _require((base.text_length >= 0).all() and (base.text_start >= 0).all(), "lengths of texts")
    _check_offsets("text_shown_at", base.text_shown_at, len(base.text_shown))


def _check_terms(base: Base) -> None:
    _require((base.term_key[1:] > base.term_key[:-1]).all(), "term_key")
    _check_offsets("term_at", base.term_at, len(base.posting_text))
    text, at = base.posting_text, base.term_at
    for first in range(0, len(text), _BLOCK):
        block = text[first : first + _BLOCK + 1]  # with the first of the next one
        _check_range("posting_text", block, 0, len(base.text_file))
        # The texts of a term rise; they fall where the next term begins.
        falls = np.flatnonzero(block[1:] <= block[:-1]) + first + 1
        _require((at[np.searchsorted(at, falls)] == falls).all(), "posting_text")


def _check_uris(base: Base) -> None:
    _require((base.uri_key[1:] >= base.uri_key[:-1]).all(), "uri_key")
    _check_range("uri_row", base.uri_row, -len(base.file_dir), len(base.dir_end))


def _check_columns(base: Base, columns: rows.Columns) -> None:
    directories, files, texts = base.sizes
    for kinds in rows.GROUPS:
        room = {len(columns[name]) for name in kinds}
        _require(len(room) == 1, f"{next(iter(kinds))} has another room")
        for name, kind in kinds.items():
            _require(columns[name].dtype == kind, f"{name} is of another type")
            _require(columns[name].ndim == 1, f"{name} is of another shape")
    own = np.arange(files)
    following, previous = columns["file_next"][:files], columns["file_previous"][:files]
    _check_range("dir_first", columns["dir_first"][:directories], -1, files)
    _check_range("dir_text", columns["dir_text"][:directories], -1, texts)
    _check_range("file_next", following, -1, files)
    _require(((following > own) | (following == -1)).all(), "file_next")
    _require(((previous < own) & (previous >= -1)).all(), "file_previous")
    for name, count in (("dir_tail", directories), ("file_tail", files)):
        _require((columns[name][:count] == -1).all(), name)
    for name, count in (("dir_died", directories), ("file_died", files), ("text_died", texts)):
        _require((columns[name][:count] == NEVER).all(), name)
    vector_at = columns["vector_at"][:texts]
    _require((vector_at == np.where(base.text_has_vector, 0, NEVER)).all(), "vector_at")


def _check_offsets(name: str, at: _Array, size: int) -> None:
    _require(at[0] == 0 and at[-1] == size and (at[1:] >= at[:-1]).all(), name)


def _check_range(name: str, values: _Array, low: int, high: int) -> None:
    """Whether all values are in [low, high)."""
    if values.size:
        _require(values.min() >= low and values.max() < high, name)
