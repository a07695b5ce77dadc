"""The client of an endpoint that speaks OpenAI's chat protocol."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx
import openai

from vikingd.models.chat.call_errors import CallFailed, Garbage, NoCompletion, Refused
from vikingd.models.chat.chat_question import Question
from vikingd.models.chat.json_answer import read_json
from vikingd.models.chat.planner_settings import PlannerSettings
from vikingd.models.http.bounded_calls import TooLarge
from vikingd.models.http.openai_client import OPENAI_URL, open_client
from vikingd.models.http.retry_headers import retry_after

MAX_ANSWER_BYTES = 64 << 10
MAX_BODY_BYTES = 1 << 20  # some models send their reasoning too
DEFAULT_WAIT = 0.2
"""Seconds before a retry if the endpoint names no time."""

_NOT_UNDERSTOOD = (400, 404, 422)
_OPTIONS = ("temperature", "response_format")
"""Options that some models refuse; they are then left out."""


class Completion(NamedTuple):
    """An answer of a model.

    Attributes:
        tokens: the tokens of question and answer by the endpoint's count; 0 if it does not count.
    """

    text: str
    tokens: int


class ChatEndpoint:
    """A client of one model at one endpoint; building it makes no call.

    Raises:
        ValueError: a setting is missing; the message names it.
    """

    def __init__(self, settings: PlannerSettings) -> None:
        self._client = open_client(
            httpx.URL(settings.base_url or OPENAI_URL), settings.key(), reply_bytes=MAX_BODY_BYTES
        )
        # This attribute loads modules, which takes longer than a plan may.
        self._completions = self._client.chat.completions.with_raw_response
        # OpenAI's models know only the newer name, other servers often only the older one.
        self._bound = "max_tokens" if settings.base_url else "max_completion_tokens"
        self._model = settings.model
        self._left_out: frozenset[str] = frozenset()

    async def ask(self, question: Question) -> Completion:
        """Return the model's answer to a question.

        If the endpoint refuses an option (the JSON schema or the temperature), the question is sent
        without it. If that succeeds, later questions are sent without it, too.

        Raises:
            CallFailed: there is no answer.
            Refused: the model refused to answer.
            Garbage: the reply is not a complete answer.
        """
        options: dict[str, Any] = {"temperature": 0, "response_format": question.response_format}
        options = {name: value for name, value in options.items() if name not in self._left_out}
        limit: dict[str, Any] = {self._bound: question.max_tokens}
        while True:
            try:
                response = await self._completions.create(
                    messages=[
                        {"role": "system", "content": question.system},
                        {"role": "user", "content": question.text},
                    ],
                    model=self._model,
                    **limit,
                    **options,
                )
            except openai.APIStatusError as error:
                status = error.status_code
                name = error.param if error.param in _OPTIONS else "response_format"
                if status in _NOT_UNDERSTOOD and name in options:
                    del options[name]
                    continue
                pause = wait = None
                if status == 429 or status >= 500:
                    pause = retry_after(error.response.headers)
                    wait = DEFAULT_WAIT if pause is None else pause
                raise CallFailed(f"the model's endpoint answered {status}", wait, pause) from error
            except TooLarge:
                raise Garbage("too long") from None
            except Exception as error:  # the client passes errors of its transport on
                kind = type(error.__cause__ or error).__name__
                raise CallFailed(
                    f"the model's endpoint could not be reached ({kind})", DEFAULT_WAIT
                ) from error
            self._left_out = frozenset(_OPTIONS) - options.keys()
            return _completion(response.content)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _completion(body: bytes) -> Completion:
    """Return the text and the tokens in the body of a chat completion.

    The body is parsed here, because OpenAI's client does not check its form.
    """
    try:
        completion = read_json(body.decode("utf-8", "replace"))
    except Garbage as error:
        raise NoCompletion(str(error)) from None
    choices = completion.get("choices") if isinstance(completion, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise NoCompletion("not a chat completion")
    if message.get("refusal") or choice.get("finish_reason") == "content_filter":
        raise Refused("the model refused")
    if choice.get("finish_reason") == "length":
        raise Garbage("cut off")
    content = message.get("content")
    if not isinstance(content, str) or not content.strip():
        raise Garbage("empty")
    if len(content.encode("utf-8", "replace")) > MAX_ANSWER_BYTES:
        raise Garbage("too long")
    usage = completion.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return Completion(content, tokens if type(tokens) is int and tokens > 0 else 0)
