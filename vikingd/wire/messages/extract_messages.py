"""The request and the reply of Extract, to and from the domain."""

from __future__ import annotations

import time

from vikingd.domain.errors import InvalidField
from vikingd.domain.extract import MAX_MEMORIES
from vikingd.domain.rights import Caller
from vikingd.memory import memory_file_paths
from vikingd.memory.memory_types import EARLIER, Remembered
from vikingd.memory_calls.extract_calls import ExtractQuery, ExtractResult
from vikingd.pb import memories_pb2
from vikingd.wire.messages import decode
from vikingd.wire.messages import memory_messages as memories
from vikingd.wire.messages.common_messages import degraded
from vikingd.wire.messages.search_messages import session_of

_SHOWN = 500  # characters of a refused text


def query_of(request: memories_pb2.ExtractRequest, caller: Caller) -> ExtractQuery:
    """Convert an Extract request.

    Raises:
        InvalidField: a field is invalid; the error names it as in the proto.
    """
    session = session_of(request.session)
    if request.first > len(session.messages):
        raise InvalidField(
            "first", f"is {request.first}, but the session has {len(session.messages)} messages"
        )
    now = time.time_ns() // 1000
    given = decode.given(request, "time", decode.microseconds)
    said = now if given is None else given
    zone = memories.time_zone(request.time_zone)
    memory_file_paths.day_of(said, zone)  # each memory may go to the journal of its day
    for i, message in enumerate(session.messages):
        if message.time is not None:
            try:
                memory_file_paths.day_of(message.time, zone)
            except InvalidField as error:
                raise error.below(f"session.messages[{i}]") from None
    scope = memories.one_scope(request.scope, caller)
    return ExtractQuery(session, request.first, scope, said, zone, now, request.dry_run)


def response_of(
    result: ExtractResult, revision: int, *, dry_run: bool
) -> memories_pb2.ExtractResponse:
    """Convert the result of an Extract to its reply."""
    reply = memories_pb2.ExtractResponse(
        source=memories_pb2.ExtractSource.ValueType(result.source),
        reason=result.reason,
        revision=revision,
        degraded=degraded(result.degraded),
    )
    new = set()  # ids that a dry run has undone
    for proposal, written in result.memories:
        outcome = written.outcome
        assert outcome is not None
        if dry_run and outcome.did is not Remembered.REINFORCED:
            new.add(outcome.entry.id)
        reply.memories.add(
            kind=memories_pb2.MemoryKind.ValueType(proposal.kind),
            text=written.text,
            section=written.section,
            evidence=proposal.evidence,
            outcome=memories_pb2.RememberOutcome.ValueType(outcome.did),
            id=0 if outcome.entry.id in new else outcome.entry.id,
            uri=outcome.uri,
            met=outcome.met,
        )
    for end in result.ended:
        assert end.outcome is not None
        reply.memories.add(
            kind=memories_pb2.MemoryKind.ValueType(end.ending.kind),
            text=end.text,
            section=EARLIER,
            evidence=[end.ending.message],
            outcome=memories_pb2.RememberOutcome.REMEMBER_OUTCOME_ENDED,
            id=end.outcome.entry.id,
            uri=end.outcome.uri,
            met=end.outcome.met,
        )
    for untaken in result.not_taken[:MAX_MEMORIES]:
        reply.not_taken.add(
            text=untaken.sentence[:_SHOWN], message=untaken.message, reason=untaken.reason
        )
    reply.not_taken_left_out = max(len(result.not_taken) - MAX_MEMORIES, 0)
    for refusal in result.refused[:MAX_MEMORIES]:
        reply.refused.add(
            kind=memories_pb2.MemoryKind.ValueType(refusal.kind or 0),
            text=refusal.text[:_SHOWN],
            evidence=refusal.evidence,
            reason=refusal.reason,
        )
    for recording in result.episode:
        reply.episode.uri = reply.episode.uri or recording.uri
        for message, id_ in recording.written:
            reply.episode.turns.add(message=message, id=0 if dry_run else id_)
    reply.forgotten.extend(map(memories.memory_message, result.forgotten))
    for one in result.to_forget[:MAX_MEMORIES]:
        doubt = reply.to_forget.add(
            request=one.request.sentence[:_SHOWN],
            message=one.request.message,
            reason=one.reason,
        )
        for memory in one.memories:
            found = memories.memory_message(memory)
            found.id = 0 if found.id in new else found.id
            doubt.memories.append(found)
    return reply
