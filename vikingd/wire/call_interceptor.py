"""The code around every handler: admission, parsing of requests, errors, the log of failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import grpc
import structlog
from google.protobuf.message import Message

from vikingd.domain.errors import InvalidField, Overloaded, VikingError
from vikingd.lanes.call_pools import CallDeadline
from vikingd.telemetry.metrics import Metrics
from vikingd.wire.admission import Admission, Admitted
from vikingd.wire.relay import PassedOn, Relay, refusal_of
from vikingd.wire.request_intake import INLINE_BYTES, Intake, parsed
from vikingd.wire.sessions import KEY, SessionCall, points_of
from vikingd.wire.status_errors import code_of, status_of
from vikingd.wire.streams import Streams

if TYPE_CHECKING:
    from vikingd.telemetry.tracing import Tracing

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_PREFIX = "/viking."  # of guarded methods; those of health and reflection are not guarded
_NOT_RECEIVED = object()
_QUIET, _MOST_TURNS = 0.01, 50  # seconds without a call after which the queue is empty; attempts

_log = structlog.stdlib.get_logger("vikingd.wire")


class Guarded(NamedTuple):
    """The two handlers of a method, for calls with and without a valid key."""

    handler: Handler
    refusing: Handler
    """The handler for calls without a valid key. It refuses a call without reading its request."""


class Boundary(grpc.aio.ServerInterceptor):
    """A gRPC interceptor that admits, counts and times calls, and turns errors into statuses.

    Args:
        admission: finds the caller of each call and the handlers of its tenant.
        relay: in a reader with a writer, passes calls to the writer; None: all are answered here.
        passed_on: True if readers pass on the calls, with the addresses of their callers.

    Attributes:
        arrived: the number of calls that have arrived so far.
    """

    def __init__(
        self,
        admission: Admission,
        metrics: Metrics,
        tracing: Tracing | None = None,
        *,
        relay: Relay | None = None,
        passed_on: bool = False,
    ) -> None:
        self._admission = admission
        self._relay = relay
        self._context_of: Callable[[Any], Any] = PassedOn if passed_on else lambda given: given
        self._metrics = metrics
        self._intake = Intake()
        self._tracing = tracing
        self._guarded: dict[str, Guarded] = {}
        self._streams = Streams()
        self.arrived = 0
        self._begins = asyncio.Event()
        self._begins.set()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return the handler of a method with admission around it, made once for all calls.

        A call without a valid key gets another handler, which does not receive the request, so that
        such callers cannot fill the memory.
        """
        self.arrived += 1
        await self._begins.wait()
        method = handler_call_details.method
        guarded = self._guarded.get(method)
        if guarded is None:
            handler = await continuation(handler_call_details)
            if handler is None or not method.startswith(_PREFIX):
                return handler
            if handler.response_streaming:
                guarded = _guard_stream(
                    method,
                    handler,
                    self._admission,
                    self._metrics,
                    self._streams,
                    self._relay,
                    self._context_of,
                )
            else:
                guarded = _guard(
                    method,
                    handler,
                    self._admission,
                    self._intake,
                    self._metrics,
                    self._streams,
                    self._tracing,
                    self._relay,
                    self._context_of,
                )
            self._guarded[method] = guarded
        if self.refuses_calls:  # the keys may be closed
            return guarded.handler
        refuses = await self._admission.refuses(handler_call_details.invocation_metadata or ())
        return guarded.refusing if refuses else guarded.handler

    def close(self) -> None:
        """Stop the thread that parses requests, without waiting for its work."""
        self._intake.close()

    def idle_seconds(self) -> float:
        """Return the time since the last call ended, or since the start; 0 while calls run.

        Calls without a valid key do not count, nor those of health and reflection.
        """
        return self._streams.idle_seconds()

    def refuse_calls(self) -> None:
        """Refuse all new calls with Stopping from now on."""
        self._streams.refuses = True

    @property
    def refuses_calls(self) -> bool:
        """True after `refuse_calls` was called."""
        return self._streams.refuses

    async def end_streams(self) -> bool:
        """End all streams, because the daemon stops; see `Streams.stop`."""
        return await self._streams.stop()

    async def take_in(self) -> None:
        """Receive all calls that wait in gRPC's queue, because a stop of gRPC would cancel them.

        See grpc/grpc#41785. While this runs, no handler starts, so no caller gets an answer and
        then sends a further call. So the queue becomes empty.
        """
        self._begins.clear()
        for _ in range(_MOST_TURNS):
            arrived = self.arrived
            await asyncio.sleep(_QUIET)
            if self.arrived == arrived:
                break
        self._begins.set()


