"""Replies as dataclasses that keep every field of the message in Python's own types."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from vikingd.client import (
    ContextType,
    DegradationReason,
    DropReason,
    MatchedContext,
    Outcome,
    PlanSource,
    PutOutcome,
    RecallPath,
    RerankStatus,
    StopReason,
    admin_calls,
    context_calls,
    memory_calls,
    results,
    retrieval_calls,
)
from vikingd.client.method_declarations import Method
from vikingd.client.replies import read
from vikingd.client.rpc_methods import Methods
from vikingd.domain.find_query import Levels
from vikingd.pb import access_pb2, admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

REPLIES: dict[type[Any], Message] = {
    results.FindResult: retrieval_pb2.FindResponse(),
    results.SearchResult: retrieval_pb2.SearchResponse(),
    results.RetrieveResult: retrieval_pb2.RetrieveResponse(),
    results.BuiltContext: retrieval_pb2.BuildContextResponse(),
    memory_calls.RecallResult: memories_pb2.RecallResponse(),
    memory_calls.RememberResult: memories_pb2.RememberResponse(),
    memory_calls.ExtractResult: memories_pb2.ExtractResponse(),
    memory_calls.ReinforceResult: memories_pb2.ReinforceResponse(),
    memory_calls.ForgetResult: memories_pb2.ForgetResponse(),
    context_calls.PutResult: contexts_pb2.PutResponse(),
    context_calls.DeleteResult: contexts_pb2.DeleteResponse(),
    context_calls.MoveResult: contexts_pb2.MoveResponse(),
    context_calls.Context: contexts_pb2.Context(),
    context_calls.LinkResult: contexts_pb2.LinkResponse(),
    admin_calls.Stats: admin_pb2.StatsResponse(),
    admin_calls.VerifyReport: admin_pb2.VerifyResponse(),
    admin_calls.OptimizeResult: admin_pb2.OptimizeResponse(),
    admin_calls.ReembedResult: admin_pb2.ReembedResponse(),
    admin_calls.DescribeResult: admin_pb2.DescribeResponse(),
    admin_calls.CreatedKey: access_pb2.CreateKeyResponse(),
    admin_calls.KeyList: access_pb2.ListKeysResponse(),
    admin_calls.Key: access_pb2.Key(),
    admin_calls.RotatedKey: access_pb2.RotateKeyResponse(),
    admin_calls.Tenant: access_pb2.Tenant(),
    admin_calls.TenantList: access_pb2.ListTenantsResponse(),
    admin_calls.DeletedTenant: access_pb2.DeleteTenantResponse(),
}


def fill(message: Any, numbers: count[int]) -> Any:
    """Fill every field of a message with a distinct nonzero value."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Struct":
        message.update({"year": next(numbers), "deep": [{"a": 0.5}], "on": True})
        return message
    for field in message.DESCRIPTOR.fields:
        if field.message_type and field.message_type.GetOptions().map_entry:
            getattr(message, field.name).update({"a": next(numbers), "b": next(numbers)})
        elif field.is_repeated and field.message_type:
            for _ in range(2):
                fill(getattr(message, field.name).add(), numbers)
        elif field.is_repeated:
            getattr(message, field.name).extend(scalar(field, numbers) for _ in range(2))
        elif field.message_type:
            fill(getattr(message, field.name), numbers)
        else:
            setattr(message, field.name, scalar(field, numbers))
    return message


def scalar(field: FieldDescriptor, numbers: count[int]) -> Any:
    """Return a value for a scalar field."""
    number = next(numbers)
    if field.enum_type:
        values = [value.number for value in field.enum_type.values if value.number]
        return values[number % len(values)]
    return {
        field.CPPTYPE_STRING: f"s{number}" if field.type == field.TYPE_STRING else b"%d" % number,
        field.CPPTYPE_BOOL: True,
        field.CPPTYPE_DOUBLE: number + 0.5,
    }.get(field.cpp_type, number)


