"""What a client raises, made from the status that the daemon sends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from grpc_status import rpc_status


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """A request field with a value that is not allowed."""

    field: str
    description: str


class ClientError(Exception):
    """A call that failed.

    Attributes:
        code: the gRPC status code.
        message: for people.
        reason: UPPER_SNAKE_CASE and stable, for programs; "" when the daemon gave none, as when it
            was not reached.
        metadata: what the message names, for programs.
        field_violations: the request's fields at fault.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        reason: str = "",
        metadata: dict[str, str] | None = None,
        field_violations: tuple[FieldViolation, ...] = (),
    ) -> None:
        super().__init__(f"{reason or code.name}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = metadata or {}
        self.field_violations = field_violations


def from_rpc_error(error: grpc.RpcError) -> ClientError:
    """The ClientError for what a stub raised, whether sync or async."""
    # What stubs raise is a grpc.Call as well; its declared type does not say so.
    call = cast("Any", error)
    try:
        status = rpc_status.from_call(call)
    except (ValueError, DecodeError):  # not made by our daemon: code and message must do
        status = None
    reason, metadata, violations = "", {}, []
    for detail in status.details if status else ():
        info, bad_request = ErrorInfo(), BadRequest()
        if detail.Unpack(info):
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(bad_request):
            violations += [
                FieldViolation(v.field, v.description) for v in bad_request.field_violations
            ]
    return ClientError(call.code(), call.details() or "", reason, metadata, tuple(violations))
