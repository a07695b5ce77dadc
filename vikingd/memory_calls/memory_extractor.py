"""Extract: takes memories from a conversation, compares them with known ones, and writes them.

A call reads the messages, proposes memories, chooses the file of each, compares it with the entries
of that file, writes all of them in one transaction, and replies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

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
from vikingd.engine import Engine
from vikingd.lanes.call_pools import Threads
from vikingd.lanes.queues import Deadline
from vikingd.memory import entries, episodes, forget_requests, memory_file_paths, statements
from vikingd.memory.contradicted_memories import Changing, Ended, FileChanged, NoPlace, Noting
from vikingd.memory.known_file_routes import Routes
from vikingd.memory.memory_file_series import Rewrite, Series
from vikingd.memory.memory_types import Remembered, Rewritten
from vikingd.memory.said_dates import SaidAt
from vikingd.memory_calls.extract_calls import ExtractFiles, ExtractQuery, ExtractResult
from vikingd.memory_calls.forget_in_talk import DROPPED, Forgets, decide, remaining
from vikingd.memory_calls.proposer import Proposer
from vikingd.memory_calls.rememberer import Rememberer
from vikingd.models.extract.extractor import Extractor

_T = TypeVar("_T")


@dataclass(slots=True)
class _Work:
    """The state of one call: its proposals, refusals and writes."""

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
    forgets: Forgets = field(default_factory=Forgets)

    def refuse(self, proposal: Proposal, reason: str) -> None:
        """Add a proposal to the refused ones, with a reason."""
        self.refused.append(Refusal(proposal.kind, proposal.text, proposal.evidence, reason))

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to write."""
        return not (self.memories or self.episode or self.endings or self.forgets.requests)

    @property
    def changes(self) -> list[Changing | Ended]:
        """The memories and the ends of facts, in the order in which they were said."""
        found: list[tuple[int, Changing | Ended]] = []
        found += ((one.ending.message, one) for one in self.endings)
        found += ((max(proposal.evidence, default=0), one) for proposal, one in self.memories)
        return [one for _, one in sorted(found, key=lambda change: change[0])]


class _DryRun(Exception):
    """Ends the transaction of a dry run, so that its writes are undone."""


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
        self._proposer = Proposer(engine, threads, extractor)

    def check(self, query: ExtractQuery) -> None:
        """Check that the caller may write memories about the user.

        Raises:
            PermissionDenied: the caller may not.
        """
        files = ExtractFiles(self._engine, self._routes, query)
        query.scope.caller.check(Right.WRITE, files.of(MemoryKind.PROFILE, query.time))

    async def answer(
        self,
        query: ExtractQuery,
        once: Callable[[Callable[[Committed], _T]], Once | None],
        deadline: Deadline,
        reply: Callable[[ExtractResult, int], _T],
        parse: Callable[[bytes], _T],
    ) -> _T:
        """Propose, check and write the memories, and return the reply.

        Args:
            query: the conversation and its settings.
            once: returns the identity of the request; None without a request id. Its argument
                makes the reply that is stored for repetitions of the call.
            deadline: the deadline of the call.
            reply: makes the reply from the result and the revision.
            parse: makes the reply from the stored bytes, if the call is a repetition.

        Raises:
            InvalidField: a file cannot hold a memory.
        """
        work = await self._read(query, deadline)
        for number, proposal in enumerate(work.found.proposals):
            if number in work.forgets.dropped:
                work.refuse(proposal, DROPPED)
            else:
                self._place(proposal, work)
        for ending in work.said.endings:
            self._place_ending(ending, work)
        if self._keeps_episodes and work.found.source is ExtractSource.RULES:
            await self._place_turns(work, deadline)

        def told(done: Committed) -> _T:
            return reply(_result(work), self._revision(work, done))

        named = once(told)
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
            return parse(done.reply) if done.reply else told(done)
        return reply(_result(work), self._engine.snapshot.revision)

    async def _read(self, query: ExtractQuery, deadline: Deadline) -> _Work:
        """Read facts and requests to forget by the rules, and ask the model for proposals."""
        files = ExtractFiles(self._engine, self._routes, query)
        messages, first = query.session.messages, query.first
        at = SaidAt(query.time, query.time_zone)
        notes: dict[Degradation, None] = {}
        requests = await self._threads.prepare(deadline, forget_requests.read, messages, first)
        other = forget_requests.left(messages, requests)
        said = await self._threads.prepare(deadline, statements.read, other, first, at)
        if requests and forget_requests.are_all(messages, first):
            reason = "the messages only ask to forget"
            found = Extracted(ExtractSource.RULES, reason, said.proposals)
        else:
            found = await self._proposer.propose(query, said.proposals, files, notes, deadline)
        if found.source is ExtractSource.MODEL:
            dated = tuple(
                replace(one, text=statements.dated(one.text, messages[max(one.evidence)], at))
                for one in found.proposals
            )
            found = replace(found, proposals=dated)
        forgets = await self._threads.read(
            deadline, decide, self._engine, query, requests, found.proposals
        )
        return _Work(
            query, files, found, list(found.refused), said, degraded=notes, forgets=forgets
        )

    def _revision(self, work: _Work, done: Committed) -> int:
        """Return the revision of the writes; without any change, the newest revision."""
        is_changed = (
            any(one.outcome for one in work.changes)
            or work.forgets.forgotten()
            or any(one.written for one in work.episode)
        )
        return done.revision if is_changed else self._engine.snapshot.revision

    def _place(self, proposal: Proposal, work: _Work) -> None:
        """Choose the file of a proposal, or refuse the proposal."""
        query, time = work.query, work.query.time_of(proposal.evidence)
        uri = work.files.of(proposal.kind, time)
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
            memory_file_paths.title_of(uri),
            text,
            section,
            time,
            query.now,
            query.scope.caller,
            proposal.replaces,
        )
        work.memories.append((proposal, made))

    def _place_ending(self, ending: Ending, work: _Work) -> None:
        """Choose the file of a fact's end.

        If it cannot be written, the sentence counts as not taken.
        """
        query, time = work.query, work.query.time_of([ending.message])
        uri = work.files.of(ending.kind, time)
        if not work.files.refusal(uri):
            title = memory_file_paths.title_of(uri)
            work.endings.append(Ended(uri, title, ending, time, query.now, query.scope.caller))

    async def _place_turns(self, work: _Work, deadline: Deadline) -> None:
        """Choose the files for the turns of the conversation.

        Turns of a file that cannot be written are left out, and the reply gives the reason.
        """
        query, files = work.query, work.files
        kept = remaining(query.session, query.first, work.forgets)
        given = (kept, query.first, query.time, query.time_zone)
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

    async def _compare(self, work: _Work, deadline: Deadline) -> None:
        """Compare each memory with its file before the transaction, which is short therefore."""
        for proposal, one in work.memories:
            known = await self._rememberer.prepare(one, deadline)
            if proposal.replaces:
                one.may_replace = await self._proposer.replaced(
                    proposal, one.title, known, work.degraded, deadline
                )
        for turns in work.episode:
            series, known = await self._rememberer.series(turns.uri, deadline)
            await self._threads.prepare(deadline, turns.compare, series, known)


