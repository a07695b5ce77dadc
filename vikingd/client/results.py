"""The results of the clients: sequences of hits, dicts and tables.

Attributes have the names of the replies' fields in the proto. Times are datetimes in UTC. Durations
of stages are in seconds. The other results are beside the methods that return them.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar, overload

from vikingd.domain.answers import Confidence, Degraded
from vikingd.domain.contexts import ContextType, Relation
from vikingd.domain.find_query import FindTrace, RerankStatus, ScoreParts
from vikingd.domain.prompt_options import DropReason
from vikingd.domain.retrieve_query import ItemTrace, Outcome
from vikingd.domain.search_query import QueryPlan, TypedQuery
from vikingd.domain.text import join_lines

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")

Timings: TypeAlias = dict[str, float]
"""The duration of each stage in seconds, in order."""

_SHOWN = 10
_WIDTH = 72  # characters of a text
_OPTIONAL = ("parts", "trace")


class Rows(Generic[T]):
    """A result with hits, best first: `found[0]`, `len(found)`, `for hit in found`."""

    __slots__ = ()

    @abstractmethod
    def __iter__(self) -> Iterator[T]: ...

    @abstractmethod
    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        return tuple(self)[at]

    def __repr__(self) -> str:
        count = len(self)
        lines = [f"<{type(self).__name__}: {count} result{'s' * (count != 1)}>"]
        lines += [_line(hit) for hit in self[:_SHOWN]]
        if count > _SHOWN:
            lines.append(f"  ... {count - _SHOWN} more")
        return "\n".join(lines)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the hits as dicts that json.dumps takes.

        Each has a `text`, or a `content` if it is a memory. Enums are their names in lower case,
        times ISO 8601 text, durations seconds, and vectors lists of floats. Parts and traces are
        left out where there are none.
        """
        return [_row(hit) for hit in self]

    def to_pandas(self) -> pandas.DataFrame:
        """Return the hits as a DataFrame: a row for each hit, a column for each attribute.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "pandas is not installed; install it with: pip install pandas, or use to_dicts()"
            ) from None
        frame = pandas.DataFrame(self.to_dicts())
        if "time" in frame:
            frame["time"] = pandas.to_datetime(frame["time"], utc=True, format="ISO8601")
        return frame


def _row(hit: Any) -> dict[str, Any]:
    row: dict[str, Any] = _plain(hit)
    if "content" not in row and hasattr(hit, "text"):
        row.setdefault("text", hit.text)
    return row


def _plain(value: Any) -> Any:
    """Return a value of a hit as a value that json.dumps takes: a time as text, for example."""
    if is_dataclass(value) and not isinstance(value, type):
        named = ((field.name, getattr(value, field.name)) for field in fields(value))
        return {
            name: _plain(one) for name, one in named if one is not None or name not in _OPTIONAL
        }
    match value:
        case Enum():
            return value.name.lower()
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes():
            return array("f", value).tolist()
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
    return value


def _line(hit: Any) -> str:
    """Return a hit as a line: score, URI and the beginning of its text; else as its `str`."""
    if not hasattr(hit, "score"):
        return f"  {hit}"
    text = join_lines((getattr(hit, "text", "") or getattr(hit, "content", "")).splitlines())
    shown = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
    return f"  {hit.score:.3f}  {hit.uri}" + (f"  {shown}" if shown else "")


@dataclass(frozen=True, slots=True)
class MatchedPassage:
    """A matching passage of a file: code points [start, end) of the content.

    `ordinal` is its number in the context, from 1. A ContextItem has this number as `passage`. The
    passage goes from `first_line` to `last_line` of the content, which count from 1.
    """

    ordinal: int
    section: str
    text: str
    start: int
    end: int
    score: float
    first_line: int = 0
    last_line: int = 0


@dataclass(frozen=True, slots=True)
class MatchedContext:
    """One result of a find or a search.

    Attributes:
        uri: the URI of the context.
        context_type: the type, by the root of the URI.
        is_leaf: True for a file.
        level: the level of the text that matched best: 0 the abstract, 2 a passage of the content.
        abstract: L0, one or two sentences.
        score: the score in (0, 1], comparable between queries.
        relations: the linked contexts of the scope, best for this query first; at most 5.
        passages: the best passages of a file, best first; at most 3. Empty: none of them matched.
        parts: the parts of the score; only with `trace`.
        twin: the same page in another language; "" if none was found.
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
    twin: str = ""

    @property
    def text(self) -> str:
        """The text that matched best: the best passage, else the abstract."""
        return self.passages[0].text if self.passages else self.abstract


@dataclass(frozen=True, slots=True)
class RerankRound:
    """One call of the reranker.

    Round 0 scores the contexts where the walk over the tree starts, rounds 1 to 3 the contexts in
    the directories that they open.
    """

    round: int
    opened: int
    documents: int
    cached: int
    without_abstract: int
    left_out: int
    duration: timedelta


@dataclass(frozen=True, slots=True)
class Rerank:
    """The work of the reranker; `reason` is "" if `status` is DONE, `model` is "" for none."""

    status: RerankStatus
    reason: str
    model: str
    rounds: tuple[RerankRound, ...]


