"""A store in a database that several daemons (nodes) write."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from vikingd.domain.store_changes import Change
from vikingd.store.history import Point
from vikingd.store.reads.change_reads import Found
from vikingd.store.store_writes import WritableStore


class News(NamedTuple):
    """The changes of a store since a known revision, and the newest revision (a Point)."""

    changes: list[Change]
    point: Point


class SharedStore(WritableStore):
    """A store in a database that several nodes write.

    Attributes:
        is_gone: True once this node or another one has deleted it.
    """

    is_gone: bool

    @property
    @abstractmethod
    def away(self) -> str:
        """The reason why no commits of other nodes arrive now; "" while they do."""

    @abstractmethod
    def listen(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` after commits of other nodes."""

    @abstractmethod
    def news(self, point: Point, found: Found) -> News | None:
        """Return the changes after a point; None if the point is not in the store's history.

        None means that the database was replaced by an older state of itself.

        Args:
            point: the revision that the caller has.
            found: called with the damage of vectors, which are left out.

        Raises:
            Corrupt: removals after the point are no longer kept, or a changed context is damaged.
            StoreAway: the database cannot be reached.
        """

    @abstractmethod
    def lead_descriptions(self) -> bool:
        """Return whether this node describes the contexts for a minute; at most one does.

        Raises:
            StoreAway: the database cannot be reached.
        """

    @abstractmethod
    def note_timeline(self) -> None:
        """Begin an epoch if the database server is not the one of the last write.

        That is so after a standby was promoted, or after the database was restored.

        Raises:
            StoreAway: the database cannot be reached.
        """
