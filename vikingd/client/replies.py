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
from vikingd.ingest.limits import as_sent
from vikingd.pb import admin_pb2, contexts_pb2, memories_pb2, retrieval_pb2

T = TypeVar("T")
Read = Callable[[Any], Any]


def find(reply: retrieval_pb2.FindResponse) -> results.FindResult:
    """Return the result of a find."""
    return _read(results.FindResult, reply)


def batch_find(reply: retrieval_pb2.BatchFindResponse) -> tuple[results.FindResult, ...]:
    """Return the result of each query, in the order of the requests."""
    return tuple(map(find, reply.responses))


def search(reply: retrieval_pb2.SearchResponse) -> results.SearchResult:
    """Return the result of a search, with its plan."""
    return _read(results.SearchResult, reply)


def retrieve(reply: retrieval_pb2.RetrieveResponse) -> results.RetrieveResult:
    """Return the items of a retrieval."""
    return _read(results.RetrieveResult, reply)


def build_context(reply: retrieval_pb2.BuildContextResponse) -> results.BuiltContext:
    """Return the text for a prompt."""
    return _read(results.BuiltContext, reply)


def recall(reply: memories_pb2.RecallResponse) -> results.RecallResult:
    """Return the memories that were recalled."""
    return _read(results.RecallResult, reply)


def remember(reply: memories_pb2.RememberResponse) -> results.RememberResult:
    """Return the outcome of a remember."""
    return _read(results.RememberResult, reply)


def reinforce(reply: memories_pb2.ReinforceResponse) -> results.ReinforceResult:
    """Return the counters."""
    return _read(results.ReinforceResult, reply)


def forget(reply: memories_pb2.ForgetResponse) -> results.ForgetResult:
    """Return the memories that were removed."""
    return _read(results.ForgetResult, reply)


def put(reply: contexts_pb2.PutResponse) -> contexts.PutResult:
    """Return the outcomes of a put."""
    return _read(contexts.PutResult, reply)


def delete(reply: contexts_pb2.DeleteResponse) -> contexts.DeleteResult:
    """Return the number of contexts that were removed."""
    return _read(contexts.DeleteResult, reply)


def move(reply: contexts_pb2.MoveResponse) -> contexts.MoveResult:
    """Return the number of contexts that were moved."""
    return _read(contexts.MoveResult, reply)


def get(reply: contexts_pb2.GetResponse) -> contexts.Context:
    """Return the whole context."""
    return context(reply.context)


def context(message: contexts_pb2.Context) -> contexts.Context:
    """A context."""
    return _read(contexts.Context, message)


def link(reply: contexts_pb2.LinkResponse | contexts_pb2.UnlinkResponse) -> contexts.LinkResult:
    """Return the revision of a change of a link."""
    return _read(contexts.LinkResult, reply)


def stats(reply: admin_pb2.StatsResponse) -> status.Stats:
    """Return the state of the daemon."""
    return _read(status.Stats, reply)


def verify(reply: admin_pb2.VerifyResponse) -> status.VerifyReport:
    """Return the differences between index and store."""
    return _read(status.VerifyReport, reply)


def optimize(reply: admin_pb2.OptimizeResponse) -> status.OptimizeResult:
    """Return the base in use."""
    return _read(status.OptimizeResult, reply)


def reembed(reply: admin_pb2.ReembedResponse) -> status.ReembedResult:
    """Return the number of texts that wait for a vector."""
    return _read(status.ReembedResult, reply)


def backup(reply: admin_pb2.BackupResponse) -> status.BackupPiece:
    """Return a piece of a backup."""
    return _read(status.BackupPiece, reply)


def _read(kind: Callable[..., T], message: Message) -> T:
    """Return the dataclass `kind`, filled from the fields of the same names."""
    return kind(*[read(message) for read in _readers(kind)])


@cache
def _readers(kind: Any) -> tuple[Read, ...]:
    """Return the readers of the attributes of a dataclass, by their types."""
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
    """Return the function that converts a field to the type `hint`."""
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
