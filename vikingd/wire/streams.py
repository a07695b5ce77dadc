"""The boundary around a handler that answers with a stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import structlog

from vikingd.domain.errors import InvalidField
from vikingd.telemetry.metrics import Metrics
from vikingd.wire.errors import code_of, status_of

_log = structlog.stdlib.get_logger("vikingd.wire")


def guarded_stream(method: str, handler: Any, metrics: Metrics) -> Any:
    """Return a handler that turns errors into statuses, logs them, and counts and times calls.

    A stream has no span.
    """
    name = method.rpartition("/")[2]
    behaviour, parse = handler.unary_stream, handler.request_deserializer

    def decode(data: bytes) -> Any:
        try:
            return parse(data)
        except Exception:  # DecodeError; the handler raises its own error
            return None

    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        started, code, error = time.perf_counter(), grpc.StatusCode.OK, None
        try:
            if request is None:
                raise InvalidField("request", "cannot be decoded")
            async for part in behaviour(request, context):
                yield part
        except (asyncio.CancelledError, GeneratorExit):  # the caller went away
            code = grpc.StatusCode.CANCELLED
            raise
        except BaseException as raised:  # gRPC would end the daemon or answer nothing
            code, error = code_of(raised), raised
        finally:
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

    return grpc.unary_stream_rpc_method_handler(
        call, request_deserializer=decode, response_serializer=handler.response_serializer
    )
