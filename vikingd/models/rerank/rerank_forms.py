"""The requests and replies of the known rerank servers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vikingd.models.rerank.rerank_settings import BackendSettings
from vikingd.models.rerank.reranker_protocol import DOUBAO, RerankFailed


@dataclass(frozen=True, slots=True)
class Form:
    """The requests and replies of one kind of server.

    Attributes:
        path: added to the server's address.
        batch: the most documents of one request.
        body: makes the body of a request.
        read: returns the scores in a parsed reply, in the order of the documents.
        url: URL of a hosted service; "": the user's own server.
    """

    path: str
    batch: int
    body: Callable[[BackendSettings, str, Sequence[str]], dict[str, Any]]
    read: Callable[[Any, int], list[float]]
    url: str = ""


def by_index(items: Any, count: int, index: str = "index", score: str = "score") -> list[float]:
    """Return the scores in the order of the documents; each item has the index of its document.

    Raises:
        RerankFailed: the items are not exactly one for each document.
    """
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise RerankFailed("answered with something else than a list of scores")
    if len(items) != count:
        raise RerankFailed(f"answered with {len(items)} scores for {count} documents")
    places = [item.get(index) for item in items]
    if not all(type(place) is int and 0 <= place < count for place in places):
        raise RerankFailed("answered with a score for no document that was sent")
    if len(set(places)) != count:
        raise RerankFailed("answered with two scores for one document")
    by_place = {item[index]: _number(item.get(score)) for item in items}
    return [by_place[place] for place in range(count)]


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RerankFailed("gave a score that is no number")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _cohere(settings: BackendSettings, query: str, documents: Sequence[str]) -> dict[str, Any]:
    return {
        "model": settings.model,
        "query": query,
        "documents": list(documents),
        "top_n": len(documents),
    }


def _jina(settings: BackendSettings, query: str, documents: Sequence[str]) -> dict[str, Any]:
    return _cohere(settings, query, documents) | {"return_documents": False}


def _tei(settings: BackendSettings, query: str, documents: Sequence[str]) -> dict[str, Any]:
    return {
        "query": query,
        "texts": list(documents),
        "truncate": True,
        "raw_scores": settings.scores == "logit",
    }


def _volcengine(settings: BackendSettings, query: str, documents: Sequence[str]) -> dict[str, Any]:
    version = {"model_version": settings.model_version} if settings.model_version else {}
    return {
        "model_name": settings.model or DOUBAO,
        **version,
        "query": [{"text": query}],
        "data": [[{"text": document}] for document in documents],
        # The vendor's own wording for search.
        "instruction": (
            "Whether the Document answers the Query or matches the content retrieval intent"
        ),
    }


def _read_results(reply: Any, count: int) -> list[float]:
    results = reply.get("results") if isinstance(reply, dict) else None
    return by_index(results, count, score="relevance_score")


def _read_volcengine(reply: Any, count: int) -> list[float]:
    """Return the scores in a reply in the order of the documents.

    The `id` of an item is the index of its document; items without ids are in that order.
    """
    result = reply.get("result") if isinstance(reply, dict) else None
    items = result.get("data") if isinstance(result, dict) else None
    if items is None and isinstance(reply, dict) and "message" in reply:
        raise RerankFailed(f"answered {reply.get('code')}", said=str(reply["message"]))
    if isinstance(items, list) and not any(isinstance(i, dict) and "id" in i for i in items):
        items = [
            item | {"id": i} if isinstance(item, dict) else item for i, item in enumerate(items)
        ]
    return by_index(items, count, "id")


FORMS = {
    "cohere": Form("/v2/rerank", 1000, _cohere, _read_results, "https://api.cohere.com"),
    "jina": Form("/v1/rerank", 100, _jina, _read_results, "https://api.jina.ai"),
    "tei": Form("/rerank", 32, _tei, by_index),  # the default of its --max-client-batch-size
    "vllm": Form("/v1/rerank", 100, _cohere, _read_results),
    "xinference": Form("/v1/rerank", 100, _jina, _read_results),
    "volcengine": Form(
        "/api/vikingdb/rerank",
        100,
        _volcengine,
        _read_volcengine,
        "https://api-vikingdb.vikingdb.cn-beijing.volces.com",
    ),
}
"""The forms by the setting `form`, or by the kind volcengine; probabilities are their default."""
