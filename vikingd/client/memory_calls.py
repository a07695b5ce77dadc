"""The methods of the service Memories, and their results.

Each function builds a request. The daemon checks the values.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from vikingd.client.conversation import Session, session_message
from vikingd.client.methods import If, method
from vikingd.client.results import Rows, Timings
from vikingd.client.values import (
    Many,
    When,
    count_of,
    flat,
    many_of,
    moment,
    set_fusion,
    vector_bytes,
)
from vikingd.domain.answers import Confidence, Degraded
from vikingd.domain.extract import ExtractSource, MemoryKind
from vikingd.domain.long_queries import fitted
from vikingd.domain.prompt import RecallPath
from vikingd.domain.retrieve_query import Rrf, WeightedSum
from vikingd.domain.search_query import SearchSession
from vikingd.memory.model import Remembered as RememberOutcome
from vikingd.memory.model import SalienceParts
from vikingd.pb import memories_pb2

if TYPE_CHECKING:
    from vikingd.client.values import Vector

_NAMED = If("with a request_id", lambda request: bool(request.request_id))


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory: one entry of a memory file, or a whole file with the id 0.

    Attributes:
        id: the id for `reinforce` and `forget`; 0: a whole file.
        uri: the URI of its file.
        content: the text of the memory, or the Markdown of the file.
        score: the salience in [0, 1]; 1 for a whole file.
        memory_type: the kind of its file: "preferences", "journal", ...
        section: headings joined by " > ".
        reinforcement: the number of times that it was said again or reinforced.
        token_count: the tokens of the content.
        parts: the parts of the score; only from a search.
        truncated: True: only a part fits into the budget: the beginning of a file, or the passage
            that was found of a memory of several passages.
        access_count: the number of times that it was used.
        time: the time when it was last said; of a file, the time of the event in it.
        pinned: True: `forget` takes it by its id alone.
    """

    id: int
    uri: str
    content: str
    score: float
    memory_type: str
    section: str
    reinforcement: int
    token_count: int
    parts: SalienceParts | None
    truncated: bool
    access_count: int
    time: datetime | None
    pinned: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class RecallResult(Rows[Memory]):
    """The recalled memories; iteration and len() are over `results`.

    Attributes:
        results: the memories, best first; from the timeline, newest first.
        total_tokens: the tokens of all contents.
        budget_remaining: the rest of the budget.
        path: the path that found the memories; None: no path has an answer.
        reason: the reason for the path and for the end of the results, for people.
        approximate: True if tokens are estimated.
        candidates: the number of memories that the search scored.
        revision: the revision that was searched.
        timings: the duration of each stage in seconds, in order.
        degraded: the failed or missing parts of the answer, each with its cause.
        confidence: how far the answer can be relied on; 1 for a file or a day that the query names.
        left_out: the number of memories that the search found and the floor left out.
        questions: those of a request that asks several, if a search answered.
    """

    results: tuple[Memory, ...]
    total_tokens: int
    budget_remaining: int
    path: RecallPath | None
    reason: str
    approximate: bool
    candidates: int
    revision: int
    timings: Timings
    degraded: Degraded = ()
    confidence: Confidence | None = None
    left_out: int = 0
    questions: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


@dataclass(frozen=True, slots=True)
class RememberResult:
    """The outcome of a remember.

    Attributes:
        outcome: ADDED for a new memory, REINFORCED if it was said before.
        id: the id of the memory.
        uri: the URI of its file.
        reinforcement: its reinforcement counter now.
        met: the wording before, of a memory that was reinforced; "" for a new one.
        similarity: 1 if the memory was reinforced, 0 for a new one.
        revision: the memory is visible from this revision on.
        degraded: the failed or missing parts of the call, each with its cause.
    """

    outcome: RememberOutcome
    id: int
    uri: str
    reinforcement: int
    met: str
    similarity: float
    revision: int
    degraded: Degraded = ()


