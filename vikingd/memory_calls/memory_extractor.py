"""Extract: memories that a conversation says, compared with what is known and written together.

A call reads the messages, proposes memories, gives each its file, compares it with what stands
there, writes all of them in one transaction, and replies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from vikingd.answer.deadline import Deadline, Threads
from vikingd.domain.answers import Degradation, DegradationReason
from vikingd.domain.errors import InvalidField
from vikingd.domain.extract import (
    Ending,
    Extracted,
    ExtractSource,
    MemoryKind,
    Proposal,
    Refusal,
    Untaken,
)
from vikingd.domain.rights import Right
from vikingd.domain.store_changes import Committed, Once
from vikingd.domain.vector_products import product
from vikingd.engine import Engine
from vikingd.memory import entries, episodes, places, statements
from vikingd.memory.change import Changing, Ended, FileChanged, NoPlace, Noting
from vikingd.memory.model import Remembered, Rewritten
from vikingd.memory.routes import Routes
from vikingd.memory.series import Rewrite, Series
from vikingd.memory_calls import evidence
from vikingd.memory_calls.extract_calls import ExtractFiles, ExtractQuery, ExtractResult
from vikingd.memory_calls.proposer import Proposer
from vikingd.memory_calls.rememberer import Rememberer
from vikingd.models.extract.extractor import Extractor

_T = TypeVar("_T")


@dataclass(slots=True)
class _Work:
    """The writes of one call."""

    query: ExtractQuery
    files: ExtractFiles
    found: Extracted
    refused: list[Refusal]
    said: statements.Statements
    endings: list[Ended] = field(default_factory=list)
    memories: list[tuple[Proposal, Changing]] = field(default_factory=list)
    notes: list[Noting] = field(default_factory=list)
    episode: list[episodes.Recording] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    degraded: dict[Degradation, None] = field(default_factory=dict)

    def refuse(self, proposal: Proposal, reason: str) -> None:
        """Refuse a proposal."""
        self.refused.append(Refusal(proposal.kind, proposal.text, proposal.evidence, reason))

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to write."""
        return not (self.memories or self.episode or self.endings)

    @property
    def changes(self) -> list[Changing | Ended]:
        """The memories and the ends of facts, in the order in which they were said."""
        found: list[tuple[int, Changing | Ended]] = []
        found += ((one.ending.message, one) for one in self.endings)
        found += ((max(proposal.evidence, default=0), one) for proposal, one in self.memories)
        return [one for _, one in sorted(found, key=lambda change: change[0])]


class _DryRun(Exception):
    """Undoes the writes of a dry run."""


class MemoryExtractor:
    """Answers Extract; without a model it keeps the conversation too, if `episodes` is set."""

    def __init__(
        self,
        engine: Engine,
        threads: Threads,
        routes: Routes,
        rememberer: Rememberer,
        extractor: Extractor,
        *,
        episodes: bool,
    ) -> None:
        self._engine = engine
        self._keeps_episodes = episodes
        self._threads = threads
        self._routes = routes
        self._rememberer = rememberer
        self._proposer = Proposer(engine, threads, rememberer, extractor)

    def check(self, query: ExtractQuery) -> None:
        """Check that the caller may write memories about the user.

        Raises:
            PermissionDenied: it may not.
        """
        files = ExtractFiles(self._engine, self._routes, query)
        query.scope.caller.check(Right.WRITE, files.of(MemoryKind.PROFILE))

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
        work = await self._read(query, deadline)
        for proposal in work.found.proposals:
            self._place(proposal, work)
        for ending in work.said.endings:
            self._place_ending(ending, work)
        if self._keeps_episodes and work.found.source is ExtractSource.RULES:
            await self._place_turns(work, deadline)
        named = once(lambda done: reply(_result(work), done.revision))
        while not work.is_empty:
            try:
                await self._compare(work, deadline)
                deadline.left()
                done = await self._rememberer.written(_rewrites(work), named)
            except FileChanged:
                continue
            except NoPlace as failed:
                ((proposal, _),) = (pair for pair in work.memories if pair[1] is failed.memory)
                work.memories.remove((proposal, failed.memory))
                work.refuse(proposal, str(failed))
                continue
            except _DryRun:
                break
            return parse(done.reply) if done.reply else reply(_result(work), done.revision)
        return reply(_result(work), self._engine.snapshot.revision)

    async def _read(self, query: ExtractQuery, deadline: Deadline) -> _Work:
        """Read the messages by the rules, and ask for proposals."""
        files = ExtractFiles(self._engine, self._routes, query)
        at, messages = statements.SaidAt(query.time, query.time_zone), query.session.messages
        said = await self._threads.prepare(deadline, statements.read, messages, query.first, at)
        found = await self._proposer.propose(query, said.proposals, files, deadline)
        if found.source is ExtractSource.MODEL:
            dated = tuple(
                replace(one, text=statements.dated(one.text, messages[max(one.evidence)], at))
                for one in found.proposals
            )
            found = replace(found, proposals=dated)
        return _Work(query, files, found, list(found.refused), said)

    def _place(self, proposal: Proposal, work: _Work) -> None:
        """Give a proposal its file, or refuse it."""
        query, uri = work.query, work.files.of(proposal.kind)
        if reason := work.files.refusal(uri):
            work.refuse(proposal, reason)
            return
        try:
            text = entries.check_short(proposal.text)
            section = entries.check_section(proposal.section)
        except InvalidField as error:
            work.refuse(proposal, f"the {error.field} {error.description}")
            return
        made = Changing(
            uri,
            places.title_of(uri),
            text,
            section,
            _time_of(query, max(proposal.evidence, default=0)),
            query.now,
            query.scope.caller,
            proposal.replaces,
            self._may_replace(text),
        )
        work.memories.append((proposal, made))

    def _place_ending(self, ending: Ending, work: _Work) -> None:
        """Give the end of a fact its file; without one it is told as not taken."""
        query, uri = work.query, work.files.of(ending.kind)
        if not work.files.refusal(uri):
            time = _time_of(query, ending.message)
            title = places.title_of(uri)
            work.endings.append(Ended(uri, title, ending, time, query.now, query.scope.caller))

    async def _place_turns(self, work: _Work, deadline: Deadline) -> None:
        """Give the turns of the conversation their files, or leave them out with a reason."""
        query, files = work.query, work.files
        given = (query.session, query.first, query.time, query.time_zone)
        said = await self._threads.prepare(deadline, episodes.read, *given)
        for day, turns in said.days():
            uri = episodes.file_beside(files.journal_of(day), said.name)
            if reason := files.refusal(uri):
                work.reasons.append(f"turns are left out: {reason}")
            else:
                caller = query.scope.caller
                work.episode.append(episodes.Recording(uri, day, turns, query.now, caller))
        if said.left_out:
            work.reasons.append(f"left out of the episode: {', '.join(said.left_out)}")

    def _may_replace(self, text: str) -> Callable[[bytes, bytes, str], bool]:
        least = evidence.CONTRADICTS.get(self._engine.embedding.model)

        def decide(new: bytes, old: bytes, said: str) -> bool:
            if evidence.shares_words(text, said):
                return True
            if least is None or not new or len(new) != len(old):
                return False
            return product(np.frombuffer(new, "<f4"), np.frombuffer(old, "<f4")) >= least

        return decide

    async def _compare(self, work: _Work, deadline: Deadline) -> None:
        """Compare each memory with its file, so that little is left to do in the transaction."""
        for _, one in work.memories:
            notes = await self._rememberer.compare(one, deadline)
            work.degraded.update(dict.fromkeys(notes))
        for turns in work.episode:
            series, known = await self._rememberer.series(turns.uri, deadline)
            await self._threads.prepare(deadline, turns.compare, series, known)


