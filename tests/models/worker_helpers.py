"""A backlog for tests of the document worker."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from vikingd.domain.store_changes import Waiting
from vikingd.models.embed.backlog_thread import Allowance
from vikingd.models.embed.backlog_worker import BacklogWorker
from vikingd.models.embed.embed_settings import EmbedSettings


class Backlog:
    """A store of waiting texts, in order, and of their vectors."""

    def __init__(self, *texts: str) -> None:
        self._lock = threading.Lock()
        self.waiting = dict(enumerate(texts, 1))
        self.vectors: dict[int, bytes] = {}
        self.made: dict[bytes, bytes] = {}
        self.meta: dict[str, bytes] = {}
        self.fills: list[list[int]] = []
        self.failures: list[BaseException] = []
        self.looks = 0
        self.may_write = threading.Event()
        self.may_write.set()

    def backlog(self, limit: int, first: Sequence[int]) -> list[Waiting]:
        """Return waiting texts, as the store does."""
        with self._lock:
            self.looks += 1
            items = sorted(self.waiting.items(), key=lambda item: item[0] not in first)
            return [
                Waiting(text_id, text, 100 + len(text), text.encode())
                for text_id, text in items[:limit]
            ]

    def made_vectors(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return known vectors, as the store does."""
        with self._lock:
            return {digest: self.made[digest] for digest in digests if digest in self.made}

    def add(self, *texts: str) -> None:
        """Append texts."""
        with self._lock:
            for text in texts:
                self.waiting[max([0, *self.waiting, *self.vectors]) + 1] = text

    def fill(
        self,
        vectors: Sequence[tuple[int, bytes]],
        digests: Mapping[int, bytes],
        meta: Mapping[str, bytes],
    ) -> Future[None]:
        """Write vectors, as the store does; fail once with each of `failures`."""
        self.may_write.wait(60)
        done: Future[None] = Future()
        with self._lock:
            if self.failures:
                done.set_exception(self.failures.pop())
                return done
            self.vectors.update(vectors)
            self.meta.update(meta)
            self.made.update((digests[text_id], vector) for text_id, vector in vectors)
            self.fills.append([text_id for text_id, _ in vectors])
            for text_id, _ in vectors:
                del self.waiting[text_id]
        done.set_result(None)
        return done


@contextlib.contextmanager
def working(
    settings: EmbedSettings,
    backlog: Backlog,
    dimension: int,
    allowance: Allowance | None = None,
) -> Iterator[BacklogWorker]:
    """Run a worker."""
    running = BacklogWorker(settings, backlog, dimension, allowance=allowance)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def alive(pid: int) -> bool:
    """Return True if a process runs and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
