"""The encoding of results as bytes of a reply; encoded contexts and passages are cached.

Protobuf allows fields of a message to be concatenated. So a result is the cached bytes of its
context and passages, with the level and the scores of this query between them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from google.protobuf.descriptor import Descriptor
from viking_kernels.arrays import encode_file, is_file

from vikingd.answer.find_hits import FindHits, Hit
from vikingd.answer.retrieve_answer import TextHit
from vikingd.answer.texts_by_row import shown
from vikingd.domain import cancellation
from vikingd.domain.answers import MESSAGE_BYTES, UNBOUNDED, ReplyBudget, size_of
from vikingd.domain.contexts import ABSTRACT, PASSAGE, ContextType, Relation
from vikingd.index.shown_strings import Contents
from vikingd.index.snapshot import Snapshot
from vikingd.pb import contexts_pb2, retrieval_pb2
from vikingd.pb.retrieval_pb2 import (
    BatchFindResponse,
    FindResponse,
    MatchedContext,
    MatchedPassage,
    RetrievedItem,
    RetrieveResponse,
)
from vikingd.wire.messages.common_messages import fields_of

RESULT = MESSAGE_BYTES + 128
"""The approximate bytes of a result without its texts."""

ITEM = MESSAGE_BYTES + 64
"""The approximate bytes of an item without its texts."""

MOST_KEPT = 16 << 20
"""The approximate limit of cached bytes for one base of the index and its tail."""

_NAMED = 5  # copies of a text whose URIs an item has
_OVERHEAD = 300  # bytes of memory that a cached piece takes besides its data
_VARINT, _DOUBLE, _BYTES = 0, 1, 2  # wire types
_packed: Callable[[float], bytes] = struct.Struct("<d").pack
_DOUBLE_BYTES = 8


class _Context(NamedTuple):
    """An encoded context, without level, score and passages."""

    abstract: int  # the number of the abstract in it
    room: int  # bytes that a ReplyBudget counts for it
    kind: ContextType
    data: bytes


class _Passage(NamedTuple):
    """An encoded passage with tag and length; the eight bytes of its score must follow."""

    room: int
    data: bytes


class _Item(NamedTuple):
    """An encoded item with tag and length; the eight bytes of its score must follow."""

    abstract: int  # the number of the abstract that its text is; -1: it is a passage
    room: int
    start: int  # first byte behind tag and length
    data: bytes

    def with_copies(self, copies: bytes) -> bytes:
        """Return the bytes of the item with the encoded field `copies`, and with the new length."""
        size = len(self.data) - self.start + _DOUBLE_BYTES + len(copies)
        return _ITEMS + _varint(size) + copies + self.data[self.start :]


class _Kept:
    """A cache of encoded rows of one generation of the index; it is emptied when it is full."""

    def __init__(self) -> None:
        self.contexts: dict[int, _Context] = {}
        self.passages: dict[int, _Passage] = {}
        self.items: dict[int, _Item] = {}
        self.size = 0

    def count(self, data: bytes) -> None:
        """Add the size of newly cached bytes; empty the cache if it is full."""
        self.size += len(data) + _OVERHEAD
        if self.size > MOST_KEPT:
            self.contexts.clear()
            self.passages.clear()
            self.items.clear()
            self.size = 0


class EncodedResults:
    """Encodes results; thread-safe."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Contents, _Kept] = WeakKeyDictionary()

    def _of(self, snapshot: Snapshot) -> _Kept:
        kept = self._kept.get(snapshot.contents)
        return self._kept.setdefault(snapshot.contents, _Kept()) if kept is None else kept

    def contexts(self, found: FindHits, budget: ReplyBudget) -> list[tuple[Hit, _Context, bytes]]:
        """Encode hits as MatchedContext messages, as many as fit into the budget.

        First the contexts take bytes from the budget, then the passages take bytes that are left.
        The first passage that does not fit is cut, and the others are left out.

        Args:
            found: the hits, the best first.
            budget: the bytes of the reply that are left; it counts what was cut and left out.

        Returns:
            For each hit that fits: the hit, its context without score and passages, and the whole
            MatchedContext as bytes.
        """
        snapshot, linked, twins = found.snapshot, found.linked, found.twins
        kept = self._of(snapshot)
        contexts, texts = kept.contexts, kept.passages
        whole: list[_Context] = []
        left = budget.left
        for hit in found.hits:
            row = hit.row
            context = contexts.get(row)
            if context is None or context.abstract != snapshot.abstract_number(row):
                cancellation.check()
                context = contexts[row] = _context(snapshot, row)
                kept.count(context.data)
            left -= context.room
            for relation in linked.get(row, ()) if linked else ():
                left -= MESSAGE_BYTES + _size_of_relation(relation)
            if row in twins:
                left -= MESSAGE_BYTES + size_of(snapshot.uri(twins[row]))
            if left < 0:
                budget.left_out = len(found.hits) - len(whole)
                break
            budget.left = left
            whole.append(context)
        out: list[tuple[Hit, _Context, bytes]] = []
        for hit, context in zip(found.hits, whole, strict=False):
            cancellation.check()
            parts = [context.data, _LEVELS[hit.level], _packed(hit.score)]
            if linked and (related := linked.get(hit.row)):
                parts.append(_relations(related))
            if hit.row in twins:
                twin = snapshot.uri(twins[hit.row])
                parts.append(MatchedContext(twin=twin).SerializeToString())
            for i, (text, own) in enumerate(hit.passages):
                if not budget.left:
                    budget.shortened += len(hit.passages) - i
                    break
                passage = texts.get(text)
                if passage is None and snapshot.contents.texts.size(text) <= budget.left:
                    passage = texts[text] = _passage(snapshot, text)
                    kept.count(passage.data)
                if passage is not None and budget.take(passage.room):
                    parts += passage.data, _packed(own)
                else:
                    parts.append(_cut_passage(snapshot, text, own, budget))
            if hit.parts is not None:
                parts.append(_parts(hit))
            out.append((hit, context, b"".join(parts)))
        return out

    def results(self, found: FindHits, budget: ReplyBudget) -> Encoded:
        """Encode the lists `memories`, `resources` and `skills` of a Find or Search response.

        Args:
            found: the hits, the best first.
            budget: the bytes of the reply that are left; it counts what was cut and left out.

        Returns:
            The lists as bytes of the response. A hit of none of the three types is left out, such
            as a directory above their roots.
        """
        out: list[bytes] = []
        total, top_score = 0, 0.0
        for hit, context, data in self.contexts(found, budget):
            if tag := _BUCKETS.get(context.kind):
                out += tag, _varint(len(data)), data
                total += 1
                top_score = max(top_score, hit.score)
        return Encoded(b"".join(out), total, top_score)

    def items(
        self, snapshot: Snapshot, chosen: Sequence[TextHit], budget: ReplyBudget
    ) -> bytes | None:
        """Encode the items of a RetrieveResponse.

        Args:
            snapshot: the index that the rows belong to.
            chosen: the texts, in the order of the reply.
            budget: the bytes of the reply that are left.

        Returns:
            The items as bytes of the response; None if not all of them fit whole. Then the budget
            is unchanged.
        """
        kept, left = self._of(snapshot), budget.left
        out: list[bytes] = []
        for hit in chosen:
            cancellation.check()
            row = hit.row
            item = kept.items.get(row)
            if item is None or (
                item.abstract >= 0
                and item.abstract != snapshot.abstract_number(_file(snapshot, row))
            ):
                if snapshot.contents.texts.size(row) > left:
                    return None
                item = kept.items[row] = _item(snapshot, row)
                kept.count(item.data)
            left -= item.room
            data = item.data
            if copies := copies_of(snapshot, hit):
                encoded = RetrievedItem(**copies).SerializeToString()
                left -= len(encoded)
                data = item.with_copies(encoded)
            if left < 0:
                return None
            out += data, _packed(hit.score)
        budget.left = left
        return b"".join(out)


