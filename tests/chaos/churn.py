"""A daemon under writes, moves, deletes, recalls, remember and forget, whose use must level off.

The set of living contexts is bounded. So descriptors, memory, files and bytes must be bounded, too:
the mean of each series in the last third of the time is compared with that of the middle third.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos import worlds
from tests.chaos.daemon import Daemon, Nursery, Wrong
from tests.postgres_servers import Server
from vikingd.client import ClientError, Draft
from vikingd.client.messages import MessageClient

TOP = "viking://resources/churn"
NOTES = "viking://projects/churn/memories/notes.md"
_DIRECTORIES, _FILES = 24, 40  # the bound of the living contexts
_MEMORIES = 300
_WRITERS, _READERS = 2, 2
_SAMPLES = 240  # at most, evenly spread
_SHORTEST = 180.0  # seconds; a shorter run is not judged
_TEXT = "The harbour light stands over the water, and boat {} comes home before night {}."
_ALLOWED = {"NOT_FOUND", "ALREADY_EXISTS", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"}
"""Codes of calls that lost a race with another one."""


@dataclass(frozen=True)
class Series:
    """One figure over time.

    Attributes:
        name: the heading of its column.
        slack: growth that is no growth, in the unit of the figure.
        ratio: the most that the last third may be of the middle one, beside the slack.
        unit: by which the figure is divided when it is shown.
    """

    name: str
    slack: float
    ratio: float = 1.1
    unit: float = 1.0


_MIB = float(1 << 20)
SERIES = (
    Series("descriptors", 24),
    Series("deleted but open", 16),
    Series("deleted MiB", 8 * _MIB, unit=_MIB),
    Series("RSS MiB", 12 * _MIB, unit=_MIB),
    Series("threads", 4),
    Series("files", 16),
    Series("index MiB", 4 * _MIB, 1.25, unit=_MIB),
    Series("store MiB", 2 * _MIB, unit=_MIB),
    Series("log MiB", 8 * _MIB, 1.25, unit=_MIB),
    Series("contexts", 50),
)


@dataclass
class Sample:
    """All figures at one time; `calls` is the number of answered calls so far."""

    seconds: float
    calls: int
    values: dict[str, float]


class Churn:
    """Threads that call daemons until the stop."""

    def __init__(self, connect: Sequence[Callable[[], MessageClient]], seed: int) -> None:
        self._connect = connect
        self._seed = seed
        self._stop = threading.Event()
        self.calls: Counter[str] = Counter()
        self.faults: list[str] = []
        self._ids: list[int] = []
        self._lock = threading.Lock()
        jobs = [*[self._write] * _WRITERS, *[self._read] * _READERS, self._remember, self._optimize]
        self._threads = [
            threading.Thread(target=self._work, args=(n, job), daemon=True)
            for n, job in enumerate(jobs)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop all threads and wait for them."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _work(self, number: int, job: Callable[[MessageClient, random.Random], str]) -> None:
        dice = random.Random(f"{self._seed}/{number}")
        try:
            with self._connect[number % len(self._connect)]() as client:
                while not self._stop.is_set():
                    try:
                        name = job(client, dice)
                    except ClientError as error:
                        name = error.code.name
                        if name not in _ALLOWED:
                            raise
                    with self._lock:
                        self.calls[name] += 1
        except Exception as error:
            self.faults.append(f"{type(error).__name__}: {error}")

    def _write(self, client: MessageClient, dice: random.Random) -> str:
        roll = dice.random()
        if roll < 0.62:
            count = dice.choice((1, 1, 1, 4, 16))
            client.put([_draft(dice) for _ in range(count)])
            return "put"
        if roll < 0.77:
            # The bound holds: the place that the file leaves is one of the bounded set.
            client.move(_uri(dice), _uri(dice))
            return "move"
        if roll < 0.92:
            client.delete(_uri(dice))
            return "delete"
        if roll < 0.94:
            client.delete(_uri(dice).rpartition("/")[0])
            return "delete a directory"
        client.link(_uri(dice), _uri(dice), f"reason {dice.randrange(9)}")
        return "link"

    def _read(self, client: MessageClient, dice: random.Random) -> str:
        number = dice.randrange(10_000)
        roll = dice.random()
        if roll < 0.4:
            client.find(_TEXT.format(number, number % 7), vector=worlds.vector(number))
            return "find"
        if roll < 0.6:
            client.recall(f"boat {number}", project="churn", vector=worlds.vector(number))
            return "recall"
        if roll < 0.8:
            client.retrieve("harbour light", vector=worlds.vector(number), top_k=50)
            return "retrieve"
        if roll < 0.97:
            client.get(_uri(dice))
            return "get"
        list(client.tree(TOP))
        return "tree"

    def _remember(self, client: MessageClient, dice: random.Random) -> str:
        if len(self._ids) > _MEMORIES or (self._ids and dice.random() < 0.3):
            at = dice.randrange(len(self._ids))
            client.forget(self._ids.pop(at))
            return "forget"
        text = f"memory {dice.randrange(10**9)} of boat {dice.randrange(10_000)}"
        self._ids.append(client.remember(text, uri=NOTES, exact=True).id)
        return "remember"

    def _optimize(self, client: MessageClient, dice: random.Random) -> str:
        if self._stop.wait(dice.uniform(20, 60)):
            return "stop"
        client.optimize()
        return "optimize"


def _uri(dice: random.Random) -> str:
    return f"{TOP}/d{dice.randrange(_DIRECTORIES)}/f{dice.randrange(_FILES)}.md"


def _draft(dice: random.Random) -> Draft:
    number = dice.randrange(10**6)
    length = dice.choice((1, 1, 1, 3, 40))
    content = " ".join(_TEXT.format(number, n) for n in range(length))
    vector = worlds.vector(number) if length == 1 else b""
    return Draft(_uri(dice), content=content, metadata={"n": number}, vector=vector)


def sample(daemons: Sequence[Daemon], contexts: int) -> dict[str, float]:
    """Return the figures of all daemons, summed."""
    found: Counter[str] = Counter({"contexts": contexts})
    for daemon in daemons:
        proc = Path(f"/proc/{daemon.pid}")
        for entry in (proc / "fd").iterdir():
            with suppress(OSError):  # closed since
                found["descriptors"] += 1
                if os.readlink(entry).endswith(" (deleted)"):
                    found["deleted but open"] += 1
                    found["deleted MiB"] += entry.stat().st_size
        found["RSS MiB"] += daemon.memory()["VmRSS"]
        found["threads"] += sum(1 for _ in (proc / "task").iterdir())
        for path in _files(daemon.store):
            with suppress(OSError):  # removed since
                size = path.stat().st_size
                found["files"] += 1
                if "index" in path.relative_to(daemon.store).parts:
                    found["index MiB"] += size
                elif path.name == "store.sqlite3":
                    found["store MiB"] += size
                elif path.name == "store.sqlite3-wal":
                    found["log MiB"] += size
    return {series.name: float(found[series.name]) for series in SERIES}


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory; directories may be removed meanwhile."""
    for parent, _, names in os.walk(directory):
        yield from (Path(parent) / name for name in names)


