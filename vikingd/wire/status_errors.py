"""The table from domain errors to gRPC status codes; it tells whether to repeat a call.

| status | a repeated call |
|---|---|
| UNAVAILABLE | may succeed: a model or the daemon is away for a time |
| RESOURCE_EXHAUSTED with RetryInfo | may succeed after that time: the call was not begun |
| ABORTED | may succeed after the caller has read the context again |
| DEADLINE_EXCEEDED | may succeed with a longer deadline |
| any other | fails again until a person mends the request, the key, the disk or the store |
"""

from __future__ import annotations

from math import ceil
from typing import Any, cast

import grpc
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from vikingd.domain import errors
from vikingd.domain.rights import CALLER

DOMAIN = "viking.retrieval.v1"
"""The domain in each ErrorInfo. Domain and reason together identify an error."""

_PUSHBACK = "grpc-retry-pushback-ms"
"""The key of metadata that tells gRPC's own retries when to repeat; -1: never."""

_LONGEST_PUSHBACK = 10.0
"""The most seconds; a client that waited longer would pass its deadline before the reason came."""

MAX_BYTES = 800
"""The most bytes of each text of an error, since clients refuse a status of more than 8 KiB."""

_Code = grpc.StatusCode

CODES: dict[type[errors.VikingError], grpc.StatusCode] = {
    errors.InvalidField: _Code.INVALID_ARGUMENT,
    errors.NotFound: _Code.NOT_FOUND,
    errors.NotReadable: _Code.NOT_FOUND,
    errors.AlreadyExists: _Code.ALREADY_EXISTS,
    errors.Unauthenticated: _Code.UNAUTHENTICATED,
    errors.PermissionDenied: _Code.PERMISSION_DENIED,
    errors.QuotaExceeded: _Code.RESOURCE_EXHAUSTED,
    errors.RevisionNotReached: _Code.DEADLINE_EXCEEDED,
    errors.HistoryLost: _Code.DATA_LOSS,
    errors.DeadlinePassed: _Code.DEADLINE_EXCEEDED,
    errors.Overloaded: _Code.RESOURCE_EXHAUSTED,
    errors.TooLarge: _Code.FAILED_PRECONDITION,
    errors.RevisionDiffers: _Code.ABORTED,
    errors.Stopping: _Code.UNAVAILABLE,
    errors.EmbedderFailed: _Code.UNAVAILABLE,
    errors.EmbedderRefused: _Code.FAILED_PRECONDITION,
    errors.EmbedderTimedOut: _Code.UNAVAILABLE,
    errors.StoreMismatch: _Code.FAILED_PRECONDITION,
    errors.StoreInUse: _Code.FAILED_PRECONDITION,
    errors.ReadOnly: _Code.FAILED_PRECONDITION,
    errors.StoreFailed: _Code.FAILED_PRECONDITION,
    errors.StoreAway: _Code.UNAVAILABLE,
    errors.DiskFull: _Code.RESOURCE_EXHAUSTED,
    errors.StoreDamaged: _Code.DATA_LOSS,
    errors.Corrupt: _Code.DATA_LOSS,
}


_OF_OPERATORS = (
    errors.StoreMismatch,
    errors.StoreInUse,
    errors.StoreFailed,
    errors.StoreDamaged,
    errors.Corrupt,
)
"""Errors whose texts only operators see: they may have paths, and URIs of other callers."""

_ASK_AN_OPERATOR = "the store does not work; the daemon's log tells an operator why"


def code_of(error: BaseException) -> grpc.StatusCode:
    """Return the status code of an error; an unknown error is INTERNAL, which means a bug."""
    return next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), _Code.INTERNAL)


def status_of(error: BaseException) -> grpc.Status:
    """Return the status of an error, with details: ErrorInfo, BadRequest, RetryInfo.

    BadRequest names an invalid field. RetryInfo is set if waiting helps.
    """
    code = code_of(error)
    message, info = "internal error, see the daemon's log", ErrorInfo(reason="INTERNAL")
    if isinstance(error, _OF_OPERATORS) and not CALLER.get().is_operator:
        message, info = _ASK_AN_OPERATOR, ErrorInfo(reason=error.reason)
    elif code is not _Code.INTERNAL and isinstance(error, errors.VikingError):
        message = shown(str(error))
        metadata = {name: shown(value) for name, value in error.metadata.items()}
        info = ErrorInfo(reason=error.reason, metadata=metadata)
    info.domain = DOMAIN
    status = Status(code=code.value[0], message=message)
    status.details.add().Pack(info)
    if isinstance(error, errors.InvalidField):
        violation = BadRequest.FieldViolation(
            field=shown(error.field), description=shown(error.description)
        )
        status.details.add().Pack(BadRequest(field_violations=[violation]))
    retry_after = getattr(error, "retry_after", None)
    if retry_after is not None:
        retry = RetryInfo()
        retry.retry_delay.FromNanoseconds(round(retry_after * 1e9))
        status.details.add().Pack(retry)
    sent: Any = rpc_status.to_status(status)
    if code is _Code.RESOURCE_EXHAUSTED:
        pushback = -1
        if retry_after is not None and retry_after <= _LONGEST_PUSHBACK:
            pushback = ceil(retry_after * 1e3)
        extra = (_PUSHBACK, str(pushback))
        sent = sent._replace(trailing_metadata=(*sent.trailing_metadata, extra))
    return cast("grpc.Status", sent)


def shown(text: str) -> str:
    """Return an error's text, cut to MAX_BYTES."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= MAX_BYTES else f"{data[:MAX_BYTES].decode(errors='ignore')}…"
