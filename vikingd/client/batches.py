"""Put in batches. If the daemon refuses contexts of a batch, it still writes the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import grpc

from vikingd.client.client_errors import ClientError, Unsendable, sendable
from vikingd.client.documents import Document, context_input
from vikingd.client.steps import Call, Steps
from vikingd.domain.contexts import Draft
from vikingd.domain.store_changes import PutOutcome
from vikingd.pb.contexts_pb2 import ContextInput

T = TypeVar("T", bound=Document | Draft | ContextInput)

MAX_COUNT = 100  # contexts in a batch; with small batches, reading and writing overlap
MAX_BYTES = 3 << 20  # below the daemon's limits.max_message_bytes


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
    """Yield batches of at most `count` contexts and MAX_BYTES, or of one larger context."""
    batch: list[T] = []
    size = 0
    for context in contexts:
        more = context_input(context).ByteSize()
        if batch and (len(batch) == count or size + more > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(context)
        size += more
    if batch:
        yield batch


def encoded(
    document: Document | Draft | ContextInput, failed: list[Failure]
) -> ContextInput | None:
    """Return a document as a message; if no message can hold it, add it to `failed`."""
    try:
        with sendable():
            return context_input(document)
    except (Unsendable, TypeError, RecursionError) as error:
        failed.append(Failure(document.uri, str(error)))
        return None


def put_in_parts(contexts: list[ContextInput]) -> Steps[Sent]:
    """Send a batch. The daemon writes what it can, and names the contexts that it refuses.

    A batch that is refused as a whole, for its size or for one of its contexts, is sent in halves.
    """
    sent = Sent()
    unsent = [contexts]
    while unsent:
        part = unsent.pop()
        try:
            reply = yield Call("put", (part,), {"partial_success": True})
        except ClientError as error:
            is_of_contexts = _is_of_contexts(error)
            if is_of_contexts and len(part) > 1:
                half = len(part) // 2
                unsent += [part[half:], part[:half]]
                continue
            # The place in this request tells the caller nothing.
            reason = error.message.removeprefix("contexts[0]").lstrip(".: ")
            sent.failed += [Failure(context.uri, reason) for context in part]
            if not is_of_contexts:
                sent.error = sent.error or error
        else:
            sent.failed += [
                Failure(part[one.index].uri, ": ".join(filter(None, (one.field, one.message))))
                for one in reply.refusals
            ]
            written = [
                (context.uri, outcome)
                for context, outcome in zip(part, reply.outcomes, strict=True)
                if outcome != PutOutcome.REFUSED
            ]
            if written:
                sent.written += written
                sent.revision = max(sent.revision, reply.revision)
    return sent


def _is_of_contexts(error: ClientError) -> bool:
    """Return True if the request is too large or has an invalid context: a part may succeed."""
    if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return not error.reason  # gRPC refused the size of the message
    return any(violation.field.startswith("contexts") for violation in error.field_violations)
