"""The errors of a client, made from the status that the daemon sends.

There is one class for each of the daemon's reasons, named like it: NOT_FOUND is NotFound. All are
ClientErrors, and a reason that is not known here is one as well. What can't be sent at all is
Unsendable, which is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
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
        retry_after: seconds after which the daemon asks to repeat the call; None: it does not.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        reason: str = "",
        metadata: dict[str, str] | None = None,
        field_violations: tuple[FieldViolation, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{reason or code.name}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = metadata or {}
        self.field_violations = field_violations
        self.retry_after = retry_after


class InvalidField(ClientError):
    """A request field has a value that is not allowed; `field_violations` name it."""


class NotFound(ClientError):
    """A URI or a memory that the request names does not exist."""


class AlreadyExists(ClientError):
    """A URI that must be new stands already."""


class RevisionNotReached(ClientError):
    """The minimum revision did not come within the deadline."""


class DeadlinePassed(ClientError):
    """The daemon saw the call's deadline pass before the work was done."""


class Overloaded(ClientError):
    """A queue of the daemon is full; `retry_after` says when to repeat the call."""


class TooLarge(ClientError):
    """A call asks for more than others can wait for; ask for its parts, one after the other."""


class RevisionDiffers(ClientError):
    """A context has another revision than the caller expects; nothing was changed."""


class Stopping(ClientError):
    """The daemon is shutting down and takes no more work."""


class EmbedderFailed(ClientError):
    """The embedding provider failed; the message says how."""


class EmbedderRefused(EmbedderFailed):
    """The embedding provider refuses, by its key or its model: a repetition changes nothing."""


class EmbedderTimedOut(EmbedderFailed):
    """The embedding provider did not answer in the time that the call leaves it."""


class StoreMismatch(ClientError):
    """The store on disk does not fit the daemon's configuration."""


class StoreInUse(ClientError):
    """Another daemon holds the store."""


class ReadOnly(ClientError):
    """This daemon only reads the store; `metadata` says where the one is that writes it."""


class StoreFailed(ClientError):
    """The disk or the database refused a write; nothing of it was kept."""


class DiskFull(StoreFailed):
    """The disk has no room for the write; nothing of it was kept."""


class StoreDamaged(ClientError):
    """The database is damaged, or older than it was."""


class Corrupt(ClientError):
    """Index and store disagree or a file is damaged."""


class Internal(ClientError):
    """A bug in the daemon; its log has the rest."""


class Unreachable(ClientError):
    """No daemon answers at the address."""


class TimedOut(ClientError):
    """The client's deadline passed without an answer; what was asked for may be done or not."""


class Unsendable(ValueError):
    """An argument is nothing that a request can hold, such as text that is not Unicode."""


@contextmanager
def sendable() -> Iterator[None]:
    """Turn the errors of protobuf about a value into Unsendable."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise Unsendable(f"{error.object[error.start]!r} is not valid Unicode") from error
    except (ValueError, OverflowError, DecodeError) as error:  # too large, nested too deeply
        raise Unsendable(str(error)) from error


# NOT_FOUND is the reason of NotFound.
_BY_REASON = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).upper(): kind
    for base in (ClientError, EmbedderFailed, StoreFailed)
    for kind in base.__subclasses__()
}

_WITHOUT_REASON: dict[grpc.StatusCode, type[ClientError]] = {
    grpc.StatusCode.UNAVAILABLE: Unreachable,
    grpc.StatusCode.DEADLINE_EXCEEDED: TimedOut,
}


def from_rpc_error(error: grpc.RpcError) -> ClientError:
    """Return the ClientError for an error of a stub, sync or async."""
    # What stubs raise is a grpc.Call as well; its declared type does not say so.
    call = cast("Any", error)
    try:
        status = rpc_status.from_call(call)
    except (ValueError, DecodeError):  # not made by our daemon: code and message must do
        status = None
    reason, metadata, violations = "", {}, []
    retry_after = None
    for detail in status.details if status else ():
        info, bad_request, retry = ErrorInfo(), BadRequest(), RetryInfo()
        if detail.Unpack(info):
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(bad_request):
            violations += [
                FieldViolation(v.field, v.description) for v in bad_request.field_violations
            ]
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.ToMicroseconds() / 1e6
    code, message = call.code(), call.details() or ""
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and not reason and "larger than max" in message:
        message = (
            f"the request is larger than the daemon takes ({message}); send less at once, or raise "
            "limits.max_message_bytes in its configuration"
        )
    kind = _BY_REASON.get(reason) if reason else _WITHOUT_REASON.get(code)
    return (kind or ClientError)(code, message, reason, metadata, tuple(violations), retry_after)
