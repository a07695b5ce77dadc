"""The domain of contexts: a node of the tree as a writer sends it, and as the store keeps it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

MAX_RELATIONS = 5
MAX_DIMENSION = 16_384
ABSTRACT, PASSAGE = 0, 2
"""Levels of texts: abstract (L0) and passages of the content (L2)."""
HAND, EXTRACT = "hand", "extract"
"""Makers of an abstract or an overview: a writer of the context, and the daemon's own extracts."""
MAX_COUNTER = 1 << 40
"""Upper limit of the counters of a memory."""


_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class ContextType(IntEnum):
    """The kind of a context, by the root of its URI."""

    UNSPECIFIED = 0
    MEMORY = 1
    RESOURCE = 2
    SKILL = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """The stored state of one memory: its id, times and counters.

    Times are in microseconds. An `id` of 0 and a time of None mean: unknown, or not given. A long
    memory has several passages. The first has the memory's entry. Each later passage has an
    `Entry.of_rest`, whose id is negative and never leaves the store.
    """

    id: int = 0
    reinforcement: int = 0
    access_count: int = 0
    time: int | None = None
    created_at: int | None = None

    @classmethod
    def of_rest(cls, text_id: int, time: int, created_at: int) -> Entry:
        """Return the entry of a passage that continues a memory; its id is unique and negative."""
        return cls(-text_id, 0, 0, time, created_at)

    @property
    def is_rest(self) -> bool:
        """True for the entry of a passage that continues a memory."""
        return self.id < 0


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a file's content: code points [start, end), with the headings above it.

    `vector` is b"" if none is given. `entry` is None for a passage without the state of a memory.
    In a memory file, `continues` is True if the passage belongs to the memory of the one before.
    """

    section: str
    start: int
    end: int
    vector: bytes = b""
    entry: Entry | None = None
    continues: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A context as a writer sends it, before the daemon checks and stores it.

    `time` is when the described event happened, in microseconds since the epoch. None keeps the
    stored time; a new context gets the current time. `update_mask` names the fields to write of an
    existing context. None writes all fields and creates the context if needed.
    """

    uri: str
    is_directory: bool = False
    abstract: str = ""
    overview: str = ""
    content: str = ""
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    passages: Sequence[Passage] | None = None  # None: the daemon cuts the content
    vector: bytes = b""
    time: int | None = None
    update_mask: Collection[str] | None = None
    expected_revision: int | None = None  # 0: it must not exist; None: any

    def content_hash(self) -> bytes:
        """Return the SHA-256 of all fields but vectors; equal hashes mean that nothing changed."""
        record = [*self._beginning(), _places(self.passages), self.time]
        return hashlib.sha256(_CANONICAL.encode(record).encode()).digest()

    def with_hash(
        self,
        content_hash: bytes,
        cuts: Iterable[Sequence[Passage] | None],
        times: Collection[int | None],
    ) -> Iterator[Draft]:
        """Yield copies of this draft, with other passages and times, whose content hash is this.

        Each pair of an item of `cuts` and an item of `times` is tried. The content is hashed once.

        Args:
            content_hash: the content hash that a copy must have.
            cuts: the lists of passages to try.
            times: the times to try.
        """
        begun = hashlib.sha256(_CANONICAL.encode(self._beginning())[:-1].encode())
        for cut in cuts:
            for time in times:
                whole = begun.copy()
                whole.update(f",{_CANONICAL.encode([_places(cut), time])[1:]}".encode())
                if whole.digest() == content_hash:
                    yield replace(self, passages=cut, time=time)

    def _beginning(self) -> list[object]:
        """Return the fields that the content hash covers first; passages and time follow."""
        return [
            self.is_directory,
            self.abstract,
            self.overview,
            self.content,
            self.title,
            self.metadata,
        ]


def _places(passages: Sequence[Passage] | None) -> list[list[object]] | None:
    if passages is None:
        return None
    return [[p.section, p.start, p.end, *([True] if p.continues else ())] for p in passages]


@dataclass(frozen=True, slots=True)
class Relation:
    """A context that is linked to another one, with the reason of the link."""

    uri: str
    abstract: str
    reason: str


@dataclass(frozen=True, slots=True)
class Context:
    """A context as the store keeps it; times in microseconds since the epoch.

    `abstract_by` and `overview_by` say who wrote the text: HAND, EXTRACT or the name of a model; ""
    if there is no text.
    """

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
    abstract_by: str = ""
    overview_by: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """An abstract or a passage, which is indexed and embedded by itself.

    It is the code points [start, end) of the content; both are 0 for the abstract.
    """

    ordinal: int  # 0 for the abstract; 1, 2, ... for the passages
    section: str
    start: int
    end: int
    text: str  # to embed, headings included
    script: int
    vector: bytes = b""  # b"" if none is given
    continues: bool = False  # it belongs to the memory of the text before it


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked draft with its abstract and its texts, ready to be written.

    `entries` has the memory states that the writer sets, by ordinal of the passage. Other memories
    keep their states.
    """

    draft: Draft
    abstract: str
    texts: tuple[Text, ...]
    content_hash: bytes
    entries: Mapping[int, Entry] = field(default_factory=dict)
