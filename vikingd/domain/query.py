"""The domain of Search, of Retrieve, of contexts and of Recall: what is asked, what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from vikingd.domain.degradation import Degraded
from vikingd.domain.model import ContextType, FindQuery, FindResult, Gathered, Match, Rerank, Stage

DEFAULT_TOP_K = 30
MAX_TOP_K = 1000
MAX_BOOSTS = 32
MAX_BOOST = 100.0
RRF_K = 60


class SearchMode(IntEnum):
    """Who has the last word on the order: scores by meaning and words, or a reranker."""

    QUICK = 1
    THINKING = 2


class PlanSource(IntEnum):
    """Who planned a search."""

    MODEL = 1
    RULES = 2
    NONE = 3


class Mode(IntEnum):
    """Which side of the index answers."""

    VECTOR = 1
    KEYWORD = 2
    HYBRID = 3


class Include(IntEnum):
    """What an item brings along."""

    TEXT = 1
    METADATA = 2
    VECTOR = 3


class CitationStyle(IntEnum):
    """What names the source of a passage in a built context."""

    NONE = 1
    NUMBERED = 2
    URI = 3


class ContextOrder(IntEnum):
    """The order of passages in a built context."""

    SCORE = 1
    TREE = 2


class DropReason(IntEnum):
    """Why a piece is not in a built context."""

    DUPLICATE = 1
    EMPTY = 2
    BUDGET = 3
    GONE = 4


class RecallPath(IntEnum):
    """How a recall got its answer."""

    FAST = 1
    TIMELINE = 2
    HYBRID = 3


class Outcome(IntEnum):
    """What a retrieval came to."""

    FOUND = 1
    NO_MATCH = 2
    BELOW_THRESHOLD = 3


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """One message of a session."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class SearchSession:
    """What was said before a search."""

    summary: str = ""
    messages: tuple[SessionMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedQuery:
    """One query of a plan; UNSPECIFIED looks everywhere, priority 1 is the most important of 5."""

    query: str
    context_type: ContextType
    intent: str = ""
    priority: int = 3


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What a task needs to know, by priority; without queries there is nothing to look up.

    `notes` say what was left out of the session and of the plan; `model` is "" where none is
    configured, or there is no session.
    """

    source: PlanSource
    reason: str
    queries: tuple[TypedQuery, ...]
    notes: tuple[str, ...] = ()
    model: str = ""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A task with its session, checked; see SearchRequest in the proto for each field."""

    text: str
    session: SearchSession
    find: FindQuery  # what each query of the plan has from the request, with an empty text


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a task needs to know: one result a URI, by falling score, ties by URI.

    `found` are the answers to the plan's queries, in its order.
    """

    plan: QueryPlan
    found: tuple[FindResult, ...]
    matches: tuple[Match, ...]
    revision: int
    rerank: Rerank
    stages: tuple[Stage, ...]
    degraded: Degraded = ()


@dataclass(frozen=True, slots=True)
class Rrf:
    """Fusion by rank: sum of weight / (k + rank + 1), rank from 0."""

    k: int = RRF_K
    vector_weight: float = 1.0
    keyword_weight: float = 1.0


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """Fusion by score: vector_weight * dense + keyword_weight * lexical."""

    vector_weight: float
    keyword_weight: float


@dataclass(frozen=True, slots=True)
class Boost:
    """The scores of items below a URI, or of those that a filter lets through, are multiplied."""

    factor: float
    uri_prefix: str = ""
    where: Mapping[str, Any] | None = None


@dataclass(slots=True)  # a frozen one takes four times as long to make
class RetrieveQuery:
    """One query by a strategy, checked; see RetrieveRequest in the proto for each field."""

    text: str = ""
    target_uri: str = "viking://"
    context_types: frozenset[ContextType] = frozenset()
    where: Mapping[str, Any] | None = None
    top_k: int = DEFAULT_TOP_K
    score_threshold: float | None = None
    mode: Mode = Mode.HYBRID
    fusion: Rrf | WeightedSum = field(default_factory=Rrf)
    include: frozenset[Include] = frozenset((Include.TEXT,))
    group_by_context: bool = False
    diversity: float = 0.0
    boosts: tuple[Boost, ...] = ()
    optional_clauses: tuple[str, ...] = ()
    degrade: bool = False
    trace: bool = False
    min_revision: int = 0
    after: str = ""  # of a listing: the last URI of the page before
    listing: bool = False  # neither text nor vector: all that `where` lets through

    @property
    def strategy(self) -> str:
        """Its name in metrics: VECTOR, KEYWORD, HYBRID_RRF, HYBRID_WEIGHTED or LISTING."""
        if self.listing:
            return "LISTING"
        if self.mode is not Mode.HYBRID:
            return self.mode.name
        return "HYBRID_RRF" if isinstance(self.fusion, Rrf) else "HYBRID_WEIGHTED"


@dataclass(frozen=True, slots=True)
class ItemTrace:
    """How an item's score came about."""

    vector_rank: int | None
    keyword_rank: int | None
    dense: float
    lexical: float
    fused: float
    boost: float


@dataclass(slots=True)
class RetrievedItem:
    """A passage that was retrieved; passage 0 is its context's abstract."""

    uri: str
    passage: int
    section: str
    text: str
    start: int
    end: int
    score: float
    vector: bytes = b""
    trace: ItemTrace | None = None


@dataclass(slots=True)  # a frozen one takes four times as long to make
class RetrieveResult:
    """Items by falling score, ties by URI and passage.

    `gathered` are the items where they were asked for as bytes and all have room; there are no
    `items` then.
    """

    items: tuple[RetrievedItem, ...]
    outcome: Outcome
    relaxed_clauses: tuple[str, ...]
    revision: int
    stages: tuple[Stage, ...]
    degraded: Degraded = ()
    next_after: str = ""
    is_cut: bool = False  # for lack of room
    gathered: Gathered | None = None
