"""The latency of a light Find beside heavy calls, and the memory that the heavy calls need.

`python -m benchmarks.overload` loads a tree into a daemon. For each heavy call 64 clients send it
repeatedly while a light Find is timed. After a refusal a client waits as the daemon asks.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import grpc
import numpy as np
from google.rpc import error_details_pb2, status_pb2

from benchmarks import data
from benchmarks.daemon import Server, serving, temporary_store
from benchmarks.measure import Samples, percentiles
from vikingd.client import Document, Passage
from vikingd.client.messages import MessageClient
from vikingd.pb import memories_pb2, retrieval_pb2

_RETRIEVAL = "/viking.retrieval.v1.Retrieval/"
_MEMORIES = "/viking.retrieval.v1.Memories/"
_FILES = 20_000
_MEMORY_FILES, _ENTRIES = 20, 100
_CLIENTS = 64
_SHARE = 0.01  # share of the tree that the light find searches
_LONG = 900_000  # bytes of a passage
_LONG_FILES = 12
_LONG_AT = "viking://resources/long"
_SETTLE = 5.0  # seconds after the load for the release of memory
_DEADLINE = 120.0
_WARM = 20
_BEFORE = 1.5  # seconds of load before the light call is timed


@dataclass(frozen=True, slots=True)
class Call:
    """A serialized request."""

    method: str
    message: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a light Find that ran at the same time as one heavy call.

    Attributes:
        light: seconds of the light calls.
        ended: status codes of the heavy calls.
        most: peak memory in bytes.
        after: memory in bytes after the load.
    """

    name: str
    light: Samples
    ended: Counter[str]
    most: int
    after: int


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--files", type=int, default=_FILES)
    parser.add_argument("--clients", type=int, default=_CLIENTS)
    parser.add_argument("--seconds", type=float, default=8.0, help="time of each load (8)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="select heavy calls")
    arguments = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    tree = data.tree(arguments.files)
    calls = heavy(tree, arguments.files)
    if unknown := set(arguments.only or ()) - calls.keys():
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    light = light_find(tree)
    chosen = [name for name in calls if name in (arguments.only or calls)]
    with ProcessPoolExecutor(1, mp_context=spawn) as loader:
        for name in chosen:
            with temporary_store() as store, serving(store) as server:
                load(server, tree, long=name == "BatchFind long")
                alone = timed(server, light, arguments.seconds, _WARM)
                idle = server.resident_bytes()
                done = beside(server, loader, light, name, calls[name], arguments)
                _show(done, alone, idle)


def load(server: Server, tree: data.Tree, *, long: bool) -> None:
    """Write the tree with metadata, memories, and with `long` also long passages."""
    with MessageClient(server.address) as client:
        number = 0
        for batch in tree.batches(500):
            drafts = []
            for draft in batch:
                number += 1
                meta = {"n": number, "name": f"name{number:06}", "group": number % 50}
                drafts.append(draft if draft.is_directory else replace(draft, metadata=meta))
            client.put(drafts)
        for i in range(_MEMORY_FILES):
            text = "\n".join(
                f"- entry {i} {j}: {tree.text(i * _ENTRIES + j)}\n" for j in range(_ENTRIES)
            )
            client.put([Document(f"viking://user/memories/m{i}.md", content=text)])
        for i in range(_LONG_FILES if long else 0):
            content = f"long {i} " + "word " * (_LONG // 5)
            passages = [Passage("", 0, len(content))]
            client.put([Document(f"{_LONG_AT}/{i}.txt", content=content, passages=passages)])
        client.optimize()


def heavy(tree: data.Tree, files: int) -> dict[str, Call]:
    """Return the heavy calls by name."""
    query = tree.queries(1)[0]
    find = retrieval_pb2.FindRequest(query=query.text, vector=query.vector)
    many = retrieval_pb2.FindRequest(query=query.text, vector=query.vector, limit=1000)
    filtered = retrieval_pb2.FindRequest(query=query.text, vector=query.vector, limit=100)
    filtered.where.update({"$or": [_clause(i, files) for i in range(250)]})
    batch = retrieval_pb2.BatchFindRequest(requests=[find] * 256)
    diverse = retrieval_pb2.RetrieveRequest(
        query=query.text, vector=query.vector, top_k=1000, diversity=0.5
    )
    boosted = retrieval_pb2.RetrieveRequest(query=query.text, vector=query.vector, top_k=100)
    for b in range(24):
        boost = boosted.boosts.add(factor=1.0 + b / 100)
        boost.where.update({"$or": [_clause(b * 245 + i, files) for i in range(245)]})
    recall = memories_pb2.RecallRequest(
        query="entry", vector=query.vector, top_k=500, max_tokens=1_000_000, no_touch=True
    )
    built = retrieval_pb2.BuildContextRequest(retrieve=diverse, max_tokens=200_000)
    long = retrieval_pb2.FindRequest(query="long word", target_uri=_LONG_AT, limit=12)
    return {
        "Find 1,000": Call(_RETRIEVAL + "Find", many.SerializeToString()),
        "BatchFind 256": Call(_RETRIEVAL + "BatchFind", batch.SerializeToString()),
        "Find 250 clauses": Call(_RETRIEVAL + "Find", filtered.SerializeToString()),
        "Retrieve diverse": Call(_RETRIEVAL + "Retrieve", diverse.SerializeToString()),
        "Retrieve boosts": Call(_RETRIEVAL + "Retrieve", boosted.SerializeToString()),
        "Recall 500": Call(_MEMORIES + "Recall", recall.SerializeToString()),
        "BuildContext": Call(_RETRIEVAL + "BuildContext", built.SerializeToString()),
        "BatchFind long": Call(
            _RETRIEVAL + "BatchFind",
            retrieval_pb2.BatchFindRequest(requests=[long] * 256).SerializeToString(),
        ),
    }


def _clause(i: int, files: int) -> dict[str, Any]:
    return {"name": {"$gte": f"name{i % files:06}x"}}


def light_find(tree: data.Tree) -> Call:
    """Return a Find of ten results below a directory of some hundred nodes."""
    below = tree.directory_with(_SHARE)
    query = tree.queries(1, below)[0]
    find = retrieval_pb2.FindRequest(query=query.text, vector=query.vector, target_uri=below)
    return Call(_RETRIEVAL + "Find", find.SerializeToString())


def timed(server: Server, call: Call, seconds: float, warm: int = 0) -> Samples:
    """Time the call for some seconds, one at a time, at most 100 a second.

    The first `warm` calls are not counted. Returns the seconds of each counted call.
    """
    taken = []
    with grpc.insecure_channel(server.address) as channel:
        rpc: Any = channel.unary_unary(call.method, None, None)
        for _ in range(warm):
            rpc(call.message, timeout=_DEADLINE)
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            rpc(call.message, timeout=_DEADLINE)
            taken.append(time.perf_counter() - started)
            time.sleep(0.01)
    return np.array(taken)


def beside(
    server: Server,
    loader: ProcessPoolExecutor,
    light: Call,
    name: str,
    call: Call,
    arguments: argparse.Namespace,
) -> Outcome:
    """Time the light call while clients send the heavy call."""
    clients, seconds = arguments.clients, arguments.seconds
    running = loader.submit(_flood, server.address, call, clients, seconds + _BEFORE)
    with _watched(server, running) as most:
        time.sleep(_BEFORE)
        taken = timed(server, light, seconds)
        ended = running.result()
    time.sleep(_SETTLE)
    return Outcome(name, taken, ended, most[0], server.resident_bytes())


@contextmanager
def _watched(server: Server, running: Future[Counter[str]]) -> Iterator[list[int]]:
    most = [0]

    def watch() -> None:
        while not running.done():
            most[0] = max(most[0], server.resident_bytes())
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    yield most
    thread.join()


def _flood(address: str, call: Call, clients: int, seconds: float) -> Counter[str]:
    return asyncio.run(_flooding(address, call, clients, seconds))


async def _flooding(address: str, call: Call, clients: int, seconds: float) -> Counter[str]:
    ended: Counter[str] = Counter()
    end = time.monotonic() + seconds
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", -1),
    ]

    async def send() -> None:
        async with grpc.aio.insecure_channel(address, options) as channel:
            rpc: Any = channel.unary_unary(call.method, None, None)
            while (left := end - time.monotonic()) > 0:
                try:
                    await rpc(call.message, timeout=left)
                    ended["OK"] += 1
                except grpc.aio.AioRpcError as error:
                    ended[error.code().name] += 1
                    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
                        await asyncio.sleep(_delay(error))

    await asyncio.gather(*(send() for _ in range(clients)))
    return ended


def _delay(error: grpc.aio.AioRpcError) -> float:
    """Return the seconds of the daemon's RetryInfo, or a tenth of a second."""
    metadata = dict(error.trailing_metadata() or ())
    status = status_pb2.Status.FromString(metadata.get("grpc-status-details-bin", b""))
    for detail in status.details:
        retry = error_details_pb2.RetryInfo()
        if detail.Unpack(retry):
            return retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return 0.1


def _show(done: Outcome, alone: Samples, idle: int) -> None:
    quiet, busy = percentiles(alone), percentiles(done.light)
    mib = 1 << 20
    ends = ", ".join(f"{n} {code}" for code, n in sorted(done.ended.items()))
    print(
        f"{done.name:18} alone p50 {quiet['p50']:.2f} p99 {quiet['p99']:.2f} ms; "
        f"beside p50 {busy['p50']:.2f} p99 {busy['p99']:.2f} max {done.light.max() * 1e3:.1f} ms; "
        f"ratio {busy['p99'] / quiet['p99']:.1f}; RSS {idle // mib} -> {done.most // mib} -> "
        f"{done.after // mib} MiB; {ends}",
        flush=True,
    )


if __name__ == "__main__":
    main()
