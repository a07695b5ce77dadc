"""How calls are timed, and how what came out is shown."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc
import numpy as np
import numpy.typing as npt

_BLOCK, _BLOCK_SECONDS = 20, 0.5
_LEAST_BLOCKS = 3
_ROUNDS = 4

Samples = npt.NDArray[np.float64]
"""Seconds that calls took."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `value` of a latency is its median in ms.

    `baseline` is what the same measurement gave for the thing compared with, taken in turns with
    it; `ratio` is value / baseline unless the row's description says otherwise. `recall` is
    recall@10 against METHOD_EXACT. p50, p95 and p99 are in ms.
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
    data: str = "synthetic"


def table(rows: Iterable[Row]) -> str:
    """The rows as plain text."""
    heads = ("", "nodes", "value", "unit", "baseline", "ratio", "p50", "p95", "p99", "recall@10")
    cells: list[tuple[str, ...]] = [heads]
    for r in rows:
        numbers = [number(x) for x in (r.baseline, r.ratio, r.p50, r.p95, r.p99)]
        recall = "" if r.recall is None else f"{r.recall:.3f}"
        cells.append((r.name, f"{r.nodes:,}", number(r.value), r.unit, *numbers, recall))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = (0, 3)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def write(path: Path, rows: Iterable[Row]) -> None:
    """The rows as a JSON list."""
    path.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def percentiles(samples: Samples) -> dict[str, float]:
    """p50, p95 and p99 in ms, as a Row names them."""
    values = np.percentile(samples, (50, 95, 99)) * 1e3
    return dict(zip(("p50", "p95", "p99"), map(float, values), strict=True))


def interleaved(seconds: float, *calls: Callable[[int], object]) -> list[Samples]:
    """Seconds that each call took, in blocks by turns, so that a noisy moment meets all.

    Each is given the number of its call, 0, 1, 2, ... A first block warms all and is left out.
    It takes about `seconds` in all.
    """
    taken: list[list[float]] = [[] for _ in calls]
    for block in itertools.count():
        if block == 1:
            taken = [[] for _ in calls]
            end = time.perf_counter() + seconds
        if block > _LEAST_BLOCKS and time.perf_counter() >= end:
            break
        for call, samples in zip(calls, taken, strict=True):
            ended = started = time.perf_counter()
            stop, last = started + _BLOCK_SECONDS, len(samples) + _BLOCK
            while len(samples) < last and ended < stop:
                call(len(samples))
                now = time.perf_counter()
                samples.append(now - ended)
                ended = now
    return list(map(np.array, taken))


@dataclass(frozen=True, slots=True)
class Load:
    """Calls to send to a method of a server: its address, its name, the messages."""

    address: str
    method: str
    requests: Sequence[bytes]

    def sender(self, channel: grpc.Channel) -> Callable[[int], bytes]:
        """Sends the request of a number, over and over, as it is on the wire."""
        rpc: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            self.method, None, None
        )
        return lambda i: rpc(self.requests[i % len(self.requests)])

    def replies(self) -> list[bytes]:
        """What is answered to each request."""
        with grpc.insecure_channel(self.address) as channel:
            return list(map(self.sender(channel), range(len(self.requests))))


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of driving a server: seconds of each call, and of all together."""

    calls: Samples
    seconds: float

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.calls) / self.seconds


def latency(seconds: float, *loads: Load) -> list[Samples]:
    """Seconds of each load's calls, one in flight, interleaved."""
    with ExitStack() as stack:
        channels = [stack.enter_context(grpc.insecure_channel(load.address)) for load in loads]
        senders = [load.sender(c) for load, c in zip(loads, channels, strict=True)]
        return interleaved(seconds, *senders)


def throughput(
    loader: Executor, seconds: float, *loads: tuple[Load, int]
) -> tuple[list[float], list[list[Driven]]]:
    """Median rates of loads with so many in flight, driven by turns from another process."""
    share = seconds / _ROUNDS / len(loads)
    driven: list[list[Driven]] = [[] for _ in loads]
    for _ in range(_ROUNDS):
        for (load, in_flight), out in zip(loads, driven, strict=True):
            out.append(loader.submit(drive, load, in_flight, share).result())
    return [statistics.median(d.rate for d in rounds) for rounds in driven], driven


def drive(load: Load, in_flight: int, seconds: float, calls: int = 0) -> Driven:
    """Sends a call when one returns, on as many channels, until so many seconds and calls.

    Before, one call on each channel connects it.
    """
    return asyncio.run(_drive(load, in_flight, seconds, calls))


async def _drive(load: Load, in_flight: int, seconds: float, calls: int) -> Driven:
    # Without a pool of its own every channel to one address shares one connection.
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(load.address, options) for _ in range(in_flight)]
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
    """For people: three digits, or whole thousands."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
