"""The choice of the queue of a request, light (short) or heavy (long), from the request alone."""

from __future__ import annotations

from vikingd.pb import memories_pb2, retrieval_pb2
from vikingd.plan.query_scope import LIGHT_LIMIT
from vikingd.plan.question_parts import questions_of

_TEXT = 1000  # characters of a query
_FILTER_BYTES = 512  # some ten clauses
_BATCH = 4
_TOKENS = 10_000
_RECALLED = 100
_SESSION_BYTES = 64 << 10
PAGE = 100
"""Contexts of a page; a listing of more is heavy."""


def find(request: retrieval_pb2.FindRequest | retrieval_pb2.SearchRequest) -> bool:
    """Return whether a find is heavy."""
    return (
        request.limit > LIGHT_LIMIT
        or request.trace
        or len(request.query) > _TEXT
        or (request.HasField("where") and request.where.ByteSize() > _FILTER_BYTES)
    )


def batch(request: retrieval_pb2.BatchFindRequest) -> bool:
    """Return whether a batch is heavy."""
    requests = request.requests
    if len(requests) > _BATCH or any(map(find, requests)):
        return True
    return sum(1 if one.vector else len(questions_of(one.query)) for one in requests) > _BATCH


def search(request: retrieval_pb2.SearchRequest) -> bool:
    """Return whether a search is heavy."""
    return find(request) or request.session.ByteSize() > _SESSION_BYTES


def retrieve(request: retrieval_pb2.RetrieveRequest) -> bool:
    """Return whether a retrieval is heavy."""
    filters = request.where.ByteSize() + sum(boost.ByteSize() for boost in request.boosts)
    return request.top_k > LIGHT_LIMIT or len(request.query) > _TEXT or filters > _FILTER_BYTES


def recall(request: memories_pb2.RecallRequest) -> bool:
    """Return whether a recall is heavy."""
    return request.top_k > _RECALLED or request.max_tokens > _TOKENS or len(request.query) > _TEXT
