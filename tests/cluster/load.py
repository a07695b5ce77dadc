"""Writers and readers, each with a session of its own over all nodes."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

from tests.cluster.model import ROOT, Model, Record, content
from vikingd.client import (
    Client,
    ClientError,
    DeadlinePassed,
    HistoryLost,
    Overloaded,
    RevisionNotReached,
    Stopping,
    StoreAway,
    TimedOut,
    Unreachable,
)

AWAY = (
    DeadlinePassed,
    Overloaded,
    RevisionNotReached,
    Stopping,
    StoreAway,
    TimedOut,
    Unreachable,
)
"""The errors of a node or a database that is away for a time."""

_TIMEOUT = 30.0
_WRITES_OF_A_FILE = 12
_PAUSE = 0.05  # seconds between two calls of a client at most: there are two cores


class Load:
    """The threads of the clients.

    Attributes:
        counts: calls by their kind, and those that failed.
        longest: seconds for which the reads of a client failed, at most, by their kind.
        lost: HistoryLost by client.
    """

    def __init__(self, model: Model, addresses: str, writers: int, readers: int, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.longest: dict[str, float] = {"find": 0.0, "get": 0.0}
        self.lost: Counter[str] = Counter()
        self._model = model
        self._go = threading.Event()
        self._go.set()
        self._ended = False
        self._resting = 0
        self._lock = threading.Lock()
        self._clients = ExitStack()
        self.sessions: dict[str, Client] = {}
        self._threads = []
        for kind, work, many in (("w", self._write, writers), ("r", self._read, readers)):
            for number in range(many):
                name = f"{kind}{number}"
                client = self._clients.enter_context(Client(addresses, timeout=_TIMEOUT))
                self.sessions[name] = client
                dice = random.Random(f"{seed}/{name}")
                thread = threading.Thread(
                    target=self._run, args=(work, name, client, dice, number), daemon=True
                )
                self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    def rest(self, seconds: float) -> None:
        """Let all clients end their calls and wait.

        Raises:
            TimeoutError: a call does not end.
        """
        self._go.clear()
        ends = time.monotonic() + seconds
        while self._resting < len(self._threads):
            if time.monotonic() > ends:
                raise TimeoutError("a client's call does not end")
            time.sleep(0.01)

    def go_on(self) -> None:
        """Let the clients go on."""
        self._go.set()

    def stop(self) -> None:
        """End the clients."""
        self._ended = True
        self._go.set()
        for thread in self._threads:
            thread.join()
        self._clients.close()

    def _run(
        self,
        work: Callable[[str, Client, random.Random, int], Callable[[], None]],
        name: str,
        client: Client,
        dice: random.Random,
        number: int,
    ) -> None:
        step = work(name, client, dice, number)
        while not self._ended:
            if not self._go.is_set():
                with self._lock:
                    self._resting += 1
                self._go.wait()
                with self._lock:
                    self._resting -= 1
                continue
            try:
                step()
            except Exception as error:
                self._model.tell(f"{name}: {type(error).__name__}: {error}")
            time.sleep(dice.random() * _PAUSE)

    def _count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def _write(
        self, name: str, client: Client, dice: random.Random, number: int
    ) -> Callable[[], None]:
        model = self._model
        own: list[Record] = []

        def step() -> None:
            own[:] = [record for record in own if not record.unknown]
            if len(own) < 3:
                own.append(model.new(number))
            record = dice.choice(own)
            try:
                revision = record.write(client)
            except (HistoryLost, *AWAY) as error:
                # The write may still come, so nobody writes this file again.
                record.unknown = record.number
                self._failed(name, "write", error)
            else:
                model.acknowledge(record, revision)
                self._count("writes")
                if record.number >= _WRITES_OF_A_FILE:
                    own.remove(record)

        return step

    def _read(self, name: str, client: Client, dice: random.Random, _: int) -> Callable[[], None]:
        model = self._model
        failing: dict[str, float] = {}  # since when

        def step() -> None:
            if not model.records:
                return
            record = dice.choice(model.records[-200:] if dice.random() < 0.7 else model.records)
            least, revision = record.acknowledged, model.revision
            kind = dice.choice(("find", "get"))
            began = time.monotonic()
            try:
                if kind == "get":
                    fault = record.fault(content(client, record, revision), least)
                else:
                    found = client.find(record.word, target_uri=ROOT, min_revision=revision)
                    fault = self._of_find({match.uri for match in found}, record, least)
            except (HistoryLost, *AWAY) as error:
                failing.setdefault(kind, began)
                self._failed(name, kind, error)
            else:
                model.tell(fault and f"{kind} at revision {revision}: {fault}")
                self._count(f"{kind}s")
                failing.pop(kind, None)
            since = failing.get(kind)
            if since is not None:
                with self._lock:
                    self.longest[kind] = max(self.longest[kind], time.monotonic() - since)

        return step

    @staticmethod
    def _of_find(found: set[str], record: Record, least: int) -> str:
        if record.uri in found:
            return record.fault(record.text(record.number), least)
        # A write that began meanwhile may have deleted it.
        return record.fault(None, least) if least else ""

    def _failed(self, name: str, kind: str, error: ClientError) -> None:
        with self._lock:
            self.counts[f"{kind} failed"] += 1
            self.counts[type(error).__name__] += 1
            if isinstance(error, HistoryLost):
                self.lost[name] += 1
