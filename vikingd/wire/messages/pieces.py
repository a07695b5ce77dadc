"""Results as bytes of a reply: encoded once, kept, and joined with the scores of a query.

A message is the same whether its fields are encoded together or one after the other, so a result
is its context's piece, its level and score, and the pieces of its passages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from google.protobuf.descriptor import Descriptor
from viking_kernels.arrays import encode_file, is_file

from vikingd.answer.find import RESULT
from vikingd.answer.listing import ITEM
from vikingd.answer.passages import shown
from vikingd.answer.trace import Hit
from vikingd.domain import pace
from vikingd.domain.answers import UNBOUNDED, ReplyBudget, size_of
from vikingd.domain.contexts import ABSTRACT, PASSAGE, ContextType
from vikingd.domain.find import Gathered
from vikingd.index.contents import Contents
from vikingd.index.snapshot import Snapshot
from vikingd.pb.retrieval_pb2 import (
    BatchFindResponse,
    FindResponse,
    MatchedContext,
    MatchedPassage,
    RetrievedItem,
    RetrieveResponse,
)

MOST_KEPT = 16 << 20
"""Bytes of pieces that one generation of the index keeps, about."""

_OVERHEAD = 300  # bytes that a piece takes besides its own
_VARINT, _DOUBLE, _BYTES = 0, 1, 2  # wire types
_packed: Callable[[float], bytes] = struct.Struct("<d").pack
_DOUBLE_BYTES = 8


class _Context(NamedTuple):
    """A context without level, score and passages."""

    abstract: int  # the number of the abstract in it
    room: int  # bytes that a ReplyBudget counts for it
    tag: bytes  # of the field of the reply that it stands in; b"": it has no place there
    data: bytes


class _Passage(NamedTuple):
    """A passage with its tag and its length; the eight bytes of its score come next."""

    room: int
    data: bytes


class _Item(NamedTuple):
    """A retrieved item with its tag and its length; the eight bytes of its score come next."""

    abstract: int  # the number of the abstract that its text is; -1: it is a passage
    room: int
    data: bytes


class _Kept:
    """The pieces of the rows of one generation; emptied when full."""

    def __init__(self) -> None:
        self.contexts: dict[int, _Context] = {}
        self.passages: dict[int, _Passage] = {}
        self.items: dict[int, _Item] = {}
        self.size = 0

    def count(self, data: bytes) -> None:
        """Count a piece that is kept from now on."""
        self.size += len(data) + _OVERHEAD
        if self.size > MOST_KEPT:
            self.contexts.clear()
            self.passages.clear()
            self.items.clear()
            self.size = 0


class Pieces:
    """Encodes results; may be used by several threads."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Contents, _Kept] = WeakKeyDictionary()

    def _of(self, snapshot: Snapshot) -> _Kept:
        kept = self._kept.get(snapshot.contents)
        return self._kept.setdefault(snapshot.contents, _Kept()) if kept is None else kept

    def matches(
        self, snapshot: Snapshot, chosen: Sequence[Hit], most_bytes: int
    ) -> Gathered | None:
        """Return the results of a find in their order; None if they do not all fit in full.

        Args:
            snapshot: has their rows.
            chosen: none has relations or a trace.
            most_bytes: of the results, counted as a ReplyBudget does.
        """
        kept = self._of(snapshot)
        contexts, texts = kept.contexts, kept.passages
        out: list[bytes] = []
        total, top_score = 0, 0.0
        for score, row, level, passages, _ in chosen:
            pace.step()
            context = contexts.get(row)
            if context is None or context.abstract != snapshot.abstract_number(row):
                context = contexts[row] = _context(snapshot, row)
                kept.count(context.data)
            most_bytes -= context.room
            parts = [context.data, _LEVELS[level], _packed(score)]
            for text, own in passages:
                passage = texts.get(text)
                if passage is None:
                    if snapshot.contents.texts.size(text) > most_bytes:
                        return None  # no text is read that does not fit
                    passage = texts[text] = _passage(snapshot, text)
                    kept.count(passage.data)
                most_bytes -= passage.room
                parts += passage.data, _packed(own)
            if most_bytes < 0:
                return None
            if context.tag:
                data = b"".join(parts)
                out += context.tag, _varint(len(data)), data
                total += 1
                top_score = max(top_score, score)
        return Gathered(b"".join(out), total, top_score)

    def items(
        self, snapshot: Snapshot, chosen: Sequence[tuple[int, float]], most_bytes: int
    ) -> Gathered | None:
        """Return the items of a retrieval, each from its text's row and its score."""
        kept = self._of(snapshot)
        out: list[bytes] = []
        for row, score in chosen:
            pace.step()
            item = kept.items.get(row)
            if item is None or (
                item.abstract >= 0
                and item.abstract != snapshot.abstract_number(_file(snapshot, row))
            ):
                if snapshot.contents.texts.size(row) > most_bytes:
                    return None
                item = kept.items[row] = _item(snapshot, row)
                kept.count(item.data)
            most_bytes -= item.room
            if most_bytes < 0:
                return None
            out += item.data, _packed(score)
        return Gathered(b"".join(out), len(chosen), chosen[0][1] if chosen else 0.0)