class Encoded(NamedTuple):
    """The results of a reply as bytes.

    Attributes:
        data: encoded fields of the response; the other fields may be appended.
        total: the number of results.
        top_score: the highest score; 0 without results.
    """

    data: bytes
    total: int
    top_score: float


def batched(reply: bytes) -> bytes:
    """Wrap an encoded FindResponse as an encoded field of a BatchFindResponse."""
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
    return _Context(number, budget, kind, data)


def _passage(snapshot: Snapshot, row: int) -> _Passage:
    budget = ReplyBudget(UNBOUNDED)
    passage = snapshot.contents.passage(row, budget)
    ordinal = snapshot.text_ordinal.item(row)
    data = MatchedPassage(ordinal=ordinal, **passage._asdict()).SerializeToString()
    size = len(data) + len(_OWN) + _DOUBLE_BYTES
    return _Passage(budget.limit - budget.left, _PASSAGES + _varint(size) + data + _OWN)


def _cut_passage(snapshot: Snapshot, row: int, score: float, budget: ReplyBudget) -> bytes:
    """Return an encoded passage whose text is cut to the budget."""
    fields = snapshot.contents.passage(row, budget)._asdict()
    passage = MatchedPassage(ordinal=snapshot.text_ordinal.item(row), score=score, **fields)
    return MatchedContext(passages=[passage]).SerializeToString()


