"""A comparison of the daemon with other engines, on the same data and queries.

`python -m benchmarks.peers` asks each engine and the daemon by turns. README.md explains the rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from benchmarks import data, real
from benchmarks.bench import FIND, recall, uris
from benchmarks.daemon import Server, say, serving, temporary_store
from benchmarks.finds import SMALL_SHARE
from benchmarks.measure import Load, Row, interleaved, number, percentiles, table, write
from benchmarks.peer_adapters import F32, PEERS, TOP_K, Peer, Rows, load
from benchmarks.writes import load_tree
from vikingd.client import Method, find_request
from vikingd.pb.retrieval_pb2 import FindResponse

QUERIES = 100
_ABSTRACT = 160  # characters
_TOLERANCE = 0.01  # of recall; the last hundredth costs a graph many times the time


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000, help="size of the tree (100,000)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PEERS,
        default=list(PEERS),
        metavar="NAME",
        help=f"select engines: {', '.join(PEERS)}",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="build the tree from a collection, not a synthetic one",
    )
    parser.add_argument(
        "--best-first",
        action="store_true",
        help="let the daemon open the best directories first, whatever the size of the tree",
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="time of each measurement (4)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    arguments = parser.parse_args()
    source: Path | None = arguments.data
    say("making the tree")
    tree = real.tree(source, arguments.nodes) if source else data.tree(arguments.nodes)
    rows = []
    with temporary_store() as store:
        with serving(store) as server:
            load_tree(server, tree)
        with serving(store) as server:
            method = Method.BEST_FIRST if arguments.best_first else Method.AUTO
            comparison = Comparison(server, tree, source.name if source else "synthetic", method)
            for name in arguments.only:
                for row in comparison.rows(name, arguments.seconds):
                    say(f"{row.name}: {number(row.value)} ms, the peer {number(row.baseline)} ms")
                    rows.append(row)
    print(table(rows))
    if arguments.json:
        write(arguments.json, rows)


class Comparison:
    """A daemon that holds a tree, and the files of the tree as rows for the peers.

    `method` is the one of the daemon's finds.
    """

    def __init__(self, server: Server, tree: data.Tree, name: str, method: Method) -> None:
        self._server = server
        self._method = method
        self._tree = tree
        self._data = name
        small = tree.directory_with(SMALL_SHARE)
        self._targets = {"vector": "", "scoped": small, "keyword": ""}
        first = len(tree.parent)
        texts = [tree.text(first + i) for i in range(len(tree.directory))]
        inside = np.array([f"{uri}/".startswith(f"{small}/") for uri in tree.directory_uris])
        self._rows = Rows(
            np.ascontiguousarray(tree.vectors[first:]),
            texts,
            [text[:_ABSTRACT] for text in texts],
            inside[tree.directory],
        )
        self._queries = {
            task: tree.queries(QUERIES, target or data.TOP)
            for task, target in self._targets.items()
        }

    def rows(self, name: str, seconds: float) -> Iterator[Row]:
        """Yield one row for each task of a peer."""
        say(f"{name}: loading")
        # The server of PostgreSQL may still use the directory during its removal.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            peer = load(name, self._rows, Path(home))
            if peer is None:
                return
            try:
                for task in peer.tasks:
                    yield self._row(name, peer, task, seconds)
            finally:
                peer.close()

    def _row(self, name: str, peer: Peer, task: str, seconds: float) -> Row:
        finds, exact = (self._finds(task, method) for method in (self._method, Method.EXACT))
        replies = finds.replies()
        pairs = zip(replies, exact.replies(), strict=True)
        our_recall = statistics.fmean(recall(uris(a), uris(b)) for a, b in pairs)
        scoring = statistics.median(_scoring(reply) for reply in finds.replies())
        search, effort, peer_recall = self._tuned(peer, task, our_recall)
        with grpc.insecure_channel(self._server.address) as channel:
            ours, theirs = interleaved(seconds, finds.sender(channel), search)
        shown = percentiles(ours)
        baseline = float(np.median(theirs)) * 1e3
        return Row(
            f"{task}_{name}",
            self._tree.nodes,
            shown["p50"],
            "ms",
            baseline,
            shown["p50"] / baseline,
            our_recall,
            **shown,
            data=self._data,
            baseline_recall=peer_recall,
            remark=f"{peer.how}{f', ef {effort}' if effort else ''}; scoring {scoring:.2g} ms",
        )

    def _finds(self, task: str, method: Method) -> Load:
        requests = [
            find_request(
                query.text if task == "keyword" else "",
                vector=None if task == "keyword" else query.vector,
                target_uri=self._targets[task],
                method=method,
                limit=TOP_K,
            ).SerializeToString()
            for query in self._queries[task]
        ]
        return Load(self._server, FIND, requests)

    def _tuned(
        self, peer: Peer, task: str, wanted: float
    ) -> tuple[Callable[[int], object], int, float]:
        """Return a search, its effort and its recall.

        The search has the least effort whose recall reaches `wanted`, else the best recall.
        """
        truth = self._truth(task)
        tried = []
        for effort in peer.efforts:
            search = self._search(peer, task, effort)
            found = [set(search(i)) for i in range(QUERIES)]
            reached = statistics.fmean(map(recall, found, truth))
            tried.append((reached, -effort))
            if reached >= wanted - _TOLERANCE:
                break
        reached, effort = max(tried)
        return self._search(peer, task, -effort), -effort, reached

    def _search(self, peer: Peer, task: str, effort: int) -> Callable[[int], Sequence[int]]:
        queries = self._queries[task]
        search = getattr(peer, task)
        asked: list[Any] = [
            query.text if task == "keyword" else np.frombuffer(query.vector, np.float32)
            for query in queries
        ]
        return lambda i: search(asked[i % len(asked)], effort)

    def _truth(self, task: str) -> list[set[int]]:
        """Return the ten best rows of each query, by cosine or BM25."""
        if task == "keyword":
            scores = _bm25(self._rows.texts, [query.text for query in self._queries[task]])
        else:
            asked = np.array([np.frombuffer(q.vector, np.float32) for q in self._queries[task]])
            scores = asked @ self._rows.vectors.T
        if task == "scoped":
            scores[:, ~self._rows.inside] = -np.inf
        return [set(row.tolist()) for row in np.argpartition(-scores, TOP_K)[:, :TOP_K]]


def _scoring(reply: bytes) -> float:
    """Return the milliseconds that a find spent in its stages "plan" and "score", by its reply."""
    timings = FindResponse.FromString(reply).timings
    return sum(
        one.duration.ToMicroseconds() / 1e3 for one in timings if one.stage in ("plan", "score")
    )


def _bm25(texts: Sequence[str], queries: Sequence[str]) -> F32:
    """Return [queries, texts] Lucene's BM25 (k1 1.2, b .75) of the words between blanks."""
    postings: dict[str, Counter[int]] = {w: Counter() for query in queries for w in query.split()}
    lengths = np.empty(len(texts))
    for i, text in enumerate(texts):
        words = text.split()
        lengths[i] = len(words)
        for word in words:
            if word in postings:
                postings[word][i] += 1
    norms = 1.2 * (0.25 + 0.75 * lengths / lengths.mean())
    scores = np.zeros((len(queries), len(texts)), np.float32)
    for row, query in zip(scores, queries, strict=True):
        for word in query.split():
            counts = postings[word]
            at, tf = np.array(list(counts)), np.array(list(counts.values()))
            idf = np.log(1 + (len(texts) - len(at) + 0.5) / (len(at) + 0.5))
            row[at] += idf * tf / (tf + norms[at])
    return scores


if __name__ == "__main__":
    main()
