"""The files of a base: arrays and others. The manifest has the size and checksum of each.

Small files are checked when a base is opened. `Files.check` checks large ones in the background, so
a start does not wait for gigabytes. Until then, damage may change a score or a passage. It cannot
lead a kernel outside of an array: indexes into other arrays are checked at once.
"""

from __future__ import annotations

import math
import mmap
import os
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from vikingd.domain.errors import Corrupt
from vikingd.system.regular_files import descriptor_of, read_regular

_T = TypeVar("_T")

_LARGE = 16 << 20
_CHUNK = 1 << 20
_MAPPED = 4096  # smaller files are read
_BLOCK = 512  # bytes, of st_blocks


class ArrayRecord(NamedTuple):
    """The dtype, shape, unused rows and checksum of an array on disk."""

    dtype: str  # as numpy writes it
    shape: tuple[int, ...]  # of the rows
    room: int  # unused rows behind them, in the file
    crc32: int  # of the rows

    @property
    def sizes(self) -> tuple[int, int]:
        """(Bytes of the used rows, bytes of the whole file)."""
        row = np.dtype(self.dtype).itemsize * math.prod(self.shape[1:])
        return self.shape[0] * row, (self.shape[0] + self.room) * row


class FileRecord(NamedTuple):
    """Size and checksum of a file that is not an array."""

    size: int
    crc32: int


def write_array(folder: Path, name: str, array: npt.NDArray[Any], room: int = 0) -> ArrayRecord:
    """Write an array to `name`.bin, followed by space for `room` unused rows.

    The space is a hole in the file, which takes no disk blocks.

    Returns:
        The record for the manifest.
    """
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    record = ArrayRecord(array.dtype.str, array.shape, room, zlib.crc32(data))
    with (folder / f"{name}.bin").open("wb") as file:
        file.write(data)
        file.truncate(record.sizes[1])
    return record


def size_on_disk(path: Path) -> int:
    """Return the bytes of the disk blocks of a file."""
    return path.stat().st_blocks * _BLOCK


def record_of(path: Path) -> FileRecord:
    """Return the size and the checksum of a file on disk."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return FileRecord(size, _checksum(file.fileno(), size))


def read_checked(path: Path, record: FileRecord) -> bytearray:
    """Return the bytes of a file, after comparing its size and checksum with the record.

    Raises:
        Corrupt: they differ from the record.
        OSError: the file cannot be read, or is larger than recorded.
    """
    data = bytearray(read_regular(path, record.size))
    if (len(data), zlib.crc32(data)) != record:
        raise Corrupt(f"{path.parent.name}/{path.name} is damaged")
    return data


class Files:
    """The open files of a base: they are mapped into memory and checked.

    Attributes:
        size: bytes of the disk blocks of the mapped arrays. Unused rows at the end of a file have
            no blocks, and are not counted.
    """

    def __init__(self, folder: Path) -> None:
        self.size = 0
        self._folder = folder
        self._sizes: list[tuple[str, mmap.mmap, int]] = []
        self._unchecked: list[tuple[str, int, ArrayRecord]] = []
        self._opening: list[Future[Any]] = []

    def array(self, name: str, record: ArrayRecord, checked_late: bool) -> npt.NDArray[Any]:
        """Map an array, its unused rows included. Writes to it stay in memory.

        Args:
            name: the name of its file, without `.bin`.
            record: its record in the manifest.
            checked_late: leave the checksum of a large array to `check`.

        Raises:
            Corrupt: size or checksum of the file differ from the record.
        """
        rows, size = record.sizes
        handle = descriptor_of(f"{self._folder}/{name}.bin")
        try:
            status = os.fstat(handle)
            if status.st_size != size:
                raise Corrupt(f"{self._named(name)} has another size than it was written with")
            self.size += status.st_blocks * _BLOCK
            data: mmap.mmap | bytearray
            if size > _MAPPED:
                data = mmap.mmap(handle, size, access=mmap.ACCESS_COPY)
                self._sizes.append((name, data, size))
            else:
                data = bytearray(os.pread(handle, size, 0))
            if checked_late and rows > _LARGE:
                self._unchecked.append((name, os.dup(handle), record))
            elif zlib.crc32(memoryview(data)[:rows]) != record.crc32:
                raise Corrupt(f"{self._named(name)} has another checksum than it was written with")
        finally:
            os.close(handle)
        array = np.frombuffer(data, np.dtype(record.dtype), size // np.dtype(record.dtype).itemsize)
        return array.reshape(record.shape[0] + record.room, *record.shape[1:])

    def opened(self, name: str, record: FileRecord, open_file: Callable[[str], _T]) -> Future[_T]:
        """Check a file on a thread, then call `open_file` for it there.

        This is for libraries that crash on damaged files.

        Args:
            name: the name of the file.
            record: its record in the manifest.
            open_file: opens a path. The path names a descriptor, since another process may delete
                the file meanwhile.

        Returns:
            A future of the result of `open_file`. It fails with Corrupt if the file is damaged. For
            a small file the future is done.

        Raises:
            Corrupt: a small file is damaged.
        """
        handle = descriptor_of(self._folder / name)
        executor = ThreadPoolExecutor(1)
        opened = executor.submit(self._open, name, handle, record, open_file)
        executor.shutdown(wait=False)
        if record.size <= _LARGE:
            opened.result()
        self._opening.append(opened)
        return opened

    def _open(
        self, name: str, handle: int, record: FileRecord, open_file: Callable[[str], _T]
    ) -> _T:
        try:
            size = os.fstat(handle).st_size
            if FileRecord(size, _checksum(handle, size)) != record:
                raise Corrupt(f"{self._folder.name}/{name} is damaged")
            opened = open_file(f"/dev/fd/{handle}")
            self._sizes.append((name, mmap.mmap(handle, 1, access=mmap.ACCESS_READ), size))
        except (OSError, RuntimeError) as error:
            raise Corrupt(f"{self._folder.name}/{name} can't be read: {error}") from error
        finally:
            os.close(handle)
        return opened

    def check(self) -> str:
        """Check the files that were left for later. Return a description of the damage, or ""."""
        problem = ""
        for opening in self._opening:
            if error := opening.exception():
                problem = str(error)
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

    def truncated_file(self) -> str:
        """Return a message that names a file truncated since it was mapped; "" if none was.

        Reading a page that was cut off would kill the process.
        """
        for name, data, size in self._sizes:
            if data.size() < size:
                return f"{self._named(name)} was truncated while in use"
        return ""

    def close(self) -> None:
        """Close the files that wait for their check."""
        while self._unchecked:
            os.close(self._unchecked.pop()[1])

    def _named(self, name: str) -> str:
        return f"{self._folder.name}/{name}.bin"


def _checksum(handle: int, size: int) -> int:
    """Return the CRC-32 of the first `size` bytes of a file; -1 if the file is shorter."""
    buffer, checksum, at = bytearray(min(size, _CHUNK)), 0, 0
    view = memoryview(buffer)
    while at < size:
        read = os.preadv(handle, [view[: min(_CHUNK, size - at)]], at)
        if read == 0:
            break
        checksum = zlib.crc32(view[:read], checksum)
        at += read
    return checksum if at == size else -1
