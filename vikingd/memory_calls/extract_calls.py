"""The query and the result of Extract, and the files into which its memories are written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from viking_kernels.arrays import is_file

from vikingd.domain import uri as uris
from vikingd.domain.answers import Degraded
from vikingd.domain.extract import (
    OF_AGENT,
    ExtractSource,
    ForgetRequest,
    MemoryKind,
    Proposal,
    Refusal,
    Untaken,
)
from vikingd.domain.rights import Right
from vikingd.domain.search_query import SearchSession
from vikingd.engine import Engine
from vikingd.memory import memory_file_paths
from vikingd.memory.contradicted_memories import Changing, Ended
from vikingd.memory.episodes import Recording
from vikingd.memory.known_file_routes import Routes
from vikingd.memory.memory_types import Memory, MemoryScope

TYPES = {kind: kind.name.lower() for kind in MemoryKind} | {
    MemoryKind.EVENTS: memory_file_paths.JOURNAL
}
"""The types of memories by kind, see Remember."""


@dataclass(frozen=True, slots=True)
class ExtractQuery:
    """A checked extraction; ExtractRequest in the proto documents each field.

    `time` and `now` are in microseconds.
    """

    session: SearchSession
    first: int
    scope: MemoryScope
    time: int
    time_zone: str
    now: int
    dry_run: bool

    def time_of(self, messages: Iterable[int]) -> int:
        """Return the latest time at which one of these messages was said."""
        all_of = self.session.messages
        times = [all_of[i].time for i in messages if i < len(all_of)]
        return max((time for time in times if time is not None), default=self.time)


@dataclass(frozen=True, slots=True)
class ToForget:
    """A request to forget on which nothing was deleted, because it is in doubt.

    `memories` are those that it may mean, and `reason` says why it is in doubt.
    """

    request: ForgetRequest
    memories: tuple[Memory, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ExtractResult:
    """The memories of a conversation with their outcomes, and the refused proposals.

    `episode`: the turns of the conversation that were kept, one item for each file.
    `forgotten`: the removed memories. `to_forget`: the requests to forget that are in doubt.
    `ended`: the known facts that the user said have ended, as in "I no longer work there".
    `not_taken`: the sentences of the user from which the rules made no memory.
    """

    source: ExtractSource
    reason: str
    memories: tuple[tuple[Proposal, Changing], ...]
    refused: tuple[Refusal, ...]
    degraded: Degraded
    episode: tuple[Recording, ...] = ()
    forgotten: tuple[Memory, ...] = ()
    to_forget: tuple[ToForget, ...] = ()
    ended: tuple[Ended, ...] = ()
    not_taken: tuple[Untaken, ...] = ()


class ExtractFiles:
    """The choice of the files into which the memories of one call are written.

    The choice depends on the query's scope and on the files that exist in the newest snapshot.
    """

    def __init__(self, engine: Engine, routes: Routes, query: ExtractQuery) -> None:
        self._engine = engine
        self._routes = routes
        self._query = query

    def of(self, kind: MemoryKind, time: int) -> str:
        """Return the URI of the file for a memory of this kind.

        An event goes into the journal of the day of `time`, which is in microseconds.
        """
        if kind is MemoryKind.EVENTS:
            return self.journal_at(time)
        return self._of_type(TYPES[kind], of_agent=kind in OF_AGENT)

    def journal_at(self, time: int) -> str:
        """Return the URI of the journal for the day of a time in microseconds."""
        return self.journal_of(memory_file_paths.day_of(time, self._query.time_zone))

    def journal_of(self, day: str) -> str:
        """Return the URI of the journal of a day."""
        return self._of_type(memory_file_paths.JOURNAL, day)

    def refusal(self, uri: str) -> str:
        """Return the reason, for people, why a file cannot be written; "" if it can."""
        if not self._query.scope.caller.may(Right.WRITE, uri):
            return f"the caller may not write {uri}"
        find, above = self._engine.snapshot.find, uris.parent(uri)
        row = find(uri)
        while (node := find(above)) is None and above != uris.ROOT:
            above = uris.parent(above)
        if (row is not None and not is_file(row)) or (node is not None and is_file(node)):
            return f"{uri} cannot be a file in the tree as it is"
        return ""

    def _of_type(self, memory_type: str, day: str = "", *, of_agent: bool = False) -> str:
        snapshot, query = self._engine.snapshot, self._query
        return memory_file_paths.file_for(
            memory_type,
            query.scope,
            self._routes,
            lambda uri: snapshot.find(uri) is not None,
            lambda: day,
            of_agent=of_agent,
        )
