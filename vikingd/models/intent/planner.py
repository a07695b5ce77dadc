"""The planner of searches: a model, or rules if the model does not answer in time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from vikingd.domain.contexts import ContextType
from vikingd.domain.search import PlanSource, QueryPlan, SearchSession, TypedQuery
from vikingd.models.http.circuit_breaker import Breaker, BreakerOpen
from vikingd.models.intent import rules
from vikingd.models.intent.answer import Answer, read_answer
from vikingd.models.intent.faults import CallFailed, Garbage, Refused
from vikingd.models.intent.prompt import question
from vikingd.models.intent.settings import PlannerSettings

if TYPE_CHECKING:
    from vikingd.models.intent.remote import ChatEndpoint

DONE, FAILED = "DONE", "FAILED"
"""The outcomes of a call: a usable answer, or none."""

_FAIR = 0.5  # share of the timeout; a call with less time is no evidence against the model
_WAITABLE = 0.5  # share of the time left; a longer wait leaves too little for a retry

_log = logging.getLogger(__name__)


class _NotPlanned(Exception):
    """A search that the model did not plan; the message gives the reason."""


class _Progress:
    """The calls for one plan; times are of `time.perf_counter`.

    Attributes:
        asked: whether a call was made.
    """

    def __init__(self, deadline: float) -> None:
        self.asked = False
        self._deadline = deadline
        self._called_at: float | None = None  # of the running call

    def left(self) -> float:
        """Return the seconds until the deadline."""
        return self._deadline - time.perf_counter()

    def call(self) -> None:
        """Begin a call."""
        self.asked = True
        self._called_at = time.perf_counter()

    def call_seconds(self) -> float | None:
        """Return the seconds of the running call; None if there is none."""
        return None if self._called_at is None else time.perf_counter() - self._called_at

    def hang_up(self) -> float:
        """End the call; return its seconds."""
        seconds = self.call_seconds() or 0.0
        self._called_at = None
        return seconds


class Planner:
    """Plans searches, concurrently on one event loop.

    Args:
        settings: of the model.
        took: called after each call with its outcome, DONE or FAILED, and its seconds.

    Raises:
        ValueError: a setting of the model is missing; the message names it.
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
        """Return the queries for a task within `seconds` and the timeout of the settings.

        If the model fails, rules plan. It raises only CancelledError.
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
        """Cancel running calls and close connections, on the loop of the calls."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._endpoint is not None:
            await self._endpoint.close()

    async def _by_model(self, text: str, seconds: float | None) -> Answer:
        """Return the model's plan.

        Raises:
            _NotPlanned: the model made no plan.
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
                # A healthy model may fail too with less time than the settings give it.
                if limit == timeout and had >= _FAIR * timeout:
                    self._failed(tried, reason)
            raise _NotPlanned(f"the model {reason}") from None
        except Refused:
            self._breaker.succeeded()  # a refusal is an answer
            raise _NotPlanned("the model refused") from None
        except Garbage as error:
            self._breaker.succeeded()
            raise _NotPlanned(f"the model's answers can't be used ({error})") from None
        except CallFailed as error:
            self._failed(tried, str(error), error.pause)
            raise _NotPlanned(str(error)) from None
        except Exception as error:  # its message may quote a key or a text
            _log.warning("the call to the planner's model failed with %s", type(error).__name__)
            self._failed(tried, "the call failed")
            raise _NotPlanned("the call to the model failed") from None
        finally:
            self._breaker.gave_up(tried)  # no effect after a success or a failure

    def _failed(self, tried: bool, reason: str, pause: float | None = None) -> None:
        seconds = self._breaker.failed(tried, reason, pause)
        if seconds:
            times = self._breaker.failures
            _log.warning(
                "the planner's model failed %d times in a row; rules plan for %g s", times, seconds
            )

    async def _in_time(self, endpoint: ChatEndpoint, text: str, progress: _Progress) -> Answer:
        """Return the answer of the calls; at the deadline, cancel them without waiting.

        Closing a connection may take long.
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
        if task.cancelled():  # `close` cancelled it, not the caller
            raise CallFailed("the planner is closing")
        return task.result()

    def _done(self, task: asyncio.Task[Answer]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio logs nothing

    async def _calls(self, endpoint: ChatEndpoint, text: str, progress: _Progress) -> Answer:
        """Call the model; retry once after garbage, and once after a temporary failure."""
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
