"""The request and the reply of Search, to and from the domain."""

from __future__ import annotations

from vikingd.domain.errors import InvalidField
from vikingd.domain.search import (
    SearchQuery,
    SearchResult,
    SearchSession,
    SessionMessage,
    TypedQuery,
)
from vikingd.pb import retrieval_pb2
from vikingd.wire.limits import MAX_MESSAGES
from vikingd.wire.messages import decode, encode

_ROLES = ("user", "assistant", "system", "tool")


def query_of(request: retrieval_pb2.SearchRequest) -> SearchQuery:
    """The query with its session.

    Raises:
        InvalidField: naming the field as in the proto.
    """
    if not request.query.strip():
        raise InvalidField("query", "is empty")
    find = retrieval_pb2.FindRequest(
        query=request.query,
        target_uri=request.target_uri,
        context_types=request.context_types,
        levels=request.levels,
        limit=request.limit,
        where=request.where if request.HasField("where") else None,
        trace=request.trace,
        min_revision=request.min_revision,
        mode=request.mode or retrieval_pb2.SEARCH_MODE_THINKING,
    )
    if request.HasField("score_threshold"):
        find.score_threshold = request.score_threshold
    if request.HasField("alpha"):
        find.alpha = request.alpha
    query, _ = decode.find_query(find, None)
    return SearchQuery(query.text, _session(request.session), query)


def response_of(result: SearchResult) -> retrieval_pb2.SearchResponse:
    """The reply."""
    plan = result.plan
    reply = retrieval_pb2.SearchResponse(
        query_plan=retrieval_pb2.QueryPlan(
            source=plan.source,  # type: ignore[arg-type]  # same numbers
            reason=plan.reason,
            queries=map(_typed, plan.queries),
            notes=plan.notes,
            model=plan.model,
        ),
        revision=result.revision,
        degraded=encode.degraded(result.degraded),
        rerank=encode.rerank(result.rerank),
    )
    reply.total, _ = encode.add_matches(reply, result.matches)
    encode.add_timings(reply.timings, result.stages)
    for planned, found in zip(plan.queries, result.found, strict=True):
        added = reply.query_results.add(
            query=_typed(planned),
            hits=[
                retrieval_pb2.QueryHit(uri=match.uri, score=match.score)
                for match in found.matches
                if match.context_type
            ],
            degraded=encode.degraded(found.degraded),
            trace=encode.find_trace(found.trace) if found.trace else None,
        )
        encode.add_timings(added.timings, found.stages)
        if found.rerank is not None:
            added.rerank.CopyFrom(encode.rerank(found.rerank))
    return reply


def _typed(query: TypedQuery) -> retrieval_pb2.TypedQuery:
    return retrieval_pb2.TypedQuery(
        query=query.query,
        context_type=query.context_type,  # type: ignore[arg-type]  # same numbers
        intent=query.intent,
        priority=query.priority,
    )


def _session(session: retrieval_pb2.SearchSession) -> SearchSession:
    if len(session.messages) > MAX_MESSAGES:
        raise InvalidField(
            "session.messages", f"has {len(session.messages)} entries, at most {MAX_MESSAGES}"
        )
    for i, message in enumerate(session.messages):
        if message.role not in _ROLES:
            raise InvalidField(
                f"session.messages[{i}].role",
                f"is {message.role[:32]!r}, not one of {', '.join(_ROLES)}",
            )
        if not message.content.strip():
            raise InvalidField(f"session.messages[{i}].content", "is empty")
    return SearchSession(
        session.summary,
        tuple(SessionMessage(message.role, message.content) for message in session.messages),
    )
