"""The points (revisions of a store's history) that a client's session has seen.

A point is a revision together with its store and epoch, the time since a writer's start. The daemon
answers from a state that contains all points that a call sends. So the point of a reply replaces
the points that its call sent. Replies of calls that ran at the same time may arrive in any order,
and may belong to different epochs; no order of such points is known. So a session holds the points
of several epochs until a later call has sent them all.

Invariant: each point that the session saw is contained in the state of a point that it holds, or
HistoryLost reported its loss to the caller.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

KEY = "vikingd-point"
"""The key of the gRPC metadata with the points, in requests and replies."""

_Epochs = dict[tuple[str, str], int]


class SeenPoints:
    """The points of a session: its newest revision of each (store, epoch); safe for any thread."""

    def __init__(self) -> None:
        self._epochs: _Epochs = {}
        self._text = ""
        self._lock = threading.Lock()

    @property
    def text(self) -> str:
        """The metadata value for the next call, with all points; "" if no point was seen."""
        return self._text

    def replied(self, sent: str, metadata: Iterable[tuple[str, Any]] | None) -> None:
        """Add the point of a successful reply, and drop the points that it replaces.

        Args:
            sent: the metadata value that the call sent.
            metadata: the trailing metadata of the reply.
        """
        points = [str(value) for name, value in metadata or () if name == KEY]
        if not points or points == [sent] == [self._text]:
            return
        with self._lock:
            for epoch, revision in _parsed(sent).items():
                if self._epochs.get(epoch, revision + 1) <= revision:
                    del self._epochs[epoch]
            for epoch, revision in _parsed(points[0]).items():
                self._epochs[epoch] = max(revision, self._epochs.get(epoch, 0))
            self._write()

    def lost(self, sent: str, point: str) -> None:
        """Replace the lost points after HistoryLost.

        A point of the same epoch that is not among the sent ones came after another HistoryLost,
        and stays.

        Args:
            sent: the points that the call sent, which are dropped.
            point: the point with which the session continues; "" for no point.
        """
        with self._lock:
            for epoch, revision in _parsed(sent).items():
                if self._epochs.get(epoch) == revision:
                    del self._epochs[epoch]
            for epoch, revision in _parsed(point).items():
                self._epochs[epoch] = max(revision, self._epochs.get(epoch, 0))
            self._write()

    def _write(self) -> None:
        self._text = ",".join(
            f"{store}.{epoch}.{revision}" for (store, epoch), revision in self._epochs.items()
        )


def _parsed(text: str) -> _Epochs:
    epochs: _Epochs = {}
    for point in text.split(",") if text else ():
        store, epoch, revision = point.split(".")
        epochs[store, epoch] = int(revision)
    return epochs
