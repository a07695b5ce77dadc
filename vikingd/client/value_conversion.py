"""Conversions of arguments to values of requests: times, vectors, JSON, names of enum members."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from google.protobuf import struct_pb2, timestamp_pb2

from vikingd.client.argument_checks import described, wrong_type
from vikingd.domain.errors import InvalidField
from vikingd.domain.retrieve_query import Rrf, WeightedSum
from vikingd.ingest.limits import check_number
from vikingd.pb import memories_pb2, retrieval_pb2

if TYPE_CHECKING:
    from typing_extensions import Buffer

    class Array(Protocol):
        """A numpy array; before Python 3.12 its type does not count as a Buffer."""

        def __array__(self, *args: Any, **named: Any) -> Any: ...

    Vector: TypeAlias = Buffer | Sequence[float] | Array

When: TypeAlias = datetime | date | str | int
"""A time: a datetime, the beginning of a day, ISO 8601 text, or microseconds since 1970 in UTC.

A time without a zone is local time.
"""

E = TypeVar("E", bound=IntEnum)
T = TypeVar("T")

Many: TypeAlias = E | str | Iterable[E | str]
"""One enum member or several; a str is the name of a member."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def vector_bytes(vector: Vector) -> bytes:
    """Return a vector as little-endian float32 bytes.

    `vector` is such bytes, a buffer of floats or doubles (array.array, memoryview, numpy), or a
    sequence of floats.

    Raises:
        TypeError: the buffer has other values, or more than one dimension.
    """
    if isinstance(vector, (bytes, bytearray)):
        return bytes(vector)
    wanted = "a row of floats or their little-endian float32 bytes, such as vector=[0.1, 0.2]"
    try:
        view = memoryview(cast("Buffer", vector))
    except TypeError:
        try:
            packed = array("f", cast("Sequence[float]", vector))
        except (TypeError, UnicodeError):
            raise TypeError(f"vector is {described(vector)}; give {wanted}") from None
    else:
        if view.ndim != 1 or view.format not in ("f", "<f", "d", "<d"):
            raise TypeError(f"vector is {view.ndim}-d {view.format!r}; give {wanted}")
        packed = array("f", array(view.format[-1], view.tobytes()))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def count_of(limit: int | None, top_k: int | None) -> int:
    """Return the maximum number of results from `limit` or `top_k`; 0: the daemon's default.

    Raises:
        ValueError: both arguments are given, and they differ.
    """
    if limit is not None and top_k is not None and limit != top_k:
        raise ValueError(f"limit is {limit} and top_k is {top_k}; they are one argument, give one")
    return (top_k if limit is None else limit) or 0


def micros_of(time: When, name: str = "time") -> int:
    """Return a time in microseconds since the epoch.

    Args:
        time: the time; without a zone it is local time.
        name: the argument, for errors.

    Raises:
        TypeError: the value is no time.
        ValueError: the text is no time.
    """
    wanted = "a datetime, a date, ISO 8601 text or microseconds since 1970 as an int"
    example = 'datetime.now(), or "2026-05-01T09:30:00+02:00"'
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    if isinstance(time, str):
        try:
            read = datetime.fromisoformat(time)
        except ValueError:
            shown = f"{name} is {time[:40]!r}; give {wanted}, such as {name}={example}"
            raise ValueError(shown) from None
    elif isinstance(time, datetime):
        read = time
    elif isinstance(time, date):
        read = datetime.combine(time, clock())
    else:
        raise wrong_type(name, time, wanted, example)
    aware = read.astimezone() if read.tzinfo is None else read
    # timestamp() returns a float, which loses the microseconds of distant years.
    return (aware - _EPOCH) // timedelta(microseconds=1)


def moment(time: When | None, name: str = "time") -> timestamp_pb2.Timestamp | None:
    """Return a time as a message; see `micros_of`."""
    return None if time is None else timestamp(micros_of(time, name))


def set_fusion(
    request: retrieval_pb2.RetrieveRequest | memories_pb2.RecallRequest,
    fusion: Rrf | WeightedSum | None,
) -> None:
    """Set the fusion of meaning and words; None: the default."""
    if isinstance(fusion, WeightedSum):
        request.weighted.vector_weight = fusion.vector_weight
        request.weighted.keyword_weight = fusion.keyword_weight
    elif fusion is not None:
        request.rrf.k = fusion.k
        request.rrf.vector_weight = fusion.vector_weight
        request.rrf.keyword_weight = fusion.keyword_weight


