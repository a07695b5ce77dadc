"""The domain of Retrieve: a query by a strategy of the caller, and its items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from vikingd.domain.contexts import ContextType
from vikingd.domain.find import Gathered
from vikingd.domain.stages import Stage

DEFAULT_TOP_K = 30
MAX_TOP_K = 1000
MAX_BOOSTS = 32
MAX_BOOST = 100.0
RRF_K = 60


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


class Outcome(IntEnum):
    """What a retrieval came to."""

    FOUND = 1
    NO_MATCH = 2
    BELOW_THRESHOLD = 3


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
    debug: bool = False
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
class ItemDebug:
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
    debug: ItemDebug | None = None


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
    degraded: tuple[str, ...] = ()
    next_after: str = ""
    is_cut: bool = False  # for lack of room
    gathered: Gathered | None = None
