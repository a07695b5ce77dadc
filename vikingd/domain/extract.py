"""The domain of Extract: memories that a conversation says, with their evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

MAX_MEMORIES = 32
"""Memories of one call, at most; refused proposals too."""


class MemoryKind(IntEnum):
    """The kind of an extracted memory, which decides its file."""

    PROFILE = 1
    PREFERENCES = 2
    ENTITIES = 3
    EVENTS = 4
    CASES = 5
    PATTERNS = 6


OF_AGENT = frozenset((MemoryKind.CASES, MemoryKind.PATTERNS))
"""The kinds that an agent learns; the others are about its user."""


class ExtractSource(IntEnum):
    """The origin of extracted memories."""

    MODEL = 1
    RULES = 2
    NONE = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """A memory that a model or the rules propose; `evidence` has indices of messages."""

    kind: MemoryKind
    text: str
    evidence: tuple[int, ...]
    section: str = ""
    replaces: int = 0  # the id of an older memory; 0: none


@dataclass(frozen=True, slots=True)
class Refusal:
    """A proposal that is not written, with the reason; the kind is None if it is no kind."""

    kind: MemoryKind | None
    text: str
    evidence: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Ending:
    """A fact that the user ends ("I no longer ...") or denies ("my name is not ...").

    Attributes:
        kind: the kind, which decides the file that holds the fact.
        key: the key of the relation, see vikingd.memory.relations.
        value: the value that holds no longer; "" for any value.
        sentence: the words of the user, which are kept as the reason.
        message: the index of the message.
    """

    kind: MemoryKind
    key: str
    value: str
    sentence: str
    message: int


class Meant(IntEnum):
    """The way in which a request to forget names what is meant."""

    BEFORE = 1  # "forget that": the statement before it
    STATEMENT = 2  # "that I live in Lyon"
    TOPIC = 3  # "my sister's birthday"
    ALL_OF = 4  # "everything about travel"
    EVERYTHING = 5  # all that is known about the user


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """A request of the user to forget.

    Attributes:
        topic: the statement or the name; "" for BEFORE and EVERYTHING.
        sentence: the request in the user's words.
        message: the index of its message.
        meant: the way in which it names what is meant.
        sure: False for words that may be no request, which only propose.
    """

    topic: str
    sentence: str
    message: int
    meant: Meant = Meant.TOPIC
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Untaken:
    """A sentence of the user that became no memory, with the reason, for people."""

    sentence: str
    message: int
    reason: str


@dataclass(frozen=True, slots=True)
class Extracted:
    """The proposals from a conversation.

    Attributes:
        source: the origin of the proposals.
        reason: the reason for the origin, and the parts that were left out, for people.
        proposals: the proposals in the order of the answer, at most MAX_MEMORIES.
        refused: proposals that the answer itself rules out.
        failed: True if the model was asked and failed, so that rules took its place.
    """

    source: ExtractSource
    reason: str
    proposals: tuple[Proposal, ...] = ()
    refused: tuple[Refusal, ...] = ()
    failed: bool = False
