"""A child process of the daemon that is started again when it dies."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import structlog

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0  # seconds before another start
_STEADY = 60.0  # seconds of work after which the next pause is a short one

_log = structlog.stdlib.get_logger("vikingd")


class RestartedChild:
    """A child process with a pipe to it, started again after a pause each time it has ended.

    Its methods are for the event loop, except `send`.

    Args:
        name: the name of the process in the log.
        target: the main function of the child; a function of a module that a new process imports.
        arguments: the arguments of `target` after the child's end of the pipe.
        received: called with each message of the child and the child's id.
        grace: seconds that the child has to end after SIGTERM.
        ended: called when the child has ended.
    """

    def __init__(
        self,
        name: str,
        target: Callable[..., None],
        arguments: tuple[Any, ...],
        received: Callable[[Any, int], None],
        grace: float,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._target = target
        self._arguments = arguments
        self._received = received
        self._grace = grace
        self._ended = ended
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    def start(self) -> None:
        """Start the child."""
        self._task = asyncio.create_task(self._run())

    def send(self, message: Any) -> bool:
        """Send a message to the child; return False if none runs. One thread at a time."""
        pipe = self._pipe
        try:
            if pipe is None:
                return False
            pipe.send(message)
        except OSError:  # it has just ended
            return False
        return True

    async def stop(self) -> None:
        """End the child by SIGTERM, and wait for its end; kill it after the grace."""
        self._is_stopping = True
        if self._task is None:
            return
        process = self._process
        if process is None:  # the next start waits
            self._task.cancel()
        else:
            process.terminate()
        _, late = await asyncio.wait([self._task], timeout=self._grace)
        if late and process is not None:
            process.kill()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._is_stopping:
            began = time.monotonic()
            try:
                how = f"exit code {await self._run_child()}"
            except OSError as error:  # for example, no process can be started
                how = str(error)
            self._process = None
            self._ended()
            if self._is_stopping:
                return
            if time.monotonic() - began > _STEADY:
                pause = _FIRST_PAUSE
            _log.error(f"{self._name} ended", how=how, starts_again_in_s=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _run_child(self) -> int | None:
        """Start a child, receive its messages until it ends, and return its exit code."""
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=self._target,
            args=(theirs, *self._arguments),
            name=f"vikingd-{self._name}",
            daemon=True,
        )
        try:
            process.start()
            theirs.close()
            self._process, self._pipe = process, ours
            await self._receive(ours, process.pid or 0)
        finally:
            self._pipe = None
            ours.close()
        await asyncio.to_thread(process.join, self._grace)
        if process.exitcode is None:  # it has closed the pipe, and goes on
            process.kill()
            await asyncio.to_thread(process.join)
        return process.exitcode

    async def _receive(self, pipe: Connection, pid: int) -> None:
        """Receive messages until the child closes the pipe, as its end does."""
        loop, closed = asyncio.get_running_loop(), asyncio.Event()

        def receive() -> None:
            with suppress(RuntimeError):  # the loop is closed
                with suppress(EOFError, OSError):
                    while True:
                        loop.call_soon_threadsafe(self._received, pipe.recv(), pid)
                loop.call_soon_threadsafe(closed.set)

        # A child that hangs in the middle of a message must not hold the loop.
        threading.Thread(target=receive, name=self._name, daemon=True).start()
        await closed.wait()
