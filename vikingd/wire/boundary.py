"""What stands around every handler: requests that do not parse, errors, the log of failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
import structlog
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from vikingd.errors import InvalidField
from vikingd.metrics import Metrics
from vikingd.wire.errors import code_of, status_of

if TYPE_CHECKING:
    from vikingd.tracing import Tracing

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_PREFIX = "/viking."  # of our methods; those of health and reflection stay as they are
_LENGTH_DELIMITED = 2  # wire type
_QUIET, _MOST_TURNS = 0.01, 50  # seconds without a call after which none waits, and how often so
_LOOKED_AT = 100_000  # fields of a message that does not parse: millions would take seconds

_log = structlog.stdlib.get_logger("vikingd.wire")


class Boundary(grpc.aio.ServerInterceptor):
    """Turns what a handler raises into a status, logs it, and counts and times all calls."""

    def __init__(self, metrics: Metrics, tracing: Tracing | None) -> None:
        self._metrics = metrics
        self._tracing = tracing
        self._guarded: dict[str, Handler] = {}
        self._arrived = 0
        self._begins = asyncio.Event()
        self._begins.set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """The guarded handler of a method; one is made for each method, not for each call."""
        self._arrived += 1
        await self._begins.wait()
        method = handler_call_details.method
        if (guarded := self._guarded.get(method)) is not None:
            return guarded
        handler = await continuation(handler_call_details)
        if handler is None or not method.startswith(_PREFIX):
            return handler
        guarded = _guard(method, handler, self._metrics, self._tracing)
        return self._guarded.setdefault(method, guarded)

    async def take_in(self) -> None:
        """Takes in what waits in gRPC's queue, which its stop would cancel (grpc/grpc#41785).

        None begins meanwhile: who waits for an answer sends nothing more, so that the queue ends.
        """
        self._begins.clear()
        for _ in range(_MOST_TURNS):
            arrived = self._arrived
            await asyncio.sleep(_QUIET)
            if self._arrived == arrived:
                break
        self._begins.set()


def _guard(method: str, handler: Any, metrics: Metrics, tracing: Tracing | None) -> Handler:
    name = method.rpartition("/")[2]
    behaviour, parse = handler.unary_unary, handler.request_deserializer
    serialize = handler.response_serializer
    descriptor = parse.__self__.DESCRIPTOR  # parse is the class method FromString

    def decode(data: bytes) -> Message | InvalidField:
        try:
            message: Message = parse(data)
        except DecodeError:
            return fault_in(data, descriptor)
        return message

    def encode(reply: Message | bytes) -> bytes:
        return reply if isinstance(reply, bytes) else serialize(reply)  # a thread has done it

    def ended(started: float, code: grpc.StatusCode) -> float:
        """Counts a call before its caller hears of the end; the milliseconds that it took."""
        seconds = time.perf_counter() - started
        metrics.called(name, code.name, seconds)
        return round(seconds * 1e3, 1)

    async def call(request: Message | InvalidField, context: Any) -> Any:
        started = time.perf_counter()
        try:
            if isinstance(request, InvalidField):
                raise request
            reply = await behaviour(request, context)
        except asyncio.CancelledError:  # the caller went away, or its deadline passed
            code = grpc.StatusCode.CANCELLED
            _log.info("call failed", method=name, code=code.name, ms=ended(started, code))
            raise
        except GeneratorExit:  # the event loop is gone
            raise
        except BaseException as error:  # grpc would end the daemon, or leave the caller waiting
            code = code_of(error)
            ms = ended(started, code)
            if code is grpc.StatusCode.INTERNAL:
                _log.exception("call failed", method=name, code=code.name, ms=ms)
            else:
                _log.info("call failed", method=name, code=code.name, ms=ms, error=str(error))
            return await context.abort_with_status(status_of(error))
        ended(started, grpc.StatusCode.OK)
        return reply

    guarded: Handler = grpc.unary_unary_rpc_method_handler(
        call if tracing is None else tracing.traced(method, call),
        request_deserializer=decode,
        response_serializer=encode,
    )
    return guarded


def fault_in(data: bytes, descriptor: Descriptor) -> InvalidField:
    """Why a message does not parse: the first string that is not UTF-8, by its path."""
    path = _bad_string(data, descriptor, count(_LOOKED_AT, -1))
    if path is not None:
        return InvalidField(path, "is not valid UTF-8")
    return InvalidField(
        "request",
        "cannot be decoded: it is damaged, is nested too deeply or has text that is not UTF-8",
    )


def _bad_string(data: bytes, descriptor: Descriptor, left: Iterator[int]) -> str | None:
    """The path of the first one among so many fields as are `left`."""
    try:
        fields: Any = UnknownFieldSet(Empty.FromString(data))
    except DecodeError:
        return None
    counts: dict[int, int] = {}
    for raw in fields:
        if next(left) <= 0:
            break
        field: Any = descriptor.fields_by_number.get(raw.field_number)
        if field is None or raw.wire_type != _LENGTH_DELIMITED:
            continue
        name: str = field.name
        if field.is_repeated:
            index = counts[raw.field_number] = counts.get(raw.field_number, -1) + 1
            name = f"{name}[{index}]"
        if field.type == FieldDescriptor.TYPE_STRING:
            try:
                raw.data.decode()
            except UnicodeDecodeError:
                return name
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            below = _bad_string(raw.data, field.message_type, left)
            if below is not None:
                return f"{name}.{below}"
    return None
