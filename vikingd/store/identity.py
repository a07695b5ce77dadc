"""The identity and the history of a store; they prevent the use of an index of another store.

A store has a random id. Each time a writer opens it, a new epoch begins: a random value, and the
revision at which it began. An index or a mark that names (id, epoch, revision) belongs to the store
only if the store's history has that epoch and the epoch reached that revision. An older copy of the
database lacks the later epochs, even after it got new revisions.

The mark is a small file beside the database. It holds the newest point that is known to be on
disk. If the history of the database does not contain the mark, acknowledged writes are lost.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from vikingd.domain.errors import StoreDamaged
from vikingd.store.schema import DATABASE, connect, transaction
from vikingd.system import sealed_files as sealed

MARK = "mark"
_EPOCHS = "history.epochs"
_MAX_EPOCHS = 1000  # that are kept; a point in an older epoch is not used, and proves no loss


class Point(NamedTuple):
    """A revision of a store in one of its epochs."""

    store: str
    epoch: str
    revision: int


class History(NamedTuple):
    """A store's id, its epochs with the revision at which each began, and its newest revision."""

    store: str
    epochs: tuple[tuple[str, int], ...]
    revision: int

    @property
    def point(self) -> Point:
        """The newest revision, in its epoch."""
        return Point(self.store, self.epochs[-1][0] if self.epochs else "", self.revision)

    def contains(self, point: Point) -> bool:
        """Return whether the store was at a point, and was not replaced by an older copy since."""
        if point.store != self.store:
            return False
        for (epoch, first), (_, last) in zip(
            self.epochs, (*self.epochs[1:], ("", self.revision)), strict=False
        ):
            if epoch == point.epoch:
                return first <= point.revision <= last
        return False

    def may_contain(self, point: Point) -> bool:
        """Return whether the store contains a point, or the point is older than the kept epochs."""
        forgotten = len(self.epochs) >= _MAX_EPOCHS and point.revision <= self.epochs[0][1]
        return self.contains(point) or (point.store == self.store and forgotten)

    def follows(self, earlier: History) -> bool:
        """Tell a later state of the same history from one of another."""
        last = earlier.point.epoch
        known = {epoch for epoch, _ in self.epochs}
        return earlier.store == self.store and (
            not last or last in known or len(self.epochs) >= _MAX_EPOCHS
        )

    def why_not(self, point: Point) -> str:
        """Return why an index that was written at a point does not belong here; "" if it does."""
        if point.store != self.store:
            return "the index is of another store"
        if point.revision > self.revision:
            return f"the index is of revision {point.revision}, the store has {self.revision}"
        return "" if self.contains(point) else "the index is of another history of the store"

    def check(self, path: Path, mark: Point | None, indexed: Point | None) -> None:
        """Check that the store in a directory is not older than its mark and its index say.

        The point of an index of another store is ignored.

        Raises:
            StoreDamaged: the store is older.
        """
        if indexed is not None and indexed.store != self.store:
            indexed = None
        for name, point in ((MARK, mark), ("index", indexed)):
            if point is None or self.may_contain(point):
                continue
            if point.store != self.store:
                found = f"the database is of store {self.store or 'without an id'}"
            elif point.revision > self.revision:
                found = f"the database has revision {self.revision}"
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


def history_of(db: sqlite3.Connection) -> History | None:
    """Return the history in a database; None if there is no store in it."""
    keys = ("store.id", "store.revision", _EPOCHS)
    state = dict(db.execute("SELECT key, value FROM meta WHERE key IN (?, ?, ?)", keys))
    if "store.revision" not in state:
        return None
    epochs = tuple(
        (str(epoch), int(first)) for epoch, first in json.loads(state.get(_EPOCHS, "[]"))
    )
    return History(state.get("store.id", ""), epochs, state["store.revision"])


def begin_epoch(db: sqlite3.Connection, history: History | None) -> History:
    """Write a new epoch, and an id if the store has none, within the caller's transaction."""
    store, epochs, revision = history or History("", (), 0)
    epochs = (*epochs[1 - _MAX_EPOCHS :], (secrets.token_hex(8), revision))
    began = History(store or secrets.token_hex(16), epochs, revision)
    db.executemany(
        "INSERT OR REPLACE INTO meta VALUES (?, ?)",
        [
            ("store.id", began.store),
            ("store.epoch", began.point.epoch),
            (_EPOCHS, json.dumps(began.epochs)),
        ],
    )
    return began


def read_mark(path: Path) -> Point | None:
    """Return the mark of the store in a directory; None if it is missing or damaged."""
    try:
        record = json.loads(sealed.unseal((path / MARK).read_text()))
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
    with closing(connect(path / DATABASE)) as db, transaction(db):
        history = begin_epoch(db, history_of(db))
    forget_index(path)
    write_mark(path, history.point)


def _current(path: Path) -> Path:
    return path / "index" / "CURRENT"
