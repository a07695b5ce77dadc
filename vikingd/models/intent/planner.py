"""Plans a search: by a model where there is one that answers in time, else by rules."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from vikingd.domain.model import ContextType
from vikingd.domain.query import PlanSource, QueryPlan, SearchSession, TypedQuery
from vikingd.models.http.circuit_breaker import Breaker, BreakerOpen
from vikingd.models.intent import rules
from vikingd.models.intent.answer import Answer, read_answer
from vikingd.models.intent.faults import CallFailed, Garbage, Refused
from vikingd.models.intent.prompt import question
from vikingd.models.intent.settings import PlannerSettings

if TYPE_CHECKING:
    from vikingd.models.intent.remote import ChatEndpoint

DONE, FAILED = "DONE", "FAILED"
"""What a model call came to: an answer that can be used, or none."""

_FAIR = 0.5  # of the setting's timeout: a call that had less of it says nothing of the model
_WAITABLE = 0.5  # of the time left: a wait before another call that is longer leaves it too little

_log = logging.getLogger(__name__)


class _NotPlanned(Exception):
    """The model made no plan; the message says why."""


class _Progress:
    """How far the calls for one plan are; times by `time.perf_counter`.

    Attributes:
        asked: whether there was any.
    """

    def __init__(self, deadline: float) -> None:
        self.asked = False
        self._deadline = deadline
        self._called_at: float | None = None  # of the call that is under way

    def left(self) -> float:
        """Seconds until the deadline."""
        return self._deadline - time.perf_counter()

    def call(self) -> None:
        """Begins a call."""
        self.asked = True
        self._called_at = time.perf_counter()

    def call_seconds(self) -> float | None:
        """How long the call that is under way is, None without one."""
        return None if self._called_at is None else time.perf_counter() - self._called_at

    def hang_up(self) -> float:
        """Ends the call; how long it was."""
        seconds = self.call_seconds() or 0.0
        self._called_at = None
        return seconds


class Planner:
    """Plans searches; safe for any number of them at a time on one event loop.

    Args:
        settings: the model, and what it may take.
        took: told of each call to the model what it came to, DONE or FAILED, and its seconds.

    Raises:
        ValueError: there is a model that can't be asked; the message says what to set.
    """

    def __init__(
        self,
        settings: PlannerSettings,
        took: Callable[[str, float], None] = lambda _outcome, _seconds: None,
    ) -> None:
        self._settings = settings
        self._took = took
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._breaker = Breaker()
        self._running: set[asyncio.Task[Answer]] = set()
        self._endpoint: ChatEndpoint | None = None
        if settings.model:
            from vikingd.models.intent.remote import ChatEndpoint

            self._endpoint = ChatEndpoint(settings)

    async def plan(self, query: str, session: SearchSession, seconds: float | None) -> QueryPlan:
        """The queries that a task needs, in `seconds` at most and in the setting's timeout at most.

        It raises nothing but CancelledError: where the model fails, rules plan.
        """
        if not session.messages and not session.summary.strip():
            everywhere = TypedQuery(query, ContextType.UNSPECIFIED, priority=1)
            reason = "no session: the query is searched as it stands"
            return QueryPlan(PlanSource.NONE, reason, (everywhere,))
        asked = question(query, session)
        try:
            answer = await self._by_model(asked.text, seconds)
        except _NotPlanned as failure:
            queries, kind = rules.plan(query)
            return QueryPlan(
                PlanSource.RULES,
                f"{failure}: planned by rules ({kind})",
                queries,
                asked.notes,
                self._settings.model,
            )
        return QueryPlan(
            PlanSource.MODEL,
            answer.reason,
            answer.queries,
            asked.notes + answer.notes,
            self._settings.model,
        )

    async def close(self) -> None:
        """Ends what still runs and closes connections; to be called on the loop that planned."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._endpoint is not None:
            await self._endpoint.close()

    async def _by_model(self, text: str, seconds: float | None) -> Answer:
        """What the model plans.

        Raises:
            _NotPlanned: nothing, for this reason.
        """
        if self._endpoint is None:
            raise _NotPlanned("no model is configured")
        timeout = self._settings.timeout
        limit = timeout if seconds is None else min(seconds, timeout)
        if limit <= 0:
            raise _NotPlanned("no time was left for the model")
        try:
            tried = self._breaker.admit()
        except BreakerOpen as error:
            raise _NotPlanned(f"the model {error}") from None
        progress = _Progress(time.perf_counter() + limit)
        try:
            answer = await self._in_time(self._endpoint, text, progress)
            self._breaker.succeeded()
            return answer
        except TimeoutError:
            what = "did not answer in" if progress.asked else "was busy for"
            reason = f"{what} {limit:.1f} s"
            had = progress.call_seconds()
            if had is not None:
                self._took(FAILED, had)
                # With less time than the setting gives it, a model that is well may fail too.
                if limit == timeout and had >= _FAIR * timeout:
                    self._failed(tried, reason)
            raise _NotPlanned(f"the model {reason}") from None
        except Refused:
            self._breaker.succeeded()  # it is there, and it answers
            raise _NotPlanned("the model refused") from None
        except Garbage as error:
            self._breaker.succeeded()
            raise _NotPlanned(f"the model's answers can't be used ({error})") from None
        except CallFailed as error:
            self._failed(tried, str(error), error.pause)
            raise _NotPlanned(str(error)) from None
        except Exception as error:  # its message may have a key or a text in it
            _log.warning("the call to the planner's model broke: %s", type(error).__name__)
            self._failed(tried, "the call broke")
            raise _NotPlanned("the call to the model broke") from None
        finally:
            self._breaker.gave_up(tried)  # unless it has succeeded or failed: then this is nothing

    def _failed(self, tried: bool, reason: str, pause: float | None = None) -> None:
        seconds = self._breaker.failed(tried, reason, pause)
        if seconds:
            times = self._breaker.failures
            _log.warning(
                "the planner's model failed %d times in a row: rules plan for %g s", times, seconds
            )

    async def _in_time(self, endpoint: ChatEndpoint, text: str, progress: _Progress) -> Answer:
        """What the calls come to, which are left behind when the time is over.

        They are not waited for even to be cancelled: closing a connection may take long.
        """
        task = asyncio.create_task(self._calls(endpoint, text, progress))
        self._running.add(task)
        task.add_done_callback(self._done)
        try:
            done, _ = await asyncio.wait({task}, timeout=progress.left())
        finally:
            task.cancel()
        if not done:
            raise TimeoutError
        if task.cancelled():  # by `close`: nobody cancelled the caller
            raise CallFailed("the planner is closing")
        return task.result()

    def _done(self, task: asyncio.Task[Answer]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # of one that was left behind nobody else asks for it

    async def _calls(self, endpoint: ChatEndpoint, text: str, progress: _Progress) -> Answer:
        """Calls the model, once more after garbage, and once more after a failure that may pass."""
        fresh_garbage = fresh_failure = True
        while True:
            try:
                return await self._call(endpoint, text, progress)
            except Garbage:
                if not fresh_garbage:
                    raise
                fresh_garbage = False
            except CallFailed as error:
                fits = error.wait is not None and error.wait <= _WAITABLE * progress.left()
                if not fresh_failure or not fits:
                    raise
                fresh_failure = False
                await asyncio.sleep(error.wait or 0.0)

    async def _call(self, endpoint: ChatEndpoint, text: str, progress: _Progress) -> Answer:
        async with self._slots:
            progress.call()
            try:
                answer = read_answer(await endpoint.ask(text))
            except Exception:
                self._took(FAILED, progress.hang_up())
                raise
            self._took(DONE, progress.hang_up())
            return answer
