"""The domain of memories: scopes, recalls, stored entries and rewrites of memory files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from vikingd.domain import uri as uris
from vikingd.domain.answers import Confidence, Degraded, Stage
from vikingd.domain.contexts import Entry, Passage, Prepared
from vikingd.domain.errors import NotFound
from vikingd.domain.prompt_options import RecallPath
from vikingd.domain.retrieve_query import Rrf, WeightedSum
from vikingd.domain.rights import LOCAL, Caller, Right
from vikingd.domain.text import SECTION_SEPARATOR

SHARED_ROOTS = ("viking://user/memories", "viking://agent/memories")
"""The roots of memories that belong to no project and to no named user, in their order."""

EARLIER = "Earlier"
"""The heading above the memories of a file that were replaced by newer ones."""

WEIGHT_TOLERANCE = 1e-6
"""The tolerance for the sum of weights, which must be 1."""


class Remembered(IntEnum):
    """The effect of a Remember."""

    ADDED = 1
    REINFORCED = 2
    REPLACED = 3
    ENDED = 4


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """The memories that a call may read: those of no project, those of one project, or both.

    The memories of no project are the caller's own, if it has a user, and the shared ones.
    """

    with_global: bool = True
    project: str = ""
    caller: Caller = LOCAL

    def roots(self) -> list[str]:
        """Return the directories of the scope: the caller's own, the shared ones, the project's."""
        user = self.caller.user
        return [
            *([own_root(user)] if self.with_global and user else ()),
            *(SHARED_ROOTS if self.with_global else ()),
            *([project_root(self.project)] if self.project else ()),
        ]

    def parts(self) -> list[str]:
        """Return the readable subtrees of the scope's directories, in the order of `roots`."""
        return [part for root in self.roots() for part in self.caller.parts(root)]


def own_root(user: str) -> str:
    """Return the root of the memories of a user."""
    return f"{uris.user_root(user)}/memories"


def memory_type_of(uri: str) -> str:
    """Return the type of the memories of a file: the name below memories/ and agent/."""
    segments = uri.removeprefix(uris.ROOT).split("/")
    below = segments[3 if segments[0] in ("users", "projects") else 2 :]
    if len(below) > 1 and below[0] == "agent" and segments[0] == "projects":
        del below[0]
    name = below[0] if below else ""
    return name.rpartition(".")[0].lower() or name.lower() if len(below) == 1 else name.lower()


def project_root(project: str) -> str:
    """Return the root of the memories of a project."""
    return f"viking://projects/{project}/memories"


@dataclass(frozen=True, slots=True)
class Salience:
    """The weights of salience, each in [0, 1], with the sum 1; and the half-life in days.

    salience = semantic * s + reinforcement * log(r + 1) / log(max r + 2)
    + recency * exp(-ln 2 / half_life_days * age in days) + access * log(a + 1) / log(max a + 2)

    The maxima are over the candidates. s is the fused score, divided by that of the best candidate
    (fusion by score) or by the best possible one (fusion by rank).
    """

    semantic: float = 0.5
    reinforcement: float = 0.2
    recency: float = 0.2
    access: float = 0.1
    half_life_days: float = 30.0


RELEVANCE = Salience(0.94, 0.02, 0.02, 0.02)
"""The profile that keeps most evidence: the newer and stronger win only among equal matches."""


