"""The request and the reply of Search, to and from the domain."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

from vikingd.answer.find_hits import FindHits
from vikingd.answer.search_answer import SearchHits
from vikingd.domain import cancellation
from vikingd.domain.answers import MESSAGE_BYTES, ReplyBudget, Stage, size_of, too_large
from vikingd.domain.errors import InvalidField
from vikingd.domain.search_query import SESSION_ID, SearchQuery, SearchSession, SessionMessage
from vikingd.pb import retrieval_pb2
from vikingd.wire.messages import common_messages, decode, find_reply
from vikingd.wire.messages.encoded_results import Encoded, EncodedResults
from vikingd.wire.messages.find_reply import size_of_trace
from vikingd.wire.request_limits import MAX_MESSAGES

_ROLES = ("user", "assistant", "system", "tool")


def query_of(request: retrieval_pb2.SearchRequest) -> SearchQuery:
    """Convert a Search request with its session.

    Raises:
        InvalidField: a field is invalid; the error names it as in the proto.
    """
    if not request.query.strip():
        raise InvalidField("query", "is empty")
    given = {field.name: value for field, value in request.ListFields()}
    given.pop("session", None)
    find = retrieval_pb2.FindRequest(**given)
    find.mode = find.mode or retrieval_pb2.SEARCH_MODE_THINKING
    query = decode.find_query(find, None)
    return SearchQuery(query.text, session_of(request.session), query)


_NAMES = 4  # a quarter of the bytes is for the URIs of each query's hits


class SearchReply(NamedTuple):
    """A SearchResponse as bytes, with its stages, its number of results and the best score."""

    data: bytes
    stages: tuple[Stage, ...]
    total: int
    top_score: float
    is_degraded: bool


def search_reply(
    found: SearchHits, limit: int, results: EncodedResults, most_bytes: int
) -> SearchReply:
    """Return a reply of at most `limit` results and about `most_bytes`.

    The traces take bytes first. A quarter of the rest is for the list of each query's hits.
    """
    started, budget = perf_counter(), ReplyBudget(most_bytes)
    traces = [
        None if hits.trace is None or not budget.take(size_of_trace(hits.trace)) else hits.trace
        for hits in found.found
    ]
    names = ReplyBudget(budget.left // _NAMES)
    named = [_hits(hits, names) for hits in found.found]
    budget.take(names.limit - names.left)
    best = found.merged(limit)
    encoded = results.results(best, budget) if best is not None else Encoded(b"", 0, 0.0)
    queries = [
        retrieval_pb2.TypedQuery(**common_messages.fields_of(query)) for query in found.plan.queries
    ]
    plan = common_messages.fields_of(found.plan) | {"queries": queries}
    reply = retrieval_pb2.SearchResponse(
        query_plan=retrieval_pb2.QueryPlan(**plan),
        total=encoded.total,
        revision=found.revision,
        rerank=find_reply.rerank(found.rerank),
        confidence=common_messages.confidence(found.confidence),
        questions=found.questions,
    )
    for query, hits, of_query, trace in zip(queries, found.found, named, traces, strict=True):
        added = reply.query_results.add(
            query=query,
            hits=of_query,
            degraded=common_messages.degraded(hits.degraded),
            trace=None if trace is None else find_reply.find_trace(trace),
            rerank=None if hits.rerank is None else find_reply.rerank(hits.rerank),
        )
        common_messages.add_timings(added.timings, hits.stages)
    lost = [
        hits for hits, trace in zip(found.found, traces, strict=True) if hits.trace and not trace
    ]
    notes = [*found.degraded, *budget.notes()]
    if lost or names.left_out:
        notes.append(
            too_large(
                f"the reply has no room for {len(lost):,} traces and for the names of "
                f"{names.left_out:,} hits of its queries; ask for less, or let the operator raise "
                "limits.max_reply_bytes"
            )
        )
    reply.degraded.extend(common_messages.degraded(notes))
    stages = (*found.stages, Stage("merge", started, perf_counter()))
    common_messages.add_timings(reply.timings, stages)
    return SearchReply(
        encoded.data + reply.SerializeToString(),
        stages,
        encoded.total,
        encoded.top_score,
        bool(reply.degraded),
    )


def _hits(found: FindHits, budget: ReplyBudget) -> list[retrieval_pb2.QueryHit]:
    """Return the hits of one query as messages with URIs only, as many as fit."""
    out: list[retrieval_pb2.QueryHit] = []
    for i, hit in enumerate(found.hits):
        cancellation.check()
        uri = found.snapshot.uri(hit.row)
        if not found.snapshot.type_of(hit.row):  # above the typed roots
            continue
        if not budget.take(MESSAGE_BYTES + size_of(uri)):
            budget.left_out += len(found.hits) - i
            break
        out.append(retrieval_pb2.QueryHit(uri=uri, score=hit.score))
    return out


def session_of(session: retrieval_pb2.SearchSession) -> SearchSession:
    """Convert the conversation of a request.

    Raises:
        InvalidField: a field is invalid; the error names it as in the proto.
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
    if session.id and not SESSION_ID.fullmatch(session.id):
        raise InvalidField(
            "session.id", f'is {session.id[:64]!r}, not 1 to 64 letters, digits, "-" and "_"'
        )
    return SearchSession(
        session.summary,
        tuple(
            SessionMessage(
                message.role,
                message.content,
                decode.given(message, "time", decode.microseconds, f"session.messages[{i}]."),
            )
            for i, message in enumerate(session.messages)
        ),
        session.id,
    )
