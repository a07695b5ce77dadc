"""Extract: memories that a conversation says, compared with what is known and written together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from viking_kernels.arrays import F32, is_file

from vikingd.answer.deadline import Deadline, Threads
from vikingd.answer.query_vector import embed_in_share, embedder_failed
from vikingd.domain import uri as uris
from vikingd.domain.answers import Degradation, DegradationReason, Degraded
from vikingd.domain.errors import EmbedderFailed, InvalidField
from vikingd.domain.extract import (
    MAX_MEMORIES,
    OF_AGENT,
    Extracted,
    ExtractSource,
    MemoryKind,
    Proposal,
    Refusal,
)
from vikingd.domain.rights import Right
from vikingd.domain.search_query import SearchSession, SessionMessage
from vikingd.domain.store_changes import Committed, Once
from vikingd.domain.text import text_to_index
from vikingd.domain.vector_products import product
from vikingd.engine import Engine
from vikingd.memory import entries, places, statements
from vikingd.memory.change import Changing, NoPlace, Noting
from vikingd.memory.model import (
    MemoryScope,
    Remembered,
    Rewritten,
    StoredEntry,
    is_earlier,
)
from vikingd.memory.routes import Routes
from vikingd.memory.series import Key, Rewrite, Series
from vikingd.memory.series import Known as KnownFile
from vikingd.memory_calls import evidence
from vikingd.memory_calls.rememberer import Rememberer
from vikingd.models.extract.extractor import Extractor
from vikingd.models.extract.memory_proposals import Known

_T = TypeVar("_T")

_MODEL_SHARE = 0.7  # of the time left, for the model
_MOST_KNOWN = 60  # older memories that the model is shown
_COMPARED = 4  # messages of a memory whose meaning is compared
_ASKED_CHARS = 2_000  # of a text that is embedded

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
    notes: list[Noting] = field(default_factory=list)

    def refuse(self, proposal: Proposal, reason: str) -> None:
        """Refuse a proposal."""
        self.refused.append(Refusal(proposal.kind, proposal.text, proposal.evidence, reason))


class _DryRun(Exception):
    """Undoes the writes of a dry run."""


class MemoryExtractor:
    """Answers Extract."""

    def __init__(
        self,
        engine: Engine,
        threads: Threads,
        routes: Routes,
        rememberer: Rememberer,
        extractor: Extractor,
    ) -> None:
        self._engine = engine
        self._extractor = extractor
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
        work = _Work()
        found = await self._proposed(query, work, deadline)
        work.refused += found.refused
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
            skipped = dict.fromkeys(note.skipped for note in work.notes if note.skipped)
            reason = "; ".join((found.reason, *(f"a change is not noted: {s}" for s in skipped)))
            if not self._may_note(query) and any(
                one.outcome and one.outcome.did is Remembered.REPLACED for _, one in work.memories
            ):
                reason += "; changes are not noted: the caller may not write the journal"
            return ExtractResult(
                found.source, reason, tuple(work.memories), tuple(work.refused), degraded
            )

        if not work.memories:
            return reply(result(), self._engine.snapshot.revision)
        named = once(lambda done: reply(result(), done.revision))
        while True:
            try:
                for proposal, one in work.memories:
                    known = await self._rememberer.prepare(one, deadline)
                    one.may_replace = await self._replaced(
                        proposal, one.title, known, work, deadline
                    )
                deadline.left()
                done = await self._rememberer.written(self._rewrites(query, work), named)
            except NoPlace as failed:
                ((proposal, _),) = (pair for pair in work.memories if pair[1] is failed.memory)
                work.memories.remove((proposal, failed.memory))
                work.refuse(proposal, str(failed))
                if not work.memories:
                    return reply(result(), self._engine.snapshot.revision)
                continue
            except _DryRun:
                return reply(result(), self._engine.snapshot.revision)
            return parse(done.reply) if done.reply else reply(result(), done.revision)

    async def _proposed(self, query: ExtractQuery, work: _Work, deadline: Deadline) -> Extracted:
        """Return the proposals of the model whose evidence says them, or those of the rules."""

        def said(messages: Sequence[SessionMessage], first: int) -> Awaitable[tuple[Proposal, ...]]:
            return self._threads.prepare(deadline, statements.proposals, messages, first)

        left = deadline.left()
        has_model = self._extractor.has_model
        known = await self._known(query, work, deadline) if has_model else ()
        found = await self._extractor.propose(
            query.session, query.first, known, None if left is None else left * _MODEL_SHARE, said
        )
        if found.source is not ExtractSource.MODEL:
            return found
        proposals, refused = [], []
        messages = query.session.messages
        check = evidence.Evidence(messages, query.first)
        vectors: dict[int, F32 | None] = {}
        for one in found.proposals:
            why = await self._threads.prepare(deadline, check.refusal, one)
            if not why and not await self._means(one, messages, vectors, work, deadline):
                why = "its evidence means something else"
            if why:
                refused.append(Refusal(one.kind, one.text, one.evidence, why))
            else:
                proposals.append(one)
        there = [
            replace(one, evidence=tuple(i for i in one.evidence if i < len(messages)))
            for one in (*refused, *found.refused)[:MAX_MEMORIES]
        ]
        return replace(found, proposals=tuple(proposals), refused=tuple(there))

    async def _known(
        self, query: ExtractQuery, work: _Work, deadline: Deadline
    ) -> tuple[Known, ...]:
        """Return the present memories that the model is shown: those nearest to the messages."""
        found: list[tuple[str, StoredEntry, MemoryKind]] = []
        for kind in MemoryKind:
            uri = self._file(query, kind)
            if kind is MemoryKind.EVENTS or not query.scope.caller.may(Right.READ, uri):
                continue
            # Read anew: vectors come after their texts, without a change of the file.
            series = await self._threads.read(deadline, self._engine.store.memory_series, uri)
            files = [series.read(at) for at, _ in series.files]
            found += [
                (file.uri, one, kind)
                for file in files
                if file is not None and query.scope.caller.may(Right.READ, file.uri)
                for one in file.entries
                if one.ordinal and not is_earlier(one.section)
            ]
        if len(found) > _MOST_KNOWN:
            said = "\n".join(message.content for message in query.session.messages[query.first :])[
                -_ASKED_CHARS:
            ]
            vector = await self._vector(said, work, deadline)
            found.sort(key=lambda one: _cosine(vector, one[1].vector), reverse=True)
        return tuple(
            Known(one.entry.id, kind, uri, entries.said(one.passage))
            for uri, one, kind in found[:_MOST_KNOWN]
        )

    async def _vector(self, text: str, work: _Work, deadline: Deadline) -> F32 | None:
        """Return the vector of a text; None if there is none. A failure is noted for the reply."""
        embedding = self._engine.embedding
        if embedding.query_embedder is None or embedding.model not in evidence.MEANS:
            return None
        try:
            return await embed_in_share(
                self._threads, deadline, embedding.embed_document, text[:_ASKED_CHARS]
            )
        except EmbedderFailed as error:
            work.degraded[embedder_failed(error, "words alone were compared")] = None
            return None

    async def _means(
        self,
        proposal: Proposal,
        messages: Sequence[SessionMessage],
        vectors: dict[int, F32 | None],
        work: _Work,
        deadline: Deadline,
    ) -> bool:
        """Return False if the meaning of a memory is far from that of its first few messages.

        `vectors` keeps the vectors of the messages.
        """
        vector = await self._vector(proposal.text, work, deadline)
        if vector is None:
            return True
        least = evidence.MEANS[self._engine.embedding.model]
        for i in proposal.evidence[:_COMPARED]:
            if i not in vectors:
                vectors[i] = await self._vector(messages[i].content, work, deadline)
            other = vectors[i]
            if other is None or product(vector, other) >= least:
                return True
        return False

    async def _replaced(
        self,
        proposal: Proposal,
        title: str,
        known: Mapping[Key, KnownFile],
        work: _Work,
        deadline: Deadline,
    ) -> str:
        """Return the wording of the older memory that a proposal may replace; "": none.

        The proposal names the memory, which must be near to it in words or meaning.
        """
        named = (one.find(proposal.replaces) for one in known.values() if proposal.replaces)
        old = next((one for one in named if one is not None), None)
        if old is None:
            return ""
        said = entries.said(old.passage)
        if evidence.shares_words(proposal.text, said):
            return said
        one = await self._vector(text_to_index(title, "", proposal.text), work, deadline)
        other = await self._vector(text_to_index(title, "", said), work, deadline)
        if one is None or other is None:
            return ""
        return (
            said
            if product(one, other) >= evidence.CONTRADICTS[self._engine.embedding.model]
            else ""
        )

    def _place(self, query: ExtractQuery, proposal: Proposal, work: _Work) -> None:
        """Give a proposal its file, or refuse it."""
        uri = self._file(query, proposal.kind)
        if not query.scope.caller.may(Right.WRITE, uri):
            work.refuse(proposal, f"the caller may not write {uri}")
            return
        if not self._can_be_file(uri):
            work.refuse(proposal, f"{uri} cannot be a file in the tree as it is")
            return
        try:
            text = entries.check_short(proposal.text)
            section = entries.check_section(proposal.section)
        except InvalidField as error:
            work.refuse(proposal, f"the {error.field} {error.description}")
            return
        title = places.title_of(uri)
        made = Changing(
            uri,
            title,
            text,
            section,
            query.time,
            query.now,
            query.scope.caller,
            proposal.replaces,
        )
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

    def _may_note(self, query: ExtractQuery) -> bool:
        """Return True if the caller may write notes on changes into the journal."""
        journal = self._file_of(query, places.JOURNAL)
        return query.scope.caller.may(Right.WRITE, journal) and self._can_be_file(journal)

    def _can_be_file(self, uri: str) -> bool:
        """Return True unless a URI is a directory, or one above it is a file."""
        snapshot = self._engine.snapshot
        row, above = snapshot.find(uri), snapshot.find(uris.parent(uri))
        return (row is None or is_file(row)) and (above is None or not is_file(above))

    def _rewrites(self, query: ExtractQuery, work: _Work) -> list[tuple[str, Rewrite]]:
        """Return the writes in their order; a dry run ends by undoing them."""
        found: list[tuple[str, Rewrite]] = []
        work.notes.clear()
        journal, may_note = self._file_of(query, places.JOURNAL), self._may_note(query)
        for _, one in work.memories:
            found.append((one.uri, one))
            if may_note and one.uri != journal:
                title = places.title_of(journal)
                note = Noting(journal, title, one, query.time, query.now, query.scope.caller)
                work.notes.append(note)
                found.append((journal, note))
        if query.dry_run:
            found.append((journal, _undo))
        return found


def _cosine(vector: F32 | None, other: bytes) -> float:
    if vector is None or len(other) != vector.nbytes:
        return -1.0
    return product(vector, np.frombuffer(other, "<f4"))


def _undo(_series: Series, _new_id: Callable[[], int]) -> Sequence[Rewritten]:
    raise _DryRun
