"""A table of the effect of one request on others: the seconds that others wait, and the memory.

`python -m tests.chaos table` prints the rows as Markdown. Each row has its own daemon and store,
bounded in memory and time. A client in another process makes light calls at the same time.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tests.chaos import light, wirefuzz
from tests.chaos.daemon import Daemon, Nursery, Wrong
from vikingd.client import Boost, Draft, Mode, Passage, retrieval_calls
from vikingd.client.messages import MessageClient
from vikingd.pb import contexts_pb2, memories_pb2, retrieval_pb2

GUARD = 75.0  # seconds that a row may take
ADDRESS_SPACE = 8 << 30
EMPTY = b"\x0a\x00"  # field 1 as an empty message or text
RETRIEVAL, CONTEXTS = "viking.retrieval.v1.Retrieval", "viking.retrieval.v1.Contexts"
MEMORIES = "viking.retrieval.v1.Memories"
ROOT = "viking://resources/table"
MIB = 1 << 20

Send = Callable[["Row"], Iterator[None]]
"""A row: the part before its `yield` prepares, and the part after is measured."""


@dataclass
class Row:
    """One row of the table, while it is measured."""

    name: str
    daemon: Daemon
    directory: Path
    replies: list[str] = field(default_factory=list)

    def call(self, method: str, data: bytes, timeout: float = GUARD) -> str:
        """Send bytes; return the code, and the size of a reply."""
        options = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
        with grpc.insecure_channel(self.daemon.address, options) as channel:
            rpc = channel.unary_unary("/" + method, None, None)
            started = time.monotonic()
            try:
                said = f"OK {len(rpc(data, timeout=timeout)) / MIB:.1f} MiB"
            except grpc.RpcError as error:
                said = error.code().name
        self.replies.append(f"{said} after {time.monotonic() - started:.1f} s")
        return said

    def each(self, calls: list[tuple[str, bytes]]) -> None:
        """Send requests one after the other."""
        for method, data in calls:
            self.call(method, data)

    def at_once(self, calls: list[tuple[str, bytes]]) -> None:
        """Send requests in parallel."""
        threads = [threading.Thread(target=self.call, args=call, daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GUARD + 5)


def tokenizer_path(row: Row) -> Iterator[None]:
    """Send a BuildContext with a FIFO without a writer as its tokenizer."""
    fifo = row.directory / "fifo"
    os.mkfifo(fifo)
    build = retrieval_pb2.BuildContextRequest(uris={"uris": [light.URI]}, tokenizer=f"hf:{fifo}")
    yield
    row.call(f"{RETRIEVAL}/BuildContext", build.SerializeToString(), 30)


def recall_tokenizer(row: Row) -> Iterator[None]:
    """Send a Recall with a FIFO without a writer as its tokenizer."""
    fifo = row.directory / "fifo"
    os.mkfifo(fifo)
    recall = memories_pb2.RecallRequest(query="tea", tokenizer=f"hf:{fifo}")
    yield
    row.call(f"{MEMORIES}/Recall", recall.SerializeToString(), 30)


def large_passages(row: Row) -> Iterator[None]:
    """Send a batch of finds whose replies have large passages."""
    with MessageClient(row.daemon.address, GUARD) as client:
        for number in range(12):
            content = f"lantern {number} " + "word " * 180_000
            passage = Passage("", 0, len(content))
            client.put([Draft(f"{ROOT}/{number}.md", content=content, passages=(passage,))])
    one = retrieval_pb2.FindRequest(query="lantern", limit=12)
    batch = retrieval_pb2.BatchFindRequest(requests=[one] * 256)
    yield
    row.call(f"{RETRIEVAL}/BatchFind", batch.SerializeToString())


def empties(size: int) -> dict[str, tuple[str, bytes]]:
    """Return requests with `size` bytes of empty elements, by the kind of element."""
    many = EMPTY * (size // 2)

    def inside(tag: int, data: bytes) -> bytes:
        length, out = len(data), bytearray([tag << 3 | 2])
        while length > 127:
            out.append(length & 127 | 128)
            length >>= 7
        return bytes([*out, length]) + data

    values = inside(6, many)  # Value.list_value: ListValue.values
    entry = inside(1, b"") + inside(2, values)
    return {
        "Put": (f"{CONTEXTS}/Put", many),
        "BatchFind": (f"{RETRIEVAL}/BatchFind", many),
        "filter": (f"{RETRIEVAL}/Find", inside(1, b"x") + inside(8, inside(1, entry))),
        "session": (f"{RETRIEVAL}/Search", inside(1, b"x") + inside(2, b"\x12\x00" * (size // 2))),
    }


def empty_elements(what: str, size: int, times: int = 1) -> Send:
    """Return a row of one of these requests, or of several in parallel."""

    def send(row: Row) -> Iterator[None]:
        calls = [empties(size)[what]] * times
        yield
        row.at_once(calls)

    return send


def boosts(row: Row) -> Iterator[None]:
    """Send a Retrieve with 24 boosts of 245 clauses each over 20,000 files."""
    tags = [f"tag{i}" for i in range(20)]
    fill(row, 20_000, metadata={"n": 1, "lang": "en", "tags": tags})
    clauses = {"$or": [{"tags": {"$in": [f"no{i}"]}} for i in range(244)]}
    request = retrieval_calls.retrieve(
        "lantern",
        mode=Mode.KEYWORD,
        top_k=10,
        boosts=[Boost(1.5, where=clauses) for _ in range(24)],
    )
    data = request.SerializeToString()
    row.replies.append(f"{len(data) / MIB:.2f} MiB")
    yield
    row.call(f"{RETRIEVAL}/Retrieve", data)


def fill(row: Row, count: int, **fields: Any) -> None:
    """Write files, 1,000 in a batch, 200 in a directory."""
    with MessageClient(row.daemon.address, GUARD) as client:
        for at in range(0, count, 1000):
            client.put(
                [
                    Draft(f"{ROOT}/{n // 200}/{n}.md", content=f"lantern word{n}", **fields)
                    for n in range(at, min(at + 1000, count))
                ]
            )


def refused_requests(size: int) -> list[tuple[str, bytes]]:
    """Return requests that are refused because of one large value."""
    text = "x" * size
    put = contexts_pb2.PutRequest(contexts=[contexts_pb2.ContextInput(uri=ROOT, content=text)])
    return [
        (f"{CONTEXTS}/Put", put.SerializeToString()),
        (f"{RETRIEVAL}/Find", retrieval_pb2.FindRequest(query=text).SerializeToString()),
        (f"{CONTEXTS}/Get", contexts_pb2.GetRequest(uri=text).SerializeToString()),
        (f"{RETRIEVAL}/Find", b"\x0a" + b"\xff" * size),
    ]


def refused(row: Row) -> Iterator[None]:
    """Send each refused request three times, near the old size limit and near the present one."""
    yield
    for size in (30 * MIB, 4 * MIB - 4096):
        row.each(refused_requests(size) * 3)


def longest_line(row: Row) -> Iterator[None]:
    """Send a very long text in each field of each request, and record the longest log line."""
    yield
    longest, where = 0, ""
    for name, path, data in wirefuzz.hostile_texts(lambda: "\x01" * (3 * MIB)):
        row.call(path[1:], data)
        lines = row.daemon.said().splitlines()[-1:]
        if lines and len(lines[0]) > longest:
            longest, where = len(lines[0]), name
    row.replies[:] = [f"longest line of the log {longest:,} characters, of {where}"]


def heavy_calls() -> list[tuple[str, bytes]]:
    """Return valid requests that take long."""
    where = {"$or": [{"n": {"$gte": i}} for i in range(240)]}
    find = retrieval_calls.find("lantern word", limit=1000, where=where)
    retrieve = retrieval_calls.retrieve("lantern word", mode=Mode.KEYWORD, top_k=500, diversity=0.5)
    recall = memories_pb2.RecallRequest(query="lantern word", top_k=500, max_tokens=1_000_000)
    batch = retrieval_calls.batch_find([retrieval_calls.find("lantern word", limit=100)] * 64)
    return [
        (f"{RETRIEVAL}/Find", find.SerializeToString()),
        (f"{RETRIEVAL}/BatchFind", batch.SerializeToString()),
        (f"{RETRIEVAL}/Retrieve", retrieve.SerializeToString()),
        (f"{MEMORIES}/Recall", recall.SerializeToString()),
    ]


def heavy_clients(row: Row) -> Iterator[None]:
    """Run 64 clients of heavy valid calls for 20 seconds."""
    fill(row, 20_000, metadata={"n": 7})
    with MessageClient(row.daemon.address, GUARD) as client:
        lines = "\n".join(f"- lantern memory word{n}" for n in range(3000))
        client.put([Draft("viking://user/memories/notes.md", content=lines)])
    yield
    until, codes = time.monotonic() + 20, dict.fromkeys(("OK",), 0)

    def client_of(method: str, data: bytes) -> None:
        with grpc.insecure_channel(
            row.daemon.address,
            (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)),
        ) as channel:
            rpc = channel.unary_unary("/" + method, None, None)
            while time.monotonic() < until:
                try:
                    rpc(data, timeout=GUARD)
                    code = "OK"
                except grpc.RpcError as error:
                    code = error.code().name
                    time.sleep(0.05)
                codes[code] = codes.get(code, 0) + 1

    calls = itertools.cycle(heavy_calls())
    threads = [threading.Thread(target=client_of, args=next(calls)) for _ in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row.replies.append(", ".join(f"{n} {code}" for code, n in sorted(codes.items())))


def nested_lists(row: Row) -> Iterator[None]:
    """Put 14 files of nested lists, first of 2 MiB each, then of 3.5 MiB together."""
    yield
    for size in (2 * MIB - 64, 250_000):
        line = "".join(f"{'  ' * depth}- item {depth}\n" for depth in range(90))
        content = (line * (size // len(line) + 1))[:size]
        contexts = [
            contexts_pb2.ContextInput(uri=f"{ROOT}/{n}.md", content=content) for n in range(14)
        ]
        put = contexts_pb2.PutRequest(contexts=contexts)
        row.call(f"{CONTEXTS}/Put", put.SerializeToString())


def large_move(row: Row) -> Iterator[None]:
    """Move 100,000 contexts."""
    fill(row, 100_000)
    move = contexts_pb2.MoveRequest(source_uri=ROOT, destination_uri=f"{ROOT}-2")
    yield
    row.call(f"{CONTEXTS}/Move", move.SerializeToString())


def large_delete(row: Row) -> Iterator[None]:
    """Delete 100,000 contexts."""
    fill(row, 100_000)
    yield
    data = contexts_pb2.DeleteRequest(uris=[ROOT]).SerializeToString()
    row.call(f"{CONTEXTS}/Delete", data)


ROWS: dict[str, Send] = {
    "BuildContext, tokenizer a FIFO": tokenizer_path,
    "Recall, tokenizer a FIFO": recall_tokenizer,
    "12 passages of 900 kB, BatchFind of 256": large_passages,
    "32 MiB of empty contexts in Put": empty_elements("Put", 32 * MIB - 64),
    "4 MiB of empty contexts in Put": empty_elements("Put", 4 * MIB - 64),
    "32 MiB of empty requests in BatchFind": empty_elements("BatchFind", 32 * MIB - 64),
    "4 MiB of empty requests in BatchFind": empty_elements("BatchFind", 4 * MIB - 64),
    "32 MiB of empty values in a filter": empty_elements("filter", 32 * MIB - 64),
    "4 MiB of empty values in a filter": empty_elements("filter", 4 * MIB - 64),
    "32 MiB of empty messages in a session": empty_elements("session", 32 * MIB - 64),
    "4 MiB of empty messages in a session": empty_elements("session", 4 * MIB - 64),
    "8 times 4 MiB of empty contexts at once": empty_elements("Put", 4 * MIB - 64, 8),
    "Retrieve, 24 boosts of 245 clauses, 20,000 files": boosts,
    "24 refused requests of 30 and 4 MiB": refused,
    "3 MiB of control characters in each text of each request": longest_line,
    "64 clients of heavy legal calls": heavy_clients,
    "Put of 14 files of nested lists": nested_lists,
    "Move of 100,000 contexts": large_move,
    "Delete of 100,000 contexts": large_delete,
}
"""The rows of the table by name."""

WRITES = ("Put of 14", "Move of", "Delete of", "MiB of empty contexts")
"""Rows during which a light Put is measured too."""


@contextmanager
def light_client(address: str, *names: str) -> Iterator[dict[str, list[float]]]:
    """Make light calls during the block, and yield the seconds of each call, filled afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.light", address, str(GUARD), *names],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    waits: dict[str, list[float]] = {}
    try:
        yield waits
    finally:
        out, _ = process.communicate()
        waits |= json.loads(out)


