"""The results of reading and writing the tree; named as in contexts.proto."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vikingd.domain.changes import PutOutcome, PutRefusal
from vikingd.domain.contexts import ContextType, Relation


@dataclass(frozen=True, slots=True)
class MemoryState:
    """The state of one memory; `time` is the time when it was last said."""

    id: int
    reinforcement: int
    access_count: int
    time: datetime | None
    create_time: datetime | None


@dataclass(frozen=True, slots=True)
class ContextPassage:
    """A passage of a context: code points [start, end) of its content.

    Only a passage of a memory file has `memory`.
    """

    section: str
    start: int
    end: int
    memory: MemoryState | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """A node of the tree; only `get` returns overview, content, passages and relations.

    Attributes:
        uri: the URI of the context.
        context_type: the type, by the root of the URI.
        is_directory: True for a directory.
        abstract: L0, one or two sentences.
        overview: L1, some paragraphs.
        content: L2, the whole text of a file.
        title: the title as written.
        metadata: the metadata as written; whole numbers are ints.
        passages: the passages of the content, without vectors.
        time: the time of the event that the context describes.
        create_time: the time of the first write.
        update_time: the time of the last write that changed a field.
        reinforcement: the sum of the reinforcement counters of its memories.
        access_count: the sum of the access counters of its memories.
        content_hash: SHA-256 over the written fields; a put with an equal hash changes nothing.
        revision: the revision that last wrote, moved or re-embedded the context.
        relations: the links of the context.
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
    """Outcomes in the order of the contexts; the changes are visible from `revision` on.

    With `partial_success`, `refusals` has the reason of each refused context.
    """

    revision: int
    outcomes: tuple[PutOutcome, ...]
    refusals: tuple[PutRefusal, ...]


@dataclass(frozen=True, slots=True)
class AddResult:
    """The outcome of an add, and the URI of the document; it is visible from `revision` on."""

    uri: str
    outcome: PutOutcome
    revision: int


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The number of removed directories and files; they are gone from `revision` on."""

    revision: int
    deleted: int


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The number of moved directories and files; the new URIs hold from `revision` on."""

    revision: int
    moved: int


@dataclass(frozen=True, slots=True)
class LinkResult:
    """The first revision with the new link, or without the removed one."""

    revision: int
