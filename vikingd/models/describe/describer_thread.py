"""The thread on which a model describes the contexts of several stores."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from vikingd.models.chat.chat_model import ChatModel
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.describe.describer import Described, Describer, Material

STOP = 1.5
"""The most seconds that a stop waits for running work."""

_READERS = 4  # threads that read and write the stores

_P = ParamSpec("_P")
_T = TypeVar("_T")


class DescriberThread:
    """A describer with an event loop of its own, shared by the workers of all stores.

    The first call of `start` starts the thread. The first question opens the client of the model.

    Args:
        endpoint: the settings of the model.
        record_call: a callback for metrics. It gets the outcome (DONE or FAILED) and the duration
            in seconds of each call of the model.

    Attributes:
        name: the name of the model.
        concurrency: the most questions at a time; others wait for their turn.
    """

    def __init__(
        self,
        endpoint: PlannerSettings,
        record_call: Callable[[str, float], None] = lambda _outcome, _seconds: None,
    ) -> None:
        self.name = endpoint.model
        self.concurrency = endpoint.concurrency
        self._endpoint = endpoint
        self._record_call = record_call
        self._model: ChatModel | None = None
        self._describer: Describer | None = None
        self._opening = asyncio.Lock()
        self._turns = asyncio.Semaphore(endpoint.concurrency)
        self._readers = ThreadPoolExecutor(_READERS, "describer-read")
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    def start(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Run a worker's coroutine on the loop; cancelling the returned future cancels it."""
        with self._lock:
            if self._is_stopping:
                work.close()
                ended: Future[None] = Future()
                ended.cancel()
                return ended
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, name="describer", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[..., object], *args: object) -> Future[None]:
        """Schedule a function on the loop; if the loop has ended, nothing happens."""
        done: Future[None] = Future()

        def run() -> None:
            function(*args)
            done.set_result(None)

        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(run)
        return done

    async def read(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a function that waits for a store on a reader thread; return its result."""
        run = self._readers.submit(function, *args, **kwargs)
        return await asyncio.wrap_future(run)

    async def describe(self, material: Material) -> Described:
        """Wait for a turn and ask the model; see `Describer.describe`."""
        async with self._turns:
            return await (await self._opened()).describe(material)

    async def _opened(self) -> Describer:
        async with self._opening:
            if self._describer is None:
                # Its client loads modules, which takes a second.
                self._model = await self.read(
                    partial(ChatModel, self._endpoint, self._record_call, failures=None)
                )
                self._describer = Describer(self._model)
            return self._describer

    def stop(self) -> None:
        """End all work and the thread, within STOP seconds.

        Questions without an answer are asked again after the next start.
        """
        with self._lock:
            self._is_stopping = True
        self._readers.shutdown(wait=False, cancel_futures=True)
        if self._thread is None or self._loop is None:
            return
        self.call(self._loop.stop)
        self._thread.join(STOP)

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            running = asyncio.all_tasks(loop)
            for task in running:
                task.cancel()
            loop.run_until_complete(self._close(running))
        finally:
            loop.close()

    async def _close(self, running: set[asyncio.Task[Any]]) -> None:
        await asyncio.gather(*running, return_exceptions=True)
        if self._model is not None:
            await self._model.close()
