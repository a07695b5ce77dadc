"""The speed of a daemon, compared with an echo RPC of the same sizes.

`python -m benchmarks.latency` loads trees into daemons and measures them. README.md explains each
row.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks import data, echo, finds, flat, memories, real, thinking, writes
from benchmarks.bench import Bench
from benchmarks.daemon import say, serving, temporary_store
from benchmarks.measure import Row, number, table, write

SIZES = (1_000, 10_000, 100_000)
LOADING = "put_batch_500"
# The order matters: the last measurements change the store.
MEASUREMENTS: tuple[Callable[[Bench], Iterator[Row]], ...] = (
    flat.scan_int8,
    flat.keyword,
    finds.start_seconds,
    finds.find_exact,
    finds.find_best_first,
    finds.find_scoped_1pct,
    finds.find_with_key,
    finds.retrieve_keyword,
    finds.batch_find_32,
    finds.find_text,
    memories.recall,
    thinking.thinking,
    finds.resident_bytes,
    finds.two_processes,
    writes.find_during_import_p99,
    writes.put_single_16,
    finds.reader_lag,
)
NAMES = (LOADING, *(measurement.__name__ for measurement in MEASUREMENTS))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.latency", description=__doc__)
    parser.add_argument(
        "--nodes",
        type=int,
        nargs="+",
        default=SIZES,
        help="sizes of the trees (1k, 10k, 100k)",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=NAMES,
        default=NAMES,
        metavar="NAME",
        help=f"select measurements: {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="build trees from a collection, not synthetic ones"
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="time of each measurement (2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with ExitStack() as stack:
        nothing = stack.enter_context(echo.serving())
        # The loader has its own process, so that measuring does not slow it down.
        spawn = multiprocessing.get_context("spawn")
        loader = stack.enter_context(ProcessPoolExecutor(1, mp_context=spawn))
        for nodes in arguments.nodes:
            say(f"{nodes:,} nodes: making the tree")
            source: Path | None = arguments.data
            tree = real.tree(source, nodes) if source else data.tree(nodes)
            name = source.name if source else "synthetic"
            with temporary_store() as store:
                bench = Bench(tree, name, store, nothing, loader, arguments.seconds)
                for row in _measure(bench, arguments.only):
                    say(f"{nodes:,} nodes: {row.name} {number(row.value)} {row.unit}")
                    rows.append(row)
    print(table(rows))
    if arguments.json:
        write(arguments.json, rows)


def _measure(bench: Bench, only: Collection[str]) -> Iterator[Row]:
    """Yield all rows of one tree."""
    with serving(bench.store) as server:
        rate = writes.load_tree(server, bench.tree)
    if LOADING in only:
        yield bench.row(LOADING, rate, "nodes/s")
    for measurement in MEASUREMENTS:
        if measurement.__name__ in only:
            yield from measurement(bench)


if __name__ == "__main__":
    main()
