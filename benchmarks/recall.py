"""The share of a question's evidence that Recall brings into the prompt.

`python -m benchmarks.quality --datasets DIR --recall` remembers each conversation turn by turn, in
the journal of its own project. It asks the questions at the end of the conversation. README.md
explains the columns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.daemon import say, serving, temporary_store, wait_for_vectors
from benchmarks.judged import Query, read_documents, read_queries
from vikingd.client import RecallPath, Rrf, WeightedSum
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.memory.accesses import INTERVAL
from vikingd.models.embed.e5 import E5
from vikingd.pb.memories_pb2 import RECALL_PATH_HYBRID, Memory, RecallResponse

BUDGET = 1500
SEARCH = (RecallPath.FAST, RecallPath.TIMELINE)
HYBRID = "hybrid"


class Method(NamedTuple):
    """A name, the name of a fusion, and the options of a Recall."""

    name: str
    fusion: str
    options: dict[str, Any]


def _methods() -> Iterator[Method]:
    fusions = (("weighted", WeightedSum(0.5, 0.5)), ("rrf", Rrf()), ("find", None))
    for fusion, how in fusions:
        for name, options in (
            (HYBRID, {"weights": (1.0, 0.0, 0.0, 0.0)}),
            ("salience", {"profile": "salience"}),
            ("relevance", {"profile": "relevance"}),
        ):
            yield Method(name, fusion, {"fusion": how, "without": SEARCH, **options})
    yield Method("default, all paths", "find", {})
    yield Method("strict, all paths", "weighted", {"paths": tuple(RecallPath)})


METHODS = tuple(_methods())


class Turn(NamedTuple):
    """A turn of a conversation: its URI in the set, its text and time."""

    uri: str
    text: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Conversation:
    """A project, the turns in their order, and the questions about them."""

    project: str
    turns: Sequence[Turn]
    questions: Sequence[Query]


class Said(NamedTuple):
    """The memory of a turn: its entry, the file, and the last wording of the entry."""

    id: int
    uri: str
    wording: str


class Answer(NamedTuple):
    """The result of a Recall; `recalled` has one value for each turn of the evidence."""

    recalled: Sequence[bool]
    tokens: int
    results: int
    searched: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """Means over the questions of a set by a method; README.md explains each."""

    set: str
    method: str
    fusion: str
    share: float
    beside_hybrid: float
    any: float
    evidence: float
    read: float
    tokens: float
    results: float
    p50_ms: float
    questions: int
    remember_p50_ms: float


def is_conversation(source: Path) -> bool:
    """Return whether all documents of a set have a time."""
    return all("time" in document for document in read_documents(source))


def measured(source: Path) -> list[Row]:
    """Return the rows of a set, measured with a new daemon."""
    conversations = read_conversations(source)
    with (
        temporary_store() as store,
        serving(store, E5.name) as server,
        MessageClient(server.address, timeout=None) as client,
    ):
        said, took = _remember(client, conversations)
        wait_for_vectors(client)
        return list(_rows(client, source.name, conversations, said, took))


def read_conversations(source: Path) -> list[Conversation]:
    """Return the conversations of a set, one for each scope of its queries."""
    queries = read_queries(source)
    turns = [
        Turn(d["uri"], d["text"], datetime.fromisoformat(d["time"])) for d in read_documents(source)
    ]
    return [
        Conversation(
            uris.name(scope),
            sorted((t for t in turns if uris.is_within(t.uri, scope)), key=lambda turn: turn.time),
            [query for query in queries if query.scope == scope],
        )
        for scope in dict.fromkeys(query.scope for query in queries)
    ]


def is_recalled(said: Said, memories: Sequence[Memory]) -> bool:
    """Return whether a turn was recalled: as its entry, by its wording, or in its whole file."""
    wording = _one_line(said.wording)
    return any(
        memory.id == said.id
        or _one_line(memory.content) == wording
        or (not memory.id and memory.uri == said.uri and wording in _one_line(memory.content))
        for memory in memories
    )


def row(
    name: str,
    method: Method,
    answers: Sequence[Answer],
    plain: Sequence[Answer],
    remember_ms: float = 0.0,
) -> Row:
    """Return the means of a method; `plain` are the answers of hybrid to the same questions."""

    def mean(of: Callable[[Answer], float], over: Sequence[Answer] = answers) -> float:
        return statistics.fmean(map(of, over))

    share = mean(lambda a: all(a.recalled))
    return Row(
        name,
        method.name,
        method.fusion,
        share=share,
        beside_hybrid=share - mean(lambda a: all(a.recalled), plain),
        any=mean(lambda a: any(a.recalled)),
        evidence=mean(lambda a: statistics.fmean(a.recalled)),
        read=mean(lambda a: not a.searched),
        tokens=mean(lambda a: a.tokens),
        results=mean(lambda a: a.results),
        p50_ms=statistics.median(a.seconds for a in answers) * 1e3,
        questions=len(answers),
        remember_p50_ms=remember_ms,
    )


def table(rows: Sequence[Row]) -> str:
    """Return the rows as plain text."""
    width = max(len(r.set) for r in rows)
    method = max(len(r.method) for r in rows)
    lines = [
        f"{'set':<{width}}  {'method':<{method}}  fusion    questions  share  beside    any  "
        "evidence   read  tokens  results  p50 ms"
    ]
    lines += [
        f"{r.set:<{width}}  {r.method:<{method}}  {r.fusion:<8}  {r.questions:>9}  {r.share:>5.3f}"
        f"  {r.beside_hybrid:>+6.3f}  {r.any:>5.3f}  {r.evidence:>8.3f}  {r.read:>5.3f}"
        f"  {r.tokens:>6.0f}  {r.results:>7.1f}  {r.p50_ms:>6.2f}"
        for r in rows
    ]
    for name, took in {r.set: r.remember_p50_ms for r in rows if r.remember_p50_ms}.items():
        lines.append(f"{name}: a Remember took {took:.0f} ms (median)")
    return "\n".join(lines)


def _remember(
    client: MessageClient, conversations: Sequence[Conversation]
) -> tuple[dict[str, Said], float]:
    """Remember all turns; return their memories by URI, and the median time in ms."""
    places: dict[str, tuple[int, str]] = {}
    wordings: dict[int, str] = {}
    seconds = []
    for conversation in conversations:
        say(f"remembering {len(conversation.turns)} turns of {conversation.project}")
        for turn in conversation.turns:
            started = time.perf_counter()
            reply = client.remember(
                turn.text, "journal", project=conversation.project, time=turn.time
            )
            seconds.append(time.perf_counter() - started)
            places[turn.uri] = reply.id, reply.uri
            wordings[reply.id] = turn.text
    said = {turn: Said(entry, uri, wordings[entry]) for turn, (entry, uri) in places.items()}
    return said, statistics.median(seconds) * 1e3


def _rows(
    client: MessageClient,
    name: str,
    conversations: Sequence[Conversation],
    said: dict[str, Said],
    remember_ms: float,
) -> Iterator[Row]:
    """Yield the rows of all questions, and of one half before and after the other half's use."""
    asked = [(c, q) for c in conversations for q in c.questions]
    before = _answers(client, asked, said, METHODS)
    yield from _beside_hybrid(name, before, remember_ms)
    used, held_out = asked[::2], asked[1::2]
    if not held_out:
        return
    searches = [m for m in METHODS if "without" in m.options]
    _use(client, used, said)
    after = _answers(client, held_out, said, searches)
    yield from _beside_hybrid(
        f"{name}, half, unused", [(m, found[1::2]) for m, found in before if m in searches]
    )
    yield from _beside_hybrid(f"{name}, half, used", after)


