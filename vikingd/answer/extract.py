"""Extract: memories that a conversation says, compared with what is known and written together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from vikingd.answer.deadline import Deadline, Threads
from vikingd.answer.remember import Rememberer
from vikingd.domain.answers import Degradation, DegradationReason, Degraded
from vikingd.domain.changes import Committed, Once
from vikingd.domain.errors import InvalidField
from vikingd.domain.extract import (
    OF_AGENT,
    Extracted,
    ExtractSource,
    MemoryKind,
    Proposal,
    Refusal,
)
from vikingd.domain.rights import Right
from vikingd.domain.search import SearchSession
from vikingd.engine import Engine
from vikingd.memory import entries, places, statements
from vikingd.memory.change import Changing, FileChanged, Noting
from vikingd.memory.model import MemoryFile, MemoryScope, Rewrite, Rewritten
from vikingd.memory.routes import Routes

_T = TypeVar("_T")

TYPES = {kind: kind.name.lower() for kind in MemoryKind} | {MemoryKind.EVENTS: places.JOURNAL}
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


@dataclass(frozen=True, slots=True)
class ExtractResult:
    """The memories of a conversation with their outcomes, and the refused proposals."""

    source: ExtractSource
    reason: str
    memories: tuple[tuple[Proposal, Changing], ...]
    refused: tuple[Refusal, ...]
    degraded: Degraded


@dataclass(slots=True)
class _Work:
    """The writes of one call."""

    memories: list[tuple[Proposal, Changing]] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    degraded: dict[Degradation, None] = field(default_factory=dict)


class _DryRun(Exception):
    """Undoes the writes of a dry run."""


class MemoryExtractor:
    """Answers Extract."""

    def __init__(
        self, engine: Engine, threads: Threads, routes: Routes, rememberer: Rememberer
    ) -> None:
        self._engine = engine
        self._threads = threads
        self._routes = routes
        self._rememberer = rememberer

    def check(self, query: ExtractQuery) -> None:
        """Check that the caller may write memories about the user.

        Raises:
            PermissionDenied: it may not.
        """
        query.scope.caller.check(Right.WRITE, self._file(query, MemoryKind.PROFILE))

    async def answer(
        self,
        query: ExtractQuery,
        once: Callable[[Callable[[Committed], _T]], Once | None],
        deadline: Deadline,
        reply: Callable[[ExtractResult, int], _T],
        parse: Callable[[bytes], _T],
    ) -> _T:
        """Propose, check and write the memories, and return the reply.

        `reply` makes it of the result and the revision, `parse` of the bytes kept for a repeated
        call. `once` gets the reply to keep.

        Raises:
            InvalidField: a file cannot hold a memory.
        """
        found = await self._proposed(query, deadline)
        work = _Work(refused=list(found.refused))
        for proposal in found.proposals:
            self._place(query, proposal, work)

        def result() -> ExtractResult:
            notes = dict.fromkeys(
                note for _, one in work.memories if one.outcome for note in one.outcome.degraded
            )
            degraded = tuple(work.degraded | notes)
            if found.failed:
                failed = Degradation(DegradationReason.PLANNER, found.reason)
                degraded = (failed, *degraded)
            return ExtractResult(
                found.source, found.reason, tuple(work.memories), tuple(work.refused), degraded
            )

        if not work.memories:
            return reply(result(), self._engine.snapshot.revision)
        named = once(lambda done: reply(result(), done.revision))
        while True:
            for _, one in work.memories:
                notes = await self._rememberer.compare_by_meaning(one, deadline)
                work.degraded.update(dict.fromkeys(notes))
            deadline.left()
            try:
                done = await self._rememberer.written(self._rewrites(query, work), named)
            except FileChanged:
                continue
            except _DryRun:
                return reply(result(), self._engine.snapshot.revision)
            return parse(done.reply) if done.reply else reply(result(), done.revision)

    async def _proposed(self, query: ExtractQuery, deadline: Deadline) -> Extracted:
        session, first = query.session, query.first
        if first >= len(session.messages):
            return Extracted(ExtractSource.NONE, "there is no message to read")
        said = await self._threads.prepare(deadline, statements.proposals, session.messages, first)
        return Extracted(ExtractSource.RULES, "no model is configured: taken by rules", said)

    def _place(self, query: ExtractQuery, proposal: Proposal, work: _Work) -> None:
        """Give a proposal its file, or refuse it."""

        def refuse(reason: str) -> None:
            work.refused.append(Refusal(proposal.kind, proposal.text, proposal.evidence, reason))

        uri = self._file(query, proposal.kind)
        if not query.scope.caller.may(Right.WRITE, uri):
            refuse(f"the caller may not write {uri}")
            return
        try:
            text = entries.check_text(proposal.text)
            section = entries.check_section(proposal.section)
        except InvalidField as error:
            refuse(f"the {error.field} {error.description}")
            return
        title = places.title_of(uri)
        made = Changing(uri, title, text, section, query.time, query.now, proposal.replaces)
        work.memories.append((proposal, made))

    def _file(self, query: ExtractQuery, kind: MemoryKind) -> str:
        return self._file_of(query, TYPES[kind], of_agent=kind in OF_AGENT)

    def _file_of(self, query: ExtractQuery, memory_type: str, *, of_agent: bool = False) -> str:
        snapshot = self._engine.snapshot
        return places.file_for(
            memory_type,
            query.scope,
            self._routes,
            lambda uri: snapshot.find(uri) is not None,
            lambda: places.day_of(query.time, query.time_zone),
            of_agent=of_agent,
        )

    def _rewrites(self, query: ExtractQuery, work: _Work) -> list[tuple[str, Rewrite]]:
        """Return the writes in their order; a dry run ends by undoing them."""
        found: list[tuple[str, Rewrite]] = []
        journal = self._file_of(query, places.JOURNAL)
        may_note = query.scope.caller.may(Right.WRITE, journal)
        for _, one in work.memories:
            found.append((one.uri, one))
            if may_note and one.uri != journal:
                title = places.title_of(journal)
                found.append((journal, Noting(journal, title, one, query.time, query.now)))
        if query.dry_run:
            found.append((journal, _undo))
        return found


def _undo(_file: MemoryFile | None, _new_id: Callable[[], int]) -> Rewritten:
    raise _DryRun
