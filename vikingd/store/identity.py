"""Which store this is and which history it has, so that nothing of another one is relied on.

A store has a random id. Each time a writer opens it a new epoch begins: a random value, and the
revision at which it began. An index or a mark that names (id, epoch, revision) belongs to the store
only if the store's history has that epoch and the epoch reached that revision. A copy of the
database that is older lacks the epochs after it, however many revisions it has been given since.

The mark is a small file beside the database. It holds the newest point that is known to be on
disk. A database that does not contain it went back: acknowledged writes are lost.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from vikingd.domain.errors import StoreDamaged
from vikingd.store.schema import DATABASE, connect, transaction
from vikingd.system import sealed_files as sealed

MARK = "mark"
_EPOCHS = "history.epochs"
_KEPT = 1000  # epochs; what names an older one is not relied on, and proves nothing


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
        """Where the store stands."""
        return Point(self.store, self.epochs[-1][0] if self.epochs else "", self.revision)

    def contains(self, point: Point) -> bool:
        """Whether the store has been at a point, and has not gone back behind it since."""
        if point.store != self.store:
            return False
        for (epoch, first), (_, last) in zip(
            self.epochs, (*self.epochs[1:], ("", self.revision)), strict=False
        ):
            if epoch == point.epoch:
                return first <= point.revision <= last
        return False

    def may_contain(self, point: Point) -> bool:
        """As `contains`, but True also for a point that is older than the epochs that are kept."""
        forgotten = len(self.epochs) >= _KEPT and point.revision <= self.epochs[0][1]
        return self.contains(point) or (point.store == self.store and forgotten)

    def follows(self, earlier: History) -> bool:
        """Tell a later state of the same history from one of another."""
        last = earlier.point.epoch
        known = {epoch for epoch, _ in self.epochs}
        return earlier.store == self.store and (
            not last or last in known or len(self.epochs) >= _KEPT
        )

    def why_not(self, point: Point) -> str:
        """Why an index that was written at a point is not one of this store; "" if it is."""
        if point.store != self.store:
            return "the index is of another store"
        if point.revision > self.revision:
            return f"the index is of revision {point.revision}, the store stands at {self.revision}"
        return "" if self.contains(point) else "the index is of another history of the store"

    def with_new_epoch(self) -> History:
        """The history from when a writer opens the store on."""
        began = (secrets.token_hex(8), self.revision)
        return self._replace(epochs=(*self.epochs[1 - _KEPT :], began))

    def check(self, path: Path, mark: Point | None, indexed: Point | None) -> None:
        """Looks whether the store went back behind points that it has been at.

        Args:
            path: directory of the store.
            mark: what the mark tells of.
            indexed: what the index tells of; one of another store may have come from elsewhere.

        Raises:
            StoreDamaged: it did.
        """
        if indexed is not None and indexed.store != self.store:
            indexed = None
        for name, point in ((MARK, mark), ("index", indexed)):
            if point is None or self.may_contain(point):
                continue
            if point.store != self.store:
                found = f"the database is of store {self.store or 'without an id'}"
            elif point.revision > self.revision:
                found = f"the database stands at revision {self.revision}"
            else:
                found = "the database has another history"
            raise went_back(
                path,
                f"{path / name} tells of revision {point.revision} of store "
                f"{point.store} (epoch {point.epoch}), but {found}",
            )


def went_back(path: Path, found: str) -> StoreDamaged:
    """The error of a store that is older than it was."""
    return StoreDamaged(
        f"the store in {path} went back, acknowledged writes are lost: {found}. Put the right "
        "database with its -wal file back, or restore a backup with `vikingd restore`, or accept "
        "the loss with `vikingd serve --accept-data-loss`"
    )


def check_new(path: Path) -> None:
    """Looks whether a database is missing from a directory.

    Raises:
        StoreDamaged: a mark or an index tells that a store was there.
    """
    if names_a_store(path):
        raise went_back(path, f"{DATABASE} is missing or empty, but there is an index or a mark")


def history_of(db: sqlite3.Connection) -> History | None:
    """The history that a database holds; None of a database without a store."""
    keys = ("store.id", "store.revision", _EPOCHS)
    state = dict(db.execute("SELECT key, value FROM meta WHERE key IN (?, ?, ?)", keys))
    if "store.revision" not in state:
        return None
    epochs = tuple(
        (str(epoch), int(first)) for epoch, first in json.loads(state.get(_EPOCHS, "[]"))
    )
    return History(state.get("store.id", ""), epochs, state["store.revision"])


def begin_epoch(db: sqlite3.Connection, history: History | None) -> History:
    """Writes a new epoch, and the id of a store that has none; within the caller's transaction."""
    history = history or History("", (), 0)
    began = history._replace(store=history.store or secrets.token_hex(16)).with_new_epoch()
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
    """The mark of the store in a directory; None where there is none, or a damaged one."""
    try:
        record = json.loads(sealed.unseal((path / MARK).read_text()))
        return Point(str(record["store"]), str(record["epoch"]), int(record["revision"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def write_mark(path: Path, point: Point) -> None:
    """Makes a point, which must be on disk, the mark of the store in a directory."""
    sealed.replace_durably(path / MARK, sealed.seal(json.dumps(point._asdict())))


def names_a_store(path: Path) -> bool:
    """Whether a mark or an index in a directory tells that a store was there."""
    return (path / MARK).exists() or _current(path).exists()


def forget_index(path: Path) -> None:
    """Takes the index of the store in a directory out of use; the next start makes it anew."""
    with suppress(FileNotFoundError):
        _current(path).unlink()
        sealed.sync(_current(path).parent)


def adopt_restored(path: Path) -> None:
    """Makes the database in a directory, which was restored from a backup, one that is accepted.

    It gets an epoch of its own and a new mark, and the index beside it is used no more. Nobody
    else may have the store open.
    """
    db = connect(path / DATABASE)
    try:
        with transaction(db):
            history = begin_epoch(db, history_of(db))
    finally:
        db.close()
    forget_index(path)
    write_mark(path, history.point)


def _current(path: Path) -> Path:
    return path / "index" / "CURRENT"
