"""The weight of a call, which decides where its work runs.

The request decides the lane, light or heavy. The lane is chosen before the request is checked,
because checks and plans of heavy calls take time, too. The plan decides the thread: the event loop
itself makes a light answer if that is quicker than to start a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from vikingd.pb import memories_pb2, retrieval_pb2
from vikingd.plan.find_plan import FindPlan
from vikingd.plan.query_scope import QueryScope
from vikingd.plan.query_text import questions_of
from vikingd.plan.retrieve_plan import RetrievePlan

LIGHT_LIMIT = 50
"""The most results of a light call."""

_LIGHT_TEXTS = 20_000  # are scored in less time than a thread takes to start
_TEXT = 1000  # characters of a query
_FILTER_BYTES = 512  # some ten clauses
_BATCH = 4
_TOKENS = 10_000
_RECALLED = 100
_SESSION_BYTES = 64 << 10
PAGE = 100
"""The most contexts in a page of a light listing."""


def find(request: retrieval_pb2.FindRequest | retrieval_pb2.SearchRequest) -> bool:
    """Return True if a find belongs in the heavy lane."""
    return (
        request.limit > LIGHT_LIMIT
        or request.trace
        or len(request.query) > _TEXT
        or (request.HasField("where") and request.where.ByteSize() > _FILTER_BYTES)
    )


def batch(request: retrieval_pb2.BatchFindRequest) -> bool:
    """Return True if a batch belongs in the heavy lane."""
    requests = request.requests
    if len(requests) > _BATCH or any(map(find, requests)):
        return True
    return sum(1 if one.vector else len(questions_of(one.query)) for one in requests) > _BATCH


def search(request: retrieval_pb2.SearchRequest) -> bool:
    """Return True if a search belongs in the heavy lane."""
    return find(request) or request.session.ByteSize() > _SESSION_BYTES


def retrieve(request: retrieval_pb2.RetrieveRequest) -> bool:
    """Return True if a retrieval belongs in the heavy lane."""
    filters = request.where.ByteSize() + sum(boost.ByteSize() for boost in request.boosts)
    return request.top_k > LIGHT_LIMIT or len(request.query) > _TEXT or filters > _FILTER_BYTES


def recall(request: memories_pb2.RecallRequest) -> bool:
    """Return True if a recall belongs in the heavy lane."""
    return request.top_k > _RECALLED or request.max_tokens > _TOKENS or len(request.query) > _TEXT


def is_light_find(plans: Sequence[FindPlan]) -> bool:
    """Return True if a find is so quick that the event loop should run its plans itself."""
    is_short = all(plan.query.limit <= LIGHT_LIMIT for plan in plans)
    return is_short and _are_light(scope for plan in plans for scope in plan.scopes)


def is_light_retrieve(plan: RetrievePlan) -> bool:
    """Return True if a retrieval is so quick that the event loop should run it itself.

    Boosts by metadata and long answers are too slow for that.
    """
    query = plan.query
    if query.top_k > LIGHT_LIMIT or any(boost.where is not None for boost in query.boosts):
        return False
    return _are_light(plan.scopes)


def _are_light(scopes: Iterable[QueryScope]) -> bool:
    """Return True if the scopes can be scored in tens of microseconds."""
    return sum(scope.cost for scope in scopes) <= _LIGHT_TEXTS
