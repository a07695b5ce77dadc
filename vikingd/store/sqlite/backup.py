"""Backups: copies of the database at one revision, and their restore. See `backup_file`.

A backup has no index: the next start builds it.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from vikingd.domain.backup_file import CHUNK, Label, bad, check_bytes, read_database
from vikingd.domain.errors import DiskFull, StoreDamaged, StoreMismatch
from vikingd.store.damage import listed, store_damaged
from vikingd.store.reads.change_reads import all_damage
from vikingd.store.sqlite.database_rewrite import SPARE, rewrite, room_for, used
from vikingd.store.sqlite.rollback_detection import MARK, adopt_restored
from vikingd.store.sqlite.sqlite_connection import SqliteConnection
from vikingd.store.sqlite.sqlite_faults import integrity_check, quick_check
from vikingd.store.sqlite.sqlite_schema import (
    DATABASE,
    MIGRATIONS,
    WITH_CHECKSUMS,
    WITH_DESCRIPTIONS,
    connect,
)
from vikingd.store.sqlite.store_directory import hold_lock
from vikingd.system import platform
from vikingd.system.regular_files import open_regular
from vikingd.system.sealed_files import sync

_PREFIX, _SUFFIX = "backup-", ".tmp"
_RESTORING = f"{DATABASE}.restoring"
_OF_STORE = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "index", MARK)

# The revision, the number of contexts and the number of texts.
_HELD = """
SELECT (SELECT value FROM meta WHERE key = 'store.revision'),
    (SELECT count(*) FROM contexts), (SELECT count(*) FROM texts)
"""


class Backup:
    """A copy of a store in an unnamed temporary file, which `close` deletes."""

    def __init__(self, database: BinaryIO, label: Label) -> None:
        self._database = database
        self._label = label
        self.revision = label.revision
        self.size = label.size + len(label.line())  # bytes

    def close(self) -> None:
        """Close the file, which deletes it."""
        self._database.close()

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the backup in blocks of at most CHUNK bytes; its label comes last."""
        digest = hashlib.sha256()
        while data := self._database.read(CHUNK):
            digest.update(data)
            yield data
        whole = asdict(self._label) | {"sha256": digest.hexdigest()}
        yield Label(**whole).line()


def copy_database(database: Path, check: Callable[[], None]) -> Backup:
    """Copy the newest revision of a database into a temporary file, and check the copy.

    Later commits do not prolong the copy. It has no free pages and no bytes of deleted texts.

    Args:
        check: called now and then; an error that it raises ends the copy.

    Raises:
        DiskFull: the disk has no room for a copy.
        StoreDamaged: the copy has damaged pages or rows.
    """
    number, name = tempfile.mkstemp(_SUFFIX, _PREFIX, database.parent)
    try:
        with closing(connect(database, read_only=True)) as db:
            size = used(db)
            if lacking := room_for(database, size):
                raise DiskFull(
                    f"a backup needs {size + SPARE:,} bytes of disk for its copy, {lacking:,} more "
                    "than are free; free some disk and try again"
                )
            rewrite(db, Path(name), check)
        with closing(connect(Path(name), read_only=True, immutable=True)) as copy:
            if findings := _findings(copy, check):
                raise store_damaged(findings)
            held: tuple[int, int, int] = copy.execute(_HELD).fetchone()
        size = os.fstat(number).st_size
        return Backup(os.fdopen(number, "rb"), Label(*held, size, "0" * 64))
    except BaseException:
        os.close(number)
        raise
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(name + suffix)


def remove_leftovers(directory: Path) -> None:
    """Delete unfinished copies that a killed daemon left in a directory."""
    for path in directory.glob(f"{_PREFIX}*{_SUFFIX}*"):
        path.unlink(missing_ok=True)


def verify_backup(path: Path, advance: Callable[[int], None] = lambda _: None) -> Label:
    """Check the bytes and the database of a complete backup, and return its label.

    `advance` is called with the number of bytes after each read.

    Raises:
        StoreDamaged: the file is not a backup, is damaged, or is of a newer schema.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        label = check_bytes(file, path, advance)
    try:
        with closing(connect(path, read_only=True, immutable=True)) as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
            findings = "; ".join(quick_check(db)) if version > len(MIGRATIONS) else _findings(db)
            if not findings:
                held = db.execute(_HELD).fetchone()
                if held != (label.revision, label.contexts, label.texts):
                    findings = f"it holds {held} (revision, contexts, texts), unlike its label"
    except (sqlite3.Error, StoreDamaged) as error:
        findings, version = str(error), 0
    if findings:
        raise bad(path, findings)
    if version > len(MIGRATIONS):
        raise bad(path, f"it has schema {version}, this vikingd supports up to {len(MIGRATIONS)}")
    return label


def _findings(db: SqliteConnection, check: Callable[[], None] = lambda: None) -> str:
    """Return a line with the first damaged pages, indexes and rows; "" for a sound database.

    Rows of an older schema have no checksums, so they are not checked.
    """
    if findings := integrity_check(db):
        return "; ".join(findings)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version < WITH_CHECKSUMS:
        return ""
    return listed(all_damage(db, check, with_descriptions=version >= WITH_DESCRIPTIONS))


def restore_into(
    directory: Path, backup: Path, *, replace: bool, advance: Callable[[int], None]
) -> tuple[Label, Path | None]:
    """Restore a backup into a directory. The next start builds the index.

    Args:
        directory: the directory of the store; it is made if it does not exist.
        backup: the file; it is not changed.
        replace: if the directory holds a store, move that aside; it is not deleted.
        advance: called with the number of bytes after each read.

    Returns:
        (the label of the backup; the directory to which an old store was moved, None without one).

    Raises:
        StoreDamaged: the backup is damaged; nothing was changed.
        StoreMismatch: the directory holds a store, and `replace` is not set.
        StoreInUse: a daemon has the store open.
    """
    label = verify_backup(backup, advance)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_lock(directory):
        there = [path for path in sorted(directory.iterdir()) if path.name in _OF_STORE]
        if there and not replace:
            raise StoreMismatch(
                f"{directory} holds a store: restore into another directory, or move that store "
                "aside with --replace"
            )
        part = directory / f"{_RESTORING}.part"
        try:
            _copy(backup, part, label)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        # While this file exists and the database does not, a start refuses the directory.
        part.rename(directory / _RESTORING)
        aside = _move_aside(directory, there) if there else None
        (directory / _RESTORING).rename(directory / DATABASE)
        sync(directory)
        adopt_restored(directory)
    return label, aside


def check_restored(directory: Path) -> None:
    """Raise StoreMismatch if a restore was interrupted after it had moved the old store aside."""
    if (directory / _RESTORING).exists() and not (directory / DATABASE).exists():
        raise StoreMismatch(
            f"a restore into {directory} was interrupted: run it again with --replace"
        )


def _move_aside(directory: Path, there: list[Path]) -> Path:
    """Move the files of a store into a new subdirectory of its directory, and return that."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    aside = Path(tempfile.mkdtemp("", f"replaced-{now}-", directory))
    for path in there:
        path.rename(aside / path.name)
        sync(directory)
    return aside


def _copy(backup: Path, part: Path, label: Label) -> None:
    """Write the database of a backup to the file `part`, and check its hash.

    Raises:
        StoreDamaged: the backup has changed since it was verified.
    """
    file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open_regular(backup) as source, open(file, "wb") as target:
        is_whole = read_database(source, label, target.write)
        target.flush()
        platform.sync(target.fileno())
    if not is_whole:
        raise StoreDamaged(
            f"{backup} changed while it was read, and nothing was restored; run the restore again"
        )
