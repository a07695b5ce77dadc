"""Detection of a SQLite database that was replaced by an older state of itself.

A small file beside the database, the mark, names the newest acknowledged revision, see
`vikingd.system.revision_marks`. If the history of the database (`vikingd.store.history`) does not
contain that revision, acknowledged writes are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from vikingd.domain.errors import StoreDamaged
from vikingd.store.history import History, Point, begin_epoch, history_of
from vikingd.store.sqlite.sqlite_schema import DATABASE, connect
from vikingd.system.revision_marks import Mark, MarkFile
from vikingd.system.sealed_files import sync
from vikingd.system.wal_frames import broken_frame, log_of

MARK = "mark"


def check(
    history: History, path: Path, marks: Sequence[Mark], indexed: Point | None = None
) -> None:
    """Raise StoreDamaged if the history lacks a revision that the mark or the index names.

    Args:
        history: the history in the database.
        path: the directory of the store, for the message.
        marks: the undamaged contents of the mark's file, see `MarkFile.read`.
        indexed: the revision of the index; None: there is none. An index of another store is
            ignored.

    Raises:
        StoreDamaged: a revision is not in the history, so acknowledged writes are lost.
    """
    if indexed is not None and indexed.store != history.store:
        indexed = None
    points = [(MARK, point_of(mark)) for mark in marks]
    for name, point in (*points, *([("index", indexed)] if indexed else [])):
        if history.may_contain(point):
            continue
        if point.store != history.store:
            found = f"the database is of store {history.store or 'without an id'}"
        elif point.revision > history.revision:
            found = f"the database has revision {history.revision}"
        else:
            found = "the database has another history"
        raise rollback_error(
            path,
            f"{path / name} names revision {point.revision} of store "
            f"{point.store} (epoch {point.epoch}), but {found}",
        )


def rollback_error(path: Path, found: str) -> StoreDamaged:
    """Return the error for a database that lost acknowledged writes; `found` is the sign of it."""
    return StoreDamaged(
        f"the store in {path} went back, acknowledged writes are lost: {found}. Put the right "
        "database back, with its -wal file; or restore a backup with `vikingd restore`; or accept "
        "the loss with `vikingd serve --accept-data-loss`"
    )


def check_new(path: Path) -> None:
    """Raise StoreDamaged if a directory without a database has a mark or an index.

    Raises:
        StoreDamaged: there was a store, and its database is missing.
    """
    if (path / MARK).exists() or _current(path).exists():
        raise rollback_error(
            path, f"{DATABASE} is missing or empty, but there is an index or a mark"
        )


def check_log(path: Path) -> None:
    """Raise StoreDamaged if a damaged frame of the write-ahead log comes before valid ones.

    Raises:
        StoreDamaged: SQLite would silently ignore the transactions after that frame.
    """
    database = path / DATABASE
    if (frame := broken_frame(database)) is not None:
        name = log_of(database).name
        raise rollback_error(path, f"frame {frame} of {name} is damaged, and valid ones follow it")


def mark_file(path: Path) -> MarkFile:
    """Return the MarkFile of the store in a directory; nothing is read."""
    return MarkFile(path / MARK, path / DATABASE)


def point_of(mark: Mark) -> Point:
    """Return the point that a mark names: the acknowledged revision, its epoch, the store's id."""
    return Point(mark.store, mark.epoch, mark.revision)


def forget_index(path: Path) -> None:
    """Make the index of a store unusable, so that the next start builds a new one."""
    with suppress(FileNotFoundError):
        _current(path).unlink()
        sync(_current(path).parent)


def adopt_restored(path: Path) -> None:
    """Make a database usable that was put into a directory, such as a restored backup.

    The store gets a new epoch and a new mark. Its index becomes unusable, so that the next start
    builds one. No other process may have the store open.
    """
    with closing(connect(path / DATABASE)) as db, db.transaction():
        history = begin_epoch(db, history_of(db))
    forget_index(path)
    mark_file(path).begin(*history.point)


def _current(path: Path) -> Path:
    return path / "index" / "CURRENT"
