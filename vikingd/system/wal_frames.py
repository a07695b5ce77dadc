"""Reads of SQLite's write-ahead log (`-wal`) without SQLite, to find damage that SQLite ignores.

SQLite reads the frames of a log up to the first one with a wrong checksum, and silently ignores the
rest. That is right if only the last transaction is broken: a power failure may leave some of its
frames unwritten. But each transaction is on disk before the next one begins. So if another
transaction follows the broken one, committed transactions are lost.

The format: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vikingd.system.regular_files import descriptor_of, open_regular

NO_LOG = "none"
"""The value for the salts of a missing or empty log; the database then has all transactions."""

_MAGIC = 0x377F0682  # one more if the checksums are of big-endian words
_VERSION = 3007000
_HEADER, _FRAME = 32, 24  # bytes of the headers of the log and of a frame
_SALTS, _SALT_BYTES = 16, 8
_CHUNK = 1 << 20  # bytes of frames that are checked at a time

_Words = NDArray[np.uint32]


class _Header(NamedTuple):
    """The header of a write-ahead log."""

    words: np.dtype[np.uint32]  # of the checksums
    page: int  # bytes
    salts: tuple[int, int]
    checksum: tuple[int, int]


def log_of(database: Path) -> Path:
    """Return the path of a database's write-ahead log."""
    return database.with_name(f"{database.name}-wal")


def salts_of(database: Path) -> str:
    """Return the salts (random numbers) in the header of a database's log; NO_LOG without a log.

    SQLite draws new salts when it begins to overwrite the log from its start. By then all frames of
    the old log are in the database and on disk.
    """
    log = open_log(database)
    try:
        return read_salts(log)
    finally:
        if log is not None:
            os.close(log)


def open_log(database: Path) -> int | None:
    """Open a database's log for reading and return its descriptor; None if it is missing."""
    try:
        return descriptor_of(log_of(database))
    except FileNotFoundError:
        return None


def read_salts(log: int | None) -> str:
    """Return the salts of a log, given its descriptor; NO_LOG without one."""
    return (log is not None and os.pread(log, _SALT_BYTES, _SALTS).hex()) or NO_LOG


def broken_frame(database: Path) -> int | None:
    """Return the number of a broken frame behind which there are committed transactions.

    None if there is none. No process may write the log meanwhile. The result is None for a log with
    a broken header, because all its frames may already be in the database.
    """
    try:
        with open_regular(log_of(database)) as file:
            header = _header(file.read(_HEADER))
            return None if header is None else _broken(file, header)
    except FileNotFoundError:
        return None


def _header(data: bytes) -> _Header | None:
    """Decode the header of a log; return None if SQLite would not accept it."""
    if len(data) < _HEADER:
        return None
    magic, version, page, _, *rest = struct.unpack(">8I", data)
    first_salt, second_salt, *stored = rest
    words: np.dtype[np.uint32] = np.dtype(">u4" if magic & 1 else "<u4")
    is_page = 512 <= page <= 65536 and not page & (page - 1)
    if magic & ~1 != _MAGIC or version != _VERSION or not is_page:
        return None
    covered = np.frombuffer(data[: _HEADER - 8], words).astype(np.uint32)[None, :]
    if _checksums(np.zeros((1, 2), np.uint32), covered).tolist() != [stored]:
        return None
    return _Header(words, page, (first_salt, second_salt), (stored[0], stored[1]))


def _broken(file: BinaryIO, header: _Header) -> int | None:
    broken: int | None = None
    number = 0
    before = np.array([header.checksum], np.uint32)  # stored in the frame before
    is_after_commit = False
    for frames in _frames(file, _FRAME + header.page):
        heads = frames[:, :_FRAME].copy().view(">u4").astype(np.uint32)
        pages, commits, stored = heads[:, 0], heads[:, 1] > 0, heads[:, 4:6]
        is_current = (heads[:, 2:4] == np.array(header.salts, np.uint32)).all(axis=1)
        is_valid = is_current & (pages > 0)
        if is_current.any():
            words = frames.view(header.words)
            covered = np.hstack((words[:, :2], words[:, _FRAME // 4 :])).astype(np.uint32)
            seeds = np.vstack((before, stored[:-1]))
            is_valid &= (_checksums(seeds, covered) == stored).all(axis=1)
        first = 0
        if broken is None:
            if is_valid.all():
                number, before = number + len(frames), stored[-1:]
                continue
            first = int(is_valid.argmin())
            broken, is_after_commit = number + first, False
        # A valid frame continues the one before it, whose own page may be the broken part.
        follows = np.concatenate(([is_after_commit], (commits & is_current)[first:-1]))
        if (follows & is_valid[first:]).any():
            return broken
        number, before = number + len(frames), stored[-1:]
        is_after_commit = bool(commits[-1] and is_current[-1])
    return None


def _frames(file: BinaryIO, size: int) -> Iterator[NDArray[np.uint8]]:
    """Yield all complete frames of a log in blocks, each an array [frames, bytes]."""
    while data := file.read(max(1, _CHUNK // size) * size):
        if count := len(data) // size:
            yield np.frombuffer(data, np.uint8, count * size).reshape(count, size)


def _checksums(seeds: _Words, words: _Words) -> _Words:
    """Return SQLite's checksum of each row of words: [rows, 2], modulo 2**32.

    SQLite computes `s0 += a + s1; s1 += b + s0` for each two words a and b. So the weight of a word
    is a Fibonacci number, which depends on the distance to the end. `seeds` [rows, 2] has the s0
    and s1 to begin with.
    """
    of_words, of_seeds = _weights(words.shape[1])
    return words @ of_words + seeds @ of_seeds


@lru_cache(2)
def _weights(words: int) -> tuple[_Words, _Words]:
    numbers = [1, 0, 1]  # from F(-1) on
    for _ in range(words):
        numbers.append((numbers[-1] + numbers[-2]) & 0xFFFFFFFF)
    fibonacci = np.array(numbers, np.uint32)
    last = fibonacci[1 : words + 1][::-1], fibonacci[2 : words + 2][::-1]
    n = words + 1  # the place of F(words)
    return (
        np.ascontiguousarray(np.stack(last, axis=1)),
        np.array([[fibonacci[n - 1], fibonacci[n]], [fibonacci[n], fibonacci[n + 1]]], np.uint32),
    )
