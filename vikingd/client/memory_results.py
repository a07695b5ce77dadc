"""The results of the methods of Memories, besides those of `extract`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from vikingd.client.results import Rows, Timings
from vikingd.domain.answers import Confidence, Degraded
from vikingd.domain.prompt_options import RecallPath
from vikingd.memory.memory_types import Remembered as RememberOutcome
from vikingd.memory.memory_types import SalienceParts


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory: one entry of a memory file, or a whole file with the id 0.

    Attributes:
        id: the id for `reinforce` and `forget`; 0: a whole file.
        uri: the URI of its file.
        content: the text of the memory, or the Markdown of the file.
        score: the salience in [0, 1]; 1 for a whole file.
        memory_type: the kind of its file: "preferences", "journal", ...
        section: headings joined by " > ".
        reinforcement: the number of times that it was said again or reinforced.
        token_count: the tokens of the content.
        parts: the parts of the score; only from a search.
        truncated: True: only a part fits into the budget: the beginning of a file, or the passage
            that was found of a memory of several passages.
        access_count: the number of times that it was used.
        time: the time when it was last said; of a file, the time of the event in it.
        pinned: True: `forget` takes it by its id alone.
    """

    id: int
    uri: str
    content: str
    score: float
    memory_type: str
    section: str
    reinforcement: int
    token_count: int
    parts: SalienceParts | None
    truncated: bool
    access_count: int
    time: datetime | None
    pinned: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class RecallResult(Rows[Memory]):
    """The recalled memories; iteration and len() are over `results`.

    Attributes:
        results: the memories, best first; from the timeline, newest first.
        total_tokens: the tokens of all contents.
        budget_remaining: the rest of the budget.
        path: the path that found the memories; None: no path has an answer.
        reason: the reason for the path and for the end of the results, for people.
        approximate: True if tokens are estimated.
        candidates: the number of memories that the search scored.
        revision: the revision that was searched.
        timings: the duration of each stage in seconds, in order.
        degraded: the failed or missing parts of the answer, each with its cause.
        confidence: how far the answer can be relied on; 1 for a file or a day that the query names.
        left_out: the number of memories that the search found and the floor left out.
        questions: the single questions of a request that asks several, if a search answered.
    """

    results: tuple[Memory, ...]
    total_tokens: int
    budget_remaining: int
    path: RecallPath | None
    reason: str
    approximate: bool
    candidates: int
    revision: int
    timings: Timings
    degraded: Degraded = ()
    confidence: Confidence | None = None
    left_out: int = 0
    questions: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


@dataclass(frozen=True, slots=True)
class RememberResult:
    """The outcome of a remember.

    Attributes:
        outcome: ADDED for a new memory, REINFORCED if it was said before.
        id: the id of the memory.
        uri: the URI of its file.
        reinforcement: its reinforcement counter now.
        met: the wording before, of a memory that was reinforced; "" for a new one.
        similarity: 1 if the memory was reinforced, 0 for a new one.
        revision: the memory is visible from this revision on.
        degraded: the failed or missing parts of the call, each with its cause.
    """

    outcome: RememberOutcome
    id: int
    uri: str
    reinforcement: int
    met: str
    similarity: float
    revision: int
    degraded: Degraded = ()


@dataclass(frozen=True, slots=True)
class ReinforceResult:
    """The new counters, in the order of the ids; they are visible from `revision` on."""

    revision: int
    reinforcements: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SparedMemory:
    """A memory that meets the criteria and that only its id forgets, with the reason."""

    memory: Memory
    reason: str


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """The memories that are gone from `revision` on, by URI and place; with `dry_run`, a preview.

    Attributes:
        forgotten: the memories.
        revision: they are gone from this revision on.
        left_out: the number of further memories, which do not fit into the reply.
        spared: the memories that meet the criteria and stay, each with the reason.
        spared_left_out: the number of further ones, which do not fit into the reply.
    """

    forgotten: tuple[Memory, ...]
    revision: int
    left_out: int = 0
    spared: tuple[SparedMemory, ...] = ()
    spared_left_out: int = 0
