"""The mark of a store; it shows that a database is older than it was, see `history`.

The mark is a small file beside the database. It holds the newest point that is known to be on
disk. If the history of the database does not contain the mark, acknowledged writes are lost.
"""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path

from vikingd.domain.errors import StoreDamaged
from vikingd.store.history import History, Point, begin_epoch, history_of
from vikingd.store.sqlite.schema import DATABASE, connect
from vikingd.system import sealed_files as sealed
from vikingd.system.regular_files import read_text

MARK = "mark"


def check(history: History, path: Path, mark: Point | None, indexed: Point | None) -> None:
    """Check that the store in a directory is not older than its mark and its index say.

    The point of an index of another store is ignored.

    Raises:
        StoreDamaged: the store is older.
    """
    if indexed is not None and indexed.store != history.store:
        indexed = None
    for name, point in ((MARK, mark), ("index", indexed)):
        if point is None or history.may_contain(point):
            continue
        if point.store != history.store:
            found = f"the database is of store {history.store or 'without an id'}"
        elif point.revision > history.revision:
            found = f"the database has revision {history.revision}"
        else:
            found = "the database has another history"
        raise went_back(
            path,
            f"{path / name} names revision {point.revision} of store "
            f"{point.store} (epoch {point.epoch}), but {found}",
        )


def went_back(path: Path, found: str) -> StoreDamaged:
    """Return the error for a store that is older than it was."""
    return StoreDamaged(
        f"the store in {path} went back, acknowledged writes are lost: {found}. Put the right "
        "database back, with its -wal file; or restore a backup with `vikingd restore`; or accept "
        "the loss with `vikingd serve --accept-data-loss`"
    )


def check_new(path: Path) -> None:
    """Check that no database is missing from a directory.

    Raises:
        StoreDamaged: a mark or an index shows that there was a store.
    """
    if (path / MARK).exists() or _current(path).exists():
        raise went_back(path, f"{DATABASE} is missing or empty, but there is an index or a mark")


def read_mark(path: Path) -> Point | None:
    """Return the mark of the store in a directory; None if it is missing or damaged."""
    try:
        record = json.loads(sealed.unseal(read_text(path / MARK)))
        return Point(str(record["store"]), str(record["epoch"]), int(record["revision"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_mark(path: Path, point: Point) -> None:
    """Write a point as the mark of the store in a directory; the point must be on disk."""
    sealed.replace_durably(path / MARK, sealed.seal(json.dumps(point._asdict())))


def forget_index(path: Path) -> None:
    """Disable the index of the store in a directory; the next start builds a new one."""
    with suppress(FileNotFoundError):
        _current(path).unlink()
        sealed.sync(_current(path).parent)


def adopt_restored(path: Path) -> None:
    """Make the restored database in a directory a valid store.

    It gets a new epoch and a new mark, and its index is disabled. No other process may have the
    store open.
    """
    with closing(connect(path / DATABASE)) as db, db.transaction():
        history = begin_epoch(db, history_of(db))
    forget_index(path)
    write_mark(path, history.point)


def _current(path: Path) -> Path:
    return path / "index" / "CURRENT"