def _guard(
    method: str,
    handler: Any,
    admission: Admission,
    intake: Intake,
    metrics: Metrics,
    streams: Streams,
    tracing: Tracing | None,
    relay: Relay | None,
    context_of: Callable[[Any], Any],
) -> Guarded:
    name = method.rpartition("/")[2]
    parse, serialize = handler.request_deserializer, handler.response_serializer
    guard, rule = intake.guards[method], admission.rules[method]

    def encode(reply: Message | bytes) -> bytes:
        return reply if isinstance(reply, bytes) else serialize(reply)  # a thread has encoded it

    def ended(started: float, code: grpc.StatusCode) -> float:
        """Count a finished call in the metrics; return its duration in milliseconds.

        This runs before the caller gets the reply.
        """
        seconds = time.perf_counter() - started
        metrics.called(name, code.name, seconds)
        return round(seconds * 1e3, 1)

    def failed(error: BaseException, started: float) -> grpc.Status:
        """Log a failure; return its status, which does not keep the request in memory."""
        code = code_of(error)
        ms = ended(started, code)
        if code is grpc.StatusCode.INTERNAL:
            _log.error("call failed", method=name, code=code.name, ms=ms, exc_info=error)
        else:
            _log.info("call failed", method=name, code=code.name, ms=ms, error=str(error))
        status = status_of(error)
        _clear(error)
        return status

    async def handled(data: bytes, context: Any, admitted: Admitted) -> Any:
        if len(data) <= INLINE_BYTES:
            request: Message | VikingError = parsed(data, guard, parse)
        else:
            request = await intake.parsed(data, guard, parse)
        if isinstance(request, VikingError):
            raise request
        admitted.request = request
        rule.check(request, admitted.caller)
        owner = rule.tenant_of(admitted.caller)
        points = points_of(context.invocation_metadata() or ()) if rule.has_session else None
        async with admission.tenants.use(owner) as tenant:
            session = None
            if points is not None:
                session = SessionCall(tenant.engine, name, points)
                await session.begin(CallDeadline(context))
            await admission.check_stored(rule, request, tenant, owner)
            reply = await tenant.handlers[method].unary_unary(request, context)
            if session is not None:
                await tell_point(session, context)
            return reply

    async def tell_point(session: SessionCall, context: Any) -> None:
        try:
            point = await session.end()
        except VikingError as error:
            if not rule.audited:
                raise
            # The write is committed, so it must not fail.
            _log.warning("reply without a point", method=name, error=str(error))
        else:
            context.set_trailing_metadata(((KEY, point),))

    async def answer(data: bytes | None, context: Any) -> Any:
        """Handle a call: return its reply, or fail with a status.

        `data` is the request; None if no request was received.
        """
        started = time.perf_counter()
        try:
            streams.check_begin()
            with await admission.admit(rule, context, len(data or b"")) as admitted:
                if data is None:
                    raise _valid_by_now()
                reply = await handled(data, context, admitted)
                admitted.replied(reply)
        except asyncio.CancelledError:  # the caller went away, or its deadline passed
            code = grpc.StatusCode.CANCELLED
            _log.info("call failed", method=name, code=code.name, ms=ended(started, code))
            raise
        except GeneratorExit:  # the event loop is gone
            raise
        except BaseException as error:  # gRPC would end the daemon or answer nothing
            return failed(error, started)
        ended(started, grpc.StatusCode.OK)
        return reply

    async def call(data: bytes, context: Any) -> Any:
        streams.note()
        size, context = len(data), context_of(context)
        if relay is None or await relay.is_own(rule, context):
            reply = await answer(data, context)
        else:
            reply = await relay.passed_on(method, data, context)
        intake.trim_later(size)
        if isinstance(reply, grpc.Status):
            # gRPC keeps the raised error in a cycle, with this frame and the error in handling. So
            # no error is in handling here, and the frame has no request.
            del data
            return await context.abort_with_status(reply)
        return reply

    async def refuse(_: Any, context: Any) -> Any:
        return await context.abort_with_status(await answer(None, context_of(context)))

    guarded: Handler = grpc.unary_unary_rpc_method_handler(
        call if tracing is None else tracing.traced(method, call),
        request_deserializer=None,
        response_serializer=encode,
    )
    return Guarded(guarded, grpc.stream_unary_rpc_method_handler(refuse))


