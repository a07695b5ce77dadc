"""A rewrite of a database: the same rows in a new file, without free pages and deleted texts."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from vikingd.store.connection import Connection
from vikingd.store.sqlite.sqlite_faults import quick_check
from vikingd.store.sqlite.sqlite_schema import connect
from vikingd.system.sealed_files import sync

SPARE = 16 << 20
"""The bytes of disk that a rewrite leaves free."""

_SUFFIX = ".rewritten"
_STEPS = 10_000  # of SQLite's machine between two checks
_INCREMENTAL = 2  # the mode of auto_vacuum in which a database can give pages back
_USED = """
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""

_log = logging.getLogger(__name__)


def used(db: Connection) -> int:
    """Return the bytes of the database's pages in use, as this connection sees them."""
    (size,) = db.execute(_USED).fetchone()
    return int(size)


def room_for(database: Path, size: int) -> int:
    """Return how many bytes of free disk are missing for a rewrite of this size; 0 if none."""
    disk = os.statvfs(database.parent)
    return max(0, size + SPARE - disk.f_bavail * disk.f_frsize)


def rewrite(db: sqlite3.Connection, target: Path, check: Callable[[], None]) -> None:
    """Copy a database into a new or empty file, without free pages.

    Args:
        db: a connection outside a transaction.
        target: the file.
        check: called now and then; an error that it raises ends the copy, and is raised here.
    """
    faults: list[BaseException] = []

    def is_over() -> bool:
        try:
            check()
        except BaseException as error:
            faults.append(error)
        return bool(faults)

    db.set_progress_handler(is_over, _STEPS)
    try:
        db.execute("VACUUM INTO ?", (str(target),))
    except sqlite3.OperationalError:
        if faults:
            raise faults[0] from None
        raise
    finally:
        db.set_progress_handler(None, 0)


def remove_rewritten(database: Path) -> None:
    """Delete the unfinished file of a conversion whose process was killed."""
    for path in database.parent.glob(f"{database.name}{_SUFFIX}*"):
        path.unlink(missing_ok=True)


def convert(database: Path) -> None:
    """Rewrite a database of an older vikingd once, so that deleted rows can free disk space later.

    If the disk is full, the database is damaged, or another process reads it, the database stays
    unchanged and a warning is logged. No process may write it meanwhile.
    """
    remove_rewritten(database)
    target = database.with_name(f"{database.name}{_SUFFIX}")
    try:
        why_unusable = "" if _is_new(database) else _convert(database, target)
    except (sqlite3.Error, OSError) as error:
        why_unusable = str(error)
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY:
            why_unusable = "another process reads the store; start the daemon once without readers"
    if why_unusable:
        remove_rewritten(database)
        _log.warning("the store cannot give back the room of deleted contexts: %s", why_unusable)


def _is_new(database: Path) -> bool:
    """Return True if the database needs no conversion, or does not exist yet."""
    if not database.exists() or database.stat().st_size == 0:
        return True
    with closing(connect(database, read_only=True)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (mode,) = db.execute("PRAGMA auto_vacuum").fetchone()
    return not version or mode == _INCREMENTAL


def _convert(database: Path, target: Path) -> str:
    """Rewrite a database in place. Return "", or the reason why this was not possible."""
    with closing(connect(database)) as db:
        size = used(db)
        if lacking := room_for(database, size):
            return f"{lacking:,} more bytes of free disk are needed to rewrite it at a start"
        if findings := quick_check(db):
            return "; ".join(findings)
        _log.info("the database is rewritten once, to give back room later: %s bytes", f"{size:,}")
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("PRAGMA journal_mode = DELETE")  # a file with a log must not be replaced
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of the new database
        rewrite(db, target, lambda: None)
    sync(target)
    target.chmod(0o600)
    target.replace(database)
    sync(database.parent)
    return ""
