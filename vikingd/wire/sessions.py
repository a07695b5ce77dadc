"""The consistency of a client's session, over any process that answers it.

A point names a revision of a store, see `vikingd.store.history`. A client sends the metadata
`vikingd-point` with the points that it has seen, or with an empty value at first. Its call is
answered from a state that contains all of them, and the reply has the point of that state or of a
later one. So a session sees its own writes, and never goes back in time.

Invariant of a client: each point that its session saw is contained in the state of a point that it
holds, until HistoryLost told the caller of the loss. See `vikingd.client.session_points`.
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
"""The name of the metadata of requests and replies."""

_POINT = re.compile(r"([0-9a-f]{0,64})\.([0-9a-f]{0,64})\.([0-9]{1,18})")
_MOST = 16  # points of a call; a client has more than one only while calls overtake each other

FROM_INDEX = frozenset(("Find", "BatchFind", "Search", "Retrieve"))
"""RPCs that answer from the snapshot alone; all others read or write the store too."""


def points_of(metadata: Iterable[tuple[str, Any]]) -> tuple[Point, ...] | None:
    """Return the points of a call; None if it asks for no point.

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
    """Return a point as metadata has it."""
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
    """A call of a session: `begin` it before its answer is made, `end` it after."""

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
            HistoryLost: the store does not contain one of them any more.
            RevisionNotReached: the snapshot did not reach them within the deadline.
            StoreAway: the database cannot be reached; another node may have them.
            Stopping: this reader cannot follow its store any more.
        """
        if not self._is_reached():
            history = await asyncio.to_thread(self._engine.store.read_history)
            await self._hold(history, self._points)
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
        """Return the point of the reply for its metadata.

        Raises:
            HistoryLost: the store went back, and lacks what the session has seen.
            StoreAway: the store cannot be read, or went back during the call.
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
            await self._hold_now(began, index)
            return text_of(index)
        # A read of the store may have seen a commit that this process has not heard of yet.
        if self._is_alone:
            history = engine.store.read_history()  # some µs; a thread takes longer
            _check(history, (began,))
        else:
            history = await self._hold_now(began)
        return text_of(history.point)

    async def _hold_now(self, *points: Point) -> History:
        """Return the history as the store has it now.

        Raises:
            HistoryLost: it lacks what the session has seen.
            StoreAway: it lacks a point of this process alone, which will notice in a moment.
        """
        history = await asyncio.to_thread(self._engine.store.read_history)
        await self._hold(history, self._points)
        if not all(map(history.may_contain, points)):
            raise StoreAway("the store went back during the call; repeat the call later")
        return history

    async def _hold(self, history: History, points: Iterable[Point]) -> None:
        """Raise HistoryLost if a history lacks one of the points.

        The error has a point of a new epoch. So a node that has not noticed the loss yet asks the
        database when the session calls it, and no session is told twice.
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
