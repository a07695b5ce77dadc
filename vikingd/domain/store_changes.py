"""Changes that a store passes to its index, texts that wait for vectors, and results of writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from vikingd.domain.contexts import Entry
from vikingd.domain.errors import InvalidField, VikingError


class PutOutcome(IntEnum):
    """The effect of a put on one context."""

    CREATED = 1
    UPDATED = 2
    UNCHANGED = 3
    REFUSED = 4


@dataclass(frozen=True, slots=True)
class PutRefusal:
    """The reason why a context of a batch was not written.

    Attributes:
        index: the index of the context in the batch.
        reason: the reason of the error, such as "INVALID_FIELD".
        field: the path of the invalid field within the context; "" for the whole context.
        message: an explanation for people, without the name of the field.
    """

    index: int
    reason: str
    field: str
    message: str

    @classmethod
    def of(cls, index: int, error: VikingError) -> PutRefusal:
        """Return the refusal of a context for an error."""
        if isinstance(error, InvalidField):
            return cls(index, error.reason, error.field, error.description)
        return cls(index, error.reason, "", str(error))


class Waiting(NamedTuple):
    """A text that waits for its vector; texts with equal digests have the same vector."""

    text_id: int
    text: str
    cost: int  # in the unit of `Backlog`
    digest: bytes  # of the text, its user, the model and its settings


class Backlog(NamedTuple):
    """The number of texts that wait for their vector, and the work to embed them.

    The unit of work is a character. A Chinese, Japanese or Korean character counts as three. Each
    text counts as a hundred more.
    """

    texts: int
    cost: int


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A text with its id in the store, and the passage that a reply shows.

    The passage begins at code point `start` of the content, on line number `line`, below the
    headings `section`. The passage is "" for an abstract, which is a field of the context.
    """

    text_id: int
    ordinal: int
    script: int
    text: str
    vector: bytes  # b"" if there is none yet
    embeddable: bool  # False: it never gets a vector
    section: str = ""
    start: int = 0
    passage: str = ""
    line: int = 0  # from 1; 0 for an abstract


@dataclass(frozen=True, slots=True)
class Upsert:
    """Change feed: a context was written; its fields and texts are exactly these."""

    context_id: int
    uri: str
    is_directory: bool
    title: str
    abstract: str
    metadata: Mapping[str, Any]
    texts: tuple[IndexedText, ...]
    time: int | None = None  # of the described event, in microseconds since the epoch


@dataclass(frozen=True, slots=True)
class Remove:
    """Change feed: a context was removed, with all below it."""

    uri: str


@dataclass(frozen=True, slots=True)
class Filled:
    """Change feed: a text got its vector."""

    text_id: int
    vector: bytes


@dataclass(frozen=True, slots=True)
class Linked:
    """Change feed: two contexts were linked, with a reason.

    A link ends when one of its contexts is removed or moved. After a move the store links the new
    URI again.
    """

    uri: str
    other: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unlinked:
    """Change feed: two contexts are no longer linked."""

    uri: str
    other: str


@dataclass(frozen=True, slots=True)
class AllLinks:
    """Change feed: all links were replaced by these."""

    links: tuple[Linked, ...]


Change = Upsert | Remove | Filled | Linked | Unlinked | AllLinks


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a write."""

    revision: int  # the first that has the write
    outcomes: tuple[PutOutcome, ...] = ()
    refusals: tuple[PutRefusal, ...] = ()  # of a put that writes all other contexts
    count: int = 0
    text_ids: tuple[int, ...] = ()  # texts of a put that wait for their vector
    entries: tuple[Entry, ...] = ()  # states of memories after a reinforcement
    reply: bytes = b""  # that of the first call, if this call is a repetition
    last: str = ""  # the last URI of a part of a subtree; "" at the end


@dataclass(frozen=True, slots=True)
class Once:
    """The id of a call that must have its effect once, even if the caller repeats it.

    `reply` encodes the result of the call as bytes, which are stored in the same transaction and
    returned to repeated calls. b"" is not stored: the call has changed nothing.
    """

    id: str  # chosen by the caller
    digest: bytes  # of the fields, to detect another call with the same id
    reply: Callable[[Committed], bytes]
    caller: str = ""  # its name, see `Caller`

    @property
    def key(self) -> str:
        """The key of the stored reply; it contains the caller, so that callers do not share ids."""
        return f"{self.caller}\n{self.id}" if self.caller else self.id  # neither has a newline
