"""What the rows of `benchmarks.latency` are measured with: a tree in a store, echo, a loader."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import daemon, echo
from benchmarks.daemon import Server
from benchmarks.data import MEDIUM, TOP, Query, Tree
from benchmarks.measure import Load, Row
from vikingd.client import Method, Mode, find_request, retrieve_request
from vikingd.pb.retrieval_pb2 import FindResponse

T = TypeVar("T")
FIND = "/viking.retrieval.v1.Retrieval/Find"
RETRIEVE = "/viking.retrieval.v1.Retrieval/Retrieve"
QUERIES = 128


@dataclass(frozen=True, slots=True)
class Bench:
    """A loaded store, the echo server, and another process from which servers are driven."""

    tree: Tree
    data: str  # what the tree is made of
    store: Path
    nothing: Server
    loader: Executor
    seconds: float  # for one measurement

    def serving(self) -> AbstractContextManager[Server]:
        """The daemon on the store."""
        return daemon.serving(self.store)

    def row(
        self, name: str, value: float, unit: str, baseline: float | None = None, **more: Any
    ) -> Row:
        """A row about the tree; `more` are further fields."""
        ratio = None if baseline is None else value / baseline
        return Row(name, self.tree.nodes, value, unit, baseline, ratio, data=self.data, **more)


def echo_of(nothing: Server, load: Load) -> Load:
    """Calls to the echo server with requests and replies of the same sizes as a load's."""
    sizes = zip(load.requests, load.replies(), strict=True)
    requests = [echo.request(len(request), len(reply)) for request, reply in sizes]
    return Load(nothing, echo.METHOD, requests)


class Questions:
    """Queries with text and vector, and what METHOD_EXACT answers to them."""

    def __init__(
        self, server: Server, tree: Tree, cosine: float = MEDIUM, target: str = ""
    ) -> None:
        self.server = server
        self.queries = tree.queries(QUERIES, target or TOP, cosine)
        self._target = target

    def load(self, method: Method) -> Load:
        """Finds by a method."""
        return Load(self.server, FIND, [self._request(q, method) for q in self.queries])

    def retrievals(self, mode: Mode) -> Load:
        """The same queries to Retrieve, its ten best passages."""
        requests = [
            retrieve_request(q.text, vector=q.vector, target_uri=self._target, mode=mode, top_k=10)
            for q in self.queries
        ]
        return Load(self.server, RETRIEVE, [request.SerializeToString() for request in requests])

    def recall(self, replies: Sequence[bytes]) -> float:
        """Mean recall@10 of answers to the queries, or the first of them, in their order."""
        return statistics.fmean(
            recall(uris(reply), truth) for reply, truth in zip(replies, self._truth, strict=False)
        )

    @cached_property
    def _truth(self) -> list[set[str]]:
        return list(map(uris, self.load(Method.EXACT).replies()))

    def _request(self, query: Query, method: Method) -> bytes:
        request = find_request(
            query.text, vector=query.vector, target_uri=self._target, method=method
        )
        return request.SerializeToString()


def recall(found: set[T], truth: set[T]) -> float:
    """The share of the true results that were found; 1 where there is nothing to find."""
    return len(truth & found) / len(truth) if truth else 1.0


def uris(reply: bytes) -> set[str]:
    """What a find returned; all that these trees have is resources."""
    return {match.uri for match in FindResponse.FromString(reply).resources}
