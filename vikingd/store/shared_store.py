"""A store that other nodes write, too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from vikingd.domain.store_changes import Change
from vikingd.store.history import Point
from vikingd.store.reads.change_reads import Found
from vikingd.store.writing import WritableStore


class News(NamedTuple):
    """The changes after a point, and the newest point."""

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
        """Return the changes after a point; None if the store went back and lost the point.

        `found` is called with damage of vectors, which are left out.

        Raises:
            Corrupt: removals after the point are no longer kept, or a changed context is damaged.
            StoreAway: the database cannot be reached.
        """

    @abstractmethod
    def note_timeline(self) -> None:
        """Begin an epoch if another server has taken the place of the one of the last write.

        Raises:
            StoreAway: the database cannot be reached.
        """
