"""Conversion of requests to the domain, with all checks that the domain does not make itself."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence, Sized
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
from google.protobuf import struct_pb2, timestamp_pb2
from google.protobuf.message import Message
from numpy.typing import NDArray

from vikingd.domain import uri as uris
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField
from vikingd.domain.find_query import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    MAX_THINKING_LIMIT,
    FindQuery,
    Levels,
    Method,
    Preference,
)
from vikingd.domain.long_queries import MAX_QUERY_BYTES
from vikingd.domain.search_query import SearchMode
from vikingd.domain.vector_products import product
from vikingd.ingest.limits import MAX_TIME, MIN_TIME, check_number
from vikingd.pb import contexts_pb2, retrieval_pb2

MAX_DIRECTORIES = 65_536
DEFAULT_PAGE = 1000
MAX_PAGE = 10_000

_NAMED = 64  # characters of a key in the path of each value below it

_T = TypeVar("_T")
_E = TypeVar("_E", bound=IntEnum)
Vector = NDArray[np.float32]


def find_query(request: retrieval_pb2.FindRequest, dimension: int | None) -> FindQuery:
    """Convert a find request; the vector of the request, if any, is scaled to unit length.

    Raises:
        InvalidField: a field is invalid; the error names it as in the proto.
    """
    text = query_text(request.query)
    if not text and not request.vector:
        raise InvalidField("query", "is empty and there is no vector; one of them is needed")
    limit = request.limit or DEFAULT_LIMIT
    check_most(limit, MAX_LIMIT, "limit")
    check_most(request.max_directories, MAX_DIRECTORIES, "max_directories")
    return FindQuery(
        thinking=_is_thinking(request, limit),
        text=text,
        target_uri=target_uri(request.target_uri, "target_uri"),
        context_types=context_types(request.context_types),
        levels=member(request.levels, Levels.FILES, "levels", "one of the levels"),
        limit=limit,
        score_threshold=given(request, "score_threshold", fraction),
        where=given(request, "where", json_object),
        alpha=given(request, "alpha", fraction),
        trace=request.trace,
        min_revision=request.min_revision,
        method=member(request.method, Method.AUTO, "method", "a method"),
        max_directories=request.max_directories,
        prefer=member(request.prefer, Preference.NONE, "prefer", "a preference"),
        vector=unit_vector(request.vector, dimension, "vector") if request.vector else None,
    )


def _is_thinking(request: retrieval_pb2.FindRequest, limit: int) -> bool:
    mode = int(request.mode)
    if mode in (0, SearchMode.QUICK):
        return False
    if mode != SearchMode.THINKING:
        raise InvalidField("mode", f"{mode} is not a mode of search")
    if not request.query.strip():
        raise InvalidField("query", "is empty: a reranker reads texts")
    if limit > MAX_THINKING_LIMIT:
        raise InvalidField("limit", f"is {limit}, in THINKING at most {MAX_THINKING_LIMIT}")
    for field in ("method", "max_directories", "prefer"):
        if getattr(request, field):
            raise InvalidField(field, "is of QUICK alone: THINKING has a walk of its own")
    return True


def given(
    message: Message, field: str, read: Callable[[Any, str], _T], prefix: str = ""
) -> _T | None:
    """Return a field of a message, converted by `read`; None if the field is not set.

    Args:
        message: the message.
        field: the name of the field.
        read: converts the value; its second argument is the path of the field, for errors.
        prefix: the path of the message within the request, such as "find."; "" for the request.
    """
    return read(getattr(message, field), prefix + field) if message.HasField(field) else None


def query_text(text: str) -> str:
    """Return the text of a query; "" if it is only white space.

    Raises:
        InvalidField: the text is too long, or has a NUL character.
    """
    if len(text) * 4 > MAX_QUERY_BYTES and len(text.encode()) > MAX_QUERY_BYTES:
        raise InvalidField("query", f"has more than {MAX_QUERY_BYTES} bytes")
    if "\0" in text:
        raise InvalidField("query", "has a NUL character")
    return "" if text.isspace() else text


def find_queries(
    requests: Sequence[retrieval_pb2.FindRequest], dimension: int | None
) -> list[FindQuery]:
    """Return the queries of a batch."""
    check_any(requests, "requests")
    out = []
    for i, request in enumerate(requests):
        try:
            out.append(find_query(request, dimension))
        except InvalidField as error:
            raise error.below(f"requests[{i}]") from None
        if out[-1].thinking:
            raise InvalidField(f"requests[{i}].mode", "is THINKING; the finds of a batch are QUICK")
    return out


def target_uri(uri: str, field: str) -> str:
    """Return a URI; an empty one means the root."""
    return uris.parse(uri, field) if uri else uris.ROOT


def delete_uris(request: contexts_pb2.DeleteRequest) -> list[str]:
    """Return the URIs to delete."""
    check_any(request.uris, "uris")
    if request.HasField("expected_revision") and len(request.uris) > 1:
        raise InvalidField(
            "expected_revision", f"is for a single URI, and uris has {len(request.uris)}"
        )
    return [uris.parse(uri, f"uris[{i}]") for i, uri in enumerate(request.uris)]


def page(page_size: int, page_token: str, uri: str) -> tuple[int, str]:
    """Return (the most entries of a page, the position after which it begins) for a listing.

    The position comes from the page token; it is "" for the first page.

    Raises:
        InvalidField: the page is too large, or the token is not one of a listing of `uri`.
    """
    check_most(page_size, MAX_PAGE, "page_size")
    try:
        after = base64.urlsafe_b64decode(page_token).decode()
    except ValueError:  # of base64 and of UTF-8
        after = ""
    kind, _, last = after.partition(":")
    if page_token and not (kind in ("d", "f") and uris.is_within(last, uri)):
        raise InvalidField("page_token", "is not one that an earlier page of this listing gave")
    return page_size or DEFAULT_PAGE, after


def json_object(struct: struct_pb2.Struct, field: str) -> dict[str, Any]:
    """Convert a Struct to JSON; whole numbers become int.

    Protobuf itself limits the depth to 100 messages.

    Raises:
        InvalidField: a number is NaN or infinite, which JSON does not have, or is so large that it
            may be a rounded integer.
    """
    return {key: _json(value, f"{field}.{key[:_NAMED]}") for key, value in struct.fields.items()}


def unit_vector(raw: bytes, dimension: int | None, field: str) -> Vector:
    """Convert the bytes of a vector; return it scaled to unit length.

    Raises:
        InvalidField: it does not have `dimension` (None: any) finite float32, or is all zeros.
    """
    if len(raw) % 4:
        raise InvalidField(field, f"has {len(raw)} bytes, which are not whole float32 numbers")
    if dimension is not None and len(raw) != 4 * dimension:
        raise InvalidField(field, f"has {len(raw) // 4} numbers, the store's have {dimension}")
    vector = np.frombuffer(raw, dtype="<f4")
    norm = math.sqrt(product(vector, vector))  # of float64, so that squares cannot overflow
    if not math.isfinite(norm):
        raise InvalidField(field, "has a number that is not finite")
    if norm == 0.0:
        raise InvalidField(field, "is all zeros, which has no direction")
    unit: Vector = np.divide(vector, norm, dtype=np.float64).astype(np.float32)
    return unit


def expected_revision(
    message: contexts_pb2.ContextInput | contexts_pb2.MoveRequest | contexts_pb2.DeleteRequest,
) -> int | None:
    """Return the revision that the context must have now; None: any."""
    return message.expected_revision if message.HasField("expected_revision") else None


def microseconds(time: timestamp_pb2.Timestamp, field: str) -> int:
    """Convert a time of the years 1 to 9999 to microseconds since the epoch."""
    if not 0 <= time.nanos < 1_000_000_000:
        raise InvalidField(field, f"has {time.nanos} nanoseconds in the second")
    micros = time.seconds * 1_000_000 + time.nanos // 1000
    if not MIN_TIME <= micros <= MAX_TIME:
        raise InvalidField(field, "must lie in the years 1 to 9999")
    return micros


def _json(value: struct_pb2.Value, field: str) -> Any:
    match value.WhichOneof("kind"):
        case "string_value":
            return value.string_value
        case "number_value":
            number = value.number_value
            check_number(number, field)
            return int(number) if number.is_integer() else number
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return json_object(value.struct_value, field)
        case "list_value":
            items = value.list_value.values
            return [_json(item, f"{field}[{i}]") for i, item in enumerate(items)]
        case _:
            return None


def context_types(numbers: Sequence[int]) -> frozenset[ContextType]:
    """Convert enum numbers to context types."""
    if not numbers:
        return frozenset()
    for i, number in enumerate(numbers):
        if number not in (ContextType.MEMORY, ContextType.RESOURCE, ContextType.SKILL):
            raise InvalidField(f"context_types[{i}]", f"{number} is not a type of context")
    return frozenset(map(ContextType, numbers))


def member(number: int, default: _E, field: str, what: str) -> _E:
    """Convert an enum number to a member of the type of `default`; 0 gives `default`.

    Raises:
        InvalidField: the enum has no such number; `what` names the kind of value, as "an order".
    """
    try:
        return type(default)(number) if number else default  # 0: it is not set
    except ValueError:
        raise InvalidField(field, f"{number} is not {what}") from None


def fraction(value: float, field: str) -> float:
    """Return the number unchanged.

    Raises:
        InvalidField: it is not in [0, 1].
    """
    if not 0.0 <= value <= 1.0:  # so NaN is refused too
        raise InvalidField(field, f"is {value}, not in [0, 1]")
    return value


def floor(request: Any, default: float | str) -> float | None:
    """Return the floor of a request (the least confidence), or the configured default.

    None means the calibrated floor: only answers of the strength NOTHING are below it.
    """
    if request.HasField("floor"):
        return fraction(request.floor, "floor")
    return None if isinstance(default, str) else default


def check_most(value: int, most: int, field: str) -> None:
    """Raise InvalidField if a number is above `most`."""
    if value > most:
        raise InvalidField(field, f"is {value}, at most {most} is allowed")


def check_any(entries: Sized, field: str) -> None:
    """Raise InvalidField if a list is empty. Too long lists were refused before the parsing."""
    if not entries:
        raise InvalidField(field, "is empty, at least one entry is needed")
