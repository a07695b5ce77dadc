"""The thread on which the texts of several stores are embedded in turn, by one child process."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from vikingd.domain.store_changes import Waiting
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.embedding_process import DocumentEmbedder

_STOP = 1.5  # seconds at most that a stop waits for the thread


class Worker(Protocol):
    """A worker that embeds the backlog of one store: its texts without a vector."""

    def turn(self, others_wait: Callable[[], bool]) -> float | None:
        """Work until no text waits, or for a short time if others wait.

        Returns:
            The seconds until the next turn; None: the next turn follows the next `wake`.
        """


class Store(Protocol):
    """The backlog and the vectors of texts, durable."""

    def backlog(self, limit: int, first: Sequence[int]) -> list[Waiting]:
        """Return at most `limit` texts that wait for a vector, those with ids in `first` first."""

    def made_vectors(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the vectors that were made of texts with these digests."""

    def fill(
        self,
        vectors: Sequence[tuple[int, bytes]],
        digests: Mapping[int, bytes],
        meta: Mapping[str, bytes],
    ) -> Future[Any]:
        """Write vectors in one commit.

        Args:
            vectors: (id of the text, vector as bytes).
            digests: the digests of the texts by id; equal digests have equal vectors.
            meta: values for the table meta of the store, by key.
        """


class Allowance(Protocol):
    """The number of texts that may be embedded in a day. The worker's thread calls the methods."""

    def left(self) -> int:
        """Return how many texts may still be embedded today."""

    def count(self, texts: int) -> None:
        """Count texts that were embedded."""

    def kept(self) -> Mapping[str, bytes]:
        """Return the count of today as a key and value for the table meta of the store."""

    def why(self) -> tuple[str, int]:
        """Return (the reason why no more texts are embedded today, the end of the day).

        The time is in microseconds since 1970-01-01 UTC.
        """


class Backlogs:
    """A thread and a child process, shared by the workers of all stores.

    The thread gives each worker with waiting texts a turn, in the order in which they asked. It
    starts with the first `wake`, and the child with the first text.

    Attributes:
        embedder: the child; only the worker that has the turn may call it.
        numbers: the numbers of groups of texts, each used once.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self.embedder = DocumentEmbedder(settings)
        self.numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._due: dict[Worker, float] = {}  # the earliest time of the next turn
        self._current: Worker | None = None
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def is_alive(self) -> bool:
        """True while the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def wake(self, worker: Worker) -> None:
        """Give a worker a turn; one that waits after a failure goes on waiting."""
        with self._changed:
            if self._stopping:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="backlog", daemon=True)
                self._thread.start()
            self._due.setdefault(worker, 0.0)
            self._changed.notify_all()

    def has_work(self, worker: Worker) -> bool:
        """Return whether a worker has the turn or waits for one."""
        with self._changed:
            return worker is self._current or worker in self._due

    def remove(self, worker: Worker) -> None:
        """Give a worker no more turns, and wait up to 1.5 s for the end of a running one."""
        with self._changed:
            self._due.pop(worker, None)
            self._changed.wait_for(lambda: self._current is not worker, _STOP)
            self._due.pop(worker, None)  # the end of its turn may have asked for another one

    def stop(self) -> None:
        """End the child and the thread, within 1.5 s."""
        with self._changed:
            self._stopping = True
            self._due.clear()
            self._changed.notify_all()
        self.embedder.kill()
        if self._thread is not None:
            self._thread.join(_STOP)

    def _run(self) -> None:
        try:
            while (worker := self._next()) is not None:
                seconds = worker.turn(self._others_wait)
                with self._changed:
                    self._current = None
                    if seconds is not None and not self._stopping:
                        self._due.pop(worker, None)  # the last in the order now
                        self._due[worker] = time.monotonic() + seconds
                    self._changed.notify_all()
        finally:
            self.embedder.close()

    def _next(self) -> Worker | None:
        """Wait for the next turn, and return its worker; None at the end."""
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                worker = next((one for one, due in self._due.items() if due <= now), None)
                if worker is not None:
                    del self._due[worker]
                    self._current = worker
                    return worker
                first = min(self._due.values(), default=None)
                self._changed.wait(None if first is None else first - now)
            return None

    def _others_wait(self) -> bool:
        """Return whether another worker than the current one waits for a turn now."""
        now = time.monotonic()
        with self._changed:
            return any(
                due <= now for worker, due in self._due.items() if worker is not self._current
            )
