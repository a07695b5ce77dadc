"""Documents get their vectors in a niced process of its own, from a backlog, in the background."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import numpy as np

from vikingd.embed.provider import (
    PROBE,
    EmbedderBroke,
    EmbedderUnreachable,
    EmbedSettings,
    Vectors,
    open_provider,
)
from vikingd.errors import EmbedderFailed
from vikingd.priority import let_all_others_go_first, let_somebody_wait_less

MIN_BACKOFF = 1.0
MAX_BACKOFF = 60.0
MAX_BATCH_CHARS = 8000
"""Batches of long texts are smaller, so that each takes about as long and is soon on disk."""

_LOCAL_LIMIT = 3600.0
"""Seconds; at the lowest priority a batch takes minutes while others keep the processors busy."""
_PAUSE = 120.0
"""Seconds; the longest for which an endpoint can put off an attempt."""
_PR_SET_PDEATHSIG = 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerState:
    """How the worker is.

    Attributes:
        embedded: texts since the start.
        last_error: why the last attempt failed; "" if it did not.
        skipped: how many texts are skipped, and why the last of them is; "" if none is.
        retry_at: microseconds since the epoch; None while it is not waiting to try again.
        busy: a batch is being embedded or written.
    """

    embedded: int
    last_error: str
    skipped: str
    retry_at: int | None
    busy: bool


class DocumentEmbedder:
    """A provider in a child process that yields the processor to everybody else.

    The child starts at the first call and again after it died, or was killed for giving no answer
    in time: an hour for a local provider, what all attempts may take for a remote one. It dies
    with the thread that started it, so one thread makes all calls; `kill` may come from any.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        attempts = settings.retries + 1
        remote = settings.provider == "openai"
        self._limit = attempts * (settings.timeout + _PAUSE) if remote else _LOCAL_LIMIT
        self._lock = threading.Lock()
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._killed = False
        self._waiting = 0  # calls that wait for vectors
        self._is_ready = False  # the child has loaded, and has the lowest priority

    @property
    def pid(self) -> int | None:
        """Of the child; None while there is none."""
        process = self._process
        return process.pid if process else None

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, dimension).

        Raises:
            EmbedderBroke: the child died or gave no answer in time, or the provider broke down.
            EmbedderUnreachable: the child can't load its provider, or that refuses all texts.
            EmbedderFailed: the provider failed.
        """
        connection = self._connection or self._start()
        try:
            connection.send(list(texts))
            reply = _receive(connection, self._limit)
        except (EOFError, OSError) as error:
            raise EmbedderBroke(
                f"the embedding process {_ended(error)} ({self._reap()})"
            ) from error
        if isinstance(reply, EmbedderFailed):
            raise reply
        vectors: Vectors = reply
        return vectors

    @contextlib.contextmanager
    def waited_for(self) -> Iterator[None]:
        """Within it somebody waits for the child, which has a share of the processor then."""
        self._wait(1)
        try:
            yield
        finally:
            self._wait(-1)

    def _wait(self, change: int) -> None:
        with self._lock:
            before, self._waiting = self._waiting, self._waiting + change
            if bool(before) != bool(self._waiting):
                self._prioritise()

    def _prioritise(self) -> None:
        """Brings the priority of the child up to date; the lock is held."""
        pid = self._process.pid if self._process is not None and self._is_ready else None
        if pid is None:
            return
        if not self._waiting:
            let_all_others_go_first(pid)
        elif not let_somebody_wait_less(pid):
            _log.warning(
                "the embedding process stays at the lowest priority while a call waits for its "
                "vectors: raising it needs CAP_SYS_NICE or RLIMIT_NICE"
            )

    def kill(self) -> None:
        """Ends the child at once and for good; a call in progress fails."""
        with self._lock:
            self._killed = True
            if self._process:
                self._process.kill()

    def close(self) -> None:
        """Ends the child; for the thread that made the calls."""
        self.kill()
        if self._process:
            self._reap()

    def _start(self) -> Connection:
        context = get_context("spawn")
        connection, childs_end = context.Pipe()
        process = context.Process(
            target=_serve, args=(childs_end, self._settings), name="vikingd-embed", daemon=True
        )
        with self._lock:
            if self._killed:
                raise EmbedderUnreachable("the embedding process was stopped")
            process.start()
            self._process, self._connection = process, connection
        childs_end.close()  # otherwise the child's death would not end a recv
        try:
            failure = _receive(connection, _LOCAL_LIMIT)
        except (EOFError, OSError) as error:
            raise EmbedderUnreachable(
                f"the embedding process {_ended(error)} while it started ({self._reap()})"
            ) from error
        if failure is not None:
            self._reap()
            raise EmbedderUnreachable(failure)
        with self._lock:
            self._is_ready = True
            if self._waiting:
                self._prioritise()
        return connection

    def _reap(self) -> str:
        """Ends what is left of the child and says how it ended."""
        process, connection = self._process, self._connection
        assert process is not None
        assert connection is not None
        process.join(1)
        if process.exitcode is None:
            process.kill()
            process.join()
        ended = f"exit code {process.exitcode}"
        with self._lock:
            self._process = self._connection = None
            self._is_ready = False
            process.close()
        connection.close()
        return ended


def _receive(connection: Connection, limit: float) -> Any:
    if not connection.poll(limit):
        raise TimeoutError(f"did not answer within {limit:g} s")
    return connection.recv()


def _ended(error: Exception) -> str:
    return str(error) if isinstance(error, TimeoutError) else "died"


def _serve(connection: Connection, settings: EmbedSettings) -> None:
    """The child: a failure or None once it has loaded, then a reply to each list of texts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _die_with_parent()
    let_all_others_go_first()
    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        try:
            provider = open_provider(settings)
        except EmbedderFailed as error:
            connection.send(str(error))
            return
        connection.send(None)
        while True:
            texts: list[str] = connection.recv()
            try:
                connection.send(provider.embed_documents(texts))
            except EmbedderFailed as error:
                connection.send(error)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class BacklogWorker:
    """A thread that fills a backlog of texts with vectors, batch by batch, as long as it runs.

    A failing provider leaves the backlog as it is and is tried again with back-off (1 s, doubling
    to 60 s). A text that fails where others don't is skipped until the worker is built anew; one
    with which the provider breaks down, or the child dies, only if it does so twice.

    Args:
        settings: of the provider in the child process.
        backlog: the first n waiting (text id, text), in the order in which they shall be done.
        fill: makes (text id, little-endian float32 bytes) durable, then returns.
        dimension: that every vector must have.
    """

    def __init__(
        self,
        settings: EmbedSettings,
        backlog: Callable[[int], list[tuple[int, str]]],
        fill: Callable[[list[tuple[int, bytes]]], None],
        dimension: int,
    ) -> None:
        self._batch_size = settings.batch_size
        self._backlog = backlog
        self._fill = fill
        self._dimension = dimension
        self._embedder = DocumentEmbedder(settings)
        self._thread = threading.Thread(target=self._run, name="backlog", daemon=True)
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._skipped: dict[int, str] = {}
        self._failure = ""
        self._retry_at: int | None = None
        self._embedded = 0
        self._busy = False

    def start(self) -> None:
        """Starts the thread; the child starts with the first text."""
        self._thread.start()

    def wake(self) -> None:
        """Says that there may be new texts; returns at once."""
        self._woken.set()

    def waited_for(self) -> contextlib.AbstractContextManager[None]:
        """Within it somebody waits for the vectors, which are made at a higher priority then."""
        return self._embedder.waited_for()

    def stop(self) -> None:
        """Stops within 2 s; what is being embedded stays in the backlog."""
        self._stopping.set()
        self._woken.set()
        self._embedder.kill()
        if self._thread.is_alive():
            self._thread.join(1.5)

    def state(self) -> WorkerState:
        """How it is now."""
        return WorkerState(
            self._embedded, self._failure, self._skipped_text(), self._retry_at, self._busy
        )

    def _skipped_text(self) -> str:
        # The worker's thread adds to it: a copy is made at once, a list of its items need not be.
        skipped = self._skipped.copy()
        if not skipped:
            return ""
        text_id, reason = next(reversed(skipped.items()))
        return f"{len(skipped)} skipped until the next start, last text {text_id}: {reason}"

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._embedder.close()

    def _work(self) -> None:
        backoff = MIN_BACKOFF
        while not self._stopping.is_set():
            self._woken.clear()  # before the look at the backlog, so that no wake is lost
            try:
                worked = self._do_batch()
            except BaseException as error:
                if self._stopping.is_set():
                    return
                self._failure = str(error) or type(error).__name__
                self._retry_at = time.time_ns() // 1000 + int(backoff * 1e6)
                _log.warning("embedding failed, next try in %g s: %s", backoff, self._failure)
                self._stopping.wait(backoff)
                backoff = min(2 * backoff, MAX_BACKOFF)
                continue
            backoff = MIN_BACKOFF
            self._failure = ""
            self._retry_at = None
            if not worked:
                self._woken.wait()

    def _do_batch(self) -> bool:
        """Embeds and fills the next batch; False if nothing waits."""
        waiting = self._backlog(self._batch_size + len(self._skipped))
        batch = self._cut([item for item in waiting if item[0] not in self._skipped])
        if not batch:
            return False
        self._busy = True
        try:
            self._do_together(batch)
        finally:
            self._busy = False
        return True

    def _do_together(self, batch: list[tuple[int, str]]) -> None:
        try:
            filled = self._embed(batch)
        except EmbedderFailed as error:
            self._ask_probe(error)
            _log.warning("a batch of %d texts failed, trying them singly: %s", len(batch), error)
            self._do_singly(batch)
        else:
            self._keep(filled)

    def _do_singly(self, batch: list[tuple[int, str]]) -> None:
        for item in batch:
            if not self._do_alone(item, last=False):
                self._do_alone(item, last=True)

    def _do_alone(self, item: tuple[int, str], last: bool) -> bool:
        """False if it is to be tried once more: a breakdown, or want of memory, may be chance."""
        try:
            filled = self._embed([item])
        except EmbedderFailed as error:
            self._ask_probe(error)
            if isinstance(error, EmbedderBroke) and not last:
                return False
            self._skipped[item[0]] = str(error)
            _log.warning("text %d can't be embedded, skipped: %s", item[0], error)
        else:
            self._keep(filled)
        return True

    def _ask_probe(self, error: EmbedderFailed) -> None:
        """Returns if it was the texts; raises if others fare no better."""
        if isinstance(error, EmbedderUnreachable) or self._stopping.is_set():
            raise error
        self._embed([(0, PROBE)])

    def _cut(self, waiting: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """The first texts, as many as make a batch, at least one."""
        chars = 0
        for n, (_, text) in enumerate(waiting[: self._batch_size]):
            chars += len(text)
            if n and chars > MAX_BATCH_CHARS:
                return waiting[:n]
        return waiting[: self._batch_size]

    def _embed(self, batch: list[tuple[int, str]]) -> list[tuple[int, bytes]]:
        vectors = self._embedder.embed([text for _, text in batch])
        if vectors.shape != (len(batch), self._dimension):
            raise EmbedderUnreachable(
                f"the embedder makes vectors of {vectors.shape[1]} numbers, the store has "
                f"{self._dimension}"
            )
        rows = np.asarray(vectors, dtype="<f4")
        return [(item[0], row.tobytes()) for item, row in zip(batch, rows, strict=True)]

    def _keep(self, filled: list[tuple[int, bytes]]) -> None:
        self._fill(filled)
        self._embedded += len(filled)
