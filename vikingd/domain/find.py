"""The domain of Find: the query, the matches and the trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from vikingd.domain.contexts import ContextType, Relation
from vikingd.domain.stages import Stage

MAX_PASSAGES_SHOWN = 3
MAX_LIMIT = 1000
MAX_THINKING_LIMIT = 100
DEFAULT_LIMIT = 10


class Levels(IntEnum):
    """Which nodes a find returns."""

    FILES = 1
    DIRECTORIES = 2
    BOTH = 3


class Method(IntEnum):
    """How a find gets its answer."""

    AUTO = 0
    EXHAUSTIVE = 1
    BEST_FIRST = 2
    EXACT = 3


class RerankStatus(IntEnum):
    """What became of reranking."""

    DONE = 1
    FAILED = 2
    OFF = 3


@dataclass(slots=True)
class FindQuery:
    """One query over the tree, checked; see FindRequest in the proto for each field."""

    text: str = ""
    vector: bytes = b""
    target_uri: str = "viking://"
    context_types: frozenset[ContextType] = frozenset()
    levels: Levels = Levels.FILES
    limit: int = DEFAULT_LIMIT
    score_threshold: float | None = None
    where: Mapping[str, Any] | None = None
    alpha: float | None = None
    trace: bool = False
    min_revision: int = 0
    method: Method = Method.AUTO
    max_directories: int = 0
    thinking: bool = False


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """How a score came about; every part in [0, 1]. `rerank` is None where no reranker decided."""

    dense: float
    lexical: float
    dense_weight: float
    own: float
    smoothed: float
    parent: float
    parent_weight: float
    title: float
    final: float
    rerank: float | None = None


@dataclass(slots=True)
class MatchedPassage:
    """A passage that made its file match, as it stands in the content: code points [start, end)."""

    section: str
    text: str
    start: int
    end: int
    score: float


@dataclass(slots=True)
class Match:
    """One result of a find."""

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
class TracedDirectory:
    """A directory that the search opened or weighed."""

    uri: str
    parts: ScoreParts
    round: int
    start_point: bool
    files: int


@dataclass(frozen=True, slots=True)
class TracedMean:
    """The mean that centred the vectors of one script."""

    script: str
    vectors: int
    uri: str
    with_prior: bool


@dataclass(frozen=True, slots=True)
class FindTrace:
    """Why the answer is what it is; see FindTrace in the proto for each field."""

    method: Method
    scope_directories: int
    scope_files: int
    scope_texts: int
    scored_texts: int
    rescored: int
    terms: tuple[str, ...]
    query_script: str
    means: tuple[TracedMean, ...]
    icc: float
    gate: float
    sample_files: int
    directories: tuple[TracedDirectory, ...]
    opened: int
    rounds: int
    stop_reason: str
    identifiers: bool
    lexical_lift: float


@dataclass(frozen=True, slots=True)
class RerankRound:
    """One call of the reranker; see RerankRound in the proto for each field."""

    round: int
    opened: int
    documents: int
    cached: int
    without_abstract: int
    left_out: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Rerank:
    """What the reranker did; `reason` says why the status is not DONE."""

    status: RerankStatus
    reason: str = ""
    model: str = ""
    rounds: tuple[RerankRound, ...] = ()


class Gathered(NamedTuple):
    """Matches as the bytes that a reply has of them."""

    data: bytes
    total: int
    top_score: float


@dataclass(slots=True)
class FindResult:
    """Matches by falling score, ties by URI, and how they came about.

    `gathered` are the matches where they were asked for as bytes and all have room; there are no
    `matches` then. `method` is the one that was used, never AUTO; `rerank` is None in QUICK. A
    reply has no room for `left_out` further results, and for the whole of `shortened` texts of
    passages.
    """

    matches: tuple[Match, ...]
    revision: int
    method: Method
    stages: tuple[Stage, ...]
    degraded: tuple[str, ...] = ()
    trace: FindTrace | None = None
    rerank: Rerank | None = None
    left_out: int = 0
    shortened: int = 0
    gathered: Gathered | None = None

    @property
    def is_cut(self) -> bool:
        """Whether there was no room for all of it."""
        return bool(self.left_out or self.shortened)
