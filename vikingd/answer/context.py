"""BuildContext: passages and the summaries of their contexts become the text for a prompt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import NamedTuple, TypeVar

from viking_kernels.arrays import F32

from vikingd.answer.deadline import Runner
from vikingd.answer.finder import Finder
from vikingd.answer.retriever import Retriever
from vikingd.context.build import BuiltContext, Plan, build
from vikingd.context.prompt_parts import Piece
from vikingd.domain.answers import Degraded, ReplyBudget, Stage, cut_notes
from vikingd.domain.errors import InvalidField
from vikingd.domain.find import FindQuery, FindResult
from vikingd.domain.hidden import marked
from vikingd.domain.retrieve import RetrieveQuery, RetrieveResult
from vikingd.domain.rights import Caller, Right
from vikingd.engine import Engine

_SOURCES = 4  # times the bytes of the reply: the bytes of the sources of a context

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ItemRef:
    """A context (passage 0) or one of its passages."""

    uri: str
    passage: int
    score: float


class QuerySource(NamedTuple):
    """A find or a retrieval, whose results are the source of a context."""

    query: FindQuery | RetrieveQuery
    vector: F32 | None


Source = QuerySource | list[ItemRef]


class _Found(NamedTuple):
    """The pieces of a source, and how they were found."""

    pieces: list[Piece]
    stages: tuple[Stage, ...]
    degraded: Degraded
    revision: int


class ContextBuilder:
    """Answers BuildContext, in replies of about `most_bytes`."""

    def __init__(
        self, engine: Engine, finder: Finder, retriever: Retriever, most_bytes: int
    ) -> None:
        self._engine = engine
        self._finder = finder
        self._retriever = retriever
        self._source_bytes = _SOURCES * most_bytes

    async def answer(
        self,
        source: Source,
        plan: Plan,
        caller: Caller,
        run: Runner,
        reply: Callable[[BuiltContext, int, Sequence[Stage], Degraded], _T],
    ) -> _T:
        """Return what `reply` makes of (context, revision, stages, notes).

        Contexts that the caller may not read are gone, as missing ones are.

        Raises:
            NotFound: nothing readable exists below the target of the source.
            InvalidField: a field of the source is wrong.
            TooLarge: the sources have more bytes than a call may read.
        """
        found = await self._found(source, caller, run)

        def build_reply() -> _T:
            started = perf_counter()
            budget = ReplyBudget(self._source_bytes)
            pieces = found.pieces
            if isinstance(source, list):
                pieces = pieces_named(self._engine, source, caller, budget)
            built = build(list(_with_summaries(self._engine, pieces, budget)), plan)
            stages = (*found.stages, Stage("build", started, perf_counter()))
            return reply(built, found.revision, stages, found.degraded)

        return await run.away(build_reply)

    async def _found(self, source: Source, caller: Caller, run: Runner) -> _Found:
        """Return the pieces that a find or a retrieval finds; of named items none."""
        if isinstance(source, list):
            now = perf_counter()
            return _Found([], (Stage("embed", now, now),), (), self._engine.snapshot.revision)
        query, vector = source
        if isinstance(query, FindQuery):
            with below("find"):
                found, embed = await self._finder.result(
                    query, vector, caller, run, self._source_bytes
                )
            notes = (*found.degraded, *cut_notes(found.left_out, found.shortened))
            return _Found(pieces_found(found), (embed, *found.stages), notes, found.revision)
        with below("retrieve"):
            result, embed = await self._retriever.answer(
                query, vector, caller, run, self._source_bytes
            )
        stages = (embed, *result.stages)
        return _Found(pieces_retrieved(result), stages, result.degraded, result.revision)


@contextmanager
def below(field: str) -> Iterator[None]:
    """Add the field of a source to the path of a faulty field in it."""
    try:
        yield
    except InvalidField as error:
        raise error.below(field) from None


def pieces_found(result: FindResult) -> list[Piece]:
    """Return the passages of a find, or a context as a whole if it shows none.

    The best passage has the score of its file. The others have less, in proportion to their own
    scores.
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
    """Return the items of a retrieval. An abstract stands for its context as a whole."""
    return [
        Piece(item.uri, item.score, item.section, item.text, item.start, item.end)
        if item.passage
        else Piece(item.uri, item.score)
        for item in result.items
    ]


def pieces_named(
    engine: Engine, items: Sequence[ItemRef], caller: Caller, budget: ReplyBudget
) -> list[Piece]:
    """Return the named items; missing passages, and all that is unreadable, are gone.

    Raises:
        TooLarge: the texts to read do not fit.
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
            section, start, end, text = found
            pieces.append(Piece(item.uri, item.score, section, text, start, end))
        else:
            pieces.append(Piece(item.uri, item.score, gone=item.passage > 0 or not is_readable))
    return pieces


def _with_summaries(
    engine: Engine, pieces: Sequence[Piece], budget: ReplyBudget
) -> Iterator[Piece]:
    """Yield the pieces with abstract, overview and, for whole contexts, content; or as gone.

    Hidden characters are U+FFFD, so that a person can see all that a model reads.
    """
    summaries = engine.store.texts_of(
        list({piece.uri for piece in pieces if piece.text}), budget, with_content=False
    )
    whole = engine.store.texts_of(
        list({piece.uri for piece in pieces if not piece.text and not piece.gone}),
        budget,
        with_content=True,
    )
    for piece in pieces:
        texts = (summaries if piece.text else whole).get(piece.uri)
        if texts is None or piece.gone:
            yield replace(piece, text="", gone=True)
        else:
            abstract, overview, content = map(marked, texts)
            yield replace(
                piece,
                section=marked(piece.section),
                text=marked(piece.text),
                abstract=abstract,
                overview=overview,
                content=None if piece.text else content,
            )
