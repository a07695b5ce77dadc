"""Checks that the arrays of a base segment are consistent.

Kernels check no bounds. So every base that is opened is checked, even when all checksums are right.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import NEVER, SCRIPTS
from viking_kernels.rotation import rotated_size

from vikingd.domain.errors import Corrupt
from vikingd.index.segment.segment_arrays import FIELDS, GROWING, GrowingArrays, Numbering, Segment

_Array = npt.NDArray[Any]
_BLOCK = 1 << 20  # postings that are checked at a time
_SMALL = 50_000  # postings up to which a thread costs more time than it saves


def check(segment: Segment, growing: GrowingArrays, dimension: int) -> None:
    """Check the shapes of all arrays, and all values that are an index into another array.

    Args:
        segment: the base.
        growing: the growing arrays of the base; they may have unused rows at the end.
        dimension: numbers in a vector.

    Raises:
        Corrupt: an array has a wrong shape, or a value is out of its range.
    """
    _check_shapes(segment, dimension)
    if len(segment.posting_text) <= _SMALL:
        _check_terms(segment)
        _check_others(segment, growing)
        return
    with ThreadPoolExecutor(1) as beside:  # numpy releases the GIL; the terms take half of the time
        terms = beside.submit(_check_terms, segment)
        _check_others(segment, growing)
        terms.result()


def _check_others(segment: Segment, growing: GrowingArrays) -> None:
    _check_tree(segment)
    _check_texts(segment)
    _require((segment.uri_key[1:] >= segment.uri_key[:-1]).all(), "uri_key")
    _check_range("uri_row", segment.uri_row, -len(segment.file_dir), len(segment.dir_end))
    _check_growing(segment, growing)


def _require(holds: Any, what: str) -> None:
    if not bool(holds):
        raise Corrupt(f"the base is damaged: {what}")


def _check_shapes(segment: Segment, dimension: int) -> None:
    directories, files = len(segment.dir_end), len(segment.file_dir)
    lengths = {
        Numbering.DIRECTORIES: directories,
        Numbering.FILES: files,
        Numbering.TEXTS: len(segment.text_file),
        Numbering.TERMS: len(segment.term_key),
        Numbering.POSTINGS: len(segment.posting_text),
        Numbering.MEANS: len(segment.mean_count),
        Numbering.URIS: directories + files,
        Numbering.AXIS: rotated_size(dimension),
    }
    for name, (dtype, shape) in FIELDS.items():
        array = getattr(segment, name)
        _require(array.dtype == dtype, f"{name} is of another type")
        _require(array.shape[1:] == shape.inner(dimension), f"{name} is of another shape")
        if shape.numbering is not Numbering.BYTES:
            length = lengths[shape.numbering] + shape.is_offsets
            _require(len(array) == length, f"{name} is of another length")


def _check_tree(segment: Segment) -> None:
    count = len(segment.dir_end)
    own = np.arange(count)
    parent, end = segment.dir_parent, segment.dir_end
    _require(count > 0 and parent[0] == -1, "it has no root")
    _require(((parent[1:] >= 0) & (parent[1:] < own[1:])).all(), "parents of directories")
    _require(((end > own) & (end <= count)).all() and end[0] == count, "ends of directories")
    inside = (own[1:] < end[parent[1:]]) & (end[1:] <= end[parent[1:]])
    _require(inside.all(), "directories outside of their parents")
    for name, items in (("dir_files", len(segment.file_dir)), ("dir_texts", len(segment.text_dir))):
        _check_offsets(name, getattr(segment, name), items)
    for name in ("dir_name", "dir_abstract", "file_name", "file_abstract"):
        strings = getattr(segment, f"{name}s")
        _check_offsets(f"{name}_at", getattr(segment, f"{name}_at"), len(strings))
    _require((segment.counts >= 0).all(), "counts")
    _check_range("mean_slot", segment.mean_slot, -1, len(segment.mean_count))
    _require((segment.mean_count >= 0).all(), "mean_count")


def _check_texts(segment: Segment) -> None:
    owners = np.arange(len(segment.dir_end), dtype=np.int32)
    file_dir = np.repeat(owners, np.diff(segment.dir_files))
    _require(np.array_equal(segment.file_dir, file_dir), "file_dir")
    text_dir = np.repeat(owners, np.diff(segment.dir_texts))
    _require(np.array_equal(segment.text_dir, text_dir), "text_dir")
    count, files = len(segment.text_file), len(segment.file_dir)
    _check_range("text_file", segment.text_file, -1, files)
    start, end = segment.file_texts[:, 0], segment.file_texts[:, 1]
    _require(((start >= 0) & (start <= end) & (end <= count)).all(), "file_texts")
    # The texts of files stand file by file, each in the range of its file, and fill all ranges.
    of_files = np.flatnonzero(segment.text_file >= 0)
    owner = segment.text_file[of_files]
    _require((owner[1:] >= owner[:-1]).all(), "text_file")
    _require(((start[owner] <= of_files) & (of_files < end[owner])).all(), "text_file")
    _require((end - start).sum(dtype=np.int64) == len(of_files), "file_texts")
    _require(np.array_equal(segment.file_dir[owner], segment.text_dir[of_files]), "text_file")
    _require((segment.text_script < SCRIPTS).all(), "text_script")
    _require((segment.text_length >= 0).all(), "lengths of texts")
    _require((segment.text_start >= 0).all(), "lengths of texts")
    _require((segment.text_line >= 0).all(), "lines of texts")
    _check_offsets("text_shown_at", segment.text_shown_at, len(segment.text_shown))


def _check_terms(segment: Segment) -> None:
    _require((segment.term_key[1:] > segment.term_key[:-1]).all(), "term_key")
    _check_offsets("term_at", segment.term_at, len(segment.posting_text))
    text, falls = segment.posting_text, 0
    for first in range(0, len(text), _BLOCK):
        block = text[first : first + _BLOCK + 1]  # with the first of the next block
        _check_range("posting_text", block, 0, len(segment.text_file))
        falls += int(np.count_nonzero(block[1:] <= block[:-1]))
    # The texts of a term ascend. They fall only at the first posting of the next term.
    ends = segment.term_at[1:]
    starts = ends[ends > segment.term_at[:-1]][:-1]
    _require(falls == np.count_nonzero(text[starts] <= text[starts - 1]), "posting_text")


def _check_growing(segment: Segment, growing: GrowingArrays) -> None:
    room = growing.room
    for name, field in GROWING.items():
        array = getattr(growing, name)
        _require(array.ndim == 1, f"{name} is of another shape")
        _require(array.dtype == field.dtype, f"{name} is of another type")
        _require(len(array) == room.of(field), f"{name} has another room")
    sizes = segment.sizes
    used = {name: getattr(growing, name)[: sizes.of(field)] for name, field in GROWING.items()}
    _, files, texts = sizes
    own = np.arange(files)
    following, previous = used["file_next"], used["file_previous"]
    _check_range("dir_first", used["dir_first"], -1, files)
    _check_range("dir_text", used["dir_text"], -1, texts)
    _check_range("file_next", following, -1, files)
    _require(((following > own) | (following == -1)).all(), "file_next")
    _require(((previous < own) & (previous >= -1)).all(), "file_previous")
    for name in ("dir_tail", "file_tail"):
        _require((used[name] == -1).all(), name)
    for name in ("dir_died", "file_died", "text_died"):
        _require((used[name] == NEVER).all(), name)
    expected = np.where(segment.text_has_vector, 0, NEVER)
    _require((used["vector_at"] == expected).all(), "vector_at")


def _check_offsets(name: str, at: _Array, size: int) -> None:
    _require(at[0] == 0 and at[-1] == size and (at[1:] >= at[:-1]).all(), name)


def _check_range(name: str, values: _Array, low: int, high: int) -> None:
    """Raise Corrupt, with the array's name, unless all values are in [low, high)."""
    if low == 0 and values.dtype == np.int32:  # one pass: a negative number is a large unsigned one
        _require(not values.size or values.view(np.uint32).max() < high, name)
    elif values.size:
        _require(values.min() >= low and values.max() < high, name)