Asked = Sequence[tuple[Conversation, Query]]
Answered = Sequence[tuple[Method, Sequence[Answer]]]


def _beside_hybrid(name: str, answered: Answered, remember_ms: float = 0.0) -> Iterator[Row]:
    plain = {method.fusion: found for method, found in answered if method.name == HYBRID}
    for method, found in answered:
        yield row(name, method, found, plain[method.fusion], remember_ms)


def _answers(
    client: MessageClient, asked: Asked, said: dict[str, Said], methods: Sequence[Method]
) -> Answered:
    say(f"asking {len(asked)} questions")
    answers: list[list[Answer]] = [[] for _ in methods]
    for conversation, query in asked:
        # The first call puts the query's vector into the daemon's cache.
        _recall(client, conversation, query, no_touch=True, without=SEARCH)
        for method, found in zip(methods, answers, strict=True):
            started = time.perf_counter()
            reply = _recall(client, conversation, query, no_touch=True, **method.options)
            seconds = time.perf_counter() - started
            recalled = [is_recalled(said[uri], reply.results) for uri in query.relevant]
            searched = reply.path == RECALL_PATH_HYBRID
            found.append(
                Answer(recalled, reply.total_tokens, len(reply.results), searched, seconds)
            )
    return list(zip(methods, answers, strict=True))


def _use(client: MessageClient, asked: Asked, said: dict[str, Said]) -> None:
    """Use the memories as an agent does: count accesses, and reinforce the recalled evidence."""
    say(f"using what is recalled for {len(asked)} questions")
    for conversation, query in asked:
        reply = _recall(client, conversation, query, without=SEARCH)
        evidence = {said[uri].id for uri in query.relevant}
        useful = [memory.id for memory in reply.results if memory.id in evidence]
        if useful:
            client.reinforce(*useful)
    time.sleep(4 * INTERVAL)  # the daemon writes accesses later


def _recall(
    client: MessageClient, conversation: Conversation, query: Query, **options: Any
) -> RecallResponse:
    """Recall at the end of the conversation, within the budget."""
    return client.recall(
        query.text,
        project=conversation.project,
        max_tokens=BUDGET,
        now=conversation.turns[-1].time,
        **options,
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
