"""The reply to a find: hits become encoded results, as many as fit."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

from vikingd.answer.find_hits import FindHits
from vikingd.domain.answers import ReplyBudget, Stage, size_of
from vikingd.domain.find_query import FindTrace, Rerank
from vikingd.pb import retrieval_pb2
from vikingd.wire.messages.common_messages import (
    add_timings,
    confidence,
    degraded,
    fields_of,
    set_duration,
)
from vikingd.wire.messages.encoded_results import EncodedResults

_TRACED = 160  # bytes of a directory in a trace without its URI


class FindReply(NamedTuple):
    """A FindResponse as bytes, and the values for the metrics.

    Attributes:
        data: the serialized response.
        found: the hits that the response was made of.
        stages: the timed steps of the find; the embedding of the query is not among them.
        total: the number of results in the response.
        top_score: the highest score; 0 without results.
        is_cut: True if results were left out or texts cut, because the reply was too large.
        is_degraded: True if the response has an entry in `degraded`, also for a cut reply.
    """

    data: bytes
    found: FindHits
    stages: tuple[Stage, ...]
    total: int
    top_score: float
    is_cut: bool
    is_degraded: bool


def find_reply(
    found: FindHits, embed: Stage, results: EncodedResults, most_bytes: int
) -> FindReply:
    """Return the reply to a find.

    Args:
        found: the hits.
        embed: the time that the embedding of the query took, for the timings of the reply.
        results: encodes the hits.
        most_bytes: the approximate limit of the bytes of trace and results.
    """
    started, budget = perf_counter(), ReplyBudget(most_bytes)
    for trace in (found.trace, *found.further_traces):
        if trace is not None:
            budget.take(size_of_trace(trace))
    encoded = results.results(found, budget)
    reply = retrieval_pb2.FindResponse(
        total=encoded.total,
        revision=found.snapshot.revision,
        degraded=degraded((*found.degraded, *budget.notes())),
        trace=None if found.trace is None else find_trace(found.trace),
        rerank=None if found.rerank is None else rerank(found.rerank),
        confidence=confidence(found.confidence),
        questions=found.questions,
        further_traces=map(find_trace, found.further_traces),
    )
    stages = (*found.stages, Stage("reply", started, perf_counter()))
    add_timings(reply.timings, (embed, *stages))
    return FindReply(
        encoded.data + reply.SerializeToString(),
        found,
        stages,
        encoded.total,
        encoded.top_score,
        bool(budget.left_out or budget.shortened),
        bool(reply.degraded),
    )


def size_of_trace(trace: FindTrace) -> int:
    """Return the approximate number of bytes of a trace in a reply."""
    return sum(_TRACED + size_of(one.uri) for one in trace.directories)


def find_trace(trace: FindTrace) -> retrieval_pb2.FindTrace:
    """Convert the trace of an answer to a message."""
    values = fields_of(trace)
    values["means"] = map(fields_of, trace.means)
    values["directories"] = [
        fields_of(directory) | {"parts": fields_of(directory.parts)}
        for directory in trace.directories
    ]
    return retrieval_pb2.FindTrace(**values)


def rerank(done: Rerank) -> retrieval_pb2.Rerank:
    """Convert the outcome of the reranker to a message."""
    message = retrieval_pb2.Rerank(
        status=done.status,  # type: ignore[arg-type]  # same numbers
        reason=done.reason,
        model=done.model,
    )
    for one in done.rounds:
        values = fields_of(one)
        seconds = values.pop("seconds")
        set_duration(message.rounds.add(**values).duration, seconds)
    return message
