"""The rounds: a fault under load, then a rest in which all is compared."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.load import AWAY, Load
from tests.cluster.machines import ENDS, Machines, Node
from tests.cluster.model import ROOT, Model, content
from tests.cluster.proxy import State
from tests.postgres_servers import room
from vikingd.client import Client, HistoryLost

KINDS = ("kill", "silent", "reset", "failover", "waits")
NODES = 3
LONGEST = {"find": 15.0, "get": 30.0}
"""Seconds for which the reads of a client may fail: a silent database is noticed after five, and a
get needs a database."""

_SECONDS = 120.0  # for a rest, on a busy machine
_ALL_EVERY = 10  # rounds between two looks at all files


@dataclass
class Outcome:
    """The figures of a run."""

    rounds: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    longest: dict[str, float] = field(default_factory=dict)
    lost: int = 0
    files: int = 0
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the figures for people."""
        rounds = ", ".join(f"{kind} {n}" for kind, n in sorted(self.rounds.items()))
        counts = ", ".join(f"{what} {n:,}" for what, n in sorted(self.counts.items()))
        longest = ", ".join(f"{kind} {s:.1f} s" for kind, s in self.longest.items())
        return (
            f"rounds: {rounds}\ncalls: {counts}\nlongest failure: {longest}\n"
            f"files {self.files:,}, sessions told of a lost history {self.lost}"
        )


class Rounds:
    """A run over some machines."""

    def __init__(self, machines: Machines, model: Model, load: Load, outcome: Outcome) -> None:
        self._machines = machines
        self._model = model
        self._load = load
        self._outcome = outcome
        self._checked = 0
        self._clients = [Client(node.address, timeout=60) for node in machines.nodes]

    def hurt(self, kind: str, dice: random.Random) -> None:
        """Make a fault, and mend it."""
        node = dice.choice(self._machines.nodes)
        time.sleep(dice.random() / 2)
        if kind == "kill":
            node.kill()
            time.sleep(dice.random())
            node.start()
            node.wait()
        elif kind == "silent":
            self._cut(node, State.SILENT, dice.uniform(1, 9))
        elif kind == "reset":
            self._cut(node, State.CLOSED, dice.uniform(0.2, 4))
        elif kind == "waits":
            self._end_waits(dice)
        else:
            self._machines.fail_over(dice.random())
        self._outcome.rounds[kind] += 1

    def _end_waits(self, dice: random.Random) -> None:
        """End the waits of commits; the standby, which may lack them, comes back or takes over.

        Sessions that saw such a commit are told of its loss. None was acknowledged.
        """
        machines, how = self._machines, dice.choice(ENDS)
        machines.end_waits(how)
        if how != "restart" and dice.random() < 0.3:
            machines.bring_back()
        else:
            machines.fail_over(dice.random())
        self._load.rest(_SECONDS)
        for name, client in self._load.sessions.items():
            self._use(name, client)

    @staticmethod
    def _cut(node: Node, state: State, seconds: float) -> None:
        node.cut(state)
        time.sleep(seconds)
        node.cut(State.OPEN)

    def lose(self, dice: random.Random) -> None:
        """Fail over to a standby that lacks the last commits; each session is told once."""
        machines, model, load = self._machines, self._model, self._load
        before = load.lost.copy()
        kept = machines.fall_behind()
        time.sleep(1 + dice.random())
        load.rest(_SECONDS)
        newest = model.revision
        seen = {name: _revision(client) for name, client in load.sessions.items()}
        machines.fail_over(dice.random())
        for name, client in load.sessions.items():
            self._use(name, client)
            told = load.lost[name] - before[name]
            if told != (seen[name] > kept):
                model.tell(f"{name} saw {seen[name]}, kept is {kept}, and it was told {told} times")
        model.revision = kept
        if newest <= kept:
            model.tell("no commit was lost")
        for record in model.records:  # the last ones of each may be gone
            record.unknown, record.acknowledged = record.number, 0
        self._outcome.rounds["async"] += 1

    def _use(self, name: str, client: Client) -> None:
        """Call until a call succeeds."""
        ends = time.monotonic() + _SECONDS
        while time.monotonic() < ends:
            try:
                client.find("harbour", target_uri=ROOT)
                client.list(ROOT)
            except HistoryLost:
                self._load.lost[name] += 1
            except AWAY:
                time.sleep(0.1)
            else:
                return
        self._model.tell(f"{name} does not come back")

    def compare(self, number: int, *, all_of_them: bool = False) -> None:
        """Compare the answers of all nodes with each other and with the model."""
        load, model = self._load, self._model
        load.rest(_SECONDS)
        finds = []
        for client in self._clients:
            ends = time.monotonic() + _SECONDS
            while True:
                with suppress(*AWAY, HistoryLost):
                    found = client.find(
                        "number harbour", limit=200, target_uri=ROOT, min_revision=model.revision
                    )
                    report = client.verify()
                    break
                if time.monotonic() > ends:
                    model.tell(f"round {number}: {client.address} does not come back")
                    return
                time.sleep(0.1)
            finds.append([(match.uri, match.score) for match in found])
            for problem in report.problems:
                model.tell(f"round {number}: {client.address}: {problem}")
        if any(one != finds[0] for one in finds):
            model.tell(f"round {number}: the nodes answer differently")
        first = 0 if all_of_them else self._checked
        for at, record in enumerate(model.records[first:]):
            client = self._clients[at % NODES]
            fault = record.fault(content(client, record, model.revision), record.acknowledged)
            model.tell(fault and f"round {number}, {client.address}: {fault}")
        self._checked = max(0, len(model.records) - 100)
        load.go_on()

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            client.close()