def plain(message: Any) -> Any:
    """Return a message as dicts, without the converters under test."""
    name = message.DESCRIPTOR.name
    if name == "Timestamp":
        return datetime.fromtimestamp(message.seconds, UTC) + timedelta(
            microseconds=message.nanos // 1000
        )
    if name == "Duration":
        return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    if name == "Struct":
        return {"deep": [{"a": 0.5}], "on": True, "year": int(message["year"])}
    made: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if (name, field.name) == ("Passage", "vector"):
            continue  # Get returns no vector
        value = getattr(message, field.name)
        if field.message_type and field.message_type.name == "StageTiming":
            made[field.name] = {
                one.stage: one.duration.seconds + one.duration.nanos / 1e9 for one in value
            }
        elif field.message_type and field.message_type.GetOptions().map_entry:
            made[field.name] = dict(value)
        elif field.is_repeated:
            made[field.name] = tuple(map(plain, value)) if field.message_type else tuple(value)
        else:
            made[field.name] = plain(value) if field.message_type else value
    return made


def attributes(value: Any) -> Any:
    """Return a dataclass and the dataclasses in it as dicts."""
    if isinstance(value, tuple):
        return tuple(map(attributes, value))
    if not hasattr(value, "__dataclass_fields__"):
        return value
    return {field.name: attributes(getattr(value, field.name)) for field in fields(value)}


@pytest.mark.parametrize("kind", REPLIES, ids=lambda kind: kind.__name__)
def test_every_field_of_a_reply_arrives_under_its_name(kind: type[Any]) -> None:
    """Every field of a proto message is in its dataclass under the same name."""
    message = fill(REPLIES[kind], count(1))
    value = read(kind, message)
    assert attributes(value) == plain(message)


METHODS = [one for one in vars(Methods).values() if isinstance(one, Method)]


def test_every_method_is_among_those_above() -> None:
    """REPLIES has the result of every method except batch_find, which has several of a find."""
    called = {one.result for one in METHODS if one.kind == "call"}
    assert called - set(REPLIES) == {tuple[results.FindResult, ...]}


def test_every_method_declares_the_reply_of_its_rpc() -> None:
    """The declared message is the reply of the RPC, or the item of its pages."""
    for one in METHODS:
        reply = one.rpc.output_type
        if one.kind == "pages":
            reply = reply.fields_by_name[one.part].message_type
        assert one.reply.DESCRIPTOR is reply, one.name


@pytest.mark.parametrize("kind", REPLIES, ids=lambda kind: kind.__name__)
def test_a_reply_is_immutable_and_an_empty_one_is_whole(kind: type[Any]) -> None:
    """An empty message converts to a reply, and a reply is immutable."""
    value = read(kind, type(REPLIES[kind])())
    with pytest.raises(FrozenInstanceError):
        setattr(value, fields(value)[0].name, 1)


def test_a_search_is_told_whole() -> None:
    """The plan, the hits and the reranker status of a search reply have domain types."""
    reply = retrieval_pb2.SearchResponse(total=2, revision=9)
    reply.resources.add(uri="viking://resources/b", score=0.25, context_type=2)
    reply.resources.add(uri="viking://resources/c", score=0.125, context_type=2)
    reply.memories.add(uri="viking://user/memories/a", score=0.25, context_type=1)
    reply.memories[0].parts.rerank = 0.0
    reply.skills.add(uri="viking://agent/skills/z", score=0.5, context_type=3)
    reply.query_plan.source = retrieval_pb2.PLAN_SOURCE_RULES
    planned = reply.query_plan.queries.add(query="RFC form", context_type=3, priority=1)
    reply.query_results.add(query=planned).hits.add(uri="viking://agent/skills/z", score=0.5)
    reply.rerank.status = retrieval_pb2.RERANK_STATUS_OFF
    reply.timings.add(stage="intent").duration.FromMilliseconds(1500)
    found = read(results.SearchResult, reply)
    assert found.query_plan.source is PlanSource.RULES
    assert found.query_plan.queries == (found.query_results[0].query,)
    assert found.query_results[0].hits[0].uri == found.skills[0].uri
    assert found.rerank is not None
    assert found.rerank.status is RerankStatus.OFF
    assert found.timings == {"intent": 1.5}
    assert found.memories[0].parts is not None
    assert found.memories[0].parts.rerank == 0.0
    assert found.resources[0].parts is None
    assert found.query_results[0].trace is None
    assert [match.uri.rpartition("/")[2] for match in found] == ["z", "b", "a", "c"]


