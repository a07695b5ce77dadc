"""How calls are timed, and how what came out is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import grpc
import numpy as np
import numpy.typing as npt

BLOCK = 20
_LEAST_BLOCKS = 3

Samples = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `value` of a latency is the median, p95 and p99 stand beside it.

    `baseline` is what the same measurement gave for the thing compared with, taken in turns with
    it; `ratio` is value / baseline. `recall` is recall@10 against METHOD_EXACT.
    """

    name: str
    nodes: int
    value: float
    unit: str
    baseline: float | None = None
    ratio: float | None = None
    recall: float | None = None
    p95: float | None = None
    p99: float | None = None


def table(rows: Iterable[Row]) -> str:
    """The rows as plain text."""
    heads = ("", "nodes", "value", "unit", "baseline", "ratio", "p95", "p99", "recall@10")
    cells: list[tuple[str, ...]] = [heads]
    for r in rows:
        number = [_number(x) for x in (r.baseline, r.ratio, r.p95, r.p99)]
        recall = "" if r.recall is None else f"{r.recall:.3f}"
        cells.append((r.name, f"{r.nodes:,}", _number(r.value), r.unit, *number, recall))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = (0, 3)
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


def latency(name: str, nodes: int, own: Samples, base: Samples, recall: float | None = None) -> Row:
    """The row of a call beside its baseline, from seconds of each."""
    p50, p95, p99 = (float(x) * 1e3 for x in np.percentile(own, (50, 95, 99)))
    baseline = float(np.median(base)) * 1e3
    return Row(name, nodes, p50, "ms", baseline, p50 / baseline, recall, p95, p99)


def interleaved(
    first: Callable[[int], object], second: Callable[[int], object], seconds: float, block: int
) -> tuple[Samples, Samples]:
    """Seconds that each call took, in blocks by turns, so that a noisy moment meets both.

    Both are given the number of the call, 0, 1, 2, ... It takes about `seconds` in all.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + seconds
    while len(taken[0]) < _LEAST_BLOCKS * block or time.perf_counter() < end:
        for call, samples in zip((first, second), taken, strict=True):
            for i in range(len(samples), len(samples) + block):
                started = time.perf_counter()
                call(i)
                samples.append(time.perf_counter() - started)
    return np.array(taken[0]), np.array(taken[1])


@dataclass(frozen=True, slots=True)
class Load:
    """Calls to send to a method of a server: its address, its name, the messages."""

    address: str
    method: str
    requests: Sequence[bytes]


def raw(channel: grpc.Channel, method: str) -> Callable[[bytes], bytes]:
    """A method that takes and gives messages as they are on the wire."""
    return channel.unary_unary(method, None, None)


def drive(load: Load, in_flight: int, seconds: float) -> tuple[int, float]:
    """Sends a call when one returns, on as many channels: (calls answered, seconds).

    Before, one call on each channel connects it.
    """
    return asyncio.run(_drive(load, in_flight, seconds))


async def _drive(load: Load, in_flight: int, seconds: float) -> tuple[int, float]:
    # Without a pool of its own every channel to one address shares one connection.
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.aio.insecure_channel(load.address, options) for _ in range(in_flight)]
    rpcs = [channel.unary_unary(load.method, None, None) for channel in channels]
    await asyncio.gather(*(rpc(load.requests[0]) for rpc in rpcs))
    started = time.perf_counter()

    async def send(number: int) -> int:
        count = 0
        while time.perf_counter() < started + seconds:
            at = number + in_flight * count
            await rpcs[number](load.requests[at % len(load.requests)])
            count += 1
        return count

    count = sum(await asyncio.gather(*map(send, range(in_flight))))
    taken = time.perf_counter() - started
    for channel in channels:
        await channel.close(None)
    return count, taken


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
