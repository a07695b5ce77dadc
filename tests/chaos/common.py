"""Shared parts of all kinds: time, random numbers, counters, and reports of failures."""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.daemon import Nursery, Wrong
from vikingd.client import ClientError


@dataclass
class Failure:
    """A broken promise of the daemon."""

    kind: str
    step: str
    message: str
    directory: Path | None


@dataclass
class Run:
    """One run of the harness.

    Attributes:
        seed: the seed of all random numbers.
        until: the end of a kind, in seconds of time.monotonic.
        first: the number of the first step of each kind.
        steps: the largest number of steps of a kind; 0 for no limit.
        keep_going: True to continue after a failure.
        slower: how many times slower than usual the daemons are; kills come later by as much.
        vaults: the number of vaults that are made at most, 1 to 4.
    """

    nursery: Nursery
    seed: int
    directory: Path
    first: int = 0
    steps: int = 0
    keep_going: bool = False
    slower: float = 1.0
    vaults: int = 4
    until: float = 0.0
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    templates: list[Any] = field(default_factory=list)  # see templates.pair
    made: dict[int, Any] = field(default_factory=dict)  # vaults by number, see vaults.chosen

    def dice(self, *names: object) -> random.Random:
        """Return random numbers that depend on the seed and the names only."""
        return random.Random("/".join(map(str, (self.seed, *names))))

    def count(self, kind: str, what: str, by: int = 1) -> None:
        """Add to a counter."""
        counter = self.counts.setdefault(kind, Counter())
        counter[what] += by

    def most(self, kind: str, what: str, value: int) -> None:
        """Keep the largest value."""
        counter = self.counts.setdefault(kind, Counter())
        counter[what] = max(counter[what], value)

    def step_numbers(self, kind: str) -> Iterator[int]:
        """Yield numbers of steps until the time is over, and at least one."""
        number = self.first
        while number == self.first or time.monotonic() < self.until:
            if self.steps and number >= self.first + self.steps:
                return
            if self.failures and not self.keep_going:
                return
            self.count(kind, "steps")
            yield number
            number += 1

    @contextmanager
    def step(self, kind: str, name: str, directory: Path) -> Iterator[None]:
        """Run one step: report its failure and keep its directory, or remove the directory."""
        try:
            yield
        except (Wrong, ClientError) as error:
            self.nursery.kill_all()
            self.failed(kind, name, f"{type(error).__name__}: {error}", directory)
        else:
            shutil.rmtree(directory, ignore_errors=True)
            self.nursery.discard_logs(directory.name)

    def failed(self, kind: str, name: str, message: str, directory: Path | None) -> None:
        """Record and report a failure."""
        self.count(kind, "WRONG")
        self.failures.append(Failure(kind, name, message, directory))
        print(
            f"\nWRONG {kind}, --seed {self.seed}, step {name}, kept in {directory}, logs in "
            f"{self.nursery.logs}\n{message}\n",
            file=sys.stderr,
            flush=True,
        )
