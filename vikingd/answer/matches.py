"""The hits of a find as the matches of a reply, within the room of the reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from viking_kernels.arrays import is_file

from vikingd.answer.relations import Relations
from vikingd.answer.trace import Hit
from vikingd.domain import pace
from vikingd.domain.find import Gathered, Match, MatchedPassage
from vikingd.domain.reply_budget import MESSAGE_BYTES, ReplyBudget, size_of
from vikingd.index.snapshot import Snapshot

RESULT = MESSAGE_BYTES + 128
"""Bytes of a result without its texts."""


class Gather(Protocol):
    """Encodes hits that have neither relations nor parts."""

    def __call__(
        self, snapshot: Snapshot, chosen: Sequence[Hit], most_bytes: int
    ) -> Gathered | None:
        """Return the encoded results; None if not all of them fit whole."""


def matches_of(
    snapshot: Snapshot, chosen: Sequence[Hit], linked: Relations, budget: ReplyBudget
) -> tuple[Match, ...]:
    """Return the hits that fit, best first, with their passages as far as these fit.

    A text that does not fit is not read.
    """
    matches: list[Match] = []
    left = budget.left
    for score, row, level, _, parts in chosen:
        uri, abstract, relations = snapshot.uri(row), snapshot.abstract(row), linked.get(row, ())
        left -= RESULT + size_of(uri + abstract)
        for relation in relations:
            left -= MESSAGE_BYTES + size_of(relation.uri + relation.abstract + relation.reason)
        if left < 0:
            budget.left_out = len(chosen) - len(matches)
            break
        budget.left = left
        kind = snapshot.type_of(row)
        matches.append(Match(uri, kind, is_file(row), level, abstract, score, relations, (), parts))
    passage_of, ordinals = snapshot.contents.passage, snapshot.text_ordinal
    for match, hit in zip(matches, chosen, strict=False):
        if hit.passages:
            pace.step()
            match.passages = tuple(
                [
                    MatchedPassage(ordinals.item(text), *passage_of(text, budget), score)
                    for text, score in hit.passages
                    if budget.left
                ]
            )
            budget.shortened += len(hit.passages) - len(match.passages)
    return tuple(matches)
