"""The checks of the models that the configuration names; each is asked once, if that is allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vikingd.ctl.doctor_checks import OK, WRONG, Check

if TYPE_CHECKING:
    from vikingd.config import Settings
    from vikingd.models.chat.planner_settings import PlannerSettings
    from vikingd.models.embed.embed_settings import EmbedSettings
    from vikingd.models.rerank.rerank_settings import BackendSettings

_TOKENS = 50  # of the answer of a chat model
_NOT_ASKED = "not asked: --models asks it"


def models(settings: Settings, *, may_pay: bool) -> Iterator[Check]:
    """Check the planner, the describer, the rerankers and the endpoint of the embedder.

    A model is called only with `may_pay`.
    """
    planner = settings.planner
    chats = {
        "planner": (planner, "none: rules plan"),
        "describer": (
            settings.describer.endpoint(planner),
            "none: extracts stand for descriptions",
        ),
    }
    for part, (chat, without) in chats.items():
        if not chat.model:
            yield Check(OK, part, without)
        else:
            name = f"{chat.model} at {_host(chat.base_url)}"
            yield _check_of(part, name, _chat(chat), f"see [{part}]", may_pay=may_pay)
    if not settings.rerank.backends:
        yield Check(OK, "reranker", "none: meaning and words decide the order")
    for place, backend in enumerate(settings.rerank.backends):
        name = f"{backend.kind} {backend.model or backend.path or _host(backend.url)}"
        remedy = f"see [[rerank.backends]] number {place + 1}"
        yield _check_of("reranker", name, _rerank(backend), remedy, may_pay=may_pay)
    if settings.embedding.provider == "openai":
        given = settings.embedding
        name = f"{given.openai_model} at {_host(given.openai_base_url)}"
        yield _check_of("endpoint", name, _embed(given), "see [embedding]", may_pay=may_pay)


def _check_of(
    part: str, name: str, question: Coroutine[Any, Any, None], remedy: str, *, may_pay: bool
) -> Check:
    if not may_pay:
        question.close()
        return Check(OK, part, f"{name}; {_NOT_ASKED}")
    from vikingd.domain.errors import EmbedderFailed
    from vikingd.models.chat.call_errors import CallFailed, Garbage, Refused
    from vikingd.models.rerank.reranker_protocol import RerankFailed

    try:
        asyncio.run(question)
    except (CallFailed, EmbedderFailed, Garbage, Refused, RerankFailed, TimeoutError) as error:
        return Check(WRONG, part, f"{name}: {error}", f"{remedy}, and that its endpoint runs")
    except Exception as error:  # its text may have the address with a password
        return Check(WRONG, part, f"{name}: {type(error).__name__}", remedy)
    return Check(OK, part, f"{name} answers")


async def _chat(settings: PlannerSettings) -> None:
    from vikingd.models.chat.chat_endpoint import ChatEndpoint
    from vikingd.models.chat.chat_question import STRING, Question, schema

    endpoint = ChatEndpoint(settings)
    form = schema("answer", {"word": STRING})
    question = Question('Answer with JSON: {"word": "yes"}', "Are you there?", form, _TOKENS)
    try:
        async with asyncio.timeout(settings.timeout):
            await endpoint.ask(question)
    except TimeoutError:
        raise TimeoutError(f"no answer in {settings.timeout:g} s") from None
    finally:
        await endpoint.close()


async def _rerank(settings: BackendSettings) -> None:
    from vikingd.models.rerank.rerankers import Rerankers

    rerankers = Rerankers([replace(settings, scripts=())])
    try:
        await rerankers.rerank("tea", ["Tea is a drink."], None)
    finally:
        await rerankers.close()


async def _embed(settings: EmbedSettings) -> None:
    from vikingd.models.embed.provider_choice import open_provider

    provider = open_provider(settings)
    try:
        await asyncio.to_thread(provider.embed_query, "vikingctl doctor")
    finally:
        provider.close()


def _host(url: str) -> str:
    """Return the host of a URL, without a password in the URL; "OpenAI" for ""."""
    return (urlsplit(url).hostname or "?") if url else "OpenAI"
