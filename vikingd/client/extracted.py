"""The results of Extract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vikingd.domain.answers import Degraded
from vikingd.domain.extract import ExtractSource, MemoryKind
from vikingd.memory.model import Remembered as RememberOutcome


@dataclass(frozen=True, slots=True)
class ExtractedMemory:
    """A memory that a conversation says.

    Attributes:
        kind: the kind, which decides the file.
        text: the text.
        section: the heading above it; "": none.
        evidence: the messages that say it, as indices from 0 into the session.
        outcome: ADDED, REINFORCED if it was said before, REPLACED if it took an older one's place.
        id: the id of the memory; 0 for a new one of a dry run.
        uri: the URI of its file.
        met: the older wording that was said again or replaced; "": none.
    """

    kind: MemoryKind
    text: str
    section: str
    evidence: tuple[int, ...]
    outcome: RememberOutcome
    id: int
    uri: str
    met: str


@dataclass(frozen=True, slots=True)
class RefusedMemory:
    """A proposed memory that was not written, with the reason; `kind` is None for no known kind."""

    kind: MemoryKind | None
    text: str
    evidence: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ExtractResult:
    """The memories of a conversation.

    Attributes:
        memories: the written memories; of a dry run, those that a real call would write.
        refused: the proposals that were refused.
        source: MODEL, RULES, or NONE without a message to read.
        reason: the reason for the source, and the parts that were left out, for people.
        revision: the memories are visible from this revision on.
        degraded: the failed or missing parts of the call, each with its cause.
    """

    memories: tuple[ExtractedMemory, ...]
    refused: tuple[RefusedMemory, ...]
    source: ExtractSource
    reason: str
    revision: int
    degraded: Degraded = ()

    def __iter__(self) -> Iterator[ExtractedMemory]:
        return iter(self.memories)

    def __len__(self) -> int:
        return len(self.memories)
