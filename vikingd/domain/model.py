"""The domain: what a context is, what is asked and what is answered. No wire, no database.

Vectors are `bytes` of little-endian float32 here, so that the client needs no numpy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from vikingd.domain.degradation import Degraded

MAX_RELATIONS = 5
MAX_PASSAGES_SHOWN = 3
MAX_LIMIT = 1000
MAX_THINKING_LIMIT = 100
DEFAULT_LIMIT = 10
MAX_DIMENSION = 16_384

ABSTRACT, PASSAGE = 0, 2
"""Levels of texts: that of a context's abstract, that of passages of its content."""

_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


MAX_COUNTER = 1 << 40
"""Of a memory: reinforcement and accesses stay there."""


class ContextType(IntEnum):
    """What a context is to an agent, by the root that its URI stands under."""

    UNSPECIFIED = 0
    MEMORY = 1
    RESOURCE = 2
    SKILL = 3


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


class StopReason(IntEnum):
    """Why a search stopped."""

    SCOPE_SCORED = 1
    CONVERGED = 2
    EXHAUSTED = 3
    DIRECTORY_LIMIT = 4
    ROUND_LIMIT = 5
    OUT_OF_REACH = 6


class RerankStatus(IntEnum):
    """What became of reranking."""

    DONE = 1
    FAILED = 2
    OFF = 3


class PutOutcome(IntEnum):
    """What a put did with one context."""

    CREATED = 1
    UPDATED = 2
    UNCHANGED = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one memory, a passage of a memory file; times in microseconds.

    `id` 0 and times None mean: not known, or not given.
    """

    id: int = 0
    reinforcement: int = 0
    access_count: int = 0
    time: int | None = None
    created_at: int | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a file's content: code points [start, end), the headings above it, its vector.

    `vector` is b"" where none is given, `entry` None where nothing is remembered of it.
    """

    section: str
    start: int
    end: int
    vector: bytes = b""
    entry: Entry | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A context as a writer gives it.

    `passages` None means: cut the content here. `time` is when what it tells happened, in
    microseconds since the epoch; None: what it was, of a new one now. `update_mask` names the
    fields to write of a context that exists; None: all, whether it exists or not.
    `expected_revision` is the one that the context must have, 0 for one that must not exist; None:
    any.
    """

    uri: str
    is_directory: bool = False
    abstract: str = ""
    overview: str = ""
    content: str = ""
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    passages: Sequence[Passage] | None = None
    vector: bytes = b""
    time: int | None = None
    update_mask: Collection[str] | None = None
    expected_revision: int | None = None

    def content_hash(self) -> bytes:
        """SHA-256 over all that is written, vectors apart; equal hashes mean nothing changed."""
        passages = None
        if self.passages is not None:
            passages = [[p.section, p.start, p.end] for p in self.passages]
        record = [
            self.is_directory,
            self.abstract,
            self.overview,
            self.content,
            self.title,
            self.metadata,
            passages,
            self.time,
        ]
        return hashlib.sha256(_CANONICAL.encode(record).encode()).digest()


@dataclass(frozen=True, slots=True)
class Relation:
    """The other end of a link."""

    uri: str
    abstract: str
    reason: str


@dataclass(frozen=True, slots=True)
class Context:
    """A context as the store knows it; times in microseconds since the epoch."""

    uri: str
    is_directory: bool
    abstract: str
    title: str
    metadata: Mapping[str, Any]
    time: int
    created_at: int
    updated_at: int
    reinforcement: int
    access_count: int
    content_hash: bytes
    revision: int
    overview: str = ""
    content: str = ""
    passages: tuple[Passage, ...] = ()
    relations: tuple[Relation, ...] = ()


# A call makes some of the next ones, a find dozens of matches and passages, and a frozen one takes
# four times as long to make. None of them is changed once it is handed on.


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
    node_score: float
    smoothed: float
    parent: float
    parent_weight: float
    title: float
    final: float
    rerank: float | None = None


@dataclass(slots=True)
class MatchedPassage:
    """A passage that made its file match, as it stands in the content: code points [start, end)."""

    ordinal: int
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
    stop_reason: StopReason
    identifiers: bool
    lexical_rescale: float


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


class Stage(NamedTuple):
    """A part of the work on an answer; from when to when, by `time.perf_counter`."""

    name: str
    started: float
    ended: float


def seconds_of(stages: Iterable[Stage]) -> dict[str, float]:
    """How long each stage took, by name; one that was gone through again, in all."""
    seconds: dict[str, float] = {}
    for name, started, ended in stages:
        seconds[name] = seconds.get(name, 0.0) + ended - started
    return seconds


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
    degraded: Degraded = ()
    trace: FindTrace | None = None
    rerank: Rerank | None = None
    left_out: int = 0
    shortened: int = 0
    gathered: Gathered | None = None

    @property
    def is_cut(self) -> bool:
        """Whether there was no room for all of it."""
        return bool(self.left_out or self.shortened)


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of a context that is indexed and embedded by itself.

    `ordinal` 0 is the abstract, 1, 2, ... are the passages. `text` is what is embedded (headings
    included); `start` and `end` are code points of the content, both 0 for the abstract. `vector`
    is b"" where none is given.
    """

    ordinal: int
    section: str
    start: int
    end: int
    text: str
    script: int
    vector: bytes = b""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked draft with its abstract and its texts, ready to be written.

    `entries` are those of a memory file that are given, by ordinal; the others keep what they have.
    """

    draft: Draft
    abstract: str
    texts: tuple[Text, ...]
    content_hash: bytes
    entries: Mapping[int, Entry] = field(default_factory=dict)


class Waiting(NamedTuple):
    """A text that waits for its vector.

    Attributes:
        text_id: its id.
        text: the text to embed.
        cost: its share of the work, see `Backlog`.
        digest: of the text, the model and all that makes vectors outdated. Texts with equal
            digests have the same vector.
    """

    text_id: int
    text: str
    cost: int
    digest: bytes


class Backlog(NamedTuple):
    """The number of texts that wait for their vector, and the work that they are.

    Work is counted in characters. A Chinese, Japanese or Korean one counts as three, and each text
    as a hundred more.
    """

    texts: int
    cost: int


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A text with the id that the store gave it, and what a reply shows of it.

    That is `passage`, which stands from code point `start` on in the content, below `section`. Of
    an abstract's text it is nothing: the abstract is its context's.
    """

    text_id: int
    ordinal: int
    script: int
    text: str
    vector: bytes  # b"" where there is none (yet)
    embeddable: bool  # False: it never gets a vector
    section: str = ""
    start: int = 0
    passage: str = ""


