"""Writes of contexts in batches; if the daemon refuses some of a batch, it writes the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import grpc

from vikingd.client.batch_results import BatchResult, Failure
from vikingd.client.client_errors import ClientError, Unsendable, sendable
from vikingd.client.documents import Document, context_input
from vikingd.client.multi_call_steps import Call, Steps
from vikingd.domain import uri as uris
from vikingd.domain.contexts import Draft
from vikingd.domain.errors import InvalidField
from vikingd.domain.store_changes import PutOutcome
from vikingd.ingest.draft_preparation import (
    MAX_ABSTRACT_BYTES,
    MAX_OVERVIEW_BYTES,
)
from vikingd.ingest.limits import (
    MAX_CONTENT_BYTES,
    MAX_TIME,
    MAX_TITLE_BYTES,
    MIN_TIME,
    check_metadata,
    check_text,
)
from vikingd.ingest.passages import MAX_SECTION_BYTES
from vikingd.pb.contexts_pb2 import ContextInput

T = TypeVar("T", bound=Document | Draft | ContextInput)

MAX_COUNT = 100  # contexts in a batch; with small batches, reading and writing overlap
MAX_BYTES = 3 << 20  # below the daemon's limits.max_message_bytes

_LIMITS = {
    "uri": uris.MAX_BYTES,
    "title": MAX_TITLE_BYTES,
    "abstract": MAX_ABSTRACT_BYTES,
    "overview": MAX_OVERVIEW_BYTES,
    "content": MAX_CONTENT_BYTES,
}


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
    except TypeError as error:  # it names the field
        failed.append(Failure(document.uri, str(error)))
    except (Unsendable, RecursionError) as error:
        failed.append(Failure(document.uri, _fault(document) or str(error)))
    return None


def _fault(document: Document | Draft | ContextInput) -> str:
    """Return "FIELD REASON" for the first field that a message or request cannot hold.

    "" for none.
    """
    try:
        for name, limit in _LIMITS.items():
            check_text(getattr(document, name), limit, name)
        if isinstance(document, ContextInput):
            return ""
        check_metadata(document.metadata, "metadata")
        _check_number(document.expected_revision, "expected_revision", 64)
        for i, passage in enumerate(document.passages or ()):
            check_text(passage.section, MAX_SECTION_BYTES, f"passages[{i}].section")
            _check_number(passage.start, f"passages[{i}].start", 32)
            _check_number(passage.end, f"passages[{i}].end", 32)
        mask = document.update_mask or ()
        for path in [mask] if isinstance(mask, str) else mask:
            check_text(path, MAX_SECTION_BYTES, "update_mask")
        time = document.time if isinstance(document, Draft) else None
        if time is not None and not MIN_TIME <= time <= MAX_TIME:
            raise InvalidField("time", "must lie in the years 1 to 9999")
    except InvalidField as error:
        return str(error)
    return ""


def _check_number(value: int | None, field: str, bits: int) -> None:
    if value is not None and not 0 <= value < 1 << bits:
        raise InvalidField(field, f"is {value}; give a number of {bits} bits from 0 on")


def put_in_parts(contexts: list[ContextInput]) -> Steps[BatchResult]:
    """Send a batch. The daemon writes what it can, and names the contexts that it refuses.

    A batch that is refused as a whole, for its size or for one of its contexts, is sent in halves.
    """
    sent = BatchResult()
    unsent = [contexts]
    while unsent:
        part = unsent.pop()
        try:
            reply = yield Call("put", (part,), {"partial_success": True})
        except ClientError as error:
            is_of_contexts = _may_pass_in_parts(error)
            if is_of_contexts and len(part) > 1:
                half = len(part) // 2
                unsent += [part[half:], part[:half]]
                continue
            # The index in this request means nothing to the caller.
            reason = error.message.removeprefix("contexts[0]").lstrip(".: ")
            faults = (is_of_contexts and _fault(context) for context in part)
            sent.failed += [
                Failure(context.uri, fault or reason)
                for context, fault in zip(part, faults, strict=True)
            ]
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


def _may_pass_in_parts(error: ClientError) -> bool:
    """Return True if the batch was too large, or had an invalid context; its halves may succeed."""
    if error.code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return not error.reason  # gRPC refused the size of the message
    return any(violation.field.startswith("contexts") for violation in error.field_violations)