def run(
    directory: Path,
    outcome: Outcome,
    *,
    rounds: int,
    seed: int,
    only: str | None = None,
    writers: int = 16,
    readers: int = 16,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run rounds until one has a fault.

    Args:
        outcome: gets the figures, also if the run is interrupted.
        only: one kind of fault; "async" is a failover that loses commits.
        say: gets a line after each round.
    """
    dice = random.Random(f"{seed}/rounds")
    is_async = only == "async"
    with ExitStack() as stack:
        machines = Machines(directory, stack.enter_context(room()), NODES, is_sync=not is_async)
        stack.callback(machines.stop)
        model = Model()
        load = Load(model, machines.addresses, writers, readers, seed)
        stack.callback(load.stop)
        told: Counter[str] = Counter()  # of a loss in rounds that may have one
        work = Rounds(machines, model, load, outcome)
        stack.callback(work.close)
        try:
            for number in range(rounds):
                kind = only or (KINDS[number] if number < len(KINDS) else dice.choice(KINDS))
                began = time.monotonic()
                if is_async:
                    time.sleep(dice.random())
                    work.lose(dice)
                else:
                    work.hurt(kind, dice)
                is_last = number == rounds - 1
                work.compare(number, all_of_them=is_last or number % _ALL_EVERY == 0)
                if kind == "waits":
                    told = load.lost.copy()
                elif load.lost != told and not is_async:
                    model.tell(f"sessions lost their history: {dict(load.lost)}")
                for read, most in LONGEST.items():
                    if load.longest[read] > most:
                        model.tell(f"reads failed for {load.longest[read]:.1f} s: {read}")
                say(f"{number + 1}/{rounds} {kind} {time.monotonic() - began:.1f} s, "
                    f"revision {model.revision:,}, {load.counts['writes']:,} writes")  # fmt: skip
                if model.faults:
                    break
        finally:
            outcome.counts = load.counts
            outcome.longest = load.longest
            outcome.lost = sum(load.lost.values())
            outcome.files = len(model.records)
            outcome.faults = model.faults


def _revision(client: Client) -> int:
    """Return the newest revision that a session has seen."""
    points = client._seen.text.split(",")
    return max((int(point.rpartition(".")[2]) for point in points if point), default=0)