def batched(reply: bytes) -> bytes:
    """Return a FindResponse as a field of a BatchFindResponse."""
    return _RESPONSES + _varint(len(reply)) + reply


def _context(snapshot: Snapshot, row: int) -> _Context:
    number = snapshot.abstract_number(row)
    uri, abstract, kind = snapshot.uri(row), snapshot.abstract(row), snapshot.type_of(row)
    data = MatchedContext(
        uri=uri,
        context_type=kind,  # type: ignore[arg-type]  # same numbers
        is_leaf=is_file(row),
        abstract=abstract,
    ).SerializeToString()
    budget = RESULT + size_of(uri) + size_of(abstract)
    return _Context(number, budget, _BUCKETS.get(kind, b""), data)


def _passage(snapshot: Snapshot, row: int) -> _Passage:
    budget = ReplyBudget(UNBOUNDED)
    section, text, start, end = snapshot.contents.passage(row, budget)
    ordinal = snapshot.text_ordinal.item(row)
    data = MatchedPassage(
        ordinal=ordinal, section=section, text=text, start=start, end=end
    ).SerializeToString()
    size = len(data) + len(_OWN) + _DOUBLE_BYTES
    return _Passage(budget.limit - budget.left, _PASSAGES + _varint(size) + data + _OWN)


def _item(snapshot: Snapshot, row: int) -> _Item:
    file, number, budget = _file(snapshot, row), -1, ReplyBudget(UNBOUNDED)
    uri, ordinal = snapshot.uri(file), int(snapshot.text_ordinal[row])
    if not ordinal:
        number = snapshot.abstract_number(file)
    section, text, start, end = shown(snapshot, row, budget)
    data = RetrievedItem(
        uri=uri, passage=ordinal, section=section, text=text, start=start, end=end
    ).SerializeToString()
    size = len(data) + len(_ITEM_SCORE) + _DOUBLE_BYTES
    taken = ITEM + size_of(uri) + budget.limit - budget.left
    return _Item(number, taken, _ITEMS + _varint(size) + data + _ITEM_SCORE)


def _file(snapshot: Snapshot, row: int) -> int:
    """Return the node of a text's file."""
    return encode_file(snapshot.tree.texts.file.item(row))


def _varint(number: int) -> bytes:
    """Return a number as a varint: seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _tag(message: Descriptor, field: str, wire_type: int) -> bytes:
    return _varint(message.fields_by_name[field].number << 3 | wire_type)


_CONTEXT = MatchedContext.DESCRIPTOR
_SCORE = _tag(_CONTEXT, "score", _DOUBLE)
_RESPONSES = _tag(BatchFindResponse.DESCRIPTOR, "responses", _BYTES)
_PASSAGES = _tag(_CONTEXT, "passages", _BYTES)
_OWN = _tag(MatchedPassage.DESCRIPTOR, "score", _DOUBLE)
_ITEMS = _tag(RetrieveResponse.DESCRIPTOR, "items", _BYTES)
_ITEM_SCORE = _tag(RetrievedItem.DESCRIPTOR, "score", _DOUBLE)
_LEVELS = {
    level: MatchedContext(level=level).SerializeToString() + _SCORE for level in (ABSTRACT, PASSAGE)
}
"""The level, and the tag of the score that comes next."""

_BUCKETS = {
    kind: _tag(FindResponse.DESCRIPTOR, field, _BYTES)
    for kind, field in (
        (ContextType.MEMORY, "memories"),
        (ContextType.RESOURCE, "resources"),
        (ContextType.SKILL, "skills"),
    )
}
