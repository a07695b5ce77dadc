"""Tools for the rows of `benchmarks.latency`: a tree in a store, an echo server, a load process."""

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
    """A loaded store, the echo server, and a process that sends many calls."""

    tree: Tree
    data: str  # "synthetic", or the name of the collection
    store: Path
    nothing: Server
    loader: Executor
    seconds: float  # of one measurement

    def serving(self) -> AbstractContextManager[Server]:
        """Start a daemon on the store."""
        return daemon.serving(self.store)

    def row(
        self, name: str, value: float, unit: str, baseline: float | None = None, **more: Any
    ) -> Row:
        """Return a result row about the tree; `more` holds further fields of Row."""
        ratio = None if baseline is None else value / baseline
        return Row(name, self.tree.nodes, value, unit, baseline, ratio, data=self.data, **more)


def echo_of(nothing: Server, load: Load) -> Load:
    """Return a load for the echo server, with the request and reply sizes of another load."""
    sizes = zip(load.requests, load.replies(), strict=True)
    requests = [echo.request(len(request), len(reply)) for request, reply in sizes]
    return Load(nothing, echo.METHOD, requests)


class Questions:
    """Queries with text and vector, and their results by METHOD_EXACT."""

    def __init__(
        self, server: Server, tree: Tree, cosine: float = MEDIUM, target: str = ""
    ) -> None:
        self.server = server
        self.queries = tree.queries(QUERIES, target or TOP, cosine)
        self._target = target

    def load(self, method: Method) -> Load:
        """Return a load of finds with this method."""
        return Load(self.server, FIND, [self._request(q, method) for q in self.queries])

    def retrievals(self, mode: Mode) -> Load:
        """Return a load of retrievals with the same queries, for the ten best passages."""
        requests = [
            retrieve_request(q.text, vector=q.vector, target_uri=self._target, mode=mode, top_k=10)
            for q in self.queries
        ]
        return Load(self.server, RETRIEVE, [request.SerializeToString() for request in requests])

    def recall(self, replies: Sequence[bytes]) -> float:
        """Return the mean recall@10 of replies to the first queries, in their order."""
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
    """Return the share of the true results that were found; 1 if there are none."""
    return len(truth & found) / len(truth) if truth else 1.0


def uris(reply: bytes) -> set[str]:
    """Return the URIs of a find's reply."""
    return {uri for uri, _ in ranked(FindResponse.FromString(reply))}


def ranked(reply: FindResponse) -> list[tuple[str, float]]:
    """Return (URI, score) of all results, best first; equal scores are sorted by URI."""
    matches = [*reply.memories, *reply.resources, *reply.skills]
    return sorted(((m.uri, m.score) for m in matches), key=lambda match: (-match[1], match[0]))
