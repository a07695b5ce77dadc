"""The reply to a retrieval: hits become items, as many as fit."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from viking_kernels.arrays import encode_file

from vikingd.answer.retrieve_answer import RetrieveHits
from vikingd.answer.texts_by_row import name_of, shown, vector_of
from vikingd.domain import cancellation
from vikingd.domain.answers import ReplyBudget, Stage, size_of, too_large
from vikingd.domain.retrieve_query import Include
from vikingd.pb import retrieval_pb2
from vikingd.wire.messages.common_messages import add_timings, confidence, degraded, fields_of
from vikingd.wire.messages.encoded_results import ITEM, EncodedResults, copies_of

_AT_ONCE = 16  # contexts whose metadata are read
_TEXT = frozenset((Include.TEXT,))

ReadMetadata = Callable[[Sequence[str]], Mapping[str, Mapping[str, Any]]]
"""A function that reads the metadata of contexts, by URI."""


class RetrieveReply(NamedTuple):
    """A RetrieveResponse as bytes, and the values for the metrics.

    Attributes:
        stages: the timed steps of the retrieval; the embedding of the query is not among them.
        is_cut: True if items were left out or texts cut, because the reply was too large.
        is_degraded: True if the response has an entry in `degraded`, also for a cut reply.
    """

    data: bytes
    stages: tuple[Stage, ...]
    total: int
    top_score: float
    is_cut: bool
    is_degraded: bool


def retrieve_reply(
    found: RetrieveHits,
    embed: Stage,
    results: EncodedResults,
    most_bytes: int,
    metadata_of: ReadMetadata | None = None,
) -> RetrieveReply:
    """Return the reply to a retrieval.

    Args:
        found: the hits of the retrieval.
        embed: the time that the embedding of the query took, for the timings of the reply.
        results: encodes items without metadata.
        most_bytes: the approximate limit of the bytes of the items. Texts come first; metadata take
            the bytes that are left.
        metadata_of: reads the metadata of contexts; None if the request does not ask for them.
    """
    started, budget, include = perf_counter(), ReplyBudget(most_bytes), found.query.include
    reply = retrieval_pb2.RetrieveResponse(confidence=confidence(found.confidence))
    encoded, total, is_cut = None, len(found.hits), False
    if found.listed is not None:
        is_cut = _add_listed(reply, found, budget)
    else:
        if include == _TEXT and found.traces is None:
            encoded = results.items(found.snapshot, found.hits, budget)
        if encoded is None:
            _add_items(reply, found, budget)
            is_cut = bool(budget.left_out or budget.shortened)
    if encoded is None:
        total = len(reply.items)
    reply.outcome = retrieval_pb2.Outcome.ValueType(found.outcome)
    reply.relaxed_clauses.extend(found.relaxed)
    reply.revision = found.snapshot.revision
    reply.degraded.extend(degraded((*found.degraded, *budget.notes())))
    if metadata_of is not None:
        room = ReplyBudget(max(0, most_bytes - reply.ByteSize()))
        _add_metadata(reply, metadata_of, room)
        if room.left_out:
            cut = too_large(
                f"the reply has no room for the metadata of {room.left_out:,} items; ask for "
                "less, or let the operator raise limits.max_reply_bytes"
            )
            reply.degraded.extend(degraded([cut]))
    stages = (*found.stages, Stage("reply", started, perf_counter()))
    add_timings(reply.timings, (embed, *stages))
    data = reply.SerializeToString()
    return RetrieveReply(
        data if encoded is None else encoded + data,
        stages,
        total,
        found.top_score,
        is_cut,
        bool(reply.degraded),
    )


def _add_items(
    reply: retrieval_pb2.RetrieveResponse, found: RetrieveHits, budget: ReplyBudget
) -> None:
    """Add as many items as fit, then as much of their texts as fits."""
    snapshot, include = found.snapshot, found.query.include
    for i, hit in enumerate(found.hits):
        cancellation.check()
        uri, passage = name_of(snapshot, hit.row)
        vector = b""
        if Include.VECTOR in include:
            raw = vector_of(snapshot, hit.scope.scope, hit.row)
            vector = b"" if raw is None else raw.astype("<f4").tobytes()
        copies = copies_of(snapshot, hit)
        named = sum(map(size_of, copies.get("copies", ())))
        if not budget.take(ITEM + size_of(uri) + named + len(vector)):
            budget.left_out = len(found.hits) - i
            break
        item = reply.items.add(uri=uri, passage=passage, score=hit.score, vector=vector, **copies)
        if found.traces is not None:
            item.trace.CopyFrom(retrieval_pb2.ItemTrace(**fields_of(found.traces(hit))))
    for item, hit in zip(reply.items, found.hits, strict=False):
        cancellation.check()
        with_text = Include.TEXT in include
        found_text = shown(snapshot, hit.row, budget if with_text else None)
        item.start, item.end = found_text.start, found_text.end
        item.first_line, item.last_line = found_text.first_line, found_text.last_line
        if with_text:
            item.section, item.text = found_text.section, found_text.text
        elif budget.take(size_of(found_text.section)):
            item.section = found_text.section
        else:
            budget.shortened += 1


def _add_listed(
    reply: retrieval_pb2.RetrieveResponse, found: RetrieveHits, budget: ReplyBudget
) -> bool:
    """Add the files of a page, at least one; return True if not all of them fit."""
    page = found.listed
    assert page is not None
    for uri, row in page.files:
        cancellation.check()
        text = ""
        if Include.TEXT in found.query.include:
            text = found.snapshot.abstract(encode_file(row))
        if not budget.take(ITEM + size_of(uri) + size_of(text)) and reply.items:
            break
        reply.items.add(uri=uri, text=text, score=1.0)
    is_cut = len(reply.items) < len(page.files)
    if page.has_more or is_cut:
        last = reply.items[-1].uri
        reply.next_page_token = base64.urlsafe_b64encode(last.encode()).decode()
    return is_cut


def _add_metadata(
    reply: retrieval_pb2.RetrieveResponse, metadata_of: ReadMetadata, budget: ReplyBudget
) -> None:
    """Add metadata to the items in their order, until the budget is used up."""
    for start in range(0, len(reply.items), _AT_ONCE):
        items = reply.items[start : start + _AT_ONCE]
        found = metadata_of(list(dict.fromkeys(item.uri for item in items))) if budget.left else {}
        for item in items:
            cancellation.check()
            if not budget.left:
                budget.left_out += 1
            elif metadata := found.get(item.uri):
                item.metadata.update(metadata)
                if not budget.take(item.metadata.ByteSize()):
                    item.ClearField("metadata")
                    budget.left = 0  # after the first that does not fit, none is added
                    budget.left_out += 1
