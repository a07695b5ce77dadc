"""The domain of Find: the query, the matches and the trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from vikingd.domain.contexts import ContextType

if TYPE_CHECKING:
    from viking_kernels.arrays import F32

MAX_PASSAGES_SHOWN = 3
MAX_LIMIT = 1000
MAX_THINKING_LIMIT = 100
DEFAULT_LIMIT = 10


class Levels(IntEnum):
    """The kinds of nodes that a find returns."""

    FILES = 1
    DIRECTORIES = 2
    BOTH = 3


class Method(IntEnum):
    """The way in which a find scans its scope.

    EXHAUSTIVE passes over directories by bounds, BEST_FIRST walks from the best directories until
    the results settle, and EXACT scores all texts by their vectors. With AUTO the daemon chooses.
    """

    AUTO = 0
    EXHAUSTIVE = 1
    BEST_FIRST = 2
    EXACT = 3


class Preference(IntEnum):
    """The kinds of files that a find prefers."""

    NONE = 0
    CODE = 1
    DOCS = 2


class StopReason(IntEnum):
    """The reason why a search stopped."""

    SCOPE_SCORED = 1
    CONVERGED = 2
    EXHAUSTED = 3
    DIRECTORY_LIMIT = 4
    ROUND_LIMIT = 5
    OUT_OF_REACH = 6


class RerankStatus(IntEnum):
    """The outcome of reranking."""

    DONE = 1
    FAILED = 2
    OFF = 3


# Not frozen: a frozen one takes four times as long to make.
@dataclass(slots=True)
class FindQuery:
    """A checked query over the tree; FindRequest in the proto documents each field.

    `vector` is the float32 vector [dim] of the query, of any length; None until it is embedded, or
    if there is none.
    """

    text: str = ""
    target_uri: str = "viking://"
    within: str = "viking://"  # holds the target; the answer depends on nothing outside it
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
    prefer: Preference = Preference.NONE
    now: datetime | None = None  # that days such as "yesterday" are counted from; None: the clock
    vector: F32 | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The parts of a score; ScoreParts in the proto documents each field.

    Each is in [0, 1] but `feedback`, which may be below 0, and `kind`, which is 0 or below.
    `rerank` is None if no reranker scored the match.
    """

    dense: float
    lexical: float
    dense_weight: float
    node_score: float
    smoothed: float
    parent: float
    parent_weight: float
    title: float
    feedback: float
    cover: float
    agreement: float
    reply: float
    date: float
    kind: float
    final: float
    rerank: float | None = None


@dataclass(frozen=True, slots=True)
class TracedDirectory:
    """A directory that the search opened or scored."""

    uri: str
    parts: ScoreParts
    round: int
    start_point: bool
    files: int


@dataclass(frozen=True, slots=True)
class TracedMean:
    """The centroid that was subtracted from the vectors of one script."""

    script: str
    vectors: int
    uri: str
    with_prior: bool


@dataclass(frozen=True, slots=True)
class FindTrace:
    """The explanation of an answer; FindTrace in the proto documents each field."""

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
    stop_reason: StopReason
    identifiers: bool
    lexical_rescale: float
    other_script_cap: float
    files_per_directory: float
    dates: tuple[str, ...]
    question: str = ""


@dataclass(frozen=True, slots=True)
class RerankRound:
    """One call of the reranker; RerankRound in the proto documents each field."""

    round: int
    opened: int
    documents: int
    cached: int
    without_abstract: int
    left_out: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Rerank:
    """The work of the reranker; `reason` says why the status is not DONE."""

    status: RerankStatus
    reason: str = ""
    model: str = ""
    rounds: tuple[RerankRound, ...] = ()
