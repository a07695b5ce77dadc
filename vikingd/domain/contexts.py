"""The domain of contexts: a node of the tree as a writer gives it and as the store has it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

MAX_RELATIONS = 5
MAX_DIMENSION = 16_384
ABSTRACT, PASSAGE = 0, 2
"""Levels of texts: that of a context's abstract, that of passages of its content."""
MAX_COUNTER = 1 << 40
"""Of a memory: reinforcement and accesses stay there."""


_CANONICAL = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


class ContextType(IntEnum):
    """What a context is to an agent, by the root that its URI stands under."""

    UNSPECIFIED = 0
    MEMORY = 1
    RESOURCE = 2
    SKILL = 3


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
