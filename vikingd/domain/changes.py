"""The change feed from store to index, the backlog of vectors, and the result of a write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from vikingd.domain.contexts import Entry


class PutOutcome(IntEnum):
    """What a put did with one context."""

    CREATED = 1
    UPDATED = 2
    UNCHANGED = 3


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
