"""The history of a store: its id, its epochs and its newest revision.

A store has a random id. An epoch is the time from one start of a writer to the next: a random value
and the revision at which it began. Revisions alone cannot tell an older copy of a database from the
original once both have new commits. With epochs they can: a point (id, epoch, revision) belongs to
the store only if its history has that epoch, and the epoch reached that revision.
"""

from __future__ import annotations

import json
import secrets
from typing import NamedTuple

from vikingd.store.connection import Connection
from vikingd.store.damage import store_damaged

_EPOCHS = "history.epochs"
_MAX_EPOCHS = 1000  # epochs that are kept; a point in an older one cannot be checked


class Point(NamedTuple):
    """A revision of a store, named with the store's id and its epoch.

    A number alone is ambiguous: after an older copy replaced a database, new commits get the
    numbers of the lost ones. They have another epoch, so no other history can have this point.

    Attributes:
        store: the id of the store; "" for one from before stores had ids.
        epoch: the random value of the epoch; "" if the store had none.
        revision: the revision.
    """

    store: str
    epoch: str
    revision: int


class History(NamedTuple):
    """The id of a store, its epochs and its newest revision.

    Attributes:
        store: the id of the store; "" for one from before stores had ids.
        epochs: the value and the first revision of each epoch, the oldest first. They are
            limited in number: the oldest ones are dropped.
        revision: the newest revision.
    """

    store: str
    epochs: tuple[tuple[str, int], ...]
    revision: int

    @property
    def point(self) -> Point:
        """The newest revision with its epoch and the store's id."""
        return Point(self.store, self.epochs[-1][0] if self.epochs else "", self.revision)

    def at(self, revision: int) -> Point:
        """Return the Point of a revision: the store's id, an epoch and the revision.

        The epoch is that in which the revision was committed. For the newest revision it is the
        newest epoch. So after an older copy replaced the database, its newest revision has a Point
        that the lost history does not contain.
        """
        if revision == self.revision:
            return self.point
        for epoch, first in reversed(self.epochs):
            if first < revision:
                return Point(self.store, epoch, revision)
        return Point(self.store, self.epochs[0][0] if self.epochs else "", revision)

    def contains(self, point: Point) -> bool:
        """Return True if this history passed through a point.

        It is False after the database was replaced by a copy older than that point.
        """
        if point.store != self.store:
            return False
        last = self.revision
        for epoch, first in reversed(self.epochs):
            if epoch == point.epoch:
                return first <= point.revision <= last
            last = first
        return False

    def may_contain(self, point: Point) -> bool:
        """Return True if this history contains a point, or if the point is too old to tell.

        Only a limited number of epochs is kept; a point before them cannot be checked.
        """
        forgotten = len(self.epochs) >= _MAX_EPOCHS and point.revision <= self.epochs[0][1]
        return self.contains(point) or (point.store == self.store and forgotten)

    def follows(self, earlier: History) -> bool:
        """Return True if this history is `earlier` or continues it.

        Both must be of the same store, and this history must have the newest epoch of `earlier`.
        """
        last = earlier.point.epoch
        known = {epoch for epoch, _ in self.epochs}
        return earlier.store == self.store and (
            not last or last in known or len(self.epochs) >= _MAX_EPOCHS
        )

    def why_unusable(self, point: Point) -> str:
        """Return the reason why an index written at this point cannot be used with the store.

        "" if it can be used.
        """
        if point.store != self.store:
            return "the index is of another store"
        if point.revision > self.revision:
            return f"the index is of revision {point.revision}, the store has {self.revision}"
        return "" if self.contains(point) else "the index is of another history of the store"


def history_of(db: Connection) -> History | None:
    """Return the history in a database; None if the database is empty.

    Raises:
        StoreDamaged: the history cannot be decoded.
    """
    state = db.get_meta("store.id", "store.revision", _EPOCHS)
    if "store.revision" not in state:
        return None
    store, revision = state.get("store.id", ""), state["store.revision"]
    try:
        epochs = tuple(
            (str(epoch), int(first)) for epoch, first in json.loads(state.get(_EPOCHS, "[]"))
        )
    except (ValueError, TypeError) as error:
        raise store_damaged("its history cannot be read") from error
    return History(store, epochs, revision)


def begin_epoch(db: Connection, history: History | None) -> History:
    """Write a new random epoch into the database, and a new store id if there is none.

    Args:
        db: a connection in a transaction, which the caller commits.
        history: the history in the database; None: the store is new.

    Returns:
        The history with the new epoch, which begins at the newest revision.
    """
    store, epochs, revision = history or History("", (), 0)
    epochs = (*epochs[1 - _MAX_EPOCHS :], (secrets.token_hex(8), revision))
    began = History(store or secrets.token_hex(16), epochs, revision)
    db.set_meta(
        {
            "store.id": began.store,
            "store.epoch": began.point.epoch,
            _EPOCHS: json.dumps(began.epochs),
        }
    )
    return began
