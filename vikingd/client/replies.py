"""The conversion of reply messages to dataclasses of the client and of the domain."""

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
from google.protobuf.timestamp_pb2 import Timestamp

from vikingd.client.results import Timings
from vikingd.domain.contexts import Context, Entry, Passage, Relation
from vikingd.ingest.limits import as_sent
from vikingd.pb import contexts_pb2, retrieval_pb2

T = TypeVar("T")
Read = Callable[[Any], Any]


def read(kind: Callable[..., T], message: Message) -> T:
    """Return a dataclass of type `kind` from the message's fields of the same names."""
    return kind(*[read(message) for read in _readers(kind)])


@cache
def _readers(kind: Any) -> tuple[Read, ...]:
    """Return, for each attribute of a dataclass, a function that reads it from a message."""
    hints = get_type_hints(kind)
    return tuple(reader(field.name, hints[field.name]) for field in fields(kind))


def reader(name: str, hint: Any) -> Read:
    """Return a function that reads the field `name` of a message as the type `hint`."""
    get = attrgetter(name)
    optional = NoneType in get_args(hint)
    if optional:
        [hint] = (one for one in get_args(hint) if one is not NoneType)
    convert = conversion(hint)
    if not optional:
        return get if convert is _as_it_is else lambda message: convert(get(message))
    # The zero of an enum (UNSPECIFIED) means None.
    is_there: Read = get if _is_enum(hint) else lambda message: message.HasField(name)
    return lambda message: convert(get(message)) if is_there(message) else None


def conversion(hint: Any) -> Read:
    """Return a function that converts the value of a field to the type `hint`."""
    if hint in _CONVERSIONS:
        return _CONVERSIONS[hint]
    if get_origin(hint) is tuple:
        each = conversion(get_args(hint)[0])
        return tuple if each is _as_it_is else lambda values: tuple(map(each, values))
    if _is_enum(hint):
        # An unknown number, from a newer daemon, stays a number.
        members: dict[int, int] = {member.value: member for member in hint}
        return lambda number: members.get(number, number)
    return lambda message: read(hint, message)


def _is_enum(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, IntEnum)


def _as_it_is(value: T) -> T:
    return value


def _timings(stages: Iterable[retrieval_pb2.StageTiming]) -> Timings:
    return {one.stage: one.duration.seconds + one.duration.nanos / 1e9 for one in stages}


_CONVERSIONS: dict[Any, Read] = {
    **dict.fromkeys((bool, int, float, str, bytes), _as_it_is),
    datetime: lambda message: message.ToDatetime(UTC),
    timedelta: lambda message: message.ToTimedelta(),
    dict[str, float]: _timings,
    dict[str, Any]: lambda message: as_sent(MessageToDict(message)),
}


def context_of(message: contexts_pb2.Context) -> Context:
    """Return the domain's context from a reply of Get."""
    return Context(
        message.uri,
        message.is_directory,
        message.abstract,
        message.title,
        as_sent(MessageToDict(message.metadata)),
        micros(message.time),
        micros(message.create_time),
        micros(message.update_time),
        message.reinforcement,
        message.access_count,
        message.content_hash,
        message.revision,
        message.overview,
        message.content,
        tuple(
            Passage(p.section, p.start, p.end, entry=entry_of(p), continues=p.continues)
            for p in message.passages
        ),
        tuple(Relation(r.uri, r.abstract, r.reason) for r in message.relations),
        message.abstract_by,
        message.overview_by,
    )


def entry_of(passage: contexts_pb2.Passage) -> Entry | None:
    """Return the id, counters and times of a memory's passage; None for any other passage."""
    if not passage.HasField("memory"):
        return None
    memory = passage.memory
    times = micros(memory.time), micros(memory.create_time)
    return Entry(memory.id, memory.reinforcement, memory.access_count, *times)


def micros(time: Timestamp) -> int:
    """Convert a Timestamp to microseconds since the epoch."""
    return time.seconds * 1_000_000 + time.nanos // 1000
