"""The files of a base: raw arrays and others, each with its size and checksum in the manifest.

What is small is checked when a base is opened, what is large by `Files.check`, in the background:
a start need not wait for gigabytes. No large array is an index into another one unless its bounds
are checked when it is opened, so that meanwhile damage may change a score or a passage and lead no
kernel outside.
"""

from __future__ import annotations

import mmap
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vikingd.domain.errors import Corrupt

_LARGE = 16 << 20
_LATER = frozenset(
    (
        "raw",
        "codes",
        "int4_codes",
        "posting_text",
        "posting_tf",
        "text_shown",
        "dir_abstracts",
        "file_abstracts",
        "mean",
        "mean_sum",
        "mean_code",
    )
)
"""What may be checked in the background: values, and rows whose bounds are checked at once."""

_CHUNK = 1 << 20
_MAPPED = 4096  # smaller files are read


class ArrayRecord(NamedTuple):
    """An array on disk: `shape[0]` rows, and room for more behind them that nothing is written to.

    `crc32` is of the rows.
    """

    dtype: str
    shape: tuple[int, ...]
    room: int
    crc32: int

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of the rows, and of the file."""
        row = np.dtype(self.dtype).itemsize
        for length in self.shape[1:]:
            row *= length
        return self.shape[0] * row, (self.shape[0] + self.room) * row


class FileRecord(NamedTuple):
    """Another file."""

    size: int
    crc32: int


def write_array(folder: Path, name: str, array: npt.NDArray[Any], room: int = 0) -> ArrayRecord:
    """Writes an array with room for more rows, which takes no blocks of the disk."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    record = ArrayRecord(array.dtype.str, array.shape, room, zlib.crc32(data))
    with _path(folder, name).open("wb") as file:
        file.write(data)
        file.truncate(record.sizes[1])
    return record


def record_of(path: Path) -> FileRecord:
    """The record of a file as it is on disk."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return FileRecord(size, _checksum(file.fileno(), size))


def read_checked(path: Path, record: FileRecord) -> bytearray:
    """The bytes of a file.

    Raises:
        Corrupt: they are not those that were written.
    """
    data = bytearray(path.read_bytes())
    if (len(data), zlib.crc32(data)) != record:
        raise Corrupt(f"{path.parent.name}/{path.name} is damaged")
    return data


class Files:
    """The files of a base that is in use, which are held open until they are let go."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sizes: list[tuple[str, mmap.mmap, int]] = []
        self._unchecked: list[tuple[str, int, ArrayRecord]] = []

    def array(self, name: str, record: ArrayRecord) -> npt.NDArray[Any]:
        """Maps an array with the room behind it, copied where it is written to.

        Raises:
            Corrupt: it is damaged, as far as it is checked now.
        """
        rows, size = record.sizes
        handle = os.open(_path(self._folder, name), os.O_RDONLY)
        try:
            if os.fstat(handle).st_size != size:
                raise Corrupt(f"{self._named(name)} has not the size it was written with")
            data: mmap.mmap | bytearray
            if size > _MAPPED:
                data = mmap.mmap(handle, size, access=mmap.ACCESS_COPY)
                self._sizes.append((name, data, size))
            else:
                data = bytearray(os.pread(handle, size, 0))
            if name in _LATER and rows > _LARGE:
                self._unchecked.append((name, os.dup(handle), record))
            elif zlib.crc32(memoryview(data)[:rows]) != record.crc32:
                raise Corrupt(f"{self._named(name)} has another checksum than it was written with")
        finally:
            os.close(handle)
        array = np.frombuffer(data, np.dtype(record.dtype), size // np.dtype(record.dtype).itemsize)
        return array.reshape(record.shape[0] + record.room, *record.shape[1:])

    def watch(self, path: Path) -> None:
        """Lets `shortened` look at another file too, which somebody else maps."""
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
        self._sizes.append((path.name, data, data.size()))

    def check(self) -> str:
        """Reads what is not checked yet; says what is damaged, "" for nothing."""
        problem = ""
        while self._unchecked:
            name, handle, record = self._unchecked.pop()
            try:
                if not problem and _checksum(handle, record.sizes[0]) != record.crc32:
                    problem = f"{self._named(name)} has another checksum than it was written with"
            except OSError as error:
                problem = f"{self._named(name)} can't be read: {error}"
            finally:
                os.close(handle)
        return problem

    def shortened(self) -> str:
        """Says which file has lost pages that are mapped; "" for none.

        To touch such a page ends the process.
        """
        return next(
            (
                f"{self._named(name)} was truncated while it is in use"
                for name, data, size in self._sizes
                if data.size() < size
            ),
            "",
        )

    def close(self) -> None:
        """Lets go of what is not checked yet."""
        while self._unchecked:
            os.close(self._unchecked.pop()[1])

    def _named(self, name: str) -> str:
        return f"{self._folder.name}/{_path(self._folder, name).name}"


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.bin"


def _checksum(handle: int, size: int) -> int:
    """Of the first `size` bytes of a file, or of as many as it has."""
    buffer, checksum, at = bytearray(min(size, _CHUNK)), 0, 0
    view = memoryview(buffer)
    while at < size:
        read = os.preadv(handle, [view[: min(_CHUNK, size - at)]], at)
        if read == 0:
            break
        checksum = zlib.crc32(view[:read], checksum)
        at += read
    return checksum if at == size else -1
