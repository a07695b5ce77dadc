"""Timing of calls, and tables of the results."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt

from benchmarks.daemon import Server

_BLOCK, _BLOCK_SECONDS = 20, 0.5
_LEAST_BLOCKS = 3
_ROUNDS = 4

Samples = npt.NDArray[np.float64]
"""Seconds of each call."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        value: for a latency the median in ms.
        baseline: the figure of the baseline, measured by turns with the value.
        ratio: value / baseline, unless README.md says otherwise.
        recall: recall@10 against METHOD_EXACT.
        baseline_recall: recall@10 of the baseline against its own exact scores.
        p50, p95, p99: in ms.
    """

    name: str
    nodes: int
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    recall: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    baseline_recall: float | None = None
    data: str = "synthetic"
    remark: str = ""


def table(rows: Sequence[Row]) -> str:
    """Return the rows as plain text, without empty columns."""
    columns = [("", False, [row.name for row in rows])]
    columns.append(("nodes", True, [f"{row.nodes:,}" for row in rows]))
    columns.append(("value", True, [number(row.value) for row in rows]))
    columns.append(("unit", False, [row.unit for row in rows]))
    columns += [
        (head, True, [number(getattr(row, head)) for row in rows])
        for head in ("baseline", "ratio", "p50", "p95", "p99")
    ]
    for head, key in (("recall@10", "recall"), ("baseline's", "baseline_recall")):
        shares = [getattr(row, key) for row in rows]
        columns.append((head, True, ["" if s is None else f"{s:.3f}" for s in shares]))
    columns.append(("", False, [row.remark for row in rows]))
    lines = [""] * (len(rows) + 1)
    for head, right, cells in columns:
        if any(cells):
            width = max(map(len, [head, *cells]))
            for i, cell in enumerate([head, *cells]):
                lines[i] += (cell.rjust(width) if right else cell.ljust(width)) + "  "
    return "\n".join(map(str.rstrip, lines))


def write(path: Path, rows: Iterable[Any]) -> None:
    """Write the rows, which are dataclasses, as a JSON list."""
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def percentiles(samples: Samples) -> dict[str, float]:
    """Return the fields p50, p95 and p99 of a Row, in ms."""
    values = np.percentile(samples, (50, 95, 99)) * 1e3
    return dict(zip(("p50", "p95", "p99"), map(float, values), strict=True))


def interleaved(
    seconds: float, *calls: Callable[[int], object], size: int = _BLOCK
) -> list[Samples]:
    """Time calls in alternating blocks of `size`, so that noise affects all of them.

    Each call gets its number: 0, 1, 2, ... The first block of each is a warm-up and does not
    count. All blocks together take about `seconds`.
    """
    taken: list[list[float]] = [[] for _ in calls]
    warm = [0 for _ in calls]
    end = math.inf
    for block in itertools.count():
        if block == 1:
            warm = list(map(len, taken))
            end = time.perf_counter() + seconds
        if block > _LEAST_BLOCKS and time.perf_counter() >= end:
            break
        for call, samples in zip(calls, taken, strict=True):
            ended = started = time.perf_counter()
            stop, last = started + _BLOCK_SECONDS, len(samples) + size
            while len(samples) < last and ended < stop:
                call(len(samples))
                before, ended = ended, time.perf_counter()
                samples.append(ended - before)
    return [np.array(samples[n:]) for samples, n in zip(taken, warm, strict=True)]


@dataclass(frozen=True, slots=True)
class Load:
    """The requests to send to one method of a server."""

    server: Server
    method: str
    requests: Sequence[bytes]
    metadata: tuple[tuple[str, str], ...] = ()

    def sender(self, channel: grpc.Channel) -> Callable[[int], bytes]:
        """Return a function that sends request number i.

        After the last request the first one follows.
        """
        rpc: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            self.method, None, None
        )
        requests, metadata = self.requests, self.metadata or None
        return lambda i: rpc(requests[i % len(requests)], metadata=metadata)

    def replies(self) -> list[bytes]:
        """Return the reply to each request."""
        with grpc.insecure_channel(self.server.address) as channel:
            return list(map(self.sender(channel), range(len(self.requests))))


@dataclass(frozen=True, slots=True)
class Driven:
    """The result of driving a server: the seconds of each call, and of the whole run."""

    calls: Samples
    seconds: float

    @property
    def rate(self) -> float:
        """Calls per second."""
        return len(self.calls) / self.seconds


def latency(seconds: float, *loads: Load) -> list[Samples]:
    """Return the seconds of each load's calls, taken by turns, with one call in flight."""
    with ExitStack() as stack:
        channels = [
            stack.enter_context(grpc.insecure_channel(load.server.address)) for load in loads
        ]
        senders = [load.sender(c) for load, c in zip(loads, channels, strict=True)]
        return interleaved(seconds, *senders)


@dataclass(frozen=True, slots=True)
class Throughput:
    """The median of calls per second over rounds, seconds of each call, CPU ms for each call."""

    rate: float
    calls: Samples
    cpu: float


def throughput(loader: Executor, seconds: float, *loads: tuple[Load, int]) -> list[Throughput]:
    """Drive loads by turns from another process; each has its number of calls in flight."""
    share = seconds / _ROUNDS / len(loads)
    rounds: list[list[Driven]] = [[] for _ in loads]
    cpu = [0.0 for _ in loads]
    for _ in range(_ROUNDS):
        for i, (load, in_flight) in enumerate(loads):
            before = load.server.cpu_seconds()
            rounds[i].append(loader.submit(drive, load, in_flight, share).result())
            cpu[i] += load.server.cpu_seconds() - before
    out = []
    for (_, in_flight), driven, spent in zip(loads, rounds, cpu, strict=True):
        calls = np.concatenate([d.calls for d in driven])
        # The calls that connect use CPU time too.
        each = spent / (len(calls) + in_flight * _ROUNDS) * 1e3
        out.append(Throughput(statistics.median(d.rate for d in driven), calls, each))
    return out


def drive(load: Load, in_flight: int, seconds: float, calls: int = 0) -> Driven:
    """Keep `in_flight` calls running, each on its own channel.

    The run ends after `seconds` and at least `calls` calls. One call connects each channel first;
    it does not count.
    """
    return asyncio.run(_drive(load, in_flight, seconds, calls))


async def _drive(load: Load, in_flight: int, seconds: float, calls: int) -> Driven:
    # By default gRPC shares one connection between all channels to an address.
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(load.server.address, options) for _ in range(in_flight)]
    rpcs: list[grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = [
        channel.unary_unary(load.method, None, None) for channel in channels
    ]
    numbers = itertools.count()
    taken: list[float] = []

    async def send(rpc: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]) -> None:
        before = time.perf_counter()
        await rpc(load.requests[next(numbers) % len(load.requests)])
        taken.append(time.perf_counter() - before)

    async def keep_sending(rpc: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]) -> None:
        while time.perf_counter() < end or len(taken) < calls:
            await send(rpc)

    await asyncio.gather(*map(send, rpcs))
    taken.clear()
    started = time.perf_counter()
    end = started + seconds
    await asyncio.gather(*map(keep_sending, rpcs))
    lasted = time.perf_counter() - started
    for channel in channels:
        await channel.close(None)
    return Driven(np.array(taken), lasted)


def number(value: float | None) -> str:
    """Format a number with three digits, or as an integer from 1000 on."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
