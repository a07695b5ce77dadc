"""The results of the clients. Attributes are named as the fields of the replies in the proto.

Times are datetimes in UTC, durations of stages seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from vikingd.domain.account import Degraded
from vikingd.domain.contexts import ContextType, Relation
from vikingd.domain.find import FindTrace, RerankStatus, ScoreParts
from vikingd.domain.prompt import DropReason, RecallPath
from vikingd.domain.retrieve import ItemTrace, Outcome
from vikingd.domain.search import QueryPlan, TypedQuery
from vikingd.memory.model import Remembered as RememberOutcome
from vikingd.memory.model import SalienceParts

Timings: TypeAlias = dict[str, float]
"""Seconds by stage, in order."""


@dataclass(frozen=True, slots=True)
class MatchedPassage:
    """A passage that made its file match: code points [start, end) of the content.

    `ordinal` is its number in the context, from 1; a ContextItem names it by that.
    """

    ordinal: int
    section: str
    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class MatchedContext:
    """One result of a find or a search.

    Attributes:
        uri: its name.
        context_type: by its root.
        is_leaf: True for a file.
        level: of the text that matched best: 0 the abstract, 2 a passage of the content.
        abstract: one sentence or two.
        score: in (0, 1], comparable from query to query.
        relations: what it is linked with in the scope, the best for this query first.
        passages: the best of a file; none when the abstract alone matched.
        parts: of the score; only with `trace`.
    """

    uri: str
    context_type: ContextType
    is_leaf: bool
    level: int
    abstract: str
    score: float
    relations: tuple[Relation, ...] = ()
    passages: tuple[MatchedPassage, ...] = ()
    parts: ScoreParts | None = None


@dataclass(frozen=True, slots=True)
class RerankRound:
    """One call of the reranker: round 0 reads the start points, 1 to 3 what was opened."""

    round: int
    opened: int
    documents: int
    cached: int
    without_abstract: int
    left_out: int
    duration: timedelta


@dataclass(frozen=True, slots=True)
class Rerank:
    """The work of the reranker; `reason` says why it is not DONE, `model` is "" for none."""

    status: RerankStatus
    reason: str
    model: str
    rounds: tuple[RerankRound, ...]


@dataclass(frozen=True, slots=True)
class _ByType:
    """Matches in three lists, each by falling score; iterating joins them in one order."""

    memories: tuple[MatchedContext, ...]
    resources: tuple[MatchedContext, ...]
    skills: tuple[MatchedContext, ...]

    def __iter__(self) -> Iterator[MatchedContext]:
        lists = self.memories, self.resources, self.skills
        return heapq.merge(*lists, key=lambda match: (-match.score, match.uri))

    def __len__(self) -> int:
        return len(self.memories) + len(self.resources) + len(self.skills)

    @property
    def contexts(self) -> tuple[MatchedContext, ...]:
        """The matches of all types, by falling score, ties by URI."""
        return tuple(self)


@dataclass(frozen=True, slots=True)
class FindResult(_ByType):
    """Results by type, each by falling score, ties by URI; `contexts` has all in one order.

    Attributes:
        memories: of type MEMORY.
        resources: of type RESOURCE.
        skills: of type SKILL.
        total: how many there are in the three together, which is its length.
        revision: that was searched.
        timings: seconds by stage.
        degraded: what the answer had to do without.
        trace: why the answer is what it is; only when asked for.
        rerank: what the reranker did; only in SearchMode.THINKING.
    """

    total: int
    revision: int
    timings: Timings
    degraded: Degraded = ()
    trace: FindTrace | None = None
    rerank: Rerank | None = None


@dataclass(frozen=True, slots=True)
class QueryHit:
    """A result of one query of a plan: a context by its name, and its score for this query."""

    uri: str
    score: float


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The results of one query of a plan, before the merge."""

    query: TypedQuery
    hits: tuple[QueryHit, ...]
    timings: Timings
    degraded: Degraded = ()
    rerank: Rerank | None = None
    trace: FindTrace | None = None


@dataclass(frozen=True, slots=True)
class SearchResult(_ByType):
    """Results of all queries of a plan, each URI once with its best score; else as FindResult.

    Attributes:
        query_plan: what was looked for, who planned that, and why.
        query_results: what each query found, in the order of the plan.
        rerank: the reranker, for all queries together; its rounds stand in query_results.
    """

    query_plan: QueryPlan
    query_results: tuple[QueryResult, ...]
    total: int
    revision: int
    timings: Timings
    degraded: Degraded = ()
    rerank: Rerank | None = None


@dataclass(frozen=True, slots=True)
class RetrievedItem:
    """A passage that was retrieved; passage 0 is its context's abstract.

    `score` is on the scale of the mode. `metadata` and `vector` (little-endian float32) are there
    when `include` asks for them, `trace` with `trace`.
    """

    uri: str
    passage: int
    section: str
    text: str
    start: int
    end: int
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)
    vector: bytes = b""
    trace: ItemTrace | None = None


