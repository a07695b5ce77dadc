"""The points that a client's session has seen.

The daemon answers from a state that contains all points that a call sends. So the point of a reply
takes the place of the points that its call sent. Replies of calls that ran at the same time may
arrive in any order, and may belong to different epochs; no order of such points is known. So a
session holds the points of several epochs until a later call has sent them all.

Invariant: each point that the session saw is contained in the state of a point that it holds, or
HistoryLost told the caller of its loss.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

KEY = "vikingd-point"
"""The name of the metadata, in both directions."""

_Epochs = dict[tuple[str, str], int]


class Seen:
    """The newest revision that a session saw of each (store, epoch); safe for any thread."""

    def __init__(self) -> None:
        self._epochs: _Epochs = {}
        self._text = ""
        self._lock = threading.Lock()

    @property
    def text(self) -> str:
        """The value of the metadata for the next call; "" if no point was seen."""
        return self._text

    def replied(self, sent: str, metadata: Iterable[tuple[str, Any]] | None) -> None:
        """Take the point of a successful reply.

        Args:
            sent: the value that the call sent.
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

        An earlier point of the same epoch came after another HistoryLost, and stays.

        Args:
            sent: the points that the call sent; they are forgotten.
            point: the point with which the session goes on; "" for no point.
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
