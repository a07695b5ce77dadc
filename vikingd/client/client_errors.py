"""The errors of a client, made from the status that the daemon sends.

There is one class for each of the daemon's reasons, with its name: NOT_FOUND is NotFound. All are
subclasses of ClientError. An unknown reason is a ClientError itself. Unsendable is a ValueError:
the request could not be built.
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
        message: an explanation for people.
        reason: the stable name of the error for programs, in UPPER_SNAKE_CASE; "" if the daemon
            gave none, for example if it was not reached.
        metadata: the values in the message, for programs.
        field_violations: the invalid fields of the request.
        retry_after: seconds after which the call may be repeated; None: the daemon names no time.
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
    """A request field has a value that is not allowed; `field_violations` names the field."""


class NotFound(ClientError):
    """A URI or a memory of the request does not exist."""


class AlreadyExists(ClientError):
    """A URI that must be new exists already."""


class Unauthenticated(ClientError):
    """The call has no valid key; the message says what is wrong, as far as the caller may know."""


class PermissionDenied(ClientError):
    """The key has no right to do this."""


class QuotaExceeded(ClientError):
    """A limit of the key or the tenant is reached. Without `retry_after` waiting does not help."""


class RevisionNotReached(ClientError):
    """The daemon did not reach the minimum revision within the deadline."""


class HistoryLost(ClientError):
    """The store was set back to an older state, and lacks a revision that this client has seen.

    `metadata` has that `revision`, the `newest` one, and the `point` (newest state) with which the
    session goes on.
    """


class DeadlinePassed(ClientError):
    """The deadline of the call passed in the daemon before the work was done."""


class Overloaded(ClientError):
    """A queue of the daemon is full; repeat the call after `retry_after` seconds."""


class TooLarge(ClientError):
    """The call is too large, and others would wait too long; send its parts one after the other."""


class RevisionDiffers(ClientError):
    """A context has another revision than the caller expects; nothing was changed."""


class Stopping(ClientError):
    """The daemon is shutting down and refuses new calls."""


class EmbedderFailed(ClientError):
    """The embedding provider failed; the message gives the reason."""


class EmbedderRefused(EmbedderFailed):
    """The embedding provider refuses the key or the model; a repetition does not help."""


class EmbedderTimedOut(EmbedderFailed):
    """The embedding provider did not answer before the deadline of the call."""


class StoreMismatch(ClientError):
    """The store on disk does not fit the daemon's configuration."""


class StoreInUse(ClientError):
    """Another daemon holds the store."""


class StoreAway(ClientError):
    """The node cannot use the shared database now; repeat the call after `retry_after` seconds.

    The database cannot be reached, the outcome of a commit is unknown, or the node builds its index
    again because an older copy has replaced the database.
    """


class ReadOnly(ClientError):
    """This daemon only reads the store; `metadata` has the writer's address, if configured."""


class StoreFailed(ClientError):
    """The disk or the database refused a write; nothing was written."""


class DiskFull(StoreFailed):
    """The disk has no room for the write; nothing was written."""


class StoreDamaged(ClientError):
    """The database is damaged, or older than before."""


class Corrupt(ClientError):
    """Index and store differ, or a file is damaged."""


class Internal(ClientError):
    """A bug in the daemon; its log has the details."""


class Unreachable(ClientError):
    """No daemon answers at the address."""


class TimedOut(ClientError):
    """The client's deadline passed without an answer; the daemon may have done the work."""


class NotFetched(ClientError):
    """A source cannot be fetched; the message says why. Nothing was imported."""


class Unsendable(ValueError):
    """A request cannot hold an argument, such as text that is not valid Unicode."""


@contextmanager
def sendable() -> Iterator[None]:
    """Within the block, raise Unsendable in place of protobuf's errors about a value."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise Unsendable(f"{error.object[error.start]!r} is not valid Unicode") from error
    except (ValueError, OverflowError, DecodeError) as error:  # too large, nested too deeply
        raise Unsendable(str(error)) from error


# The key of NotFound is NOT_FOUND.
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
    # The errors of stubs are grpc.Calls as well, contrary to their declared type.
    call = cast("Any", error)
    try:
        status = rpc_status.from_call(call)
    except (ValueError, DecodeError):  # not sent by vikingd; code and message remain
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