def _rewrites(work: _Work) -> list[tuple[str, Rewrite]]:
    """Return the writes in their order; a dry run ends by undoing them."""
    found: list[tuple[str, Rewrite]] = []
    work.notes.clear()
    query, journal, may_note = work.query, work.files.journal, work.files.may_note()
    for one in work.changes:
        found.append((one.uri, one))
        if may_note and one.uri != journal:
            title = places.title_of(journal)
            note = Noting(journal, title, one, query.time, query.now, query.scope.caller)
            work.notes.append(note)
            found.append((journal, note))
    found += ((turns.uri, turns) for turns in work.episode)
    if query.dry_run:
        found.append((journal, _undo))
    return found


def _result(work: _Work) -> ExtractResult:
    """Return the result for the reply."""
    found, outcomes = work.found, [one.outcome for one in work.changes if one.outcome]
    by_rules = found.source is ExtractSource.RULES
    notes = dict.fromkeys(note for outcome in outcomes for note in outcome.degraded)
    degraded = tuple(work.degraded | notes)
    if found.failed:
        degraded = (Degradation(DegradationReason.PLANNER, found.reason), *degraded)
    skipped = dict.fromkeys(note.skipped for note in work.notes if note.skipped)
    reasons = [found.reason, *(f"a change is not noted: {why}" for why in skipped)]
    if not work.files.may_note() and any(
        one.did in (Remembered.REPLACED, Remembered.ENDED) for one in outcomes
    ):
        reasons.append("changes are not noted: the caller may not write the journal")
    reasons += work.reasons
    reasons += (f"turns are left out: {one.skipped}" for one in work.episode if one.skipped)
    return ExtractResult(
        found.source,
        "; ".join(reasons),
        tuple(work.memories),
        tuple(work.refused),
        degraded,
        tuple(work.episode),
        tuple(one for one in work.endings if one.outcome),
        (*work.said.untaken, *_without_end(work)) if by_rules else (),
    )


def _without_end(work: _Work) -> list[Untaken]:
    """Return the sentences that end nothing that is known."""
    done = {(one.ending.message, one.ending.sentence) for one in work.endings if one.outcome}
    left = dict.fromkeys((one.message, one.sentence) for one in work.said.endings)
    return [
        Untaken(sentence, message, "nothing known ends with it")
        for message, sentence in left
        if (message, sentence) not in done
    ]


def _time_of(query: ExtractQuery, message: int) -> int:
    """Return the time at which a message was said, in microseconds."""
    said = query.session.messages[message].time
    return query.time if said is None else said


def _undo(_series: Series, _new_id: Callable[[], int]) -> Sequence[Rewritten]:
    raise _DryRun
