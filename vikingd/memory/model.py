"""The domain of memories: entries of memory files, what is recalled, what a write came to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from vikingd.domain import uri as uris
from vikingd.domain.degradation import Degraded
from vikingd.domain.errors import NotFound
from vikingd.domain.model import Entry, Prepared, Stage
from vikingd.domain.query import RecallPath, Rrf, WeightedSum

GLOBAL_ROOTS = ("viking://user/memories", "viking://agent/memories")
"""Where memories are that belong to no project; the user's first."""

WEIGHT_TOLERANCE = 1e-6
"""By which weights that sum to 1 may miss it."""


class Remembered(IntEnum):
    """What a Remember did."""

    ADDED = 1
    REINFORCED = 2


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Whose memories: those of no project, those of one project, or both."""

    with_global: bool = True
    project: str = ""

    def roots(self) -> list[str]:
        """The directories that it consists of, the global ones first."""
        own = [project_root(self.project)] if self.project else []
        return [*(GLOBAL_ROOTS if self.with_global else ()), *own]


def project_root(project: str) -> str:
    """Where the memories of a project are."""
    return f"viking://projects/{project}/memories"


def memory_type(uri: str) -> str:
    """The kind of a memory, by its place: the name below memories/ and agent/, without a suffix."""
    segments = uri.removeprefix(uris.ROOT).split("/")
    below = segments[segments.index("memories") + 1 :]
    if len(below) > 1 and below[0] == "agent" and segments[0] == "projects":
        del below[0]
    name = below[0] if below else ""
    return name.rpartition(".")[0].lower() or name.lower() if len(below) == 1 else name.lower()


@dataclass(frozen=True, slots=True)
class Salience:
    """What makes a memory matter: weights in [0, 1] that sum to 1, and the half-life in days.

    salience = semantic * s + reinforcement * log(r + 1) / log(max r + 2)
    + recency * exp(-ln 2 / half_life_days * age in days) + access * log(a + 1) / log(max a + 2),
    the maxima of the candidates; s is the fused score, by score over that of the best candidate, by
    rank over the best possible one.
    """

    semantic: float = 0.5
    reinforcement: float = 0.2
    recency: float = 0.2
    access: float = 0.1
    half_life_days: float = 30.0


RELEVANCE = Salience(0.94, 0.02, 0.02, 0.02)
"""The profile for questions about facts: of memories that fit alike the newer and stronger one."""


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """One recall, checked; see RecallRequest in the proto for each field.

    `now` is in microseconds since the epoch.
    """

    text: str
    scope: MemoryScope
    now: int
    time_zone: str
    max_tokens: int
    tokenizer: str
    top_k: int
    without: frozenset[RecallPath]
    fusion: Rrf | WeightedSum
    salience: Salience
    skip_oversize: bool
    no_touch: bool
    min_revision: int


@dataclass(frozen=True, slots=True)
class SalienceParts:
    """The parts of a score, each in [0, 1], before their weights."""

    semantic: float
    reinforcement: float
    recency: float
    access: float


@dataclass(frozen=True, slots=True)
class Memory:
    """What was recalled: an entry, or a whole file with the id 0; time in microseconds."""

    uri: str
    content: str
    score: float
    token_count: int
    entry: Entry = field(default_factory=Entry)
    passage: int = 0
    section: str = ""
    parts: SalienceParts | None = None
    truncated: bool = False

    @property
    def memory_type(self) -> str:
        """See `memory_type`."""
        return memory_type(self.uri)


@dataclass(frozen=True, slots=True)
class RecallResult:
    """Memories within the budget, and how they were found.

    `path` is None where none had an answer and a search was not wanted.
    """

    memories: tuple[Memory, ...]
    path: RecallPath | None
    reason: str
    budget: int
    approximate: bool
    revision: int
    candidates: int
    stages: tuple[Stage, ...]
    degraded: Degraded = ()

    @property
    def total_tokens(self) -> int:
        """Tokens of all memories."""
        return sum(memory.token_count for memory in self.memories)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry where it stands: the passage `ordinal` of its file, code points [start, end).

    `vector` is b"" where there is none (yet).
    """

    uri: str
    entry: Entry
    ordinal: int
    section: str
    start: int
    end: int
    passage: str
    vector: bytes = b""


def check_there(ids: Sequence[int], there: Collection[int]) -> None:
    """Fails unless all memories that a request names are there.

    Raises:
        NotFound: for the first that is not.
    """
    for i, wanted in enumerate(ids):
        if wanted not in there:
            raise NotFound(str(wanted), f"ids[{i}]: there is no memory {wanted}")


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file of memories as it stands: what a Put of it would give, and its entries in order."""

    uri: str
    abstract: str
    overview: str
    content: str
    title: str
    metadata: Mapping[str, object]
    time: int
    entries: tuple[StoredEntry, ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What becomes of a file: another content, or none (`removed`), or its entries' counters."""

    prepared: Prepared | None = None
    removed: bool = False
    counters: tuple[Entry, ...] = ()


Rewrite = Callable[[MemoryFile | None, Callable[[], int]], Rewritten]
"""Decides, within the transaction that writes it, what becomes of a file; None: there is none.

The second argument gives ids for new entries.
"""
