"""BuildContext: passages and the summaries of their contexts become the text for a prompt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple

from vikingd.answer.derived_texts import directory_abstracts, directory_overviews, overview_of_file
from vikingd.answer.find_hits import FindHits, answered
from vikingd.answer.query_planning import QueryVectors, planned_find, planned_retrieve
from vikingd.answer.reranking import reranked
from vikingd.answer.retrieve_answer import RetrieveHits
from vikingd.answer.texts_by_row import name_of, shown
from vikingd.context.deduplicated_parts import Piece
from vikingd.context.prompt_context import BuiltContext, Plan, build
from vikingd.domain import cancellation
from vikingd.domain import uri as uris
from vikingd.domain.answers import (
    MESSAGE_BYTES,
    Confidence,
    Degraded,
    ReplyBudget,
    Stage,
    size_of,
)
from vikingd.domain.contexts import ContextType
from vikingd.domain.errors import InvalidField
from vikingd.domain.find_query import FindQuery
from vikingd.domain.hidden_characters import marked
from vikingd.domain.retrieve_query import Include, RetrieveQuery
from vikingd.domain.rights import CALLER, Caller, Right
from vikingd.domain.uri import context_type
from vikingd.engine import Engine
from vikingd.index.shown_strings import ShownPassage
from vikingd.index.snapshot import Snapshot
from vikingd.lanes.queues import Runner
from vikingd.models.rerank.rerankers import Rerankers

_MOST_OVERVIEWS = 16  # of directories that are made for one context


@dataclass(frozen=True, slots=True)
class ItemRef:
    """A context (passage 0) or one of its passages."""

    uri: str
    passage: int
    score: float


Source = FindQuery | RetrieveQuery | Sequence[ItemRef]
"""The source of a context: a query, or named items."""


class Sources(NamedTuple):
    """The pieces of text from one source of a BuildContext call, and details for the reply."""

    pieces: Sequence[Piece]
    stages: tuple[Stage, ...]
    degraded: Degraded
    revision: int
    budget: ReplyBudget  # of the texts of their contexts
    confidence: Confidence | None = None  # None for named items
    left_out: int = 0  # pieces below the floor


async def sources_of(
    engine: Engine,
    vectors: QueryVectors,
    rerankers: Rerankers,
    source: Source,
    run: Runner,
    most_bytes: int,
    floor: float | None = None,
) -> Sources:
    """Return the pieces of a source, of about `most_bytes`.

    If the confidence of a query is below `floor`, its pieces are left out; with None they are left
    out if it is NOTHING. Contexts that the caller may not read are marked as gone, like missing
    ones.

    Raises:
        NotFound: nothing readable exists below the target of the source.
        InvalidField: a field of the source is wrong.
        TooLarge: the sources have more bytes than a call may read.
    """
    if isinstance(source, FindQuery):
        with field_prefix("find"):
            plans, embed = await planned_find(engine, vectors, source, run)
            found = answered(plans, await reranked(source.text, plans, rerankers, run))
        return _apply_floor(await run.away(_of_find, engine, found, embed, most_bytes), floor)
    if isinstance(source, RetrieveQuery):
        with field_prefix("retrieve"):
            planned = await planned_retrieve(engine, vectors, source, run)
            return _apply_floor(
                await run.away(
                    lambda: _of_retrieve(engine, planned.run(), planned.embed, most_bytes)
                ),
                floor,
            )
    now, revision, budget = perf_counter(), engine.snapshot.revision, ReplyBudget(most_bytes)
    pieces = await run.away(pieces_named, engine, source, CALLER.get(), budget)
    stages = Stage("embed", now, now), Stage("build", now, perf_counter())
    return Sources(pieces, stages, (), revision, budget)


def _apply_floor(sources: Sources, floor: float | None) -> Sources:
    """Return the sources unchanged, or without pieces if the confidence is below the floor."""
    if sources.confidence is None or not sources.confidence.is_below(floor):
        return sources
    return sources._replace(pieces=(), left_out=len(sources.pieces))


def built(engine: Engine, sources: Sources, plan: Plan) -> BuiltContext:
    """Build the text of sources, with the summaries of their contexts.

    Raises:
        TooLarge: the summaries have more bytes than a call may read.
    """
    pieces = list(_with_summaries(engine, sources.pieces, sources.budget))
    return build(pieces, plan, partial(_outline_of, engine))


def _outline_of(engine: Engine, uri: str) -> str:
    """Return an overview that is extracted from a file.

    It is "" for a memory file, whose memories are chosen one by one.
    """
    if context_type(uri) is ContextType.MEMORY:
        return ""
    return marked(overview_of_file(engine.store, uri))


@contextmanager
def field_prefix(field: str) -> Iterator[None]:
    """Within the block, put `field` before the field of an InvalidField, as in "find.limit"."""
    try:
        yield
    except InvalidField as error:
        raise error.below(field) from None


def _of_find(engine: Engine, found: FindHits, embed: Stage, most_bytes: int) -> Sources:
    """Return the passages of each hit of a find as pieces; a hit without passages is one piece.

    The best passage of a file has the score of the file. The others have less, in proportion to
    their own scores. Of two twins (one page in two languages) the second one is a repeated piece,
    without text.
    """
    started, snapshot, budget = perf_counter(), found.snapshot, ReplyBudget(most_bytes)
    fitting = _fitting(map(snapshot.uri, (hit.row for hit in found.hits)), budget, len(found.hits))
    pieces: list[Piece] = []
    dates = _dates(engine, snapshot, [text for hit in found.hits for text, _ in hit.passages])
    placed: set[int] = set()
    for hit, uri in zip(found.hits, fitting, strict=False):
        cancellation.check()
        twin = found.twins.get(hit.row)
        if twin in placed:  # the better twin is in the query's language, and comes first
            pieces.append(Piece(uri, hit.score, is_repeated=True))
            continue
        placed.add(hit.row)
        shown_of = len(pieces)
        for text, own in hit.passages:
            if not budget.left:
                break
            score = hit.score * own / hit.passages[0][1]
            passage = snapshot.contents.passage(text, budget)
            pieces.append(_piece(uri, score, passage, dates.get(text, "")))
        budget.shortened += len(hit.passages) - (len(pieces) - shown_of)
        if len(pieces) == shown_of:
            pieces.append(Piece(uri, hit.score))
    return _sources(found, embed, started, pieces, budget)


def _of_retrieve(engine: Engine, found: RetrieveHits, embed: Stage, most_bytes: int) -> Sources:
    """Return the texts of a retrieval. A found abstract becomes a piece for its whole context."""
    started, snapshot, budget = perf_counter(), found.snapshot, ReplyBudget(most_bytes)
    with_text = Include.TEXT in found.query.include
    names = [name_of(snapshot, hit.row) for hit in found.hits]
    fitting = _fitting((uri for uri, _ in names), budget, len(names))
    pieces: list[Piece] = []
    dates = _dates(engine, snapshot, [hit.row for hit in found.hits])
    for hit, uri, (_, passage) in zip(found.hits, fitting, names, strict=False):
        cancellation.check()
        if not passage:
            pieces.append(Piece(uri, hit.score))
            continue
        found_text = shown(snapshot, hit.row, budget if with_text else None)
        if not with_text:
            found_text = found_text._replace(text="")
        pieces.append(_piece(uri, hit.score, found_text, dates.get(hit.row, "")))
    for uri, _ in found.listed.files if found.listed is not None else ():
        pieces.append(Piece(uri, 1.0))
    return _sources(found, embed, started, pieces, budget)


def _piece(uri: str, score: float, passage: ShownPassage, date: str) -> Piece:
    section, text, start, end, line, _ = passage
    return Piece(uri, score, section, text, start, end, date=date, line=line)


def _dates(engine: Engine, snapshot: Snapshot, rows: Sequence[int]) -> dict[int, str]:
    """Return the day (UTC) on which each memory was last said, by row; other texts are left out."""
    texts, memory = snapshot.tree.texts, int(ContextType.MEMORY)
    chosen = [row for row in rows if snapshot.dir_type[texts.directory[row]] == memory]
    if not chosen:
        return {}
    ids = [snapshot.text_id.item(row) for row in chosen]
    known, _ = engine.store.entries(ids)
    times = {row: known[one].time for row, one in zip(chosen, ids, strict=True) if one in known}
    return {row: _day(time) for row, time in times.items() if time is not None}


def _day(time: int) -> str:
    """Return the day of a time in microseconds, in UTC; "" outside the calendar."""
    try:
        return f"{datetime.fromtimestamp(time // 1_000_000, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return ""


def _fitting(uris: Iterable[str], budget: ReplyBudget, count: int) -> list[str]:
    """Return the URIs up to the first one that does not fit into the budget.

    `count` is the number of all URIs. `budget.left_out` is set to the number of those left out.
    """
    kept: list[str] = []
    for uri in uris:
        if not budget.take(MESSAGE_BYTES + size_of(uri)):
            budget.left_out = count - len(kept)
            break
        kept.append(uri)
    return kept


def _sources(
    found: FindHits | RetrieveHits,
    embed: Stage,
    started: float,
    pieces: Sequence[Piece],
    budget: ReplyBudget,
) -> Sources:
    """Return `Sources` of these pieces, with the stages and notes of the find or retrieval.

    They have a new budget, for the summaries of the contexts to which the pieces belong.
    """
    stages = (embed, *found.stages, Stage("reply", started, perf_counter()))
    notes = (*found.degraded, *budget.notes())
    room = ReplyBudget(budget.limit)
    return Sources(pieces, stages, notes, found.snapshot.revision, room, found.confidence)


def pieces_named(
    engine: Engine, items: Sequence[ItemRef], caller: Caller, budget: ReplyBudget
) -> list[Piece]:
    """Return a piece for each named item.

    A missing passage is marked as gone, and so is each item that the caller may not read.

    Raises:
        TooLarge: the texts to read do not fit into the budget.
    """
    named: defaultdict[str, set[int]] = defaultdict(set)
    readable = [caller.may(Right.READ, item.uri) for item in items]
    for item, is_readable in zip(items, readable, strict=True):
        if item.passage and is_readable:
            named[item.uri].add(item.passage)
    passages = engine.store.passages_of(named, budget) if named else {}
    pieces = []
    for item, is_readable in zip(items, readable, strict=True):
        found = passages.get((item.uri, item.passage)) if item.passage else None
        if found is not None:
            section, text, start, end, line = found
            pieces.append(Piece(item.uri, item.score, section, text, start, end, line=line))
        else:
            pieces.append(Piece(item.uri, item.score, gone=item.passage > 0 or not is_readable))
    return pieces


def _with_summaries(
    engine: Engine, pieces: Sequence[Piece], budget: ReplyBudget
) -> Iterator[Piece]:
    """Yield the pieces with the abstract and the overview of their context, or marked as gone.

    A piece that is a whole context has its content, too. Each hidden character becomes U+FFFD, so
    that a person sees all that a model reads.
    """
    ranks = {piece.uri: -piece.score for piece in sorted(pieces, key=attrgetter("score"))}
    summaries = engine.store.texts_of(
        list({piece.uri for piece in pieces if piece.text}), budget, with_content=False
    )
    whole = engine.store.texts_of(
        list({p.uri for p in pieces if not (p.text or p.gone or p.is_repeated)}),
        budget,
        with_content=True,
    )
    best_first = sorted(whole.items(), key=lambda item: ranks[item[0]])
    whole |= _directories_of(engine, dict(best_first))
    for piece in pieces:
        if piece.is_repeated:
            yield piece
            continue
        texts = (summaries if piece.text else whole).get(piece.uri)
        if texts is None or piece.gone:
            yield replace(piece, text="", gone=True)
        else:
            title, abstract, overview, content = map(marked, texts)
            yield replace(
                piece,
                title=title or marked(uris.name(piece.uri)),
                section=marked(piece.section),
                text=marked(piece.text),
                abstract=abstract,
                overview=overview,
                content=None if piece.text else content,
            )


def _directories_of(
    engine: Engine, whole: Mapping[str, tuple[str, str, str, str]]
) -> dict[str, tuple[str, str, str, str]]:
    """Return (title, abstract, overview, "") by URI for directories, with missing texts extracted.

    The texts are extracted from the children. Only the first _MOST_OVERVIEWS missing overviews are.

    Args:
        engine: the engine.
        whole: (title, abstract, overview, content) by URI; contexts with content are no
            directories.
    """
    bare = [uri for uri, (_, abstract, _, content) in whole.items() if not (abstract or content)]
    brief = [uri for uri, (_, _, overview, content) in whole.items() if not (overview or content)]
    abstracts = directory_abstracts(engine.store, bare)
    overviews = directory_overviews(engine.store, brief[:_MOST_OVERVIEWS])
    return {
        uri: (title, abstract or abstracts.get(uri, ""), overview or overviews.get(uri, ""), "")
        for uri, (title, abstract, overview, _) in whole.items()
        if uri in abstracts or uri in overviews
    }
