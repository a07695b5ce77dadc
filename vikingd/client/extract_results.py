"""The result of `extract`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vikingd.client.memory_results import Memory
from vikingd.domain.answers import Degraded
from vikingd.domain.extract import ExtractSource, MemoryKind
from vikingd.memory.memory_types import Remembered as RememberOutcome


@dataclass(frozen=True, slots=True)
class ExtractedMemory:
    """A memory that a conversation says.

    Attributes:
        kind: the kind, which decides the file.
        text: the text.
        section: the heading above it; "": none.
        evidence: the messages that say it, as indices from 0 into the session.
        outcome: ADDED, REINFORCED if it was said before, REPLACED if it took an older one's place,
            ENDED if the user ended it.
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
class ForgetProposal:
    """A request of the user to forget that is in doubt; nothing was forgotten.

    Attributes:
        request: the request in the user's words.
        message: the index of its message.
        memories: the memories that it may mean, the most likely first; `forget` takes their ids.
        reason: the reason for the doubt, for people.
    """

    request: str
    message: int
    memories: tuple[Memory, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class UntakenSentence:
    """A sentence of the user that gave no memory, with the index of its message and the reason."""

    text: str
    message: int
    reason: str


@dataclass(frozen=True, slots=True)
class EpisodeTurn:
    """A turn of an episode: the index of its message, and the id of the memory; 0: a dry run."""

    message: int
    id: int


@dataclass(frozen=True, slots=True)
class Episode:
    """The conversation itself, as it was written to memory files.

    Attributes:
        uri: the URI of its first file.
        turns: the turns that were written; a long one has several. Those that stood there already
            are not among them.
    """

    uri: str
    turns: tuple[EpisodeTurn, ...]


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
        forgotten: the memories that the user asked to forget, and that are gone.
        to_forget: the requests to forget that are in doubt.
        episode: the conversation as it was written, if no model took the memories; else None.
        not_taken: sentences of the user that became no memory, if no model took the memories.
        not_taken_left_out: the number of further such sentences.
    """

    memories: tuple[ExtractedMemory, ...]
    refused: tuple[RefusedMemory, ...]
    source: ExtractSource
    reason: str
    revision: int
    degraded: Degraded = ()
    forgotten: tuple[Memory, ...] = ()
    to_forget: tuple[ForgetProposal, ...] = ()
    episode: Episode | None = None
    not_taken: tuple[UntakenSentence, ...] = ()
    not_taken_left_out: int = 0

    def __iter__(self) -> Iterator[ExtractedMemory]:
        return iter(self.memories)

    def __len__(self) -> int:
        return len(self.memories)
