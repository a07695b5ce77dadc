"""What a context is built of: retrieved passages with the summaries of their contexts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vikingd.context.build import BuiltContext, Plan, build
from vikingd.context.parts import Piece
from vikingd.domain.find import FindResult
from vikingd.domain.reply_budget import ReplyBudget
from vikingd.domain.retrieve import RetrieveResult
from vikingd.engine import Engine


@dataclass(frozen=True, slots=True)
class ItemRef:
    """A context (passage 0) or one of its passages."""

    uri: str
    passage: int
    score: float


def pieces_found(result: FindResult) -> list[Piece]:
    """The passages that a find shows, by their file's score; without any, the context as a whole.

    Of a file's passages each further one ranks lower by what its own score is of the best one's.
    """
    pieces = []
    for match in result.matches:
        for passage in match.passages:
            score = match.score * passage.score / match.passages[0].score
            pieces.append(
                Piece(match.uri, score, passage.section, passage.text, passage.start, passage.end)
            )
        if not match.passages:
            pieces.append(Piece(match.uri, match.score))
    return pieces


def pieces_retrieved(result: RetrieveResult) -> list[Piece]:
    """The items of a retrieval; an abstract stands for its context as a whole."""
    return [
        Piece(item.uri, item.score, item.section, item.text, item.start, item.end)
        if item.passage
        else Piece(item.uri, item.score)
        for item in result.items
    ]


def context_of_pieces(
    engine: Engine, pieces: Sequence[Piece], plan: Plan, room: ReplyBudget
) -> BuiltContext:
    """Builds a context of passages; summaries and whole contents are read from the store.

    Raises:
        TooLarge: there is no room for all that would be read.
    """
    return build(list(_with_summaries(engine, pieces, room)), plan)


def context_of_items(
    engine: Engine, items: Sequence[ItemRef], plan: Plan, room: ReplyBudget
) -> BuiltContext:
    """Builds a context of items by name; what is not there is dropped as gone.

    Raises:
        TooLarge: there is no room for all that would be read.
    """
    named: defaultdict[str, set[int]] = defaultdict(set)
    for item in items:
        if item.passage:
            named[item.uri].add(item.passage)
    passages = engine.store.passages_of(named, room) if named else {}
    pieces = []
    for item in items:
        found = passages.get((item.uri, item.passage)) if item.passage else None
        if found is not None:
            section, start, end, text = found
            pieces.append(Piece(item.uri, item.score, section, text, start, end))
        else:
            pieces.append(Piece(item.uri, item.score, gone=item.passage > 0))
    return context_of_pieces(engine, pieces, plan, room)


def _with_summaries(engine: Engine, pieces: Sequence[Piece], room: ReplyBudget) -> Iterator[Piece]:
    """The pieces with abstract, overview and, of whole ones, content; or gone, and without text."""
    summaries = engine.store.texts_of(
        list({piece.uri for piece in pieces if piece.text}), room, with_content=False
    )
    whole = engine.store.texts_of(
        list({piece.uri for piece in pieces if not piece.text and not piece.gone}),
        room,
        with_content=True,
    )
    for piece in pieces:
        if piece.gone:
            yield piece
        elif piece.text and piece.uri in summaries:
            abstract, overview, _ = summaries[piece.uri]
            yield replace(piece, abstract=abstract, overview=overview)
        elif not piece.text and piece.uri in whole:
            abstract, overview, content = whole[piece.uri]
            yield replace(piece, abstract=abstract, overview=overview, content=content)
        else:
            yield replace(piece, text="", gone=True)