def struct(value: Mapping[str, Any], name: str = "metadata") -> struct_pb2.Struct:
    """Return a JSON object as a Struct.

    Args:
        value: the object; numbers of numpy are numbers.
        name: the argument, for errors.

    Raises:
        TypeError: a value is not JSON.
        ValueError: a double cannot hold an integer. Floats are not checked here; the daemon checks
            them.
    """
    if not isinstance(value, Mapping):
        raise wrong_type(name, value, "a dict")
    struct = struct_pb2.Struct()
    struct.update(_json(value, "", name))
    return struct


def _json(value: Any, key: str, name: str) -> Any:
    """Return a value as Struct takes it. `key` is its path, such as "kinds[0]"."""
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            try:
                check_number(value, key)
            except InvalidField as error:
                raise ValueError(str(error)) from None
            return value
        case Mapping():
            for one in value:
                if not isinstance(one, str):
                    raise TypeError(f"{_path(name, key)} has the key {described(one)}; give a str")
            return {k: _json(v, f"{key}.{k}" if key else k, name) for k, v in value.items()}
        case list() | tuple():
            return [_json(item, f"{key}[{i}]", name) for i, item in enumerate(value)]
        case datetime() | date():
            hint = f"give text, such as {value.isoformat()!r}"
        case set() | frozenset():
            hint = "give a list"
        case _:
            plain = getattr(value, "tolist", None)  # numpy's arrays and numbers
            if plain is not None and isinstance(found := plain(), list | int | float | bool):
                return _json(found, key, name)
            hint = "give JSON: text, numbers, True, False, None, lists and dicts"
    raise TypeError(f"{_path(name, key)} is {described(value)}, which JSON does not have; {hint}")


def _path(name: str, key: str) -> str:
    return f"{name}.{key}" if key else name


def timestamp(micros: int) -> timestamp_pb2.Timestamp:
    """Return the Timestamp of a time in microseconds since the epoch."""
    seconds, rest = divmod(micros, 1_000_000)
    return timestamp_pb2.Timestamp(seconds=seconds, nanos=rest * 1000)


def one_of(kind: type[E], value: E | str | int, name: str) -> Any:
    """Return the member of an enum for a value that a caller gives.

    Args:
        kind: the enum.
        value: a member, its number, or its name in any case ("resource", "Best-First"); singular
            and plural are equal.
        name: the argument, for errors.

    Raises:
        ValueError: no member has this name or number.
        TypeError: the value is neither.
    """
    if isinstance(value, kind):
        return value
    if isinstance(value, str):
        wanted = re.sub(r"[\s-]+", "_", value.strip()).upper()
        singular = wanted.removesuffix("S"), re.sub("IES$", "Y", wanted)
        plural = f"{wanted}S", re.sub("Y$", "IES", wanted)
        for form in (wanted, *singular, *plural):
            for member in kind:
                if form in (member.name, f"{kind.__name__.upper()}.{member.name}"):
                    return member
        raise ValueError(f"{name} is {value[:40]!r}; give {_names(kind)}")
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"{name} is {value}; give {_names(kind)}") from None
    raise TypeError(f"{name} is {described(value)}; give {_names(kind)}")


def many_of(kind: type[E], values: Many[E], name: str) -> list[Any]:
    """Return the enum members for one value or several; see `one_of`."""
    if isinstance(values, (str, int)) or not isinstance(values, Iterable):
        return [one_of(kind, values, name)]
    return [one_of(kind, value, name) for value in values]


def each(values: Any, one: type[T] | tuple[type[T], ...], name: str, wanted: str) -> list[T]:
    """Return a list of the values; a single value of the type `one` gives a list of it alone.

    Raises:
        TypeError: a value is of another type.
    """
    if isinstance(values, one):
        return [values]
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {described(values)}; give {wanted}")
    out = list(values)
    for i, value in enumerate(out):
        if not isinstance(value, one):
            raise TypeError(f"{name}[{i}] is {described(value)}; give {wanted}")
    return out


def flat(given: Iterable[Any], one: type[T], name: str, wanted: str) -> list[T]:
    """Return one list of the values; lists among them are replaced by their values.

    Raises:
        TypeError: a value is of another type.
    """
    return [value for some in given for value in each(some, one, name, wanted)]


def _names(kind: type[IntEnum]) -> str:
    *others, last = [repr(member.name.lower()) for member in kind if member.name != "UNSPECIFIED"]
    return f"{', '.join(others)} or {last}" if others else last