def _rewrites(work: _Work) -> list[tuple[str, Rewrite]]:
    """Return the (URI, rewrite) pairs of a call, in the order in which they are written.

    In a dry run the last rewrite raises an error, which undoes the transaction.
    """
    found: list[tuple[str, Rewrite]] = []
    work.notes.clear()
    query = work.query
    for one in work.changes:
        found.append((one.uri, one))
        journal = work.files.journal_at(one.time)
        if one.uri != journal and not work.files.refusal(journal):
            title = memory_file_paths.title_of(journal)
            note = Noting(journal, title, one, one.time, query.now, query.scope.caller)
            work.notes.append(note)
            found.append((journal, note))
    found += ((turns.uri, turns) for turns in work.episode)
    found += work.forgets.rewrites()
    if query.dry_run:
        found.append((work.files.journal_at(query.time), _undo))
    return found


def _result(work: _Work) -> ExtractResult:
    """Return the result of a call for its reply."""
    found, outcomes = work.found, [(one, one.outcome) for one in work.changes if one.outcome]
    by_rules = found.source is ExtractSource.RULES
    notes = dict.fromkeys(note for _, outcome in outcomes for note in outcome.degraded)
    degraded = tuple(work.degraded | notes)
    if found.failed:
        degraded = (Degradation(DegradationReason.PLANNER, found.reason), *degraded)
    skipped = dict.fromkeys(note.skipped for note in work.notes if note.skipped)
    reasons = [found.reason, *(f"a change is not noted: {why}" for why in skipped)]
    noted = (Remembered.REPLACED, Remembered.ENDED)
    changed = [one.time for one, outcome in outcomes if outcome.did in noted]
    if any(work.files.refusal(work.files.journal_at(time)) for time in changed):
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
        work.forgets.forgotten(),
        work.forgets.to_forget(work.memories, found.proposals),
        tuple(one for one in work.endings if one.outcome),
        (*work.said.untaken, *_unmatched_endings(work)) if by_rules else (),
    )


def _unmatched_endings(work: _Work) -> list[Untaken]:
    """Return the sentences that say that a fact ended, but match no known fact.

    An example is "I no longer work at Acme", if no memory says that the user works there.
    """
    done = {(one.ending.message, one.ending.sentence) for one in work.endings if one.outcome}
    left = dict.fromkeys((one.message, one.sentence) for one in work.said.endings)
    return [
        Untaken(sentence, message, "nothing known ends with it")
        for message, sentence in left
        if (message, sentence) not in done
    ]


def _undo(_series: Series, _new_id: Callable[[], int]) -> Sequence[Rewritten]:
    raise _DryRun
