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
    """A worker that embeds the texts of one store that have no vector yet, the backlog."""

    def turn(self, others_wait: Callable[[], bool]) -> float | None:
        """Embed until no text waits; if other workers wait, only for a short time.

        Returns:
            The seconds until the next turn; None: there is none until the next `wake`.
        """


class Store(Protocol):
    """A store as the worker uses it: texts that wait, and vectors."""

    def backlog(self, limit: int, first: Sequence[int]) -> list[Waiting]:
        """Return at most `limit` texts that wait for a vector, those with ids in `first` first."""

    def made_vectors(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the stored vectors of texts with these digests, by digest."""

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
            meta: values by key for the store's table `meta`.
        """


class Allowance(Protocol):
    """The number of texts that may be embedded in a day; called on the worker's thread."""

    def left(self) -> int:
        """Return how many texts may still be embedded today."""

    def count(self, texts: int) -> None:
        """Count texts that were embedded."""

    def stored_count(self) -> Mapping[str, bytes]:
        """Return today's count as key and value for the store's table `meta`."""

    def reason(self) -> tuple[str, int]:
        """Return (the explanation why no more texts are embedded today, the end of the day).

        The end of the day is in microseconds since 1970-01-01 UTC.
        """


class Backlogs:
    """A thread and a child process that embed for the workers of all stores.

    The thread gives each worker with waiting texts a turn, in the order in which they asked. A turn
    is the time in which one worker may use the thread and the child: until it has no more texts, or
    for a short time if others wait. The first `wake` starts the thread, and the first text the
    child.

    Attributes:
        embedder: the child process; only the worker that has the turn may call it.
        numbers: yields unique numbers for groups of texts.
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
        """Give a worker a turn. A worker that waits after a failure does not get it earlier."""
        with self._changed:
            if self._stopping:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="backlog", daemon=True)
                self._thread.start()
            self._due.setdefault(worker, 0.0)
            self._changed.notify_all()

    def has_work(self, worker: Worker) -> bool:
        """Return True if a worker has the turn or waits for one."""
        with self._changed:
            return worker is self._current or worker in self._due

    def remove(self, worker: Worker) -> None:
        """Give a worker no more turns; wait at most 1.5 s for the end of its present turn."""
        with self._changed:
            self._due.pop(worker, None)
            self._changed.wait_for(lambda: self._current is not worker, _STOP)
            self._due.pop(worker, None)  # the end of its turn may have asked for another one

    def stop(self) -> None:
        """End the child and the thread; waits at most 1.5 s."""
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
        """Wait until a turn is due, and return its worker; None when the thread must end."""
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
        """Return True if a worker other than the current one is due."""
        now = time.monotonic()
        with self._changed:
            return any(
                due <= now for worker, due in self._due.items() if worker is not self._current
            )