@dataclass(frozen=True, slots=True, repr=False)
class _ByType(Rows[MatchedContext]):
    """Matches in three lists, each by falling score; an iteration merges them by score."""

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


@dataclass(frozen=True, slots=True, repr=False)
class FindResult(_ByType):
    """Results by type, each by falling score, ties by URI; `contexts` has all in one order.

    Attributes:
        memories: the results of type MEMORY.
        resources: the results of type RESOURCE.
        skills: the results of type SKILL.
        total: the number of results in the three lists.
        revision: the revision that was searched.
        timings: the duration of each stage in seconds, in order.
        degraded: the failed or missing parts of the answer, each with its cause.
        trace: the trace of the search; only with `trace`.
        rerank: the work of the reranker; only in SearchMode.THINKING.
        confidence: how far the answer can be relied on; weak results are there all the same.
        questions: the single questions of a request that asks several; each was searched by itself.
        further_traces: the traces of the questions after the first; only with `trace`.
    """

    total: int
    revision: int
    timings: Timings
    degraded: Degraded = ()
    trace: FindTrace | None = None
    rerank: Rerank | None = None
    confidence: Confidence | None = None
    questions: tuple[str, ...] = ()
    further_traces: tuple[FindTrace, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryHit:
    """A result of one query of a plan: the URI of a context, and its score for this query."""

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


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult(_ByType):
    """The results of all queries of a plan, each URI once with its best score; see FindResult.

    Attributes:
        query_plan: the plan: its queries, its planner and the reason.
        query_results: the results of each query, in the order of the plan.
        rerank: the work of the reranker for all queries; its rounds are in query_results.
        confidence: the confidence of the query that matches the scope best.
        questions: the single questions of a task that asks several, if no model made the plan.
    """

    query_plan: QueryPlan
    query_results: tuple[QueryResult, ...]
    total: int
    revision: int
    timings: Timings
    degraded: Degraded = ()
    rerank: Rerank | None = None
    confidence: Confidence | None = None
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RetrievedItem:
    """A retrieved passage; passage 0 is the abstract of its context, with no lines (0).

    `score` is on the scale of the mode. `metadata` and `vector` (little-endian float32) are set
    only if `include` names them, `trace` only with `trace`. `copies` are the URIs of up to five
    other contexts with the same text, and `more_copies` counts further ones.
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
    first_line: int = 0
    last_line: int = 0
    copies: tuple[str, ...] = ()
    more_copies: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class RetrieveResult(Rows[RetrievedItem]):
    """Items by falling score, ties by URI and passage; iteration and len() are over the items.

    Attributes:
        items: the items, at most top_k.
        outcome: items were found, or the reason for an empty answer.
        relaxed_clauses: the clauses of `where` that were dropped, since nothing matched them.
        revision: the revision that was searched.
        timings: the duration of each stage in seconds, in order.
        degraded: the failed or missing parts of the answer, each with its cause.
        next_page_token: the token of a listing's next page; "": this is the last page.
        confidence: how far the answer can be relied on; None for a listing.
    """

    items: tuple[RetrievedItem, ...]
    outcome: Outcome
    relaxed_clauses: tuple[str, ...]
    revision: int
    timings: Timings
    degraded: Degraded = ()
    next_page_token: str = ""
    confidence: Confidence | None = None

    def __iter__(self) -> Iterator[RetrievedItem]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Citation:
    """The place of a passage in a built context: code points [start, end) of its text.

    `level` is 0 for an abstract, 1 for an overview, 2 for content. Of content `first_line` and
    `last_line` are its lines in the file, from 1.
    """

    marker: str
    uri: str
    section: str
    level: int
    start: int
    end: int
    first_line: int = 0
    last_line: int = 0


@dataclass(frozen=True, slots=True)
class DroppedPiece:
    """A piece that is not in a built context, and the reason."""

    uri: str
    section: str
    reason: DropReason


@dataclass(frozen=True, slots=True)
class BuiltContext:
    """The text for a prompt.

    Attributes:
        text: the text for the prompt.
        citations: the places of the passages, in the order of the text.
        used_tokens: the tokens of the whole text; never more than the budget.
        budget_tokens: the budget: max_tokens less the reserved tokens.
        approximate: True if tokens are estimated.
        dropped: the pieces that are not in the text, best first.
        from_items: the number of pieces in the text, in full or by a summary.
        revision: the texts are of this revision or a later one.
        timings: the duration of each stage in seconds, in order.
        degraded: the failed or missing parts of the answer, each with its cause.
        confidence: the confidence of the find or the retrieve; None if items or URIs were given.
        left_out: the number of pieces below the floor; the text is "" then.
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
    confidence: Confidence | None = None
    left_out: int = 0


class ContextItem(NamedTuple):
    """A passage, or a whole context with passage 0; the scores give the order of items."""

    uri: str
    passage: int = 0
    score: float = 0.0


Hit: TypeAlias = ContextItem | MatchedContext | RetrievedItem | tuple[str, int, float]


def context_items(hit: Hit) -> tuple[ContextItem, ...]:
    """Return the items of one result.

    The best passage of a matched context has the context's score. The score of each other passage
    is lower, by the ratio of both passages' scores. A match without passages is the whole context.
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
