"""The domain of Extract: memories taken from a conversation, with the messages that prove them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

MAX_MEMORIES = 32
"""The most memories of one call, and the most refused proposals."""


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
    """The maker of extracted memories: a model, the rules, or none."""

    MODEL = 1
    RULES = 2
    NONE = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed memory; `evidence` has the indices of the messages that say it."""

    kind: MemoryKind
    text: str
    evidence: tuple[int, ...]
    section: str = ""
    replaces: int = 0  # the id of an older memory; 0: none


@dataclass(frozen=True, slots=True)
class Refusal:
    """A proposal that is not written, with the reason; `kind` is None if it named no known kind."""

    kind: MemoryKind | None
    text: str
    evidence: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Ending:
    """A fact that the user says is over ("I no longer ...") or false ("my name is not ...").

    Attributes:
        kind: the kind, which decides the file that holds the fact.
        key: the key of the fact's relation, see vikingd.memory.relations.
        value: the value that is no longer true; "" for any value.
        sentence: the words of the user, which are kept as the reason.
        message: the index of the message.
    """

    kind: MemoryKind
    key: str
    value: str
    sentence: str
    message: int


class Meant(IntEnum):
    """The form in which a request to forget names memories, see the example of each value."""

    BEFORE = 1  # "forget that": the statement before it
    STATEMENT = 2  # "that I live in Lyon"
    TOPIC = 3  # "my sister's birthday"
    ALL_OF = 4  # "everything about travel"
    EVERYTHING = 5  # all that is known about the user


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """The user's request to forget something, such as "please forget my sister's birthday".

    Attributes:
        topic: the statement or the name; "" for BEFORE and EVERYTHING.
        sentence: the request in the user's words.
        message: the index of its message.
        meant: the form in which the request names the memories.
        sure: False if the words may be no request; then it is only proposed.
    """

    topic: str
    sentence: str
    message: int
    meant: Meant = Meant.TOPIC
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Untaken:
    """A sentence of the user that became no memory, and the reason as text for people."""

    sentence: str
    message: int
    reason: str


@dataclass(frozen=True, slots=True)
class Extracted:
    """The proposals from a conversation.

    Attributes:
        source: the maker of the proposals.
        reason: a text for people: why this maker, and which parts were left out.
        proposals: the proposals in the order of the answer, at most MAX_MEMORIES.
        refused: the refused proposals, each with its reason.
        failed: True if the model failed and rules took its place.
    """

    source: ExtractSource
    reason: str
    proposals: tuple[Proposal, ...] = ()
    refused: tuple[Refusal, ...] = ()
    failed: bool = False
