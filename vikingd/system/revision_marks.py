"""Small files (marks) that name the newest acknowledged revision of a database.

The file of a mark has two halves of 512 bytes, and each half states one revision. Each commit
overwrites one half in place, the even revisions the first one, before the commit is acknowledged.
So after a kill the mark names just the last acknowledged revision. A write of a mark is not synced:
after a power failure the mark may be older, and is never newer than the database. A half that a
power failure damaged is ignored, and the other one is used.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from vikingd.system import platform
from vikingd.system import sealed_files as sealed
from vikingd.system.regular_files import descriptor_of
from vikingd.system.wal_frames import NO_LOG, open_log, read_salts, salts_of

_HALF = 512  # bytes, a sector

_encode = json.JSONEncoder().encode


class Mark(NamedTuple):
    """An acknowledged revision of a database, as one half of a mark's file states it.

    Attributes:
        store: the id of the store in the database.
        epoch: the epoch that committed the revision, see `vikingd.store.history`.
        revision: the revision.
        log: the salts of the database's write-ahead log when the mark was written, see
            `vikingd.system.wal_frames`; "" if they are unknown.
        floor: a revision that the database file has even without its log.
    """

    store: str
    epoch: str
    revision: int
    log: str = ""
    floor: int = 0


class MarkFile:
    """The file of a database's mark. One process writes it, one thread at a time.

    Args:
        path: the file of the mark.
        database: the file of the database, whose log has the same name and `-wal`.

    Attributes:
        is_synced: True if everything that was written is on disk.
        is_damaged: True if the last read found content, but both halves are damaged.
    """

    def __init__(self, path: Path, database: Path) -> None:
        self._path = path
        self._database = database
        self._last: Mark | None = None
        self._file: int | None = None  # both are open from the first write on
        self._log: int | None = None
        self.is_synced = True
        self.is_damaged = False

    def read(self) -> list[Mark]:
        """Read the file; return the marks in its undamaged halves, the newest one last.

        The list is empty without a file. A file of an older version has one half. Both marks are of
        the same history of the store (see `vikingd.store.history`): `begin` overwrites both.
        """
        self.close()
        try:
            file = descriptor_of(self._path)
        except FileNotFoundError:
            data = b""
        else:
            try:
                data = os.read(file, 2 * _HALF)
            finally:
                os.close(file)
        halves = (_mark_of(data[:_HALF]), _mark_of(data[_HALF:]))
        marks = sorted((mark for mark in halves if mark), key=lambda mark: mark.revision)
        self.is_damaged = bool(data) and not marks
        self._last = marks[-1] if marks else None
        return marks

    @property
    def floor(self) -> int:
        """A revision that the database file has even without its log, by the last mark; else 0."""
        last = self._last
        return last.floor if last and last.log == salts_of(self._database) else 0

    def write(self, store: str, epoch: str, revision: int) -> None:
        """Write a newly committed revision into one of the halves; revisions must not decrease.

        Raises:
            OSError: the mark cannot be written.
        """
        if self._log is None:
            self._log = open_log(self._database)
        if self._file is None:
            self._file = _open_whole(self._path)
        mark = self._mark_of_commit(store, epoch, revision, read_salts(self._log))
        if self._file is None:
            self._replace(mark)
        else:
            os.pwrite(self._file, _half_of(mark), revision % 2 * _HALF)
            self.is_synced = False
        self._last = mark

    def sync(self) -> None:
        """Wait until everything written is on disk; make the file again if it was deleted."""
        if self._file is None or self.is_synced or self._last is None:
            return
        with suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), os.fstat(self._file)):
                platform.sync(self._file)
                self.is_synced = True
                return
        self._replace(self._last)

    def begin(self, store: str, epoch: str, revision: int) -> None:
        """Replace the mark by one of another history; it is on disk when this returns."""
        self._last = None
        mark = self._mark_of_commit(store, epoch, revision, salts_of(self._database))
        self._replace(mark)
        self._last = mark

    def close(self) -> None:
        """Close the files; a later write opens them again."""
        for file in (self._file, self._log):
            if file is not None:
                os.close(file)
        self._file = self._log = None

    def _mark_of_commit(self, store: str, epoch: str, revision: int, log: str) -> Mark:
        """Return the mark of a revision; its `floor` is computed from the last mark and the log."""
        last = self._last
        if log == NO_LOG:
            floor = revision
        elif last is None or last.store != store or not last.log:
            floor = 0
        else:
            # With other salts SQLite has begun the log again: earlier commits are in the database.
            floor = last.floor if last.log == log else last.revision
        return Mark(store, epoch, revision, log, floor)

    def _replace(self, mark: Mark) -> None:
        self.close()
        sealed.replace_durably(self._path, (_half_of(mark) * 2).decode())
        self.is_synced = True


def _open_whole(path: Path) -> int | None:
    """Open a mark's file to overwrite its halves; None if it is missing or has no two halves."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # such as that of a pipe
        return None
    if os.fstat(file).st_size == 2 * _HALF:
        return file
    os.close(file)
    return None


def _half_of(mark: Mark) -> bytes:
    return sealed.seal(_encode(mark._asdict())).encode().ljust(_HALF, b"\n")


def _mark_of(half: bytes) -> Mark | None:
    """Decode the mark in a half of the file; return None if it is damaged."""
    try:
        record = json.loads(sealed.unseal(half.decode().rstrip("\n") + "\n"))
        return Mark(
            str(record["store"]),
            str(record["epoch"]),
            int(record["revision"]),
            str(record.get("log", "")),
            int(record.get("floor", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