def growing(samples: Sequence[Sample]) -> list[str]:
    """Return the series that do not level off, in words."""
    third = len(samples) // 3
    out = []
    for series in SERIES:
        values = [one.values[series.name] for one in samples]
        middle = _mean(values[third : 2 * third])
        last = _mean(values[2 * third :])
        if last > middle * series.ratio + series.slack:
            out.append(
                f"{series.name}: {last / series.unit:,.1f} in the last third, "
                f"{middle / series.unit:,.1f} in the middle one"
            )
    return out


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def table(samples: Sequence[Sample], every: float) -> Iterator[str]:
    """Yield the lines of a Markdown table with a row for each `every` seconds."""
    yield "| minute | calls | " + " | ".join(series.name for series in SERIES) + " |"
    yield "|---" * (len(SERIES) + 2) + "|"
    due = 0.0
    for one in samples:
        if one.seconds >= due or one is samples[-1]:
            yield f"| {one.seconds / 60:.1f} | {one.calls:,} | {' | '.join(_shown(one))} |"
            due += every


def _shown(one: Sample) -> Iterator[str]:
    for series in SERIES:
        value = one.values[series.name] / series.unit
        yield f"{value:,.0f}" if series.unit == 1 else f"{value:,.1f}"


@contextmanager
def _nodes(
    nursery: Nursery, directory: Path, provider: str, *, postgres: bool
) -> Iterator[list[Daemon]]:
    """Start one daemon over SQLite, or two nodes over PostgreSQL."""
    options = ("--provider", provider)
    if not postgres:
        yield [Daemon(nursery, directory / "store", *options, fresh=True)]
        return
    server = Server(directory / "postgres")
    server.make()
    server.start()
    try:
        yield [
            Daemon(nursery, directory / f"node{n}", "--store", server.url, *options, fresh=True)
            for n in range(2)
        ]
    finally:
        nursery.kill_all()
        server.kill()


def run(minutes: float, seed: int, *, postgres: bool, provider: str, every: float) -> int:
    """Churn for some minutes; print a line each minute and a table; return the exit code.

    Args:
        every: minutes between two rows of the table.
    """
    with tempfile.TemporaryDirectory(prefix="vikingd-churn-") as scratch, Nursery() as nursery:
        os.chmod(scratch, 0o711)  # PostgreSQL runs as another user
        with _nodes(nursery, Path(scratch), provider, postgres=postgres) as daemons:
            samples, faults = _churn(daemons, minutes * 60, seed)
            for daemon in daemons:
                try:
                    daemon.stop()
                except Wrong as error:
                    faults.append(str(error))
    print()
    print("\n".join(table(samples, every * 60)))
    grown = growing(samples) if minutes * 60 >= _SHORTEST else []
    for line in [*faults, *grown]:
        print(f"WRONG {line}")
    verdict = "every series levels off" if minutes * 60 >= _SHORTEST else "too short to judge"
    print(f"seed {seed}: {'WRONG' if faults or grown else verdict}")
    return int(bool(faults or grown))


def _churn(daemons: Sequence[Daemon], seconds: float, seed: int) -> tuple[list[Sample], list[str]]:
    connections = [daemon.client for daemon in daemons]
    with daemons[0].client() as asking:
        churn = Churn(connections, seed)
        began, samples, told = time.monotonic(), list[Sample](), 0.0
        pause = max(1.0, seconds / _SAMPLES)
        try:
            while (passed := time.monotonic() - began) < seconds and not churn.faults:
                stats = asking.stats()
                values = sample(daemons, stats.directories + stats.files)
                samples.append(Sample(passed, sum(churn.calls.values()), values))
                if passed >= told or passed + pause >= seconds:
                    print(_line(samples[-1]), flush=True)
                    told += 60
                time.sleep(pause)
        except ClientError as error:
            churn.faults.append(str(error))
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
        churn.stop()
    calls = ", ".join(f"{name} {count:,}" for name, count in sorted(churn.calls.items()))
    print(f"calls: {calls}")
    return samples, churn.faults


def _line(one: Sample) -> str:
    figures = zip((series.name for series in SERIES), _shown(one), strict=True)
    shown = ", ".join(f"{name} {value}" for name, value in figures)
    return f"{one.seconds / 60:5.1f} min, calls {one.calls:,}, {shown}"
