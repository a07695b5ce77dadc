"""The consistency of a client's session, whichever process answers each of its calls.

A point is a revision of a store, with the store's id and epoch, see `vikingd.store.history`. A
client sends the points that it has seen in the metadata `vikingd-point`; the value is empty in its
first call. Its call is answered from a state that contains all of these points. The reply has the
point of that state or of a later one. So a session sees its own writes, and never an older state
than before.

Invariant of a client: each point that its session saw is contained in the state of a point that the
client keeps, until HistoryLost tells it of a loss. See `vikingd.client.session_points`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from vikingd.domain.errors import HistoryLost, InvalidField, RevisionNotReached, StoreAway
from vikingd.engine import Engine
from vikingd.lanes.queues import Deadline, ending_before
from vikingd.store.history import History, Point
from vikingd.store.shared_store import SharedStore
from vikingd.store.store_writes import WritableStore

KEY = "vikingd-point"
"""The key of the gRPC metadata with the points, in requests and replies."""

_POINT = re.compile(r"([0-9a-f]{0,64})\.([0-9a-f]{0,64})\.([0-9]{1,18})")
_MOST = 16  # points of a call; a client has more than one only while calls overtake each other

FROM_INDEX = frozenset(("Find", "BatchFind", "Search", "Retrieve"))
"""RPCs that answer from the snapshot alone; all others read or write the store too."""


def points_of(metadata: Iterable[tuple[str, Any]]) -> tuple[Point, ...] | None:
    """Return the points in the metadata of a call; None if the call has no `vikingd-point`.

    Raises:
        InvalidField: the metadata is malformed.
    """
    texts = [value for name, value in metadata if name == KEY]
    if not texts:
        return None
    given = [text for value in texts for text in str(value).split(",") if text]
    if len(given) > _MOST:
        raise InvalidField(KEY, f"has {len(given)} points, at most {_MOST} are allowed")
    return tuple(map(_parsed, given))


def text_of(point: Point) -> str:
    """Return a point as text for metadata: "STORE.EPOCH.REVISION"."""
    return f"{point.store}.{point.epoch}.{point.revision}"


def _parsed(text: str) -> Point:
    found = _POINT.fullmatch(text)
    if found is None:
        raise InvalidField(
            KEY,
            "is not a point: send the value of the newest reply unchanged, or an empty one",
        )
    return Point(found[1], found[2], int(found[3]))


class SessionCall:
    """A call of a session. Call `begin` before its answer is made, and `end` after it."""

    def __init__(self, engine: Engine, method: str, points: tuple[Point, ...]) -> None:
        self._engine = engine
        self._points = points
        self._is_from_index = method in FROM_INDEX
        # A store that this process alone writes never goes back while it is open.
        store = engine.store
        self._is_alone = isinstance(store, WritableStore) and not isinstance(store, SharedStore)
        self._began: Point | None = None

    async def begin(self, deadline: Deadline) -> None:
        """Wait until the snapshot contains all points of the session.

        Raises:
            HistoryLost: the store has lost the revision of a point.
            RevisionNotReached: the snapshot did not reach the points within the deadline.
            StoreAway: the database cannot be reached; another node may have the points.
            Stopping: this reader cannot follow its store any more.
        """
        if not self._is_reached():
            history = await asyncio.to_thread(self._engine.store.read_history)
            await self._check_contains(history, self._points)
            await self._wait(deadline)
        self._began = self._engine.point

    def _is_reached(self) -> bool:
        engine = self._engine
        index = engine.point
        if self._is_alone and all(
            point[:2] == index[:2] and point.revision <= index.revision for point in self._points
        ):
            return True
        history = engine.store.history
        return history.may_contain(index) and all(
            point.revision <= index.revision and history.may_contain(point)
            for point in self._points
        )

    async def _wait(self, deadline: Deadline) -> None:
        engine, loop, decided = self._engine, asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(decided.set)

        with engine.listening(wake), suppress(TimeoutError):
            async with ending_before(deadline):
                while not (engine.is_lost or engine.away or self._is_reached()):
                    await decided.wait()
                    decided.clear()
        if self._is_reached():
            return
        revision = max((point.revision for point in self._points), default=0)
        engine.wait_for_revision(revision, 0)  # raises the reason if the revision is not reached
        raise RevisionNotReached(
            f"the index did not reach the history of revision {revision} in time"
        )

    async def end(self) -> str:
        """Return the point for the metadata of the reply, as text.

        Raises:
            HistoryLost: the store was set back, and lacks a revision that the session has seen.
            StoreAway: the store cannot be read, or was set back during the call.
        """
        engine, began = self._engine, self._began
        assert began is not None
        index = engine.point
        if self._is_alone and self._is_from_index:
            return text_of(index)
        history = engine.store.history
        if self._is_from_index and index.revision >= engine.snapshot.revision:
            if all(map(history.may_contain, (began, index))):
                return text_of(index)
            # A commit of this process may be newer than the history that it knows.
            await self._read_history(began, index)
            return text_of(index)
        # A read of the store may have seen a commit that this process has not heard of yet.
        if self._is_alone:
            history = engine.store.read_history()  # some µs; a thread takes longer
            _check(history, (began,))
        else:
            history = await self._read_history(began)
        return text_of(history.point)

    async def _read_history(self, *points: Point) -> History:
        """Read the present history of the store and check that it contains the session's points.

        Raises:
            HistoryLost: the history lacks a point that the session has seen.
            StoreAway: the history lacks one of `points`, which this process has read during the
                call and the session does not know.
        """
        history = await asyncio.to_thread(self._engine.store.read_history)
        await self._check_contains(history, self._points)
        if not all(map(history.may_contain, points)):
            raise StoreAway("the store went back during the call; repeat the call later")
        return history

    async def _check_contains(self, history: History, points: Iterable[Point]) -> None:
        """Raise HistoryLost if a history lacks one of the points.

        The error has a point with which the session continues, so each session gets the error once.
        In a shared database this point is of a new epoch. A node that has not noticed the loss does
        not know this epoch, so it asks the database when the session calls it.
        """
        try:
            _check(history, points)
        except HistoryLost:
            store = self._engine.store
            if not isinstance(store, SharedStore):
                raise
            await asyncio.to_thread(store.note_timeline)
            _check(await asyncio.to_thread(store.read_history), points)


def _check(history: History, points: Iterable[Point]) -> None:
    for point in points:
        if not history.may_contain(point):
            raise HistoryLost(point.revision, history.revision, text_of(history.point))
