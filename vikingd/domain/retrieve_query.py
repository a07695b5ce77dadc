"""The domain of Retrieve: a query whose caller chooses how texts are found and ranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from vikingd.domain.contexts import ContextType

if TYPE_CHECKING:
    from viking_kernels.arrays import F32

DEFAULT_TOP_K = 30
MAX_TOP_K = 1000
MAX_BOOSTS = 32
MAX_BOOST = 100.0
RRF_K = 60


class Mode(IntEnum):
    """The part of the index that is searched: vectors, words or both."""

    VECTOR = 1
    KEYWORD = 2
    HYBRID = 3


class Include(IntEnum):
    """An optional part of each item in the reply."""

    TEXT = 1
    METADATA = 2
    VECTOR = 3


class Outcome(IntEnum):
    """The outcome of a retrieval."""

    FOUND = 1
    NO_MATCH = 2
    BELOW_THRESHOLD = 3


@dataclass(frozen=True, slots=True)
class Rrf:
    """Fusion by rank: the sum of weight / (k + rank + 1), with ranks from 0."""

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
    """A factor for the scores of items below a URI, or of items that pass a filter."""

    factor: float
    uri_prefix: str = ""
    where: Mapping[str, Any] | None = None


# Not frozen: a frozen one takes four times as long to make.
@dataclass(slots=True)
class RetrieveQuery:
    """A checked query of Retrieve; RetrieveRequest in the proto documents each field.

    `vector` is the float32 vector [dim] of the query, of any length; None until it is embedded, or
    if there is none.
    """

    text: str = ""
    target_uri: str = "viking://"
    within: str = "viking://"  # holds the target; the answer depends on nothing outside it
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
    after: str = ""  # the last URI of the page before, in a listing
    listing: bool = False  # True without text and vector: all items that pass `where`
    vector: F32 | None = field(default=None, compare=False)

    @property
    def strategy(self) -> str:
        """The kind of query for metrics: VECTOR, KEYWORD, HYBRID_RRF, HYBRID_WEIGHTED, LISTING."""
        if self.listing:
            return "LISTING"
        if self.mode is not Mode.HYBRID:
            return self.mode.name
        return "HYBRID_RRF" if isinstance(self.fusion, Rrf) else "HYBRID_WEIGHTED"


@dataclass(frozen=True, slots=True)
class ItemTrace:
    """The parts of an item's score."""

    vector_rank: int | None
    keyword_rank: int | None
    dense: float
    lexical: float
    fused: float
    boost: float