@dataclass(frozen=True, slots=True)
class RetrieveResult:
    """Items by falling score, ties by URI and passage; iterating and len() are over the items.

    Attributes:
        items: at most top_k.
        outcome: why there are items, or none.
        relaxed_clauses: the clauses of `where` that were dropped.
        revision: that was searched.
        timings: seconds by stage.
        degraded: what the answer had to do without.
        next_page_token: of a listing, where the next page begins; "" on the last one.
    """

    items: tuple[RetrievedItem, ...]
    outcome: Outcome
    relaxed_clauses: tuple[str, ...]
    revision: int
    timings: Timings
    degraded: Degraded = ()
    next_page_token: str = ""

    def __iter__(self) -> Iterator[RetrievedItem]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Citation:
    """The place of a passage in a built context: code points [start, end) of its text.

    `level` is 0 for an abstract, 1 for an overview, 2 for content.
    """

    marker: str
    uri: str
    section: str
    level: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DroppedPiece:
    """A piece that is not in a built context, and why."""

    uri: str
    section: str
    reason: DropReason


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """The text for a prompt.

    Attributes:
        text: the context.
        citations: in the order of the text.
        used_tokens: of the whole text; never more than the budget.
        budget_tokens: max_tokens without what is reserved.
        approximate: True when tokens are estimated.
        dropped: what is not in it, best first.
        from_items: how many pieces stand in the text, themselves or by a summary.
        revision: that was read.
        timings: seconds by stage.
        degraded: what the answer had to do without.
    """

    text: str
    citations: tuple[Citation, ...]
    used_tokens: int
    budget_tokens: int
    approximate: bool
    dropped: tuple[DroppedPiece, ...]
    from_items: int
    revision: int
    timings: Timings
    degraded: Degraded = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory: one entry of a memory file, or a whole file with the id 0.

    Attributes:
        id: for `reinforce` and `forget`.
        uri: its file.
        content: what it says; of a file its Markdown.
        score: its salience, in [0, 1].
        memory_type: the kind of its file.
        section: headings joined by " > ".
        reinforcement: how often it was said again or reinforced.
        token_count: of the content.
        parts: of the score; only from a search.
        truncated: True: the file goes on behind what fits into the budget.
        access_count: how often it was recalled before.
        time: when it was said, the last time.
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


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The recalled memories, best first; of the timeline, newest first. Iterates over `results`.

    Attributes:
        results: the memories.
        total_tokens: of all contents.
        budget_remaining: what they leave of the budget.
        path: how they were found; None when no path has an answer.
        reason: why that path, and why it ends where it does, for people.
        approximate: True when tokens are estimated.
        candidates: how many memories the search weighed.
        revision: that was searched.
        timings: seconds by stage.
        degraded: what the answer had to do without.
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

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


@dataclass(frozen=True, slots=True)
class RememberResult:
    """The outcome of a remember.

    Attributes:
        outcome: added, or reinforced where it was said before.
        id: of the entry.
        uri: its file.
        reinforcement: how often it was reinforced by now.
        met: the wording that it met, or that comes near; "" is none.
        similarity: how near that is: 1 equal wordings, else the cosine.
        revision: from which on it is seen.
        degraded: what the call had to do without.
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
class ReinforceResult:
    """Counters as they are from `revision` on, in the order of the ids."""

    revision: int
    reinforcements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """The memories that are gone from `revision` on, or would be with `dry_run`, by URI and place.

    The reply had no room for `left_out` more of them.
    """

    forgotten: tuple[Memory, ...]
    revision: int
    left_out: int = 0


class ContextItem(NamedTuple):
    """A passage, or a whole context with passage 0; its score gives its rank among the others."""

    uri: str
    passage: int = 0
    score: float = 0.0


Hit: TypeAlias = ContextItem | MatchedContext | RetrievedItem | tuple[str, int, float]


def context_items(hit: Hit) -> tuple[ContextItem, ...]:
    """Return the items of one result.

    The passages of a matched context have its score. Each further one ranks lower, by the ratio of
    its own score to that of the best one. A match without passages stands for the whole context.
    """
    if isinstance(hit, RetrievedItem):
        return (ContextItem(hit.uri, hit.passage, hit.score),)
    if not isinstance(hit, MatchedContext):
        return (ContextItem(*hit),)
    if not hit.passages:
        return (ContextItem(hit.uri, 0, hit.score),)
    best = hit.passages[0].score
    return tuple(
        ContextItem(hit.uri, passage.ordinal, hit.score * passage.score / best)
        for passage in hit.passages
    )
