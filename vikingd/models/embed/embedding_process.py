"""The child process that embeds documents."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import (
    get_context,
    popen_spawn_posix,  # noqa: F401 - the thread that starts the child would import these two
    resource_tracker,  # noqa: F401
)
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from vikingd.domain.errors import EmbedderFailed
from vikingd.models.embed.embed_settings import EmbedSettings
from vikingd.models.embed.limiter import LONGEST
from vikingd.models.embed.provider import EmbedderBroke, EmbedderUnreachable, Vectors
from vikingd.models.embed.provider_choice import open_provider
from vikingd.system import platform
from vikingd.system.priorities import lower_process_priority

LOCAL_DEPTH = 2
"""The groups in the child at a time: it embeds one while the vectors of another are written."""

_LOCAL_LIMIT = 3600.0
"""The most seconds for a group; with a tenth of a processor, long texts take minutes."""
_LOOK = 1.0  # seconds between two checks of the child's time limit

Reply = Vectors | EmbedderFailed


class DocumentEmbedder:
    """A provider in a child process of low priority.

    The child starts with the first texts. It starts again after it died, or was killed because it
    gave no answer in time: an hour for a local provider, the time of all attempts for a remote one.
    It ends with the thread that started it, so one thread must make all calls except `kill`.

    Attributes:
        depth: how many groups of texts the child works on at a time.
        is_remote: True if an endpoint makes the vectors.
        is_ready: True if the child has loaded its provider.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._settings = settings
        self.is_remote = settings.provider == "openai"
        self.depth = settings.openai_requests if self.is_remote else LOCAL_DEPTH
        attempts = settings.retries + 1
        remote_limit = attempts * (settings.timeout + LONGEST) + LONGEST
        self._limit = remote_limit if self.is_remote else _LOCAL_LIMIT
        self._lock = threading.Lock()
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None
        self._killed = False
        self._heard = 0.0  # time of the child's last answer, or of the start of its work
        self._in_work = 0
        self.is_ready = False

    @property
    def pid(self) -> int | None:
        """The process id of the child; None without a child."""
        process = self._process
        return process.pid if process else None

    def processor_seconds(self) -> float | None:
        """Return the processor time of the child in seconds; None without a child, and on macOS."""
        return platform.processor_seconds(self.pid)

    def send(self, number: int, texts: Sequence[str]) -> None:
        """Send a group of texts to the child; `receive` returns the result with this number.

        Raises:
            EmbedderBroke: the child died; all groups in it are lost.
            EmbedderUnreachable: the child was stopped, or died while it loaded.
        """
        connection = self._connection or self._start()
        if not self._in_work:
            self._heard = time.monotonic()
        try:
            connection.send((number, list(texts)))
        except OSError as error:
            raise self._ended(error) from error
        self._in_work += 1

    def receive(self, timeout: float) -> tuple[int, Reply] | None:
        """Return (number of a group, its unit vectors (n, dimension) or an error).

        Return None if the child does not answer within `timeout` seconds.

        Raises:
            EmbedderBroke: the child died or gave no answer in time; all groups in it are lost.
            EmbedderUnreachable: the child can't load its provider.
        """
        connection = self._connection
        assert connection is not None
        try:
            if not connection.poll(timeout):
                if time.monotonic() - self._heard > self._limit:
                    raise TimeoutError(f"did not answer within {self._limit:g} s")
                return None
            message = connection.recv()
        except (EOFError, OSError) as error:
            raise self._ended(error) from error
        self._heard = time.monotonic()
        if not self.is_ready:
            if message is not None:
                self._reap()
                raise EmbedderUnreachable(message)
            self.is_ready = True
            return None
        self._in_work -= 1
        answered: tuple[int, Reply] = message
        return answered

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (n, dimension) of texts; the child must have no other group.

        Raises:
            EmbedderBroke: the child died or gave no answer in time, or the provider broke down.
            EmbedderUnreachable: the child can't load its provider, or the provider refuses all
                texts.
            EmbedderFailed: the provider failed.
        """
        self.send(0, texts)
        number = None
        while number != 0:  # others are of a worker that was stopped
            answer = self.receive(min(_LOOK, self._limit))
            if answer is not None:
                number, reply = answer
        if isinstance(reply, EmbedderFailed):
            raise reply
        return reply

    def kill(self) -> None:
        """Kill the child and start no other; a running call fails."""
        with self._lock:
            self._killed = True
            if self._process:
                self._process.kill()

    def close(self) -> None:
        """End the child; called on the thread that made the calls."""
        self.kill()
        if self._process:
            self._reap()

    def _start(self) -> Connection:
        context = get_context("spawn")
        connection, childs_end = context.Pipe()
        process = context.Process(
            target=_serve,
            args=(childs_end, self._settings, self.depth),
            name="vikingd-embed",
            daemon=True,
        )
        with self._lock:
            if self._killed:
                raise EmbedderUnreachable("the embedding process was stopped")
            process.start()
            self._process, self._connection = process, connection
        childs_end.close()  # otherwise the child's death would not end a recv
        self._in_work = 0
        return connection

    def _ended(self, error: Exception) -> EmbedderFailed:
        """Wait for the end of the child; return an error that says how it ended."""
        how = str(error) if isinstance(error, TimeoutError) else "died"
        was_ready, ended = self.is_ready, self._reap()
        if was_ready:
            return EmbedderBroke(f"the embedding process {how} ({ended})")
        return EmbedderUnreachable(f"the embedding process {how} while it started ({ended})")

    def _reap(self) -> str:
        """Wait for the end of the child; return how it ended."""
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
            self.is_ready = False
            process.close()
        connection.close()
        return ended


def _serve(connection: Connection, settings: EmbedSettings, depth: int) -> None:
    """Run the child process: answer each group of texts until the parent is gone.

    The first message to the parent is None, or an error if the provider cannot be loaded. Several
    groups are worked on at a time, so that no thread of the provider is idle at the end of one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    platform.end_with_parent(signal.SIGKILL)
    lower_process_priority()
    sending = threading.Lock()

    def answer(number: int, texts: list[str]) -> None:
        try:
            reply: Reply = provider.embed_documents(texts)
        except EmbedderFailed as error:
            reply = error
        except BaseException:
            traceback.print_exc()
            os._exit(1)  # as it would in the main thread
        with sending, contextlib.suppress(OSError):  # the parent is gone
            connection.send((number, reply))

    with contextlib.suppress(EOFError, OSError):  # the parent is gone
        logging.disable()  # the daemon opens the same provider, and has logged all of it
        try:
            provider = open_provider(settings)
        except EmbedderFailed as error:
            connection.send(str(error))
            return
        finally:
            logging.disable(logging.NOTSET)
        connection.send(None)
        with ThreadPoolExecutor(depth, "group") as groups:
            while True:
                message: tuple[int, Any] = connection.recv()
                groups.submit(answer, *message)
