"""The conversion of Python values to fields of requests."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from google.protobuf import struct_pb2, timestamp_pb2

from vikingd.domain.errors import InvalidField
from vikingd.domain.retrieve import Rrf, WeightedSum
from vikingd.ingest.limits import check_number
from vikingd.pb import memories_pb2, retrieval_pb2

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from vikingd.client.session import Session
    from vikingd.domain.search import SearchSession, SessionMessage

    Vector: TypeAlias = Buffer | Sequence[float]

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
    try:
        view = memoryview(cast("Buffer", vector))
    except TypeError:
        packed = array("f", cast("Sequence[float]", vector))
    else:
        if view.ndim != 1 or view.format not in ("f", "<f", "d", "<d"):
            raise TypeError(f"a vector is one row of floats, not {view.ndim}-d {view.format!r}")
        packed = array("f", array(view.format[-1], view.tobytes()))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def count_of(limit: int | None, top_k: int | None) -> int:
    """Return the maximum number of results; 0: the daemon's default.

    Raises:
        ValueError: both arguments are given, and they differ.
    """
    if limit is not None and top_k is not None and limit != top_k:
        raise ValueError(f"limit is {limit} and top_k is {top_k}; they are one argument, give one")
    given = top_k if limit is None else limit
    return given or 0


def moment(time: datetime | None) -> timestamp_pb2.Timestamp | None:
    """Return a time as a message; a time without a zone is local time."""
    if time is None:
        return None
    aware = time.astimezone() if time.tzinfo is None else time
    # timestamp() returns a float, which loses the microseconds of distant years.
    return timestamp((aware - _EPOCH) // timedelta(microseconds=1))


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


def struct(value: Mapping[str, Any]) -> struct_pb2.Struct:
    """Return a JSON object as a Struct.

    Raises:
        ValueError: a double cannot hold an integer; the message names the key. Floats are not
            checked here; the daemon checks them.
    """
    _check_integers(value, "")
    struct = struct_pb2.Struct()
    struct.update(dict(value))
    return struct


def _check_integers(value: Any, key: str) -> None:
    match value:
        case bool():
            return
        case int():
            try:
                check_number(value, key)
            except InvalidField as error:
                raise ValueError(str(error)) from None
        case Mapping():
            for name, item in value.items():
                _check_integers(item, f"{key}.{name}" if key else str(name))
        case list() | tuple():
            for i, item in enumerate(value):
                _check_integers(item, f"{key}[{i}]")


def timestamp(micros: int) -> timestamp_pb2.Timestamp:
    """Return the Timestamp of a time in microseconds since the epoch."""
    seconds, rest = divmod(micros, 1_000_000)
    return timestamp_pb2.Timestamp(seconds=seconds, nanos=rest * 1000)


def session_message(
    session: Session | SearchSession, messages: Iterable[SessionMessage]
) -> retrieval_pb2.SearchSession:
    """Return a session with some of its messages."""
    return retrieval_pb2.SearchSession(
        summary=session.summary,
        messages=[
            retrieval_pb2.SessionMessage(role=message.role, content=message.content)
            for message in messages
        ],
    )
