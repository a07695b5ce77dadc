"""Batches of contexts for Put, and their repetition without the contexts that are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import grpc

from vikingd.client.client_errors import ClientError
from vikingd.client.documents import message_of
from vikingd.client.steps import Call, Steps
from vikingd.pb.contexts_pb2 import ContextInput

T = TypeVar("T")

MAX_COUNT = 100  # contexts in a batch; with small batches, reading and writing overlap
MAX_BYTES = 3 << 20  # below the daemon's limits.max_message_bytes
_FAULTY = re.compile(r"contexts\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Failure:
    """A context that failed, and the reason."""

    uri: str
    reason: str


@dataclass(slots=True)
class Sent:
    """The result of a batch.

    Attributes:
        written: the URIs with their outcomes, as numbers of PutOutcome.
        revision: the first revision with all of them.
        failed: the contexts that were not written.
        error: the first failure that is not due to a context, such as that of the connection.
    """

    written: list[tuple[str, int]] = field(default_factory=list)
    revision: int = 0
    failed: list[Failure] = field(default_factory=list)
    error: ClientError | None = None


def batches(contexts: Iterable[T], count: int = MAX_COUNT) -> Iterator[list[T]]:
    """Yield batches of at most `count` contexts and MAX_BYTES, or of one larger context.

    Args:
        contexts: documents in any form that Put takes.
        count: the most contexts in a batch.
    """
    batch: list[T] = []
    size = 0
    for context in contexts:
        more = message_of(context, "context").ByteSize()
        if batch and (len(batch) == count or size + more > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(context)
        size += more
    if batch:
        yield batch


def put_in_parts(contexts: list[ContextInput]) -> Steps[Sent]:
    """Send a batch. If the daemon refuses a context, send the others again without it.

    A batch that is too large for one request is sent in two parts.
    """
    sent = Sent()
    unsent = [contexts]
    while unsent:
        part = unsent.pop()
        try:
            reply = yield Call("put", (part,))
        except ClientError as error:
            at = _faulty(error)
            if at is not None:
                # Its place in this request tells the caller nothing.
                reason = _FAULTY.sub("", error.message, 1).lstrip(".: ")
                sent.failed.append(Failure(part[at].uri, reason))
                if len(part) > 1:
                    unsent.append(part[:at] + part[at + 1 :])
            elif len(part) > 1 and _is_too_much(error):
                half = len(part) // 2
                unsent += [part[half:], part[:half]]
            else:
                sent.failed += [Failure(context.uri, error.message) for context in part]
                if not _is_too_much(error):
                    sent.error = sent.error or error
        else:
            sent.revision = max(sent.revision, reply.revision)
            sent.written += zip((one.uri for one in part), reply.outcomes, strict=True)
    return sent


def _is_too_much(error: ClientError) -> bool:
    """Return True if the batch is too large, so that its parts may succeed."""
    if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return not error.reason  # gRPC refused the size of the message
    return any(violation.field == "contexts" for violation in error.field_violations)


def _faulty(error: ClientError) -> int | None:
    """Return the index of the refused context; None if the error names none."""
    for violation in error.field_violations:
        if found := _FAULTY.match(violation.field):
            return int(found[1])
    return None
