"""Replies as the clients return them: one function for each RPC."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from vikingd.client import contexts, results, status
from vikingd.ingest.records import as_sent
from vikingd.pb import admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

T = TypeVar("T")
Read = Callable[[Any], Any]


def find(reply: retrieval_pb2.FindResponse) -> results.FindResult:
    """What a find found."""
    return _read(results.FindResult, reply)


def batch_find(reply: retrieval_pb2.BatchFindResponse) -> tuple[results.FindResult, ...]:
    """What each query found, in the order of the requests."""
    return tuple(map(find, reply.responses))


def search(reply: retrieval_pb2.SearchResponse) -> results.SearchResult:
    """What a search found, and by which plan."""
    return _read(results.SearchResult, reply)


def retrieve(reply: retrieval_pb2.RetrieveResponse) -> results.RetrieveResult:
    """What a strategy found."""
    return _read(results.RetrieveResult, reply)


def build_context(reply: retrieval_pb2.BuildContextResponse) -> results.BuiltContext:
    """The text for a prompt."""
    return _read(results.BuiltContext, reply)


def recall(reply: memories_pb2.RecallResponse) -> results.RecallResult:
    """What was recalled."""
    return _read(results.RecallResult, reply)


def remember(reply: memories_pb2.RememberResponse) -> results.RememberResult:
    """What a remember did."""
    return _read(results.RememberResult, reply)


def reinforce(reply: memories_pb2.ReinforceResponse) -> results.ReinforceResult:
    """The counters."""
    return _read(results.ReinforceResult, reply)


def forget(reply: memories_pb2.ForgetResponse) -> results.ForgetResult:
    """What was forgotten."""
    return _read(results.ForgetResult, reply)


def put(reply: contexts_pb2.PutResponse) -> contexts.PutResult:
    """What a put did."""
    return _read(contexts.PutResult, reply)


def delete(reply: contexts_pb2.DeleteResponse) -> contexts.DeleteResult:
    """What was removed."""
    return _read(contexts.DeleteResult, reply)


def move(reply: contexts_pb2.MoveResponse) -> contexts.MoveResult:
    """What was moved."""
    return _read(contexts.MoveResult, reply)


def get(reply: contexts_pb2.GetResponse) -> contexts.Context:
    """The context, whole."""
    return context(reply.context)


def context(message: contexts_pb2.Context) -> contexts.Context:
    """A context."""
    return _read(contexts.Context, message)


def link(reply: contexts_pb2.LinkResponse | contexts_pb2.UnlinkResponse) -> contexts.LinkResult:
    """When a link is there, or gone."""
    return _read(contexts.LinkResult, reply)


def stats(reply: admin_pb2.StatsResponse) -> status.Stats:
    """The daemon in numbers."""
    return _read(status.Stats, reply)


def verify(reply: admin_pb2.VerifyResponse) -> status.VerifyReport:
    """Whether index and store agree."""
    return _read(status.VerifyReport, reply)


def optimize(reply: admin_pb2.OptimizeResponse) -> status.OptimizeResult:
    """The base in use."""
    return _read(status.OptimizeResult, reply)


def reembed(reply: admin_pb2.ReembedResponse) -> status.ReembedResult:
    """What waits for a vector."""
    return _read(status.ReembedResult, reply)


def backup(reply: admin_pb2.BackupResponse) -> status.BackupPiece:
    """A piece of a backup."""
    return _read(status.BackupPiece, reply)


def _read(kind: Callable[..., T], message: Message) -> T:
    """The dataclass `kind` with the values of the message's fields of the same names."""
    return kind(*[read(message) for read in _readers(kind)])


@cache
def _readers(kind: Any) -> tuple[Read, ...]:
    """What reads each attribute of a dataclass from a message, by the attribute's type."""
    hints = get_type_hints(kind)
    return tuple(_reader(field.name, hints[field.name]) for field in fields(kind))


def _reader(name: str, hint: Any) -> Read:
    get = attrgetter(name)
    optional = NoneType in get_args(hint)
    if optional:
        [hint] = (one for one in get_args(hint) if one is not NoneType)
    convert = _conversion(hint)
    if not optional:
        return get if convert is _as_it_is else lambda message: convert(get(message))
    # The zero of an enum without one means that there is none.
    is_there: Read = get if _is_enum(hint) else lambda message: message.HasField(name)
    return lambda message: convert(get(message)) if is_there(message) else None


def _conversion(hint: Any) -> Read:
    """What makes a value of the type `hint` of a field's."""
    if hint in _CONVERSIONS:
        return _CONVERSIONS[hint]
    if get_origin(hint) is tuple:
        each = _conversion(get_args(hint)[0])
        return tuple if each is _as_it_is else lambda values: tuple(map(each, values))
    if _is_enum(hint):
        # The number of a newer daemon stays a number.
        members: dict[int, int] = {member.value: member for member in hint}
        return lambda number: members.get(number, number)
    return lambda message: _read(hint, message)


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, IntEnum)


def _as_it_is(value: T) -> T:
    return value


def _time(message: Timestamp) -> datetime:
    return message.ToDatetime(UTC)


def _timings(stages: Iterable[retrieval_pb2.StageTiming]) -> results.Timings:
    return {one.stage: one.duration.seconds + one.duration.nanos / 1e9 for one in stages}


def _metadata(message: Struct) -> dict[str, Any]:
    plain: dict[str, Any] = as_sent(MessageToDict(message))
    return plain


_CONVERSIONS: dict[Any, Read] = {
    **dict.fromkeys((bool, int, float, str, bytes), _as_it_is),
    datetime: _time,
    timedelta: lambda message: message.ToTimedelta(),
    dict[str, float]: _timings,
    dict[str, Any]: _metadata,
}
