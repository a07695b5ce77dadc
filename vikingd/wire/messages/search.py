"""The request and the reply of Search, to and from the domain."""

from __future__ import annotations

from vikingd.domain.errors import InvalidField
from vikingd.domain.search import SearchQuery, SearchResult, SearchSession, SessionMessage
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
    given = {field.name: value for field, value in request.ListFields()}
    given.pop("session", None)
    find = retrieval_pb2.FindRequest(**given)
    find.mode = find.mode or retrieval_pb2.SEARCH_MODE_THINKING
    query, _ = decode.find_query(find, None)
    return SearchQuery(query.text, session_of(request.session), query)


def response_of(result: SearchResult) -> retrieval_pb2.SearchResponse:
    """The reply."""
    queries = [retrieval_pb2.TypedQuery(**encode.fields_of(query)) for query in result.plan.queries]
    plan = encode.fields_of(result.plan) | {"queries": queries}
    reply = retrieval_pb2.SearchResponse(
        query_plan=retrieval_pb2.QueryPlan(**plan),
        revision=result.revision,
        degraded=encode.degraded(result.degraded),
        rerank=encode.rerank(result.rerank),
    )
    reply.total, _ = encode.add_matches(reply, result.matches)
    encode.add_timings(reply.timings, result.stages)
    for query, found in zip(queries, result.found, strict=True):
        added = reply.query_results.add(
            query=query,
            hits=[
                retrieval_pb2.QueryHit(uri=match.uri, score=match.score)
                for match in found.matches
                if match.context_type
            ],
            degraded=encode.degraded(found.degraded),
            trace=None if found.trace is None else encode.find_trace(found.trace),
            rerank=None if found.rerank is None else encode.rerank(found.rerank),
        )
        encode.add_timings(added.timings, found.stages)
    return reply


def session_of(session: retrieval_pb2.SearchSession) -> SearchSession:
    """The conversation of a request.

    Raises:
        InvalidField: naming the field as in the proto.
    """
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
