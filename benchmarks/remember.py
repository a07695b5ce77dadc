"""Time of a Remember by the number of entries of its type, and of a Put at the same time.

    python -m benchmarks.remember --entries 20 1000 4000

The entries are in files as Remember fills them; with `--one-file` a Put wrote them into one file.
With `--model e5` the daemon has an embedder, and each call begins when all texts have vectors; else
it embeds nothing. Each round adds one memory to each type, puts a small file elsewhere while that
runs, and forgets the memory.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from benchmarks.daemon import serving, temporary_store
from vikingd.client import Document
from vikingd.client.messages import MessageClient
from vikingd.memory.numbered_files import MOST_ENTRIES, file_of

ROOT = "viking://user/memories"
BESIDE = "viking://resources/beside.md"
_LATER = 0.002  # seconds after which the Put follows the Remember
_POLL = 0.01  # seconds between two looks at the vectors
_COLD = 3  # rounds that are not counted


class Taken(NamedTuple):
    """Seconds of the calls of one size, a value for each round."""

    entries: int
    remember: list[float]
    put: list[float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each number of entries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[20, 127, 1000, 4000, 4095])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--one-file", action="store_true")
    parser.add_argument("--model", default="none")
    options = parser.parse_args(arguments)
    found = measured(
        options.entries, options.rounds, one_file=options.one_file, model=options.model
    )
    base = float(np.median(found[0].remember))
    print("entries  remember p50 ms  p95 ms  ratio  put beside p50 ms")
    for entries, remember, put in found:
        middle, most = np.percentile(remember, [50, 95]) * 1e3
        print(
            f"{entries:>7}  {middle:>15.1f}  {most:>6.1f}  {middle / base / 1e3:>5.2f}"
            f"  {np.median(put) * 1e3:>17.1f}"
        )


def measured(sizes: Sequence[int], rounds: int, *, one_file: bool, model: str) -> list[Taken]:
    """Return the times of rounds of calls, by size, in turn."""
    found = [Taken(entries, [], []) for entries in sizes]
    with (
        temporary_store() as store,
        serving(store, model) as server,
        ThreadPoolExecutor(1) as pool,
        MessageClient(server.address, timeout=None) as client,
    ):
        for entries in sizes:
            client.put(list(_files(entries, entries if one_file else MOST_ENTRIES)))
        for number in range(rounds + _COLD):
            for entries, remember, put in found:
                while client.stats().embedder.backlog:
                    time.sleep(_POLL)
                other = pool.submit(_put, client, number)
                started = time.perf_counter()
                done = client.remember(f"Round {number} told a new thing.", uri=_uri(entries))
                taken = time.perf_counter() - started
                waited = other.result()
                client.forget(done.id)
                if number >= _COLD:
                    remember.append(taken)
                    put.append(waited)
    return found


def _put(client: MessageClient, number: int) -> float:
    time.sleep(_LATER)
    started = time.perf_counter()
    client.put([Document(BESIDE, content=f"Version {number}.\n")])
    return time.perf_counter() - started


def _uri(entries: int) -> str:
    return f"{ROOT}/of{entries}.md"


def _files(entries: int, most: int) -> Iterator[Document]:
    """Yield the files of a type with so many entries, at most `most` in each."""
    for number, first in enumerate(range(0, entries, most), start=1):
        items = (
            f"- The user told of boat {i} in harbour {i % 13}, on a day in week {i % 52}.\n"
            for i in range(first, min(first + most, entries))
        )
        content = f"# Of{entries}\n\n{''.join(items)}"
        yield Document(file_of(_uri(entries), number), content=content, title=f"Of{entries}")


if __name__ == "__main__":
    main()
