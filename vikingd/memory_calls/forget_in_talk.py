"""Requests to forget in a conversation: the memories that they mean, and those in doubt.

A request is without doubt if it means one memory, several that state the same, or all below a
heading that it names completely. These memories are removed in the transaction of the call, and so
are the turns of episodes that state them. In all other cases the memories are proposed, and nothing
is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from vikingd.domain import cancellation
from vikingd.domain.extract import ForgetRequest, Meant, Proposal
from vikingd.domain.pinned_text import is_pinned
from vikingd.domain.rights import Right
from vikingd.domain.search_query import SearchSession, SessionMessage, id_of
from vikingd.domain.sentences import sentences
from vikingd.domain.spoken_text import QUOTED, SAID, SPEAKERS, without_speaker
from vikingd.engine import Engine
from vikingd.memory import entries, forget_requests, memory_file_paths
from vikingd.memory.contradicted_memories import Changing
from vikingd.memory.memory_file_changes import Forgetting
from vikingd.memory.memory_file_series import Rewrite
from vikingd.memory.memory_types import Memory, StoredEntry, is_earlier, memory_type_of
from vikingd.memory.protected_memories import kept_unless_named
from vikingd.memory_calls.extract_calls import ExtractQuery, ToForget
from vikingd.memory_calls.forget import memory_of
from vikingd.memory_calls.forget_words import Fit, Text, Topic, groups, notes, says, says_in_all

MOST = 20
"""The most memories of a proposal."""

DROPPED = "the user asks to forget it"
"""The reason for a proposal that a later request takes back."""

# Matches a note on a change: "Lives in Oslo (Before: Lives in Rome)".
_CHANGE = re.compile(r"(?P<now>.+?) ?[(（](?:Before: |之前：)(?P<before>.+)[)）]", re.DOTALL)
# Matches a file of an episode: ".../journal/2026-05-03/session-ID.md", not ".../2026-05-03/2.md".
_EPISODE = re.compile(rf"/{memory_file_paths.JOURNAL}/\d{{4}}-\d\d-\d\d/(?!\d+\.md$)")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A memory that a request may mean.

    It is either stored (`stored`), or proposed by this call (`proposal`, its index; else -1).
    """

    text: Text
    stored: StoredEntry | None = None
    proposal: int = -1

    @property
    def newest(self) -> int:
        return (self.stored.entry.time or 0) if self.stored else 1 << 62


