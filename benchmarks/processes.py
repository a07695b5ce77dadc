"""Calls per second and processor time of a daemon with one process and with two, by turns.

    python -m benchmarks.processes --nodes 10000 --rounds 5 --seconds 3

Each process of the daemon has one core of its own (as by `taskset`), the clients have all cores.
One process is measured on one core, and on all. `process ms` is the processor time of a call in all
processes, `loop ms` that of the thread that decodes and encodes, of which a process has one: a
process answers at most 1,000 / `loop ms` calls per second, on however many cores. The last lines
are reckoned from both: the calls per second of one process for each core.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.bench import Questions
from benchmarks.daemon import serving, temporary_store
from benchmarks.data import Tree
from benchmarks.data import tree as made_tree
from benchmarks.measure import Load, drive
from benchmarks.writes import load_tree
from vikingd.client import Method
from vikingd.client.messages import MessageClient

CONNECTIONS = 32
CORES = (1, 2, 4, 8, 16)
_WARM_SECONDS = 1.0
_TICKS = os.sysconf("SC_CLK_TCK")
_STAT_TIMES = slice(11, 13)  # utime and stime after the name, see proc_pid_stat(5)


class Measured(NamedTuple):
    """The calls per second, and the processor time of a call in ms."""

    rate: float
    process_ms: float
    loop_ms: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each way, and the reckoned ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args(arguments)
    found: dict[str, list[Measured]] = {}
    tree = made_tree(options.nodes)
    with temporary_store() as store, ProcessPoolExecutor(1, get_context("spawn")) as loader:
        with serving(store) as server:
            load_tree(server, tree)
        for _ in range(options.rounds):
            for name, processes, is_pinned in (
                ("1 process, 1 core", 1, True),
                ("1 process, all cores", 1, False),
                ("2 processes, 1 core each", 2, True),
            ):
                measured = _measured(
                    store, tree, loader, processes, options.seconds, is_pinned=is_pinned
                )
                found.setdefault(name, []).append(measured)
    print(f"{options.nodes:,} nodes   calls/s (range)   process ms   loop ms")
    for name, rows in found.items():
        rates = [row.rate for row in rows]
        middle = np.median(np.array(rows), axis=0)
        print(
            f"{name:<26} {middle[0]:,.0f} ({min(rates):,.0f}-{max(rates):,.0f})   "
            f"{middle[1]:.3f}   {middle[2]:.3f}"
        )
    one, two = (
        np.median(np.array(found[name]), axis=0)
        for name in ("1 process, 1 core", "2 processes, 1 core each")
    )
    print("cores   1 process   a process for each core   reckoned calls/s")
    for cores in CORES:
        alone = min(cores * 1e3 / one[1], 1e3 / one[2])
        each = cores * 1e3 / (two[1] if cores > 1 else one[1])
        print(f"{cores:>5}   {alone:>9,.0f}   {each:>23,.0f}   {each / alone:.2f} x")


def _measured(
    store: Path, tree: Tree, loader: Executor, processes: int, seconds: float, *, is_pinned: bool
) -> Measured:
    with serving(store, processes=processes) as server:
        with MessageClient(server.address) as client:
            while client.stats().answering_processes < processes:
                time.sleep(0.1)
        pids = [server.pid, *_readers(server.pid)][:processes]
        if is_pinned and sys.platform == "linux":
            for core, pid in enumerate(pids):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), {core % (os.cpu_count() or 1)})
        method = Method.EXHAUSTIVE if tree.nodes <= 10_000 else Method.BEST_FIRST
        load: Load = Questions(server, tree).load(method)
        loader.submit(drive, load, CONNECTIONS, _WARM_SECONDS).result()
        before = _seconds(pids), _seconds(pids, loop=True)
        driven = loader.submit(drive, load, CONNECTIONS, seconds).result()
        calls = (len(driven.calls) + CONNECTIONS) / 1e3
        whole, loop = _seconds(pids) - before[0], _seconds(pids, loop=True) - before[1]
    return Measured(driven.rate, whole / calls, loop / calls)


def _readers(writer: int) -> list[int]:
    """Return the ids of the largest children of a process, the largest one first."""
    children = Path(f"/proc/{writer}/task/{writer}/children").read_text().split()
    return sorted(map(int, children), key=_resident, reverse=True)


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


def _seconds(pids: Sequence[int], *, loop: bool = False) -> float:
    """Return the processor time of processes, or of their main threads, which run the loop."""
    total = 0
    for pid in pids:
        at = f"/proc/{pid}/task/{pid}/stat" if loop else f"/proc/{pid}/stat"
        fields = Path(at).read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[_STAT_TIMES]))
    return total / _TICKS


if __name__ == "__main__":
    main()
