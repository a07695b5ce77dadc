"""The request and the reply of BuildContext, to and from the domain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Sized

from vikingd.answer.context_sources import ItemRef, Sources
from vikingd.config_sections import Context as Defaults
from vikingd.context import tokenizers
from vikingd.context.prompt_context import BuiltContext, Plan
from vikingd.domain import cancellation
from vikingd.domain import uri as uris
from vikingd.domain.answers import (
    MESSAGE_BYTES,
    Degradation,
    DegradationReason,
    Degraded,
    ReplyBudget,
    Stage,
    size_of,
    too_large,
)
from vikingd.domain.errors import InvalidField
from vikingd.domain.prompt_options import CitationStyle, ContextOrder, DropReason
from vikingd.pb import retrieval_pb2
from vikingd.wire.messages import common_messages, decode
from vikingd.wire.request_limits import MAX_ITEMS, MAX_SEPARATOR

_DROPPED = retrieval_pb2.DropReason.ValueType


def source_of(request: retrieval_pb2.BuildContextRequest) -> str:
    """Return the name of the field that gives the pieces: items, uris, find or retrieve.

    Raises:
        InvalidField: none of them is set.
    """
    source = request.WhichOneof("source")
    if source is None:
        raise InvalidField("source", "is missing; set one of items, uris, find and retrieve")
    return source


def items_of(request: retrieval_pb2.BuildContextRequest) -> list[ItemRef]:
    """Return the items of a request, or its URIs as items, the first with the highest score."""
    if request.HasField("uris"):
        named = request.uris.uris
        _check_count(named, "uris.uris")
        return [
            ItemRef(uris.parse(uri, f"uris.uris[{i}]"), 0, float(len(named) - i))
            for i, uri in enumerate(named)
        ]
    items = request.items.items
    _check_count(items, "items.items")
    return [_item(item, f"items.items[{i}]") for i, item in enumerate(items)]


def _check_count(entries: Sized, field: str) -> None:
    """Raise InvalidField if a field has more than MAX_ITEMS entries.

    `request_limits` counts the entries of each encoded message. Protobuf lets a client encode one
    message as several, whose entries are added up only in parsing.
    """
    if len(entries) > MAX_ITEMS:
        raise InvalidField(
            field, f"has {len(entries):,} entries, at most {MAX_ITEMS:,} are allowed"
        )


def _item(item: retrieval_pb2.ContextItem, field: str) -> ItemRef:
    if math.isnan(item.score):
        raise InvalidField(f"{field}.score", "is no number, which has no order")
    return ItemRef(uris.parse(item.uri, f"{field}.uri"), item.passage, item.score)


def plan_of(request: retrieval_pb2.BuildContextRequest, defaults: Defaults, max_bytes: int) -> Plan:
    """Return the checked settings of the text to build."""
    separator = request.separator if request.HasField("separator") else "\n\n"
    if len(separator) > MAX_SEPARATOR:
        raise InvalidField("separator", f"is longer than {MAX_SEPARATOR} characters")
    # A budget of the request's own may be smaller than what is reserved of the default one.
    reserve_tokens = 0 if request.max_tokens else defaults.reserve_tokens
    if request.HasField("reserve_tokens"):
        reserve_tokens = request.reserve_tokens
    return Plan(
        max_tokens=request.max_tokens or defaults.max_tokens,
        reserve_tokens=reserve_tokens,
        tokenizer=tokenizers.known(request.tokenizer),
        citation=decode.member(request.citation, CitationStyle.NUMBERED, "citation", "a style"),
        separator=separator,
        order=decode.member(request.order, ContextOrder.SCORE, "order", "an order"),
        levels=not request.full_text_only,
        max_bytes=max_bytes,
    )


def _nothing_fits(built: BuiltContext) -> Iterator[Degradation]:
    """Yield a note if there are pieces, and none fits into the budget."""
    if built.least:
        count = sum(piece.reason is DropReason.BUDGET for piece in built.dropped)
        detail = (
            f"nothing fits into {built.budget:,} tokens: {count:,} "
            f"piece{'' if count == 1 else 's'} left out, the first needs {built.least:,}"
        )
        yield Degradation(DegradationReason.BUDGET, detail)


def response_of(
    built: BuiltContext,
    sources: Sources,
    stages: Sequence[Stage],
    notes: Degraded,
    most_bytes: int,
) -> retrieval_pb2.BuildContextResponse:
    """Return the reply; it lists as many dropped pieces as fit."""
    reply = retrieval_pb2.BuildContextResponse(
        text=built.text,
        used_tokens=built.used_tokens,
        budget_tokens=built.budget,
        approximate=built.approximate,
        from_items=built.from_items,
        revision=sources.revision,
        degraded=common_messages.degraded(notes),
        confidence=common_messages.confidence(sources.confidence),
        left_out=sources.left_out,
    )
    for cited in built.citations:
        reply.citations.add(**common_messages.fields_of(cited))
    cut = list(_nothing_fits(built))
    if built.is_cut:
        cut.append(
            too_large(
                "the reply has no room for a longer context; let the operator raise "
                "limits.max_reply_bytes"
            )
        )
    budget = ReplyBudget(max(0, most_bytes - reply.ByteSize()))
    for i, piece in enumerate(built.dropped):
        cancellation.check()
        if not budget.take(MESSAGE_BYTES + size_of(piece.uri) + size_of(piece.section)):
            left_out = len(built.dropped) - i
            cut.append(too_large(f"the reply has no room to name {left_out:,} dropped pieces"))
            break
        reply.dropped.add(uri=piece.uri, section=piece.section, reason=_DROPPED(piece.reason))
    reply.degraded.extend(common_messages.degraded(cut))
    common_messages.add_timings(reply.timings, stages)
    return reply