def p99(waits: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(waits)[int(len(waits) * 0.99)] if waits else float("nan")


def watched(daemon: Daemon, stop: threading.Event, most: list[int]) -> None:
    """Record the largest memory in use."""
    while not stop.wait(0.05) and daemon.code is None:
        try:
            most.append(daemon.memory().get("VmRSS", 0))
        except OSError:
            return


def measure(nursery: Nursery, directory: Path, name: str, send: Send) -> str:
    """Measure one row, and return it as Markdown."""
    daemon = Daemon(nursery, directory / "store", address_space=ADDRESS_SPACE, fresh=True)
    row = Row(name, daemon, directory)
    kinds = ["find", "get", *(["put"] if any(part in name for part in WRITES) else [])]
    with daemon.client() as client:
        light.prepare(client)
        for _ in range(200):
            client.find("lighthouse", target_uri="viking://resources/light", limit=3)
    steps = send(row)
    next(steps)
    with light_client(daemon.address, *kinds) as alone:
        time.sleep(3)
    before = daemon.memory()["VmRSS"]
    stop, most = threading.Event(), [before]
    watcher = threading.Thread(target=watched, args=(daemon, stop, most))
    watcher.start()
    started = time.monotonic()
    with light_client(daemon.address, *kinds) as beside:
        time.sleep(0.3)
        next(steps, None)
        time.sleep(1)
    took = time.monotonic() - started
    time.sleep(4)
    stop.set()
    watcher.join()
    if daemon.code is None:
        after = f"{(daemon.memory()['VmRSS'] - before) / MIB:+.0f}"
    else:
        after = f"ended with {daemon.code}"
    try:
        daemon.stop()
        fault = ""
    except Wrong as error:
        fault = str(error).splitlines()[0][:120]
    longest = " / ".join(f"{kind} {max(beside[kind], default=GUARD):.2f}" for kind in kinds)
    ratio = p99(beside["find"]) / p99(alone["find"])
    replies = "; ".join(reply for reply in row.replies[-6:])
    return (
        f"| {name} | {longest} | {p99(alone['find']) * 1e3:.1f} → {p99(beside['find']) * 1e3:.1f} "
        f"({ratio:.0f}x) | {before / MIB:.0f} | {max(most) / MIB:.0f} | {after} | {took:.0f} s: "
        f"{replies}{'; ' + fault if fault else ''} |"
    )


HEAD = (
    "| request | longest wait of others, s | p99 of a light find alone → beside, ms "
    "| MiB before | at most | after | what came of it |\n|---|---|---|---|---|---|---|"
)


def run(only: str = "") -> None:
    """Print the table, or the rows whose names contain `only`."""
    print(HEAD, flush=True)
    with Nursery() as nursery:
        for name, send in ROWS.items():
            if only not in name:
                continue
            with tempfile.TemporaryDirectory(prefix="chaos-table-") as directory:
                try:
                    line = measure(nursery, Path(directory), name, send)
                except Exception as error:
                    line = f"| {name} | | | | | | {type(error).__name__}: {str(error)[:200]} |"
                print(line, flush=True)
