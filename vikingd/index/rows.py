"""The columns of rows that a generation's tail goes on in, as they are when the tail is empty.

A base keeps them on disk with room behind its rows, so that to load it is to map them: nothing is
copied until the room is used up, and what no commit changes takes no memory of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from viking_kernels.arrays import NEVER

if TYPE_CHECKING:
    from vikingd.index.base import Base

Columns = dict[str, npt.NDArray[Any]]

DIRECTORIES = {
    "dir_parent": np.int32,
    "dir_died": np.int64,
    "dir_first": np.int32,
    "dir_tail": np.int32,
    "dir_key": np.uint64,
    "dir_id": np.int64,
    "dir_type": np.int8,
    "dir_text": np.int32,
}
FILES = {
    "file_dir": np.int32,
    "file_next": np.int32,
    "file_previous": np.int32,
    "file_died": np.int64,
    "file_tail": np.int32,
    "file_id": np.int64,
}
TEXTS = {
    "text_file": np.int32,
    "text_dir": np.int32,
    "text_script": np.uint8,
    "text_length": np.int32,
    "text_died": np.int64,
    "text_id": np.int64,
    "text_ordinal": np.int32,
    "text_embeddable": np.uint8,
    "vector_at": np.int64,
}
GROUPS = DIRECTORIES, FILES, TEXTS
KINDS = DIRECTORIES | FILES | TEXTS


def grown(old: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """A copy with room for so many rows; what is behind the old ones is not set."""
    new = np.empty((rows, *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new


def lengths(columns: Columns) -> tuple[int, int, int]:
    """How many directories, files and texts there is room for."""
    return len(columns["dir_parent"]), len(columns["file_dir"]), len(columns["text_file"])


def columns_of(base: Base) -> Columns:
    """The columns of a base that nothing has been appended to, by the names in KINDS."""
    dirs, files, texts = base.sizes
    never = [np.full(n, NEVER, np.int64) for n in (dirs, files, texts)]
    # A directory's files follow one another; its chain begins at the first of them.
    starts, ends = base.dir_files[:-1], base.dir_files[1:]
    following = np.arange(1, files + 1, dtype=np.int32)
    previous = np.arange(-1, files - 1, dtype=np.int32)
    following[ends[ends > starts] - 1] = -1
    previous[starts[ends > starts]] = -1
    own = np.full(dirs, -1, np.int32)
    abstracts = np.flatnonzero(base.text_file < 0)
    own[base.text_dir[abstracts]] = abstracts
    columns: Columns = {
        "dir_parent": base.dir_parent,
        "dir_died": never[0],
        "dir_first": np.where(ends > starts, starts, -1).astype(np.int32),
        "dir_tail": np.full(dirs, -1, np.int32),
        "dir_key": base.dir_key,
        "dir_id": base.dir_id,
        "dir_type": base.dir_type,
        "dir_text": own,
        "file_dir": base.file_dir,
        "file_next": following,
        "file_previous": previous,
        "file_died": never[1],
        "file_tail": np.full(files, -1, np.int32),
        "file_id": base.file_id,
        "text_file": base.text_file,
        "text_dir": base.text_dir,
        "text_script": base.text_script,
        "text_length": base.text_length,
        "text_died": never[2],
        "text_id": base.text_id,
        "text_ordinal": base.text_ordinal,
        "text_embeddable": base.text_embeddable,
        "vector_at": np.where(base.text_has_vector, 0, NEVER),
    }
    return {name: column.astype(KINDS[name], copy=False) for name, column in columns.items()}
