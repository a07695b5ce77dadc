"""A chat model that answers in JSON, with a deadline, a circuit breaker and a retry."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vikingd.models.chat.call_errors import CallFailed, Garbage, NoCompletion, Refused
from vikingd.models.chat.chat_question import Question
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.http.bounded_calls import Calls, Closed, Overdue
from vikingd.models.http.circuit_breaker import FAILURES, Breaker, BreakerOpen

if TYPE_CHECKING:
    from vikingd.models.chat.chat_endpoint import ChatEndpoint

DONE, FAILED = "DONE", "FAILED"
"""The outcomes of a call: a usable answer, or none."""

_FAIR = 0.5  # share of the timeout; a call with less time is no evidence against the model
_WAITABLE = 0.5  # share of the time left; a longer wait leaves too little for a retry

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class NotAnswered(Exception):
    """The model gave no usable answer to a question; the message gives the reason.

    Attributes:
        tokens: the tokens of answers that could not be used. The describer sets it; ChatModel
            leaves it 0.
    """

    tokens = 0


class NoUsableAnswer(NotAnswered):
    """The model refused a question or answered with garbage, and would do so again."""


class Late(NotAnswered):
    """The time ended while the model was answering."""


@dataclass(slots=True)
class _Progress:
    """The state of the calls for one question; times are of `time.perf_counter`."""

    deadline: float
    asked: bool = False
    called_at: float | None = None  # when the running call began


class ChatModel:
    """Asks one model, concurrently on one event loop.

    Args:
        record_call: a callback for metrics. It gets the outcome (DONE or FAILED) and the duration
            in seconds of each call of the model.
        failures: this many failures in a row open the circuit breaker; see `most` of `Breaker`.

    Raises:
        ValueError: a setting of the model is missing; the message names it.

    Attributes:
        name: the name of the model; "" if none is configured.
        timeout: seconds for a plan, from the settings.
    """

    def __init__(
        self,
        settings: PlannerSettings,
        record_call: Callable[[str, float], None] = lambda _outcome, _seconds: None,
        *,
        failures: int | None = FAILURES,
    ) -> None:
        self.name = settings.model
        self.timeout = settings.timeout
        self._record_call = record_call
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._breaker = Breaker(most=failures)
        self._calls = Calls()
        self._endpoint: ChatEndpoint | None = None
        if settings.model:
            from vikingd.models.chat.chat_endpoint import ChatEndpoint

            self._endpoint = ChatEndpoint(settings)

    async def ask(
        self,
        question: Question,
        read: Callable[[str], _T],
        seconds: float | None,
        timeout: float,
        spent: Callable[[int], None] = lambda _tokens: None,
    ) -> _T:
        """Ask a question, and return the parsed answer.

        Args:
            question: the question.
            read: parses the text of an answer; raises Garbage for one that cannot be used.
            seconds: the seconds until the caller's deadline; None: no deadline.
            timeout: the most seconds for the answer, retries included.
            spent: called after each reply of the model with the tokens of question and reply; 0 if
                the endpoint does not count them.

        Raises:
            NotAnswered: there is no usable answer in time.
            NoUsableAnswer: the model refused or answered with garbage.
        """
        if self._endpoint is None:
            raise NotAnswered("no model is configured")
        limit = timeout if seconds is None else min(seconds, timeout)
        if limit <= 0:
            raise NotAnswered("no time was left for the model")
        try:
            tried = self._breaker.admit()
        except BreakerOpen as error:
            raise NotAnswered(f"the model {error}") from None
        progress = _Progress(time.perf_counter() + limit)
        try:
            answer = await self._calls.within(
                limit, self._ask(self._endpoint, question, read, progress, spent)
            )
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
            kind = Late if progress.asked else NotAnswered
            raise kind(f"the model {reason}") from None
        except Refused:
            self._breaker.succeeded()  # a refusal is an answer
            raise NoUsableAnswer("the model refused") from None
        except Garbage as error:
            self._breaker.succeeded()
            kind = NotAnswered if isinstance(error, NoCompletion) else NoUsableAnswer
            raise kind(f"the model's answers can't be used ({error})") from None
        except CallFailed as error:
            self._failed(tried, str(error), error.pause)
            raise NotAnswered(str(error)) from None
        except Closed:
            self._failed(tried, "the daemon stops")
            raise NotAnswered("the daemon stops") from None
        except Exception as error:  # its message may quote a key or a text
            _log.warning("the call to the model failed with %s", type(error).__name__)
            self._failed(tried, "the call failed")
            raise NotAnswered("the call to the model failed") from None
        finally:
            self._breaker.gave_up(tried)  # no effect after a success or a failure

    async def close(self) -> None:
        """Cancel running calls and close connections, on the loop of the calls."""
        await self._calls.close()
        if self._endpoint is not None:
            await self._endpoint.close()

    def _failed(self, tried: bool, reason: str, pause: float | None = None) -> None:
        seconds = self._breaker.failed(tried, reason, pause)
        if seconds:
            times = self._breaker.failures
            _log.warning(
                "the model %s failed %d times in a row; it is asked again after %g s",
                self.name,
                times,
                seconds,
            )

    async def _ask(
        self,
        endpoint: ChatEndpoint,
        question: Question,
        read: Callable[[str], _T],
        progress: _Progress,
        spent: Callable[[int], None],
    ) -> _T:
        """Call the model and return the parsed answer.

        Retry once after garbage, and once after a failure that may pass.
        """
        fresh_garbage = fresh_failure = True
        while True:
            try:
                return await self._call(endpoint, question, read, progress, spent)
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

    async def _call(
        self,
        endpoint: ChatEndpoint,
        question: Question,
        read: Callable[[str], _T],
        progress: _Progress,
        spent: Callable[[int], None],
    ) -> _T:
        async with self._slots:
            progress.asked, progress.called_at = True, time.perf_counter()
            try:
                answer = read(await _counted(endpoint, question, spent))
            except Exception:
                self._tell(progress.called_at, FAILED)
                raise
            else:
                self._tell(progress.called_at, DONE)
                return answer
            finally:
                progress.called_at = None

    def _tell(self, called_at: float, outcome: str) -> float:
        """Report that a call ended, with its outcome; return its duration in seconds."""
        seconds = time.perf_counter() - called_at
        self._record_call(outcome, seconds)
        return seconds


async def _counted(endpoint: ChatEndpoint, question: Question, spent: Callable[[int], None]) -> str:
    """Ask the model once and return the text of its answer.

    `spent` gets the number of tokens, or 0 if the answer is refused or cannot be used.
    """
    try:
        text, tokens = await endpoint.ask(question)
    except (Garbage, Refused):
        spent(0)
        raise
    spent(tokens)
    return text