def test_matches_iterate_by_score_and_ties_by_uri() -> None:
    """Iteration yields the matches of all types by score and then URI; `len` is the total."""
    reply = retrieval_pb2.FindResponse(total=3)
    for uri, score in (("viking://user/memories/x", 0.5), ("viking://user/memories/y", 0.25)):
        reply.memories.add(uri=uri, score=score)
    reply.skills.add(uri="viking://agent/skills/s", score=0.5)
    found = read(results.FindResult, reply)
    assert [match.uri.rpartition("/")[2] for match in found] == ["s", "x", "y"]
    assert len(found) == 3
    assert all(isinstance(match, MatchedContext) for match in found)


def test_enums_are_those_of_the_domain() -> None:
    """An unset enum is None or UNSPECIFIED, and an unknown enum value stays a number."""
    assert read(memory_calls.RecallResult, memories_pb2.RecallResponse()).path is None
    assert (
        read(memory_calls.RecallResult, memories_pb2.RecallResponse(path=2)).path
        is RecallPath.TIMELINE
    )
    assert (
        read(results.RetrieveResult, retrieval_pb2.RetrieveResponse(outcome=2)).outcome
        is Outcome.NO_MATCH
    )
    assert read(context_calls.PutResult, contexts_pb2.PutResponse(outcomes=[3])).outcomes == (
        PutOutcome.UNCHANGED,
    )
    assert (
        read(context_calls.Context, contexts_pb2.Context()).context_type is ContextType.UNSPECIFIED
    )
    newer = read(context_calls.PutResult, contexts_pb2.PutResponse(outcomes=[99]))
    assert newer.outcomes == (99,)


@pytest.mark.parametrize(
    ("domain", "wire"),
    [
        (ContextType, contexts_pb2.ContextType),
        (PutOutcome, contexts_pb2.PutOutcome),
        (Levels, retrieval_pb2.Levels),
        (Outcome, retrieval_pb2.Outcome),
        (PlanSource, retrieval_pb2.PlanSource),
        (DegradationReason, retrieval_pb2.DegradationReason),
        (DropReason, retrieval_pb2.DropReason),
        (StopReason, retrieval_pb2.StopReason),
        (RecallPath, memories_pb2.RecallPath),
        (RerankStatus, retrieval_pb2.RerankStatus),
    ],
    ids=lambda enum: getattr(enum, "__name__", ""),
)
def test_the_enums_have_the_numbers_of_the_proto(domain: Any, wire: Any) -> None:
    """The enums of the domain have the names and numbers of the proto."""
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", wire.DESCRIPTOR.name).upper()
    sent = {f"{prefix}_{member.name}": member.value for member in domain}
    assert sent | {f"{prefix}_UNSPECIFIED": 0} == dict(wire.items())


def test_times_are_in_utc_to_the_microsecond() -> None:
    """Times are in UTC with microseconds; an unset time is None."""
    message = contexts_pb2.Context()
    message.time.seconds, message.time.nanos = -2, 500_000_999
    found = read(context_calls.Context, message)
    assert found.time == datetime(1969, 12, 31, 23, 59, 58, 500_000, UTC)
    assert found.update_time is None


def test_limit_and_top_k_are_one_argument() -> None:
    """Every call accepts limit or top_k; two different values are an error that names both."""
    for build in (
        retrieval_calls.find,
        retrieval_calls.search,
        retrieval_calls.retrieve,
        memory_calls.recall,
    ):
        request: Any = build("tea", limit=7)
        assert request == build("tea", top_k=7) == build("tea", limit=7, top_k=7)
        with pytest.raises(ValueError, match="limit is 7 and top_k is 8"):
            build("tea", limit=7, top_k=8)
