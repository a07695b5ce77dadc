"""The table from gRPC codes to HTTP statuses, and the errors of the gateway itself.

The body of each error is a `google.rpc.Status` as JSON, with its details.
"""

from __future__ import annotations

import json
from math import ceil
from typing import Any, Final

import grpc
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from starlette.responses import Response

from vikingd.client.client_errors import ClientError
from vikingd.domain.errors import shortened

DOMAIN = "viking.retrieval.v1"
JSON = "application/json"

_Code = grpc.StatusCode

HTTP: Final[dict[grpc.StatusCode, int]] = {
    _Code.CANCELLED: 499,
    _Code.UNKNOWN: 500,
    _Code.INVALID_ARGUMENT: 400,
    _Code.DEADLINE_EXCEEDED: 504,
    _Code.NOT_FOUND: 404,
    _Code.ALREADY_EXISTS: 409,
    _Code.PERMISSION_DENIED: 403,
    _Code.RESOURCE_EXHAUSTED: 429,
    _Code.FAILED_PRECONDITION: 400,
    _Code.ABORTED: 409,
    _Code.OUT_OF_RANGE: 400,
    _Code.UNIMPLEMENTED: 501,
    _Code.INTERNAL: 500,
    _Code.UNAVAILABLE: 503,
    _Code.DATA_LOSS: 500,
    _Code.UNAUTHENTICATED: 401,
}

OWN: Final[dict[int, tuple[grpc.StatusCode, str]]] = {
    400: (_Code.INVALID_ARGUMENT, "INVALID_FIELD"),
    401: (_Code.UNAUTHENTICATED, "UNAUTHENTICATED"),
    403: (_Code.PERMISSION_DENIED, "ORIGIN_NOT_ALLOWED"),
    404: (_Code.NOT_FOUND, "NO_SUCH_PATH"),
    405: (_Code.UNIMPLEMENTED, "METHOD_NOT_ALLOWED"),
    408: (_Code.DEADLINE_EXCEEDED, "BODY_TOO_SLOW"),
    413: (_Code.INVALID_ARGUMENT, "BODY_TOO_LARGE"),
    415: (_Code.INVALID_ARGUMENT, "UNSUPPORTED_MEDIA_TYPE"),
    421: (_Code.PERMISSION_DENIED, "HOST_NOT_ALLOWED"),
    422: (_Code.INVALID_ARGUMENT, "FILE_NOT_TAKEN"),
    429: (_Code.RESOURCE_EXHAUSTED, "OVERLOADED"),
    500: (_Code.INTERNAL, "INTERNAL"),
    503: (_Code.UNAVAILABLE, "UNREACHABLE"),
    507: (_Code.RESOURCE_EXHAUSTED, "NO_ROOM"),
}
"""Code and reason of the errors that the gateway itself finds, by their HTTP status."""

_WITHOUT_REASON: Final = {
    _Code.UNAVAILABLE: ("UNREACHABLE", "the daemon cannot be reached"),
    _Code.DEADLINE_EXCEEDED: ("TIMED_OUT", "the deadline of the call passed; ?timeout= sets it"),
}
"""The reason and message of errors that gRPC itself raises; its own messages name addresses."""

_TOO_LARGE = "larger than max"
"""The words of gRPC's message for a request that is too large for the daemon."""


def _sendable(text: str) -> str:
    """Return a text shortened and valid as Unicode; text from JSON can have half a surrogate."""
    return shortened(text).encode(errors="backslashreplace").decode()


class HttpError(Exception):
    """The base of the errors of requests.

    Attributes:
        http: the HTTP status.
        status: the body of the response.
        headers: the headers of the response.
    """

    def __init__(self, http: int, status: Status, headers: dict[str, str]) -> None:
        super().__init__(status.message)
        self.http = http
        self.status = status
        self.headers = headers

    def response(self) -> Response:
        """Return the HTTP response for the error."""
        headers = dict(self.headers)
        if self.http == 401:
            headers["www-authenticate"] = "Bearer"
        for detail in self.status.details:
            retry = RetryInfo()
            if detail.Unpack(retry):
                delay = retry.retry_delay
                headers["retry-after"] = str(ceil(delay.seconds + delay.nanos / 1e9))
        body = json.dumps(MessageToDict(self.status), ensure_ascii=False)
        return Response(body, self.http, headers, media_type=JSON)


class Fault(HttpError):
    """A request that the gateway itself refuses.

    Args:
        http: the HTTP status.
        message: names the value, the limit and the remedy.
        field: the invalid field of the request.
        headers: the headers of the response.
        retry_after: seconds after which a repeated request may succeed.
    """

    def __init__(
        self,
        http: int,
        message: str,
        *,
        field: str = "",
        headers: dict[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        field, message = _sendable(field), _sendable(message)
        code, reason = OWN[http]
        text = f"{field}: {message}" if field else message
        info = ErrorInfo(reason=reason, domain=DOMAIN, metadata={"field": field} if field else {})
        status = Status(code=code.value[0], message=text)
        status.details.add().Pack(info)
        if field:
            violation = BadRequest.FieldViolation(field=field, description=message)
            status.details.add().Pack(BadRequest(field_violations=[violation]))
        if retry_after is not None:
            status.details.add().Pack(_retry(retry_after))
        super().__init__(http, status, headers or {})


class CallFailed(HttpError):
    """A call that failed in the daemon or in the connection to it.

    Attributes:
        code: the gRPC status code.
    """

    def __init__(self, code: grpc.StatusCode, status: Status) -> None:
        self.code = code
        http = HTTP[code]
        if code is _Code.RESOURCE_EXHAUSTED and _TOO_LARGE in status.message:
            http = 413
        super().__init__(http, status, {})

    @classmethod
    def of_rpc(cls, error: grpc.aio.AioRpcError) -> CallFailed:
        """Return the error for a failed call of the gateway's own gRPC channel."""
        return cls(error.code(), _status_of(error))

    @classmethod
    def of_client(cls, error: ClientError) -> CallFailed:
        """Return the error for a failed call of the Python client."""
        code = error.code
        if not error.reason:
            return cls(code, _without_reason(code, error.message))
        status = Status(code=code.value[0], message=error.message)
        info = ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata)
        status.details.add().Pack(info)
        if error.field_violations:
            found = [
                BadRequest.FieldViolation(field=one.field, description=one.description)
                for one in error.field_violations
            ]
            status.details.add().Pack(BadRequest(field_violations=found))
        if error.retry_after is not None:
            status.details.add().Pack(_retry(error.retry_after))
        return cls(code, status)


def _status_of(error: grpc.aio.AioRpcError) -> Status:
    """Return the status that the daemon sent; an error of gRPC itself gets a reason here."""
    call: Any = error
    try:
        status: Status | None = rpc_status.from_call(call)
    except (ValueError, DecodeError):
        status = None
    if status is not None:
        return status
    code = error.code()
    return _without_reason(code, error.details() or code.name)


def _without_reason(code: grpc.StatusCode, said: str) -> Status:
    """Return the status for an error that gRPC itself raises, such as for a lost connection."""
    reason, message = _WITHOUT_REASON.get(code, ("", said))
    status = Status(code=code.value[0], message=message)
    if reason:
        status.details.add().Pack(ErrorInfo(reason=reason, domain=DOMAIN))
    return status


def _retry(seconds: float) -> RetryInfo:
    retry = RetryInfo()
    retry.retry_delay.FromNanoseconds(round(seconds * 1e9))
    return retry