@dataclass(slots=True)
class Forgets:
    """The decisions on the requests of one call.

    Attributes:
        requests: the requests.
        gone: the stored memories to remove, by id.
        dropped: the indices of the call's proposals that are not written.
        taken_back: the memories that are forgotten without doubt, each with its request.
        said: the sentences before a request such as "forget that", which are forgotten.
        doubts: the memories that may be meant, by request and reason of the doubt.
    """

    requests: tuple[ForgetRequest, ...] = ()
    gone: dict[int, StoredEntry] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    taken_back: list[tuple[ForgetRequest, Text]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    doubts: dict[tuple[ForgetRequest, str], list[_Candidate]] = field(default_factory=dict)
    _done: list[Forgetting] = field(default_factory=list)

    def rewrites(self) -> list[tuple[str, Rewrite]]:
        """Return (URI, rewrite) for each file from which memories are removed.

        In the transaction they must follow the rewrites that remember memories.
        """
        self._done.clear()
        found: list[tuple[str, Rewrite]] = []
        stored = sorted(self.gone.values(), key=lambda one: one.uri)
        for uri, of_file in groupby(stored, lambda one: one.uri):
            wanted = {one.entry.id: one.entry for one in of_file}
            self._done.append(Forgetting(wanted, unchanged=True, spares=_pinned))
            found.append((uri, self._done[-1]))
        return found

    def forgotten(self) -> tuple[Memory, ...]:
        """Return the memories that the writes removed."""
        gone = {i for one in self._done for i in one.gone}
        return tuple(memory_of(one) for i, one in self.gone.items() if i in gone)

    def is_gone(self, one: _Candidate) -> bool:
        """Return True if a memory is removed, or is a proposal that is not written."""
        return (
            one.proposal in self.dropped if one.stored is None else one.stored.entry.id in self.gone
        )

    def to_forget(
        self, written: Sequence[tuple[Proposal, Changing]], proposals: Sequence[Proposal]
    ) -> tuple[ToForget, ...]:
        """Return the requests in doubt, each with the memories that it may mean.

        Call this after the writes, which give the memories of this call their ids.

        Args:
            written: the memories of the call, with their outcomes.
            proposals: the proposals to which the candidates' indices refer.
        """
        outcomes = {id(proposal): one for proposal, one in written}
        found = []
        for (request, reason), meant in self.doubts.items():
            left = [one for one in meant if not self.is_gone(one)]
            memories = []
            for one in sorted(left, key=lambda one: one.newest, reverse=True)[:MOST]:
                made = None if one.stored else outcomes.get(id(proposals[one.proposal]))
                if one.stored is not None:
                    memories.append(memory_of(one.stored))
                elif made and (at := made.outcome):
                    memories.append(
                        Memory(at.uri, made.text, 0.0, 0, at.entry, section=made.section)
                    )
            if left or not meant:
                found.append(ToForget(request, tuple(memories), reason))
        gone = {i for one in self._done for i in one.gone}
        if late := [one for i, one in self.gone.items() if i not in gone and self._done]:
            said = self.taken_back[0][0]
            found.append(ToForget(said, tuple(map(memory_of, late)), "it changed meanwhile"))
        return tuple(found)


def _pinned(one: StoredEntry) -> str:
    return "it is pinned" if is_pinned(one.passage) else ""


def decide(
    engine: Engine,
    query: ExtractQuery,
    requests: tuple[ForgetRequest, ...],
    proposals: Sequence[Proposal],
) -> Forgets:
    """Decide on the requests in the messages of a call, in order; it reads the store.

    Args:
        engine: the engine.
        query: the call.
        requests: the requests in its messages.
        proposals: the memories that the call would write.
    """
    made = Forgets(requests)
    if requests:
        deciding = _Deciding(engine, query, proposals, made)
        for request in requests:
            cancellation.check()
            deciding.decide(request)
    return made


class _Deciding:
    def __init__(
        self, engine: Engine, query: ExtractQuery, proposals: Sequence[Proposal], made: Forgets
    ) -> None:
        self._query, self._made, self._proposals = query, made, proposals
        self._messages = query.session.messages
        self._facts: list[_Candidate] = []
        self._turns: list[StoredEntry] = []
        self._changes: list[StoredEntry] = []
        self._unwritable: list[_Candidate] = []
        parts = sorted(query.scope.parts())
        for one in (one for at in parts for one in engine.store.memories_below(at)):
            cancellation.check()
            said, kind = entries.said(one.passage), memory_type_of(one.uri)
            candidate = _Candidate(Text(said, one.section, kind), one)
            if not query.scope.caller.may(Right.WRITE, one.uri):
                self._unwritable.append(candidate)
            elif _EPISODE.search(one.uri):
                self._turns.append(one)
            elif kind == memory_file_paths.JOURNAL and _CHANGE.fullmatch(said):
                self._changes.append(one)
            else:
                self._facts.append(candidate)

    def decide(self, request: ForgetRequest) -> None:
        """Decide on a request, and record in `Forgets` what it removes or leaves in doubt."""
        known = list(self._facts)
        for number, one in enumerate(self._proposals):
            if self._is_before(one, request):
                text = Text(one.text, one.section, one.kind.name.lower())
                known.append(_Candidate(text, None, number))
        if request.meant is Meant.EVERYTHING:
            self._doubt(request, known, "it means all memories: forget them by their ids")
        elif request.meant is Meant.BEFORE:
            self._before(request, known)
        else:
            self._named(request, known)

    def _is_before(self, proposal: Proposal, request: ForgetRequest) -> bool:
        """Return True if a proposed memory was said before a request."""
        last = max(proposal.evidence, default=0)
        if last != request.message:
            return last < request.message
        before, _, _ = self._messages[last].content.partition(request.sentence)
        in_sentence = request.meant in (Meant.STATEMENT, Meant.BEFORE)
        return in_sentence or proposal.text in notes(before)

    def _named(self, request: ForgetRequest, known: Sequence[_Candidate]) -> None:
        """Decide on a request that names the memories or the topic to forget."""
        topic = Topic(request)
        under = [one for one in known if topic.names(one.text)]
        if under and request.meant is Meant.ALL_OF:
            self._done_or_doubt(request, under, is_one=True)
            return
        fits: dict[Fit, list[_Candidate]] = {fit: [] for fit in Fit}
        for one in known:
            earlier = one.stored is not None and is_earlier(one.stored.section)
            fits[topic.fit(one.text, earlier=earlier)].append(one)
        whole, more, weak = fits[Fit.WHOLE], fits[Fit.MORE], fits[Fit.WEAK]
        if best := whole or more:
            is_one = groups([one.text for one in best]) == 1
            is_one |= bool(whole) and request.meant is Meant.STATEMENT
            self._done_or_doubt(request, best, is_one=is_one)
            if whole and more and is_one:
                self._doubt(request, more, "they say it, and more")
        elif turns := [one for one in self._turns if topic.is_specific and _says(one, (), topic)]:
            self._of_turns(request, turns)
        elif weak:
            self._doubt(request, weak, "no memory matches it wholly")
        elif request.sure:
            hidden = any(topic.fit(one.text) is Fit.WHOLE for one in self._unwritable)
            may_not = "the caller may not write the memory that matches"
            self._doubt(request, [], may_not if hidden else "nothing known matches")

    def _before(self, request: ForgetRequest, known: Sequence[_Candidate]) -> None:
        """Decide on a request such as "forget that", which means the statement before it."""
        said = forget_requests.before(self._messages, request)
        hits = [(one, [c for c in known if says_in_all(one, c.text)]) for one in said]
        hits = [pair for pair in hits if pair[1]]
        is_pointed = request.topic.startswith(("that ", "this "))
        if request.topic:
            topic = Topic(replace(request, meant=Meant.TOPIC))
            named = [(one, [c for c in of if topic.fit(c.text) is Fit.WHOLE]) for one, of in hits]
            hits = [pair for pair in named if pair[1]] or ([] if is_pointed else hits)
        if hits:
            if len(hits) == 1 and request.sure:
                self._made.said.append(hits[0][0])
            found = list({id(c): c for _, of in hits for c in of}.values())
            self._done_or_doubt(request, found, is_one=len(hits) == 1)
        elif request.topic:
            is_sure = request.sure and not is_pointed
            self._named(replace(request, meant=Meant.TOPIC, sure=is_sure), known)
        elif len(said) == 1 and (turns := [one for one in self._turns if _holds(one, said[0])]):
            self._of_turns(request, turns)
        elif said and request.sure:
            self._made.said += said if len(said) == 1 else ()
            self._doubt(request, [], "nothing known matches")

    def _done_or_doubt(
        self, request: ForgetRequest, found: Sequence[_Candidate], *, is_one: bool
    ) -> None:
        if not (is_one and request.sure):
            unsure = "it may be no request to forget"
            self._doubt(request, found, unsure if is_one else "several different memories match")
            return
        said = self._query.time_of((request.message,))
        named = " ".join((request.sentence, request.topic, *self._made.said))
        for one in found:
            reason = kept_unless_named(one.stored, named) if one.stored else ""
            if not reason and one.stored and (one.stored.entry.time or 0) > said:
                reason = "it was said later than the request"
            if reason:
                self._doubt(request, [one], reason)
                continue
            self._made.taken_back.append((request, one.text))
            if one.stored is None:
                self._made.dropped.add(one.proposal)
            else:
                self._made.gone[one.stored.entry.id] = one.stored
        if gone := [one.text for one in found if self._made.is_gone(one)]:
            self._forget_turns(request, named, gone)

    def _forget_turns(self, request: ForgetRequest, named: str, gone: Sequence[Text]) -> None:
        """Mark for removal the turns and the notes on changes that state forgotten memories.

        A turn that may not be removed without being named is left in doubt.
        """
        topic = Topic(request) if request.topic else None
        for one in self._changes:
            pair = _CHANGE.fullmatch(entries.said(one.passage))
            both = [Text(said) for said in pair.groups()] if pair else []
            if any(text.says_same(part) for text in gone for part in both):
                self._made.gone[one.entry.id] = one
        for one in self._turns:
            cancellation.check()
            if not _says(one, gone, topic):
                continue
            if reason := kept_unless_named(one, named):
                self._doubt(request, [_Candidate(Text(one.passage), one)], reason)
            else:
                self._made.gone[one.entry.id] = one

    def _of_turns(self, request: ForgetRequest, turns: Sequence[StoredEntry]) -> None:
        """Forget the turns of conversations that a request matches, or note a doubt.

        If all matching turns of the user have the same text, they are forgotten; else the request
        is doubtful. Without a turn of the user, the turns of the agent are compared.
        """
        own = [one for one in turns if not one.passage.startswith(SPEAKERS["assistant"])] or turns
        texts = {forget_requests.plain(without_speaker(one.passage)) for one in own}
        found = [
            _Candidate(Text(one.passage, one.section, memory_file_paths.JOURNAL), one)
            for one in turns
        ]
        self._done_or_doubt(request, found, is_one=len(texts) == 1)

    def _doubt(self, request: ForgetRequest, found: Sequence[_Candidate], reason: str) -> None:
        self._made.doubts.setdefault((request, reason), []).extend(found)


def _holds(turn: StoredEntry, sentence: str) -> bool:
    return forget_requests.plain(sentence) in forget_requests.plain(turn.passage)


def _says(turn: StoredEntry, gone: Sequence[Text], topic: Topic | None) -> bool:
    """Return True if a turn of the user or the agent states a forgotten memory."""
    of_agent = turn.passage.startswith(SPEAKERS["assistant"])
    lines = without_speaker(entries.said(turn.passage)).splitlines()
    own = (line.removeprefix(SAID) for line in lines if not line.startswith(QUOTED))
    return any(
        any(says(sentence, text, of_agent=of_agent) for text in gone)
        or (topic is not None and topic.is_specific and topic.fit(Text(sentence)) >= Fit.MORE)
        for line in own
        for sentence in sentences(line)
    )


def remaining(session: SearchSession, first: int, forgets: Forgets) -> SearchSession:
    """Return a session without forgotten sentences, to be kept as an episode.

    The sentences that state forgotten memories and the requests themselves are left out. A message
    without other sentences has no content. The name of the session stays.
    """
    if not forgets.requests:
        return session
    messages = tuple(
        replace(one, content=_without(one, i, forgets)) if i >= first else one
        for i, one in enumerate(session.messages)
    )
    return replace(session, messages=messages, id=session.id or id_of(session.messages[0]))


def _without(message: SessionMessage, index: int, forgets: Forgets) -> str:
    asked = [one for one in forgets.requests if one.message == index and (one.sure or one.topic)]
    said = set(map(forget_requests.plain, [*(one.sentence for one in asked), *forgets.said]))
    after = [(request, text) for request, text in forgets.taken_back if index <= request.message]
    topics = [Topic(one) for one in dict.fromkeys(one for one, _ in after if one.topic)]

    def goes(sentence: str) -> bool:
        of_agent = message.role != "user"
        return (
            forget_requests.plain(sentence) in said
            or any(says(sentence, text, of_agent=of_agent) for _, text in after)
            or any(topic.is_in(sentence) for topic in topics)
        )

    return forget_requests.without(message.content, goes)
