"""The planner of searches: a model, or rules if the model does not answer in time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vikingd.domain.contexts import ContextType
from vikingd.domain.search import PlanSource, QueryPlan, SearchSession, TypedQuery
from vikingd.models.http.circuit_breaker import Breaker, BreakerOpen
from vikingd.models.http.limits import Calls, Closed, Overdue
from vikingd.models.intent import rules
from vikingd.models.intent.answer import Answer, CallFailed, Garbage, Refused, read_answer
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


@dataclass(slots=True)
class _Progress:
    """The calls for one plan; times are of `time.perf_counter`."""

    deadline: float
    asked: bool = False
    called_at: float | None = None  # when the running call began


class Planner:
    """Plans searches, concurrently on one event loop.

    Args:
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
        self._calls = Calls()
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
        text, notes = question(query, session)
        model = self._settings.model
        try:
            answer = await self._by_model(text, seconds)
        except _NotPlanned as failure:
            queries, kind = rules.plan(query)
            reason = f"{failure}: planned by rules ({kind})"
            return QueryPlan(PlanSource.RULES, reason, queries, notes, model)
        notes += answer.notes
        return QueryPlan(PlanSource.MODEL, answer.reason, answer.queries, notes, model)

    async def close(self) -> None:
        """Cancel running calls and close connections, on the loop of the calls."""
        await self._calls.close()
        if self._endpoint is not None:
            await self._endpoint.close()

    async def _by_model(self, text: str, seconds: float | None) -> Answer:
        """Return the model's plan, or raise _NotPlanned."""
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
            answer = await self._calls.within(limit, self._ask(self._endpoint, text, progress))
            self._breaker.succeeded()
            return answer
        except Overdue:
            what = "did not answer in" if progress.asked else "was busy for"
            reason = f"{what} {limit:.1f} s"
            if progress.called_at is not None:
                had = self._tell(progress.called_at, FAILED)
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
        except Closed:
            self._failed(tried, "the planner is closing")
            raise _NotPlanned("the planner is closing") from None
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

    async def _ask(self, endpoint: ChatEndpoint, text: str, progress: _Progress) -> Answer:
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
                left = progress.deadline - time.perf_counter()
                fits = error.wait is not None and error.wait <= _WAITABLE * left
                if not fresh_failure or not fits:
                    raise
                fresh_failure = False
                await asyncio.sleep(error.wait or 0.0)

    async def _call(self, endpoint: ChatEndpoint, text: str, progress: _Progress) -> Answer:
        async with self._slots:
            progress.asked, progress.called_at = True, time.perf_counter()
            try:
                answer = read_answer(await endpoint.ask(text))
            except Exception:
                self._tell(progress.called_at, FAILED)
                raise
            else:
                self._tell(progress.called_at, DONE)
                return answer
            finally:
                progress.called_at = None

    def _tell(self, called_at: float, outcome: str) -> float:
        """Report the end of a call; return its seconds."""
        seconds = time.perf_counter() - called_at
        self._took(outcome, seconds)
        return seconds
