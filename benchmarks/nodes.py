"""Several daemons over PostgreSQL compared with one store in SQLite, by turns on one machine.

`python -m benchmarks.nodes --postgres URL` needs a PostgreSQL server on this machine. Its user must
be allowed to make databases: each size gets one, which is removed in the end. README.md explains
the rows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import numpy as np
import psycopg
from psycopg.conninfo import conninfo_to_dict

from benchmarks.bench import Questions
from benchmarks.daemon import Server, say, serving, temporary_store
from benchmarks.data import TOP, Tree, tree
from benchmarks.measure import Driven, Load, drive, latency
from benchmarks.writes import CLIENTS, PUT, NewContexts, load_tree
from vikingd.client import Client, Method

_BATCH = 100
_BATCHES_IN_FLIGHT = 2
_LAGS = 200


class Figure(NamedTuple):
    """A row: a figure for SQLite and the same for PostgreSQL; NaN where there is none."""

    nodes: int
    row: str
    unit: str
    sqlite: float
    postgres: float


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.nodes", description=__doc__)
    parser.add_argument("--postgres", metavar="URL", required=True, help="a server for the nodes")
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000], help="sizes of the tree")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each row")
    parser.add_argument(
        "--starts", action="store_true", help="measure the import and the starts of a node alone"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    print("| nodes | row | SQLite | PostgreSQL | ratio | unit |\n|---|---|---|---|---|---|")
    for nodes in arguments.nodes:
        of = tree(nodes)
        measured = (
            _starts(arguments.postgres, of)
            if arguments.starts
            else _measure(arguments.postgres, of, arguments.seconds)
        )
        for one in measured:
            figures.append(one)
            ratio = one.postgres / one.sqlite
            print(
                f"| {one.nodes:,} | {one.row} | {one.sqlite:.4g} | {one.postgres:.4g} | "
                f"{ratio:.3g} | {one.unit} |",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps([one._asdict() for one in figures], indent=2) + "\n")


def _measure(url: str, of: Tree, seconds: float) -> Iterator[Figure]:
    nan = float("nan")
    size = of.nodes
    with _database(url) as database, temporary_store() as path:
        config = path / "vikingd.toml"
        config.write_text(f"store = {json.dumps(database)}\n")
        alone, first, second = (path / name for name in ("alone", "first", "second"))
        with serving(alone) as one, serving(first, config=config) as node:
            yield Figure(size, "import", "contexts/s", load_tree(one, of), load_tree(node, of))
            held = _bytes(database) / size
            disk = sum(f.stat().st_size for f in alone.glob("store.sqlite3*")) / size
            yield Figure(size, "bytes of a context", "bytes", disk, held)
            loads = [Questions(at, of).load(Method.EXHAUSTIVE) for at in (one, node)]
            finds = [float(np.median(taken)) * 1e3 for taken in latency(seconds, *loads)]
            yield Figure(size, "find p50", "ms", *finds)
            with ProcessPoolExecutor(1) as loader:
                single = [
                    loader.submit(drive, _puts(at, of, 1), CLIENTS, seconds / 2)
                    for at in (one, node, one, node)
                ]
                rates = [each.result().rate for each in single]
                yield Figure(
                    size,
                    f"puts, {CLIENTS} clients",
                    "puts/s",
                    (rates[0] + rates[2]) / 2,
                    (rates[1] + rates[3]) / 2,
                )
                before = _cpu_of_postgres()
                batches: list[Driven] = [
                    loader.submit(
                        drive, _puts(at, of, _BATCH), _BATCHES_IN_FLIGHT, seconds / 2
                    ).result()
                    for at in (one, node)
                ]
                cpu = _cpu_of_postgres() - before
                yield Figure(
                    size,
                    f"puts of {_BATCH}",
                    "contexts/s",
                    *(each.rate * _BATCH for each in batches),
                )
                written = len(batches[1].calls) * _BATCH / 1000
                yield Figure(size, "processor of the database", "s/1,000", nan, cpu / written)
            with serving(second, config=config) as other:
                cold = other.start_seconds
                lags = _lags(node, other)
                yield Figure(size, "found on another node, p50", "ms", nan, lags[0])
                yield Figure(size, "found on another node, p99", "ms", nan, lags[1])
        with serving(alone) as one, serving(second, config=config) as other:
            yield Figure(size, "start, with index", "s", one.start_seconds, other.start_seconds)
        shutil.rmtree(alone / "index")
        with serving(alone) as one:
            yield Figure(size, "start, no index", "s", one.start_seconds, cold)


def _starts(url: str, of: Tree) -> Iterator[Figure]:
    nan = float("nan")
    with _database(url) as database, temporary_store() as path:
        config = path / "vikingd.toml"
        config.write_text(f"store = {json.dumps(database)}\n")
        with serving(path / "first", config=config) as node:
            yield Figure(of.nodes, "import", "contexts/s", nan, load_tree(node, of, compact=False))
        for row in ("start, no index", "start, with index"):
            with serving(path / "second", config=config) as other:
                yield Figure(of.nodes, row, "s", nan, other.start_seconds)


def _puts(at: Server, of: Tree, size: int) -> Load:
    """Return puts of new files below a directory of their own."""
    return Load(at, PUT, NewContexts(of, size, f"{TOP}/new-{uuid4().hex[:8]}"))


def _lags(one: Server, other: Server) -> tuple[float, float]:
    """Return p50 and p99 of the ms from an acknowledged write to its find on another node."""
    taken = []
    with Client(one.address) as writer, Client(other.address) as asker:
        for number in range(_LAGS):
            word = f"lagword{uuid4().hex[:10]}"
            uri = f"viking://resources/lag/{number}.md"
            writer.add(f"{word} is written", at=uri)
            began = time.perf_counter()
            while not any(match.uri == uri for match in asker.find(word, limit=1)):
                pass
            taken.append((time.perf_counter() - began) * 1e3)
    p50, p99 = np.percentile(taken, [50, 99])
    return float(p50), float(p99)


@contextmanager
def _database(url: str) -> Iterator[str]:
    """Make a database; yield its URL."""
    name = f"vikingd_{uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}")
        given = conninfo_to_dict(url)
        place = f"{given.get('host', 'localhost')}:{given.get('port', 5432)}"
        say(f"database {name}")
        try:
            yield f"postgresql://{given.get('user', 'postgres')}@{place}/{name}"
        finally:
            db.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _bytes(url: str) -> int:
    with psycopg.connect(url) as db:
        row = db.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0])


def _cpu_of_postgres() -> float:
    """Return the processor seconds of all processes of PostgreSQL on this machine."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == "postgres":
                total += Server("", int(path.parent.name)).cpu_seconds()
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


if __name__ == "__main__":
    main()
