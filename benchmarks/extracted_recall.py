"""Recall over extracted memories, compared with Recall over the raw turns of the conversations.

`python -m benchmarks.extraction --datasets DIR` reads the sets that `benchmarks.quality --recall`
reads. README.md explains the columns.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from benchmarks.daemon import say, wait_for_vectors
from benchmarks.recall import BUDGET, SEARCH, Answer, Conversation, Turn
from vikingd.client import Session
from vikingd.domain import uri as uris
from vikingd.models.embed.e5 import E5
from vikingd.pb.memories_pb2 import RECALL_PATH_HYBRID, Memory

RAW, EPISODES = "raw turns", "rules and episodes"

NO_EPISODES = "[recall]\nepisodes = false\n"


Extracting: TypeAlias = Callable[[str, str], AbstractContextManager[Any]]
"""Runs a daemon with a configuration and an embedder, on a new store; yields a client."""


@dataclass(frozen=True, slots=True)
class Known:
    """The memories of a conversation: their number, and the turns that each id says."""

    memories: int
    turns: Mapping[int, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Beside:
    """Means over the questions of a set; README.md explains each."""

    set: str
    memories_of: str
    memories: int
    covered: float
    share: float
    any: float
    evidence: float
    tokens: float
    results: float
    p50_ms: float
    questions: int


def sessions(conversation: Conversation) -> Iterator[list[Turn]]:
    """Yield the turns of each session: those in the same directory."""
    for _, turns in itertools.groupby(conversation.turns, lambda turn: uris.parent(turn.uri)):
        yield list(turns)


def spoken(text: str) -> str:
    """Return a turn without the name of its speaker."""
    name, colon, said = text.partition(": ")
    return said if colon and len(name.split()) == 1 and said.strip() else text


def answered(known: Known, results: Sequence[Memory], relevant: Sequence[str]) -> list[bool]:
    """Return, for each turn of the evidence, True if a recalled memory says it."""
    said = frozenset().union(*(known.turns.get(memory.id, frozenset()) for memory in results))
    return [uri in said for uri in relevant]


def beside(
    name: str, conversations: Sequence[Conversation], extracting: Extracting, planner: str, by: str
) -> list[Beside]:
    """Return the rows of a set: raw turns, then memories that `by` extracted.

    Without a model there is a further row for the memories of the rules beside the turns. Each
    conversation gets a daemon of its own, so that no memories of another one are recalled.
    """
    rows = []
    runs = {RAW: "", by: planner} if planner else {RAW: "", by: NO_EPISODES, EPISODES: ""}
    for label, section in runs.items():
        answers: list[Answer] = []
        memories = 0
        covered: list[bool] = []
        for conversation in conversations:
            with extracting(section, E5.name) as client:
                say(f"{label}: {len(conversation.turns)} turns of {conversation.project}")
                if label == RAW:
                    known = _remember(client, conversation)
                else:
                    known = _extract(client, conversation, named=section != NO_EPISODES)
                wait_for_vectors(client)
                memories += known.memories
                said = frozenset().union(*known.turns.values())
                for query in conversation.questions:
                    covered += [uri in said for uri in query.relevant]
                answers += _ask(client, conversation, known)
        rows.append(
            Beside(
                name,
                label,
                memories,
                covered=statistics.fmean(covered),
                share=statistics.fmean(all(a.recalled) for a in answers),
                any=statistics.fmean(any(a.recalled) for a in answers),
                evidence=statistics.fmean(statistics.fmean(a.recalled) for a in answers),
                tokens=statistics.fmean(a.tokens for a in answers),
                results=statistics.fmean(a.results for a in answers),
                p50_ms=statistics.median(a.seconds for a in answers) * 1e3,
                questions=len(answers),
            )
        )
    return rows


def table(rows: Sequence[Beside]) -> str:
    """Return the rows as plain text."""
    width = max(len(row.memories_of) for row in rows)
    lines = [
        f"{'set':<8}  {'memories of':<{width}}  memories  covered  share    any  evidence  tokens"
        "  results  p50 ms  questions"
    ]
    lines += [
        f"{r.set:<8}  {r.memories_of:<{width}}  {r.memories:>8}  {r.covered:>7.3f}  {r.share:>5.3f}"
        f"  {r.any:>5.3f}  {r.evidence:>8.3f}  {r.tokens:>6.0f}  {r.results:>7.1f}"
        f"  {r.p50_ms:>6.2f}  {r.questions:>9}"
        for r in rows
    ]
    return "\n".join(lines)


def _remember(client: Any, conversation: Conversation) -> Known:
    """Remember each turn in the journal of its project."""
    turns: dict[int, frozenset[str]] = {}
    for turn in conversation.turns:
        reply = client.remember(turn.text, "journal", project=conversation.project, time=turn.time)
        turns[reply.id] = turns.get(reply.id, frozenset()) | {turn.uri}
    return Known(len(turns), turns)


def _extract(client: Any, conversation: Conversation, *, named: bool) -> Known:
    """Extract from each session in turn; both speakers count as users.

    Args:
        named: keep the name in front of each turn. Rules read no statement behind a name.
    """
    turns: dict[int, frozenset[str]] = {}
    for said in sessions(conversation):
        session = Session()
        for turn in said:
            session.add("user", turn.text if named else spoken(turn.text), turn.time)
        reply = client.extract(session, project=conversation.project, time=said[-1].time)
        if reply.degraded:
            say(f"{said[0].uri}: by {reply.source.name}: {reply.reason}")
        found = [(one.id, one.evidence) for one in reply.memories]
        if reply.episode is not None:
            found += [(one.id, (one.message,)) for one in reply.episode.turns]
        for memory, indices in found:
            evidence = frozenset(said[index].uri for index in indices)
            turns[memory] = turns.get(memory, frozenset()) | evidence
    return Known(len(turns), turns)


def _ask(client: Any, conversation: Conversation, known: Known) -> Iterator[Answer]:
    """Ask all questions at the end of the conversation, within the budget."""
    for query in conversation.questions:
        options: dict[str, Any] = {
            "project": conversation.project,
            "max_tokens": BUDGET,
            "now": conversation.turns[-1].time,
            "profile": "relevance",
            "without": SEARCH,
            "no_touch": True,
        }
        client.recall(query.text, **options)  # puts the vector of the query into the cache
        started = time.perf_counter()
        reply = client.recall(query.text, **options)
        seconds = time.perf_counter() - started
        yield Answer(
            answered(known, reply.results, sorted(query.relevant)),
            reply.total_tokens,
            len(reply.results),
            reply.path == RECALL_PATH_HYBRID,
            seconds,
        )