def _valid_by_now() -> Overloaded:
    """Return an error that asks the client to repeat the call.

    It is for a call that is being refused because of its key, which has just become valid.
    """
    return Overloaded("the key is valid by now: repeat the call", 0.1)


def _guard_stream(
    method: str,
    handler: Any,
    admission: Admission,
    metrics: Metrics,
    streams: Streams,
    relay: Relay | None,
    context_of: Callable[[Any], Any],
) -> Guarded:
    """Return the guarded handlers of a method that answers with a stream; no call is traced."""
    name, rule = method.rpartition("/")[2], admission.rules[method]
    parse = handler.request_deserializer

    def decode(data: bytes) -> Any:
        try:
            return parse(data)
        except Exception:  # DecodeError; the handler raises its own error
            return None

    async def handled(request: Any, context: Any) -> AsyncGenerator[Any]:
        streams.check_begin()
        with await admission.admit(rule, context, 0) as admitted:
            if request is _NOT_RECEIVED:
                raise _valid_by_now()
            if request is None:
                raise InvalidField("request", "cannot be decoded")
            admitted.request = request
            rule.check(request, admitted.caller)
            async with admission.tenants.use(rule.tenant_of(admitted.caller)) as tenant:
                async for part in tenant.handlers[method].unary_stream(request, context):
                    admitted.replied(part)
                    yield part

    async def pass_on(data: bytes, context: Any) -> None:
        assert relay is not None
        parts = relay.stream(method, data, context)
        try:
            await streams.send(parts, context)
        except grpc.aio.InternalError:  # a part was on its way as the caller went away
            return
        except grpc.aio.AioRpcError as error:
            status: Any = refusal_of(error)
        except VikingError as error:
            status = status_of(error)
        else:
            return
        finally:
            await parts.aclose()
        await context.abort_with_status(status)

    async def call(request: Any, context: Any) -> None:
        context = context_of(context)
        started, code, error = time.perf_counter(), grpc.StatusCode.OK, None
        parts = handled(request, context)
        try:
            await streams.send(parts, context)
        except (asyncio.CancelledError, GeneratorExit):  # the caller went away
            code = grpc.StatusCode.CANCELLED
            raise
        except grpc.aio.InternalError:  # a part was on its way as the caller went away
            code = grpc.StatusCode.CANCELLED
        except BaseException as raised:  # gRPC would end the daemon or answer nothing
            code, error = code_of(raised), raised
        finally:
            await parts.aclose()
            seconds = time.perf_counter() - started
            metrics.called(name, code.name, seconds)
            if code is not grpc.StatusCode.OK:
                log = _log.exception if code is grpc.StatusCode.INTERNAL else _log.info
                log(
                    "call failed",
                    method=name,
                    code=code.name,
                    ms=round(seconds * 1e3, 1),
                    error=str(error or ""),
                )
        if error is not None:
            await context.abort_with_status(status_of(error))

    async def refuse(_: Any, context: Any) -> None:
        await call(_NOT_RECEIVED, context)

    guarded = (
        grpc.unary_stream_rpc_method_handler(
            call, request_deserializer=decode, response_serializer=handler.response_serializer
        )
        if relay is None
        else grpc.unary_stream_rpc_method_handler(pass_on)
    )
    return Guarded(guarded, grpc.stream_stream_rpc_method_handler(refuse))


def _clear(error: BaseException | None) -> None:
    """Remove the tracebacks of an error and its causes, because their frames hold the request.

    If several calls raised the same error object, it can be its own cause.
    """
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
