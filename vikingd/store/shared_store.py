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
    """The changes of a store since a known point, and the point of its newest revision."""

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
        """The reason why commits of other nodes do not arrive now; "" while they do."""

    @abstractmethod
    def listen(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` after commits of other nodes."""

    @abstractmethod
    def news(self, point: Point, found: Found) -> News | None:
        """Return the changes after a point and the newest point.

        None if the point is not in the store's history: the database was replaced by an older state
        of itself.

        Args:
            point: the revision up to which the caller has all changes.
            found: called with a Damage for each damaged vector, which is left out.

        Raises:
            Corrupt: removals after the point are no longer kept, or a changed context is damaged.
            StoreAway: the database cannot be reached.
        """

    @abstractmethod
    def lead_descriptions(self) -> bool:
        """Try to become the one node that describes contexts for the next minute.

        Returns True if this node has that role; at most one node has it at a time.

        Raises:
            StoreAway: the database cannot be reached.
        """

    @abstractmethod
    def note_timeline(self) -> None:
        """Begin a new epoch if the database server changed since the last write.

        The server changes when a standby is promoted, or when the database is restored.

        Raises:
            StoreAway: the database cannot be reached.
        """