def _size_of_relation(relation: Relation) -> int:
    return size_of(relation.uri + relation.abstract + relation.reason)


def _relations(related: Sequence[Relation]) -> bytes:
    relations = [
        contexts_pb2.Relation(uri=one.uri, abstract=one.abstract, reason=one.reason)
        for one in related
    ]
    return MatchedContext(relations=relations).SerializeToString()


def _parts(hit: Hit) -> bytes:
    return MatchedContext(
        parts=retrieval_pb2.ScoreParts(**fields_of(hit.parts))
    ).SerializeToString()


def _item(snapshot: Snapshot, row: int) -> _Item:
    file, number, budget = _file(snapshot, row), -1, ReplyBudget(UNBOUNDED)
    uri, ordinal = snapshot.uri(file), int(snapshot.text_ordinal[row])
    if not ordinal:
        number = snapshot.abstract_number(file)
    passage = shown(snapshot, row, budget)._asdict()
    data = RetrievedItem(uri=uri, passage=ordinal, **passage).SerializeToString()
    size = len(data) + len(_ITEM_SCORE) + _DOUBLE_BYTES
    taken = ITEM + size_of(uri) + budget.limit - budget.left
    head = _ITEMS + _varint(size)
    return _Item(number, taken, len(head), head + data + _ITEM_SCORE)


def copies_of(snapshot: Snapshot, hit: TextHit) -> dict[str, Any]:
    """Return the fields of a RetrievedItem that name other files with the same text.

    They are {} if there is no such file.
    """
    if not hit.copies:
        return {}
    named = [snapshot.file_uri(file) for file in hit.copies[:_NAMED]]
    return {"copies": named, "more_copies": len(hit.copies) - len(named)}


def _file(snapshot: Snapshot, row: int) -> int:
    """Return the node number of the file that a text is in; see `encode_file` of the kernels."""
    return encode_file(snapshot.tree.texts.file.item(row))


@lru_cache(1 << 12)  # most results are of some kilobytes
def _varint(number: int) -> bytes:
    """Encode a number as a varint: seven bits a byte, the lowest first."""
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
"""The encoded bytes of each level, with the tag of the score that follows it."""

_BUCKETS = {
    kind: _tag(FindResponse.DESCRIPTOR, field, _BYTES)
    for kind, field in (
        (ContextType.MEMORY, "memories"),
        (ContextType.RESOURCE, "resources"),
        (ContextType.SKILL, "skills"),
    )
}
