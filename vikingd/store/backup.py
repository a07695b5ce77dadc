"""Backups: a copy of the database at one revision, with a last line that tells what it holds.

A backup is a file that SQLite opens like any other: it reads as far as the database goes. The line
behind that has the number of its bytes and their SHA-256, so that damage of the file is seen. The
index is not part of it: it is made anew from the store.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from vikingd.domain.errors import DiskFull, StoreDamaged
from vikingd.store.faults import quick_check
from vikingd.store.schema import MIGRATIONS, connect

CHUNK = 1 << 20
_MARK = b"\nvikingd-backup "
_LONGEST = 4096  # bytes of the last line
_PAGES = 256  # copied between two looks whether to go on
_PREFIX, _SUFFIX = "backup-", ".tmp"
_SPARE = 16 << 20  # bytes of disk that a copy leaves to the store


@dataclass(frozen=True, slots=True)
class Label:
    """The last line of a backup.

    Attributes:
        revision: of the store.
        contexts: that it holds, and `texts`.
        size: bytes of the database, which are all before the line.
        sha256: of these.
    """

    revision: int
    contexts: int
    texts: int
    size: int
    sha256: str

    def line(self) -> bytes:
        """The line as it stands in the file."""
        return _MARK + json.dumps(asdict(self)).encode() + b"\n"


class Backup:
    """A copy of a store, on disk without a name, so that it is gone when it is closed.

    Attributes:
        revision: of the store.
        size: bytes of the file.
    """

    def __init__(self, database: BinaryIO, label: Label) -> None:
        self._database = database
        self._label = label
        self.revision = label.revision
        self.size = label.size + len(label.line())

    def close(self) -> None:
        """Gives its room back."""
        self._database.close()

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the file, in pieces of at most CHUNK."""
        digest = hashlib.sha256()
        while data := self._database.read(CHUNK):
            digest.update(data)
            yield data
        whole = asdict(self._label) | {"sha256": digest.hexdigest()}
        yield Label(**whole).line()


def copied(db: sqlite3.Connection, database: Path, check: Callable[[], None]) -> Backup:
    """A copy of what a connection sees in its transaction.

    One pass over the pages of one snapshot: it ends however many commits come meanwhile.

    Args:
        db: within a read transaction.
        database: the file that it reads.
        check: is called now and then, and raises to break the copy off.

    Raises:
        DiskFull: the disk has no room for a copy.
    """
    (revision,) = db.execute("SELECT value FROM meta WHERE key = 'store.revision'").fetchone()
    counts = _counts(db)
    size = db.execute("PRAGMA page_count").fetchone()[0] * _page_size(db)
    disk = os.statvfs(database.parent)
    if (free := disk.f_bavail * disk.f_frsize) < size + _SPARE:
        raise DiskFull(
            f"a backup needs {size + _SPARE:,} bytes of disk for a while, {free:,} are free; "
            "free some disk and make it again"
        )
    number, name = tempfile.mkstemp(_SUFFIX, _PREFIX, database.parent)
    try:
        with closing(sqlite3.connect(name, isolation_level=None)) as target:
            target.execute("PRAGMA synchronous = OFF")  # it is gone after a crash
            db.backup(target, pages=_PAGES, progress=lambda *_: check())
            # A file of its own, without a log beside it.
            target.execute("PRAGMA journal_mode = DELETE")
        size = os.fstat(number).st_size
        return Backup(os.fdopen(number, "rb"), Label(revision, *counts, size, "0" * 64))
    except BaseException:
        os.close(number)
        raise
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(name + suffix)


def remove_leftovers(directory: Path) -> None:
    """Removes the copies of a daemon that was killed."""
    for path in directory.glob(f"{_PREFIX}*{_SUFFIX}*"):
        path.unlink(missing_ok=True)


def checked(path: Path, advance: Callable[[int], None] = lambda _: None) -> Label:
    """Reads a backup whole, as bytes and as a database; what it holds.

    Args:
        path: the file.
        advance: is told how many bytes were just read.

    Raises:
        StoreDamaged: it is no backup, or not as it was made.
        OSError: it cannot be read.
    """
    label = _label(path)
    digest = hashlib.sha256()
    with path.open("rb") as file:
        left = label.size
        while left and (data := file.read(min(CHUNK, left))):
            digest.update(data)
            left -= len(data)
            advance(len(data))
    if digest.hexdigest() != label.sha256:
        raise _bad(path, "its bytes are not those that were written")
    try:
        with closing(connect(path, read_only=True, immutable=True)) as db:
            findings = quick_check(db)
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if not findings:
                (revision,) = db.execute(
                    "SELECT value FROM meta WHERE key = 'store.revision'"
                ).fetchone()
                held = (revision, *_counts(db))
                if held != (label.revision, label.contexts, label.texts):
                    findings = [f"it holds {held}, not what it says"]
    except sqlite3.Error as error:
        findings, version = [str(error)], 0
    if findings:
        raise _bad(path, "; ".join(findings))
    if version > len(MIGRATIONS):
        raise _bad(path, f"it has schema {version}, this vikingd knows up to {len(MIGRATIONS)}")
    return label


def _label(path: Path) -> Label:
    with path.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - _LONGEST))
        tail = file.read()
    at = tail.rfind(_MARK)
    try:
        if at < 0:
            raise ValueError
        label = Label(**json.loads(tail[at + len(_MARK) :]))
        fits = label.line() == tail[at:] and label.size == length - len(tail) + at
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise _bad(path, "it has no valid last line, as a backup that is whole has")
    return label


def _bad(path: Path, why: str) -> StoreDamaged:
    return StoreDamaged(f"{path} is no backup that can be used: {why}; take another one")


def _counts(db: sqlite3.Connection) -> tuple[int, int]:
    row: tuple[int, int] = db.execute(
        "SELECT (SELECT count(*) FROM contexts), (SELECT count(*) FROM texts)"
    ).fetchone()
    return row


def _page_size(db: sqlite3.Connection) -> int:
    (size,) = db.execute("PRAGMA page_size").fetchone()
    return int(size)