@dataclass(frozen=True, slots=True)
class ExtractedMemory:
    """A memory that a conversation says.

    Attributes:
        kind: the kind, which decides the file.
        text: the text.
        section: the heading above it; "": none.
        evidence: the messages that say it, as indices from 0 into the session.
        outcome: ADDED, REINFORCED if it was said before, REPLACED if it took an older one's place,
            ENDED if the user ended it.
        id: the id of the memory; 0 for a new one of a dry run.
        uri: the URI of its file.
        met: the older wording that was said again or replaced; "": none.
    """

    kind: MemoryKind
    text: str
    section: str
    evidence: tuple[int, ...]
    outcome: RememberOutcome
    id: int
    uri: str
    met: str


@dataclass(frozen=True, slots=True)
class RefusedMemory:
    """A proposed memory that was not written, with the reason; `kind` is None for no known kind."""

    kind: MemoryKind | None
    text: str
    evidence: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ForgetProposal:
    """A request of the user to forget that is in doubt; nothing was forgotten.

    Attributes:
        request: the request in the user's words.
        message: the index of its message.
        memories: the memories that it may mean, the most likely first; `forget` takes their ids.
        reason: the reason for the doubt, for people.
    """

    request: str
    message: int
    memories: tuple[Memory, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class UntakenSentence:
    """A sentence of the user that became no memory of its own, its message, and the reason."""

    text: str
    message: int
    reason: str


@dataclass(frozen=True, slots=True)
class EpisodeTurn:
    """A turn of an episode: the index of its message, and the id of the memory; 0: a dry run."""

    message: int
    id: int


@dataclass(frozen=True, slots=True)
class Episode:
    """The conversation itself.

    Attributes:
        uri: the URI of its first file.
        turns: the turns that were written; a long one has several. Those that stood there already
            are not among them.
    """

    uri: str
    turns: tuple[EpisodeTurn, ...]


@dataclass(frozen=True, slots=True)
class ExtractResult:
    """The memories of a conversation.

    Attributes:
        memories: the written memories; of a dry run, those that a real call would write.
        refused: the proposals that were refused.
        source: MODEL, RULES, or NONE without a message to read.
        reason: the reason for the source, and the parts that were left out, for people.
        revision: the memories are visible from this revision on.
        degraded: the failed or missing parts of the call, each with its cause.
        forgotten: the memories that the user asked to forget, and that are gone.
        to_forget: the requests to forget that are in doubt.
        episode: the conversation as it was written, if no model took the memories; else None.
        not_taken: sentences of the user that became no memory, if no model took the memories.
        not_taken_left_out: the number of further such sentences.
    """

    memories: tuple[ExtractedMemory, ...]
    refused: tuple[RefusedMemory, ...]
    source: ExtractSource
    reason: str
    revision: int
    degraded: Degraded = ()
    forgotten: tuple[Memory, ...] = ()
    to_forget: tuple[ForgetProposal, ...] = ()
    episode: Episode | None = None
    not_taken: tuple[UntakenSentence, ...] = ()
    not_taken_left_out: int = 0

    def __iter__(self) -> Iterator[ExtractedMemory]:
        return iter(self.memories)

    def __len__(self) -> int:
        return len(self.memories)


@dataclass(frozen=True, slots=True)
class ReinforceResult:
    """The new counters, in the order of the ids; they are visible from `revision` on."""

    revision: int
    reinforcements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SparedMemory:
    """A memory that meets the criteria and that only its id forgets, with the reason."""

    memory: Memory
    reason: str


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """The memories that are gone from `revision` on, by URI and place; with `dry_run`, a preview.

    Attributes:
        forgotten: the memories.
        revision: they are gone from this revision on.
        left_out: the number of further memories, which do not fit into the reply.
        spared: the memories that meet the criteria and stay, each with the reason.
        spared_left_out: the number of further ones, which do not fit into the reply.
    """

    forgotten: tuple[Memory, ...]
    revision: int
    left_out: int = 0
    spared: tuple[SparedMemory, ...] = ()
    spared_left_out: int = 0


# A repetition may count accesses twice.
@method(memories_pb2.RecallResponse, RecallResult, retried=True)
def recall(
    query: str,
    *,
    vector: Vector | None = None,
    project: str = "",
    with_global: bool = False,
    max_tokens: int = 0,
    tokenizer: str = "",
    top_k: int | None = None,
    limit: int | None = None,
    without: Many[RecallPath] = (),
    fusion: Rrf | WeightedSum | None = None,
    profile: str = "",
    weights: tuple[float, float, float, float] | None = None,
    half_life_days: float | None = None,
    now: When | None = None,
    time_zone: str = "",
    skip_oversize: bool = False,
    no_touch: bool = False,
    min_revision: int = 0,
    used: Iterable[int] = (),
    paths: Many[RecallPath] = (),
    floor: float | None = None,
) -> memories_pb2.RecallRequest:
    """Recall the memories that matter now, within a budget of tokens.

    Args:
        query: the question.
        vector: the embedding of the query; None: the daemon embeds the query.
        project: the project of the memories; "": the memories of no project.
        with_global: search the memories of no project too, beside the project's.
        max_tokens: the budget in tokens; 0: the daemon's default.
        tokenizer: a bundled tokenizer, or a name in the daemon's configuration; "":
            o200k_base, or approx where quicktok-v1 is not installed.
        top_k: return at most this many memories; None: the daemon's default.
        limit: the same as `top_k`; give one of them.
        without: the paths to skip.
        fusion: the fusion of meaning and words; None: the scores of a find, with the memories
            before and after one, and its file.
        profile: weights by name, "relevance" or "salience"; "": the daemon's default.
        weights: weights of meaning, reinforcement, recency and access, which sum to 1.
        half_life_days: the days after which recency has halved; None: the daemon's default.
        now: the reference time of ages and of words such as "yesterday"; None: the clock.
        time_zone: the time zone of the caller, such as "Europe/Berlin"; "": UTC.
        skip_oversize: skip a memory that does not fit, and go on to smaller ones.
        no_touch: count no access.
        min_revision: answer from this revision or a later one.
        used: the ids of memories of earlier recalls that were used since; each counts as accessed.
        paths: the strict form: the paths to try, in this order; a trigger word alone decides, and
            the first path with an answer gives all of it. (): the default form.
        floor: the least `confidence.in_scope` of an answer from a search, in [0, 1]; 0: any;
            None: the daemon's default, which leaves out what is NOTHING.
    """
    request = memories_pb2.RecallRequest(
        query=fitted(query),
        vector=b"" if vector is None else vector_bytes(vector),
        scope=_scope(project, with_global),
        max_tokens=max_tokens,
        tokenizer=tokenizer,
        top_k=count_of(limit, top_k),
        without=many_of(RecallPath, without, "without"),
        profile=profile,
        half_life_days=half_life_days,
        now=moment(now, "now"),
        time_zone=time_zone,
        skip_oversize=skip_oversize,
        no_touch=no_touch,
        min_revision=min_revision,
        used=_ids((used,), "used"),
        paths=many_of(RecallPath, paths, "paths"),
        floor=floor,
    )
    if weights is not None:
        own = request.weights
        own.semantic, own.reinforcement, own.recency, own.access = weights
    set_fusion(request, fusion)
    return request


# Without a request_id, a repetition would reinforce the memory once more.
@method(memories_pb2.RememberResponse, RememberResult, retried=_NAMED)
def remember(
    text: str,
    memory_type: str = "",
    *,
    section: str = "",
    project: str = "",
    uri: str = "",
    time: When | None = None,
    time_zone: str = "",
    exact: bool = False,
    pinned: bool | None = None,
    request_id: str | None = None,
) -> memories_pb2.RememberRequest:
    """Write one memory, or reinforce it if it was said before.

    Args:
        text: the text to remember; a long one is one memory of several passages.
        memory_type: "preferences", "tasks", "journal", ... or any name; not needed with `uri`.
        section: the heading above the memory; "": no heading.
        project: the project of the memory; "": no project.
        uri: the file, in place of project and type.
        time: the time when it was said; None: now.
        time_zone: the time zone of the caller, for the day of a journal; "": UTC.
        exact: reinforce an equal wording only, not equal words.
        pinned: True: `forget` takes the memory by its id alone; False: as any other; None: a known
            memory stays as it is.
        request_id: a name for this call; repetitions with this name count once. None: a new name.
            "": no name.
    """
    return memories_pb2.RememberRequest(
        text=text,
        memory_type=memory_type,
        section=section,
        scope=_scope(project, with_global=False),
        uri=uri,
        time=moment(time),
        time_zone=time_zone,
        exact=exact,
        pinned=pinned,
        request_id=_request_id(request_id),
    )


@method(memories_pb2.ExtractResponse, ExtractResult, retried=_NAMED)
def extract(
    session: Session | SearchSession,
    *,
    first: int = 0,
    project: str = "",
    dry_run: bool = False,
    time: When | None = None,
    time_zone: str = "",
    request_id: str | None = None,
) -> memories_pb2.ExtractRequest:
    """Take memories from a conversation and write them, each with the messages that say it.

    Args:
        session: the conversation.
        first: take memories from messages[first:]; the summary and earlier messages are context.
        project: the project of the memories; "": no project.
        dry_run: write nothing; only return what a real call would write.
        time: the time of the conversation; None: now.
        time_zone: as in `remember`.
        request_id: as in `remember`.
    """
    return memories_pb2.ExtractRequest(
        session=session_message(session, session.messages),
        first=first,
        scope=_scope(project, with_global=False),
        time=moment(time),
        time_zone=time_zone,
        dry_run=dry_run,
        request_id=_request_id(request_id),
    )


@method(memories_pb2.ReinforceResponse, ReinforceResult, retried=_NAMED)
def reinforce(
    *ids: int | Iterable[int],
    by: int = 1,
    used: Iterable[int] = (),
    request_id: str | None = None,
) -> memories_pb2.ReinforceRequest:
    """Reinforce memories that proved true or useful, by their ids; count those that were used.

    Args:
        ids: the ids of the memories, one by one or as a list. They count as used, too.
        by: the amount that is added to each counter.
        used: the ids of memories that were used for an answer: they count as accessed alone.
        request_id: as in `remember`.
    """
    return memories_pb2.ReinforceRequest(
        ids=_ids(ids), by=by, used=_ids((used,), "used"), request_id=_request_id(request_id)
    )


def _request_id(given: str | None) -> str:
    return str(uuid.uuid4()) if given is None else given


# A repetition would be NOT_FOUND.
@method(memories_pb2.ForgetResponse, ForgetResult, retried=False)
def forget(
    *ids: int | Iterable[int],
    project: str = "",
    with_global: bool = False,
    older_than: When | None = None,
    below_salience: float | None = None,
    dry_run: bool = False,
    now: When | None = None,
) -> memories_pb2.ForgetRequest:
    """Remove memories by their ids, or all memories of a scope that meet every criterion.

    Criteria spare what is pinned, the profile, instructions, and what speaks of health.

    Args:
        ids: the ids of the memories, one by one or as a list.
        project: the project of the memories; "": the memories of no project.
        with_global: include the memories of no project, beside the project's.
        older_than: criterion: the memory was last said before this time.
        below_salience: criterion: its salience without a query is below this, in (0, 1].
        dry_run: remove nothing; only return the memories that a real call would remove.
        now: the reference time of ages; None: the clock.
    """
    return memories_pb2.ForgetRequest(
        ids=_ids(ids),
        scope=None if ids else _scope(project, with_global),
        older_than=moment(older_than, "older_than"),
        below_salience=below_salience,
        dry_run=dry_run,
        now=moment(now, "now"),
    )


def _scope(project: str, with_global: bool) -> memories_pb2.MemoryScope:
    return memories_pb2.MemoryScope(project=project, with_global=with_global or not project)


def _ids(given: Iterable[int | Iterable[int]], name: str = "ids") -> list[int]:
    return flat(given, int, name, "ids of memories, such as 17")
