"""The results of reading and writing the tree; named as in contexts.proto."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vikingd.domain.changes import PutOutcome
from vikingd.domain.contexts import ContextType, Relation


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The state of one memory; `time` is when it was last said."""

    id: int
    reinforcement: int
    access_count: int
    time: datetime | None
    create_time: datetime | None


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """A passage of a context: code points [start, end) of its content.

    `memory` is there for a passage of a memory file.
    """

    section: str
    start: int
    end: int
    memory: MemoryState | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """A node of the tree; overview, content, passages and relations come from `get` alone.

    Attributes:
        uri: its name.
        context_type: by its root.
        is_directory: True for a directory.
        abstract: one sentence or two.
        overview: some paragraphs.
        content: a file's whole text.
        title: as written.
        metadata: as written; whole numbers are ints.
        passages: how the content is cut.
        time: when what it tells happened.
        create_time: first write.
        update_time: last write that changed something.
        reinforcement: how often its memories were reinforced, all together.
        access_count: how often its memories were recalled, all together.
        content_hash: SHA-256 over what was written: equal means an equal put changes nothing.
        revision: that last changed it.
        relations: what it is linked to.
    """

    uri: str
    context_type: ContextType
    is_directory: bool
    abstract: str
    overview: str
    content: str
    title: str
    metadata: dict[str, Any]
    passages: tuple[ContextPassage, ...]
    time: datetime | None
    create_time: datetime | None
    update_time: datetime | None
    reinforcement: int
    access_count: int
    content_hash: bytes
    revision: int
    relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class PutResult:
    """Outcomes in the order of what was put, seen from `revision` on."""

    revision: int
    outcomes: tuple[PutOutcome, ...]


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The number of directories and files that are gone from `revision` on."""

    revision: int
    deleted: int


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The number of directories and files that have new names from `revision` on."""

    revision: int
    moved: int


@dataclass(frozen=True, slots=True)
class LinkResult:
    """The revision from which on a link is there, or gone."""

    revision: int