def is_earlier(section: str) -> bool:
    """Return True for a memory below the heading "Earlier": it was replaced by a newer one."""
    return EARLIER in section.split(SECTION_SEPARATOR)


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A checked recall; RecallRequest in the proto documents each field.

    Attributes:
        now: in microseconds since the epoch.
        fusion: of meaning and words; None: the scores of a find, with neighbours and files.
        paths: in the strict form the paths to try, in this order, by any trigger; empty: the
            default form, in which the search fills what the other paths leave.
        newest_first: of memories that speak of the same thing, the newest comes first.
    """

    text: str
    scope: MemoryScope
    now: int
    time_zone: str
    max_tokens: int
    tokenizer: str
    top_k: int
    without: frozenset[RecallPath]
    fusion: Rrf | WeightedSum | None
    salience: Salience
    skip_oversize: bool
    no_touch: bool
    min_revision: int
    used: tuple[int, ...] = ()
    paths: tuple[RecallPath, ...] = ()
    newest_first: bool = False
    floor: float | None = None  # the least in_scope; None: all but NOTHING

    @property
    def counts_returned(self) -> bool:
        """True if returned memories count as accessed, and not only used ones."""
        return bool(self.paths)

    def tries(self, path: RecallPath) -> bool:
        """Return True if the query allows a path to answer."""
        return path in self.paths if self.paths else path not in self.without


@dataclass(frozen=True, slots=True)
class SalienceParts:
    """The terms of a salience, each in [0, 1], before they are weighted."""

    semantic: float
    reinforcement: float
    recency: float
    access: float


@dataclass(frozen=True, slots=True)
class Memory:
    """A recalled memory: an entry, or a whole file with the id 0."""

    uri: str
    content: str
    score: float
    token_count: int
    entry: Entry = field(default_factory=Entry)
    passage: int = 0
    section: str = ""
    parts: SalienceParts | None = None
    truncated: bool = False
    pinned: bool = False

    @property
    def memory_type(self) -> str:
        """The type of the memory: the name below memories/ and agent/, without a suffix."""
        return memory_type_of(self.uri)


@dataclass(frozen=True, slots=True)
class RecallResult:
    """Memories within the budget of a recall, and the way in which they were found.

    Attributes:
        path: a known file, the timeline or a search; None if the first two found nothing and the
            request had switched the search off.
        reason: an explanation of `path`.
        budget: the limit of tokens.
        approximate: True if tokens are estimated.
        candidates: the number of memories that the search scored.
    """

    memories: tuple[Memory, ...]
    path: RecallPath | None
    reason: str
    budget: int
    approximate: bool
    revision: int
    candidates: int
    stages: tuple[Stage, ...]
    confidence: Confidence
    left_out: int = 0  # memories below the floor
    degraded: Degraded = ()
    questions: tuple[str, ...] = ()  # of a request that asks several, if a search answered

    @property
    def total_tokens(self) -> int:
        """The tokens of all memories."""
        return sum(memory.token_count for memory in self.memories)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry and its position: the passage `ordinal` of its file, code points [start, end).

    `vector` is b"" if there is none yet. An `ordinal` of 0 is the abstract of a file without text.
    A long entry has several passages: `spans` has [start, end) of each, and `ordinal` and `vector`
    are those of the first one. `spans` is empty for one passage.
    """

    uri: str
    entry: Entry
    ordinal: int
    section: str
    start: int
    end: int
    passage: str
    vector: bytes = b""
    spans: tuple[tuple[int, int], ...] = ()

    @property
    def head(self) -> str:
        """The text of the first passage of the entry."""
        return self.passage[: self.spans[0][1] - self.start] if self.spans else self.passage

    def passages(self) -> list[Passage]:
        """Return the passages of the entry."""
        return [
            Passage(self.section, start, end, continues=start > self.start)
            for start, end in self.spans or ((self.start, self.end),)
        ]

    def continued(self, start: int, end: int, content: str) -> StoredEntry:
        """Return the entry with one more passage of a content."""
        spans = (*(self.spans or ((self.start, self.end),)), (start, end))
        return replace(self, end=end, passage=content[self.start : end], spans=spans)

    def moved(self, start: int) -> StoredEntry:
        """Return the entry at another position."""
        by = start - self.start
        spans = tuple((low + by, high + by) for low, high in self.spans)
        return replace(self, start=start, end=self.end + by, spans=spans)


def laid_out(stored: Sequence[StoredEntry]) -> tuple[list[Passage], dict[int, Entry]]:
    """Return the passages of entries in order, and each entry by the ordinal of its first one."""
    passages: list[Passage] = []
    at: dict[int, Entry] = {}
    for one in stored:
        at[len(passages) + 1] = one.entry
        passages += one.passages()
    return passages, at


def check_ids(
    ids: Sequence[int],
    holders: Mapping[int, str],
    caller: Caller,
    right: Right = Right.WRITE,
    field: str = "ids",
) -> None:
    """Check, in the order of the ids, that the memories exist and the caller has a right to them.

    Args:
        holders: the URI of each memory's file, by the id of the memory.
        field: the request field with the ids.

    Raises:
        NotFound: a memory does not exist, or the caller may not read it.
        PermissionDenied: the caller may read a memory, but lacks the right.
    """
    for i, wanted in enumerate(ids):
        uri = holders.get(wanted)
        if uri is None or not caller.may(Right.READ, uri):
            raise NotFound(str(wanted), f"{field}[{i}]: there is no memory {wanted}")
        caller.check(right, uri)


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A stored memory file: the fields of a put, and its entries in order."""

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
    """The change of a file: a new content, its removal, or new counters of entries.

    A removal and new counters apply to the first file of the series.
    """

    prepared: Prepared | None = None
    removed: bool = False
    counters: tuple[Entry, ...] = ()