@dataclass(frozen=True, slots=True)
class Upsert:
    """Change feed: this context stands so from now on, with just these texts."""

    context_id: int
    uri: str
    is_directory: bool
    title: str
    abstract: str
    metadata: Mapping[str, Any]
    texts: tuple[IndexedText, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Change feed: this context is gone, with all that was below it."""

    uri: str


@dataclass(frozen=True, slots=True)
class Filled:
    """Change feed: a text of this context has its vector now."""

    text_id: int
    vector: bytes


@dataclass(frozen=True, slots=True)
class Linked:
    """Change feed: these two contexts are linked, for this reason from now on.

    A link ends with one of its contexts, also where that moves; its new place is linked again then.
    """

    uri: str
    other: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unlinked:
    """Change feed: these two contexts are linked no longer."""

    uri: str
    other: str


@dataclass(frozen=True, slots=True)
class AllLinks:
    """Change feed: these are all links there are from now on."""

    links: tuple[Linked, ...]


Change = Upsert | Remove | Filled | Linked | Unlinked | AllLinks


@dataclass(frozen=True, slots=True)
class Committed:
    """What a write came to: the revision from which on it is seen, and what was done."""

    revision: int
    outcomes: tuple[PutOutcome, ...] = ()
    count: int = 0
    text_ids: tuple[int, ...] = ()  # of a put: texts that wait for their vector
    entries: tuple[Entry, ...] = ()  # of a reinforcement: as they are now
    reply: bytes = b""  # of a repeated call: the answer that the first one got
    last: str = ""  # of a part of a subtree: its last URI; "" at the end


@dataclass(frozen=True, slots=True)
class Once:
    """A call that counts once, however often it comes.

    Attributes:
        id: its name, chosen by the caller.
        digest: of its fields, so that another call of the same name is told apart.
        reply: makes the answer to be kept, in the transaction; b"" where nothing was done.
    """

    id: str
    digest: bytes
    reply: Callable[[Committed], bytes]
