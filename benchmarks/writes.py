"""Rows about writes: their speed, and the latency of finds beside them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import Any

import grpc
import numpy as np

from benchmarks.bench import Bench, Questions
from benchmarks.daemon import Server, say
from benchmarks.data import TOP, Tree
from benchmarks.measure import Load, Row, Samples, drive, interleaved, percentiles
from vikingd.client import Method, context_input
from vikingd.client.messages import MessageClient
from vikingd.domain.contexts import Draft
from vikingd.pb.contexts_pb2 import ContextInput, PutRequest

PUT = "/viking.retrieval.v1.Contexts/Put"
BATCH = 500
BATCHES_IN_FLIGHT = 2
CLIENTS = 16
ROUNDS = 3
_SETTLING = 0.3  # seconds until the work after a write has ended
_BATCHES_MADE = 20  # batches in memory at a time


def load_tree(server: Server, tree: Tree, *, compact: bool = True) -> float:
    """Write the tree, and compact the index; return the nodes per second of the puts.

    The time excludes the building of messages and the compaction.
    """
    drafts = tree.drafts()
    taken, done = 0.0, 0
    with grpc.insecure_channel(server.address) as channel, ThreadPoolExecutor(2) as pool:
        put: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PUT, None, None)
        put(_message([next(tree.drafts())]))  # warm-up
        while batches := [
            _message(batch) for _ in range(_BATCHES_MADE) if (batch := list(islice(drafts, BATCH)))
        ]:
            started = time.perf_counter()
            list(pool.map(put, batches))
            taken += time.perf_counter() - started
            done = min(done + _BATCHES_MADE * BATCH, tree.nodes)
            say(f"{tree.nodes:,} nodes: {done:,} are written")
    if compact:
        with MessageClient(server.address, timeout=None) as client:
            client.optimize()
    return tree.nodes / taken


def _message(drafts: Sequence[Draft]) -> bytes:
    return PutRequest(contexts=map(context_input, drafts)).SerializeToString()


class NewContexts(Sequence[bytes]):
    """An endless sequence of Put requests with `size` new files each.

    The files have the contents of the tree's first files, under new names.
    """

    def __init__(self, tree: Tree, size: int, below: str) -> None:
        self._size = size
        self._below = below
        files = (draft for draft in tree.drafts() if not draft.is_directory)
        self._known = _message(list(islice(files, BATCH)))

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, number: int) -> bytes:  # type: ignore[override]
        out = PutRequest()
        first = number * self._size
        for i in range(first, first + self._size):
            context = out.contexts.add()
            context.CopyFrom(self._contexts[i % len(self._contexts)])
            context.uri = f"{self._below}/d{i // 20}/{i}"
        return out.SerializeToString()

    @cached_property
    def _contexts(self) -> Sequence[ContextInput]:
        return PutRequest.FromString(self._known).contexts


def put_single_16(bench: Bench) -> Iterator[Row]:
    """Measure puts of one file each, from 16 clients, on a store that holds the tree."""
    with bench.serving() as server:
        load = Load(server, PUT, NewContexts(bench.tree, 1, f"{TOP}-single"))
        driven = bench.loader.submit(drive, load, CLIENTS, bench.seconds).result()
        yield bench.row("put_single_16", driven.rate, "nodes/s", **percentiles(driven.calls))


def find_during_import_p99(bench: Bench) -> Iterator[Row]:
    """Measure a find's p99 during an import and during compactions; the baseline is quiet.

    The import writes outside the searched directory, so the work of a find stays the same.
    """
    with bench.serving() as server:
        questions = Questions(server, bench.tree, target=TOP)
        load = questions.load(Method.AUTO)
        found = questions.recall(load.replies())
        quiet, importing, compacting = [], [], []
        rates = []
        with grpc.insecure_channel(server.address) as channel:
            find = load.sender(channel)
            for i in range(ROUNDS):
                puts = Load(server, PUT, NewContexts(bench.tree, BATCH, f"{TOP}-import/{i}"))
                quiet.append(_quiet(find, bench.seconds / 2))
                driven = bench.loader.submit(drive, puts, BATCHES_IN_FLIGHT, bench.seconds / 2)
                importing.append(_while_running(driven, find))
                rates.append(driven.result().rate * BATCH)
                _compact(server.address, 0.0)
                quiet.append(_quiet(find, bench.seconds / 2))
                compaction = bench.loader.submit(_compact, server.address, bench.seconds / 2)
                compacting.append(_while_running(compaction, find))
        base = percentiles(np.concatenate(quiet))["p99"]
        for name, rounds in (("import", importing), ("compaction", compacting)):
            shown = percentiles(np.concatenate(rounds))
            yield bench.row(
                f"find_during_{name}_p99", shown["p99"], "ms", base, recall=found, **shown
            )
        yield bench.row("import_during_find", float(np.median(rates)), "nodes/s")


def _quiet(find: Callable[[int], object], seconds: float) -> Samples:
    time.sleep(_SETTLING)
    return interleaved(seconds, find)[0]


def _while_running(other: Future[Any], find: Callable[[int], object]) -> Samples:
    """Repeat a find until `other` is done; return the seconds of each."""
    taken: list[float] = []
    ended = time.perf_counter()
    while not other.done():
        find(len(taken))
        before, ended = ended, time.perf_counter()
        taken.append(ended - before)
    return np.array(taken)


def _compact(address: str, seconds: float) -> None:
    """Compact the index repeatedly for this many seconds."""
    end = time.perf_counter() + seconds
    with MessageClient(address, timeout=None) as client:
        for i in itertools.count():
            client.put([Draft(f"{TOP}-compaction/n{i}.md", content=str(time.time()))])
            client.optimize()
            if time.perf_counter() >= end:
                return
