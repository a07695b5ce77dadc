"""Retrieve: one query by the strategy that the caller chose, answered by a list of passages."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from itertools import groupby
from math import prod
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np
from viking_kernels import flat, weighted
from viking_kernels.arrays import F32, F64, I32, I64, TEXTS, U8, RawQuery, encode_file
from viking_kernels.dense import prepare
from viking_kernels.fusion import rrf
from viking_kernels.scope import tail_directories

from vikingd.answer.query_scope import LIGHT_LIMIT, Bound, keep_scratch, take_scratch
from vikingd.domain import pace
from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.model import Gathered, Stage
from vikingd.domain.query import (
    Boost,
    Include,
    ItemDebug,
    Mode,
    Outcome,
    RetrievedItem,
    RetrieveQuery,
    RetrieveResult,
    Rrf,
)
from vikingd.domain.reply_budget import MESSAGE, UNBOUNDED, Room, size_of
from vikingd.engine import Engine
from vikingd.index import ivf
from vikingd.index import where as filters
from vikingd.index.snapshot import Snapshot

LEAST_DEPTH = 100
"""Texts that each side looks at for a fusion, at least; else twice as many as are wanted."""

DEEPER = 4
"""So many times more are looked at when duplicates leave too few, or when what is further down may
come first: by a boost or, of equal ones, by its URI."""

MOST_DEPTH = 16_000

_MMR_POOL = 4  # times top_k: what diversity chooses from
_SHORT = 1024  # characters of a text that is compared as it is
ITEM = MESSAGE + 64
"""Bytes of an item without its texts."""

_TEXT = frozenset((Include.TEXT,))
_NOTHING: I32 = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows of texts, best first, with their scores [n].

    `parts` [n, 2] are dense and lexical where one search made both; `is_full` where there may be
    more.
    """

    rows: I32
    scores: F64
    is_full: bool
    parts: F64 | None = None


_EMPTY = Ranked(_NOTHING, np.zeros(0), False)


class GatherItems(Protocol):
    """Makes the bytes of items that bring their text alone."""

    def __call__(
        self, snapshot: Snapshot, chosen: Sequence[tuple[int, float]], most_bytes: int
    ) -> Gathered | None:
        """The items of (row of a text, score); None where there is no room for the whole of all."""


class Strategy(Bound):
    """A retrieval on one snapshot; see Bound."""

    def __init__(
        self, engine: Engine, query: RetrieveQuery, snapshot: Snapshot | None = None
    ) -> None:
        started = perf_counter()
        super().__init__(engine, query, snapshot)
        self._engine = engine
        self.query = query
        self.most_bytes = UNBOUNDED
        self._depth = max(LEAST_DEPTH, 2 * query.top_k)
        self._ready: dict[str, Ranked] = {}
        self._stages = [Stage("plan", started, perf_counter())]

    @property
    def is_light(self) -> bool:
        """See Bound; boosts by metadata and a long answer take their time too."""
        query = self.query
        if query.top_k > LIGHT_LIMIT or any(boost.where is not None for boost in query.boosts):
            return False
        return super().is_light

    @cached_property
    def _boosts(self) -> list[tuple[float, Callable[[str, int], bool]]]:
        return [self._boost(boost, i) for i, boost in enumerate(self.query.boosts)]

    @cached_property
    def _allowed(self) -> U8:
        return self.allowed(files=True)

    def _boost(self, boost: Boost, number: int) -> tuple[float, Callable[[str, int], bool]]:
        """(factor, whether it holds for a file by URI and row)."""
        if boost.where is None:
            return boost.factor, lambda uri, _: uris.is_within(uri, boost.uri_prefix)
        try:
            clause = filters.parse(boost.where)
        except InvalidField as error:
            raise error.below(f"boosts[{number}]") from None
        rows = len(self.snapshot.file_id)
        holds = self.snapshot.file_columns.mask(clause, rows, self.snapshot.revision)
        return boost.factor, lambda _, file: bool(holds[file])

    @property
    def by_meaning(self) -> bool:
        """Whether a vector is asked for: identifiers are found by what they are."""
        mode = self.query.mode
        return not self.query.listing and (
            mode is Mode.VECTOR or (mode is Mode.HYBRID and not self.identifiers)
        )

    @property
    def has_two_sides(self) -> bool:
        """Whether `words` and `meaning` can be asked side by side."""
        return (
            self.by_meaning
            and isinstance(self.query.fusion, Rrf)
            and self.query.mode is Mode.HYBRID
        )

    def words(self) -> None:
        """Looks by words; `answer` uses what is found."""
        self._ready["keyword"] = self._timed("keyword", lambda: self._by_words(self._depth))

    def meaning(self, vector: F32) -> None:
        """Looks by meaning; `answer` uses what is found."""
        self._ready["vector"] = self._timed("vector", lambda: self._by_meaning(vector, self._depth))

    def lists(self, vector: F32 | None, depth: int) -> tuple[Ranked, ...]:
        """What there is to be fused, each list of at most `depth` texts.

        By meaning and by words for a fusion by rank; else the one list that is fused already, or
        has but one side. Without a vector it is that by words.
        """
        fusion = self.query.fusion
        if vector is None or not self.by_meaning:
            return (self._by_words(depth),)
        if isinstance(fusion, Rrf):
            return self._by_meaning(vector, depth), self._by_words(depth)
        return (self._by_both(vector, (fusion.vector_weight, fusion.keyword_weight), depth),)

    def answer(
        self, vector: F32 | None, degraded: tuple[str, ...] = (), gather: GatherItems | None = None
    ) -> RetrieveResult:
        """The items, or why there are none.

        Args:
            vector: [dim] the query's embedding, of any length; None: words alone count.
            degraded: what the answer has to do without, for the reply.
            gather: makes the items where it can.
        """
        _ = self._boosts  # raises where one is malformed
        result = self._listing() if self.query.listing else self._search(vector, degraded, gather)
        dropped = self.query.optional_clauses
        if result.outcome is Outcome.FOUND or not dropped:
            return result
        where = {k: v for k, v in (self.query.where or {}).items() if k not in dropped}
        relaxed = replace(self.query, where=where, optional_clauses=())
        again = Strategy(self._engine, relaxed, self.snapshot)
        again.most_bytes = self.most_bytes
        return replace(again.answer(vector, degraded, gather), relaxed_clauses=dropped)

    def once_more(self, most_bytes: int) -> Strategy:
        """The same for an answer of another size."""
        other = Strategy(self._engine, self.query, self.snapshot)
        other.most_bytes = most_bytes
        return other

    def _search(
        self, vector: F32 | None, degraded: tuple[str, ...], gather: GatherItems | None
    ) -> RetrieveResult:
        depth = self._depth
        while True:
            found, sides = self._ranked(vector, depth)
            chosen = self._chosen(found)
            if not found.is_full or depth >= MOST_DEPTH or self._is_settled(found, chosen):
                break
            depth = min(depth * DEEPER, MOST_DEPTH)
            self._ready.clear()
        started = perf_counter()
        room, gathered, items = Room(self.most_bytes), None, tuple[RetrievedItem, ...]()
        if gather is not None and self.query.include == _TEXT and not self.query.debug:
            named = [(one.row, one.score) for one in chosen]
            gathered = gather(self.snapshot, named, self.most_bytes)
        if gathered is None:
            named_sides = ("vector", "keyword") if self.query.debug else ()
            places = [_places(sides.get(name)) for name in named_sides]
            items = self._items(chosen, found, places, room)
        outcome = Outcome.FOUND
        if not items and not (gathered and gathered.total):
            outcome = Outcome.BELOW_THRESHOLD if len(found.rows) else Outcome.NO_MATCH
        self._stages.append(Stage("reply", started, perf_counter()))
        stages = tuple(self._stages)
        return RetrieveResult(
            items,
            outcome,
            (),
            self.snapshot.revision,
            stages,
            (*degraded, *room.notes()),
            is_cut=room.is_cut,
            gathered=gathered,
        )

    def _is_settled(self, found: Ranked, chosen: Sequence[_Candidate]) -> bool:
        """Whether what a deeper look would find comes later, or is not above the threshold."""
        threshold = self.query.score_threshold
        most = found.scores.item(-1) * prod(max(1.0, factor) for factor, _ in self._boosts)
        if threshold is not None and most <= threshold:
            return True
        if len(chosen) < self.query.top_k:
            return False
        return not self._boosts or most < min(one.score for one in chosen)

    # Looking

    def _ranked(self, vector: F32 | None, depth: int) -> tuple[Ranked, dict[str, Ranked]]:
        """What answers, and the sides that it is made of."""
        fusion = self.query.fusion
        if vector is None or not self.by_meaning:
            words = self._side("keyword", lambda: self._by_words(depth))
            return words, {"keyword": words}
        weights = (fusion.vector_weight, fusion.keyword_weight)
        if not self.has_two_sides and self.query.mode is Mode.HYBRID:
            return self._timed("score", lambda: self._by_both(vector, weights, depth)), {}
        meaning = self._side("vector", lambda: self._by_meaning(vector, depth))
        if not isinstance(fusion, Rrf) or self.query.mode is Mode.VECTOR:
            return meaning, {"vector": meaning}
        words = self._side("keyword", lambda: self._by_words(depth))
        fused = self._timed("fuse", lambda: _fused((meaning, words), weights, float(fusion.k)))
        return fused, {"vector": meaning, "keyword": words}

    def _side(self, name: str, look: Callable[[], Ranked]) -> Ranked:
        return self._ready.get(name) or self._timed(name, look)

    def _timed(self, stage: str, work: Callable[[], Ranked]) -> Ranked:
        started = perf_counter()
        found = work()
        self._stages.append(Stage(stage, started, perf_counter()))
        return found

    def _by_words(self, depth: int) -> Ranked:
        return self._first(depth, self._look_by_words)

    def _look_by_words(self, depth: int) -> Ranked:
        snapshot, scope = self.snapshot, self.scope
        if not len(self.terms.hashes):
            return _EMPTY
        inside = tail_directories(snapshot.tree.directories, scope)
        terms = snapshot.terms(self.terms.hashes, self.terms.weights)
        rows, scores = flat.keyword_top(
            snapshot.tree.texts, self.counts, scope, inside, terms, self._allowed, depth
        )
        return Ranked(rows, scores.astype(np.float64), len(rows) == depth)

    def _by_meaning(self, vector: F32, depth: int) -> Ranked:
        return self._by_both(vector, (1.0, 0.0), depth)

    def _by_both(self, vector: F32, weights: tuple[float, float], depth: int) -> Ranked:
        return self._first(depth, lambda more: self._look_by_both(vector, weights, more))

    def _look_by_both(self, vector: F32, weights: tuple[float, float], depth: int) -> Ranked:
        snapshot, scope = self.snapshot, self.scope
        asked = self.asked(vector, self.script(vector), dense=True, lexical=False)
        scratch = take_scratch(snapshot)
        rows, scores, parts = weighted.weighted_top(
            snapshot.arrays,
            self.coded,
            asked,
            scope,
            snapshot.terms(self.terms.hashes, self.terms.weights),
            self._allowed,
            weighted.WeightedPlan(weights, depth, self._near(asked, weights, depth)),
            scratch,
        )
        keep_scratch(scratch)
        return Ranked(rows, scores.astype(np.float64), len(rows) == depth, parts)

    def _near(self, asked: RawQuery, weights: tuple[float, float], depth: int) -> I32:
        """What a large base's inverted file proposes; it knows no words and no filter."""
        inverted, scope = self.snapshot.inverted_file, self.scope
        small = self.counts[TEXTS] <= self.exhaustive_texts
        if inverted is None or small or weights[1] > 0 or len(self._allowed):
            return _NOTHING
        compared = prepare(asked, self.coded)
        return ivf.near(inverted, compared.direction, scope.text_low, scope.text_high, depth)

    def _first(self, depth: int, look: Callable[[int], Ranked]) -> Ranked:
        """The first texts of a side, ties by name: rows change with a compaction."""
        wide = depth + 1
        found = look(wide)
        while found.is_full and wide < MOST_DEPTH and found.scores[depth - 1] == found.scores[-1]:
            wide = min(wide * DEEPER, MOST_DEPTH)
            found = look(wide)
        order = self._by_name(found, depth)[:depth]
        parts = None if found.parts is None else found.parts[order]
        return Ranked(found.rows[order], found.scores[order], len(found.rows) > depth, parts)

    def _by_name(self, found: Ranked, depth: int) -> I64:
        """[n] places of what was found, by falling score, ties by name as far as that counts.

        It counts for what is among the first `depth`, and for the place of each where places are
        fused or shown. Others are put in their order when they are chosen.
        """
        rows, scores = found.rows.tolist(), found.scores
        query = self.query
        all_count = query.debug or query.mode is Mode.HYBRID
        places = np.arange(len(rows))
        start = 0
        for end in [*(np.flatnonzero(scores[1:] != scores[:-1]) + 1).tolist(), len(rows)]:
            if start < depth < end or (all_count and end - start > 1):
                places[start:end] = sorted(range(start, end), key=lambda i: self._name(rows[i]))
            start = end
        return places

    def _name(self, row: int) -> tuple[str, int]:
        """URI and passage of a text."""
        snapshot = self.snapshot
        file, passage = snapshot.tree.texts.file.item(row), snapshot.text_ordinal.item(row)
        return snapshot.file_uri(file), passage

    # Choosing

    def _chosen(self, found: Ranked) -> list[_Candidate]:
        """The items to return: in order, each text once, above the threshold."""
        query, threshold = self.query, self.query.score_threshold
        wanted = query.top_k * (_MMR_POOL if query.diversity else 1)
        chosen: list[_Candidate] = []
        seen: set[object] = set()
        for one in self._in_order(found):
            pace.step()
            if len(chosen) == wanted or (threshold is not None and one.score <= threshold):
                break
            keys: list[object] = [key_of(shown(self.snapshot, one.row)[1])]
            if query.group_by_context:
                keys.append(self.snapshot.tree.texts.file.item(one.row))
            if seen.isdisjoint(keys):
                seen.update(keys)
                chosen.append(one)
        return self._diverse(chosen) if query.diversity else chosen

    def _in_order(self, found: Ranked) -> Iterator[_Candidate]:
        """By falling score, ties by URI and passage; boosts applied."""
        listed: Iterable[_Candidate] = (
            _Candidate(score, *self._name(row), row, at, 1.0)
            for at, (row, score) in enumerate(
                zip(found.rows.tolist(), found.scores.tolist(), strict=True)
            )
        )
        if self._boosts:
            listed = sorted(map(self._boosted, listed), key=lambda one: -one.score)
        for _, tied in groupby(listed, key=lambda one: one.score):
            yield from sorted(tied, key=lambda one: (one.uri, one.passage))

    def _boosted(self, one: _Candidate) -> _Candidate:
        file = self.snapshot.tree.texts.file.item(one.row)
        boost = prod(factor for factor, holds in self._boosts if holds(one.uri, file))
        return one._replace(score=one.score * boost, boost=boost)

    def _diverse(self, pool: list[_Candidate]) -> list[_Candidate]:
        """Maximal marginal relevance; a text without a vector is like no other."""
        if not pool:
            return pool
        vectors = np.zeros((len(pool), self.snapshot.dimension), np.float32)
        for i, one in enumerate(pool):
            vector = self._vector(one.row)
            if vector is not None:
                vectors[i] = vector - self.coded.raw[self.snapshot.tree.texts.script[one.row]]
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
        share = self.query.diversity
        relevance = np.array([one.score for one in pool]) / max(one.score for one in pool)
        nearest = np.zeros(len(pool))
        left = np.ones(len(pool), bool)
        chosen = []
        for _ in range(min(self.query.top_k, len(pool))):
            worth = np.where(left, (1 - share) * relevance - share * nearest, -np.inf)
            best = int(worth.argmax())  # of equal ones the first
            left[best] = False
            chosen.append(pool[best])
            nearest = np.maximum(nearest, vectors @ vectors[best])
        return chosen

    # Showing

    def _items(
        self, chosen: Sequence[_Candidate], found: Ranked, places: Sequence[_Places], room: Room
    ) -> tuple[RetrievedItem, ...]:
        """As many items as there is room for; then their texts, as far as there is for these."""
        items: list[RetrievedItem] = []
        for one in chosen:
            pace.step()
            item = self._item(one, found, places)
            if not room.take(ITEM + size_of(item.uri) + len(item.vector)):
                room.left_out = len(chosen) - len(items)
                break
            items.append(item)
        for item, one in zip(items, chosen, strict=False):
            pace.step()
            if Include.TEXT in self.query.include:
                item.section, item.text, item.start, item.end = shown(self.snapshot, one.row, room)
            else:
                section, _, item.start, item.end = shown(self.snapshot, one.row)
                item.section = section if room.take(size_of(section)) else ""
        return tuple(items)

    def _item(self, one: _Candidate, found: Ranked, places: Sequence[_Places]) -> RetrievedItem:
        include = self.query.include
        item = RetrievedItem(one.uri, one.passage, "", "", 0, 0, one.score)
        if Include.VECTOR in include:
            vector = self._vector(one.row)
            item.vector = b"" if vector is None else vector.astype("<f4").tobytes()
        if self.query.debug:
            (vector_rank, dense), (keyword_rank, lexical) = (
                side.get(one.row, (None, 0.0)) for side in places
            )
            if found.parts is not None:
                dense, lexical = found.parts[one.at].tolist()
            item.debug = ItemDebug(
                vector_rank, keyword_rank, dense, lexical, found.scores.item(one.at), one.boost
            )
        return item

    def _vector(self, row: int) -> F32 | None:
        """The embedding of a text, if it has one."""
        vectors, base = self.snapshot.vectors, self.scope.base_texts
        if vectors.vector_at[row] > self.snapshot.revision:
            return None
        found: F32 = vectors.base_raw[row] if row < base else vectors.tail_raw[row - base]
        return found

    def _listing(self) -> RetrieveResult:
        """All files that the filters let through, by URI, from where the page before ended."""
        snapshot, scope, started = self.snapshot, self.scope, perf_counter()
        files, after, limit = snapshot.tree.files, self.query.after, self.query.top_k
        rows = np.concatenate(
            [
                np.arange(scope.file_low, scope.file_high),
                np.arange(scope.base_files, len(files.directory)),
            ]
        )
        directory = files.directory[rows]
        inside = np.zeros(len(snapshot.tree.directories.parent), bool)
        inside[scope.dir_low : scope.dir_high] = True
        inside[scope.base_dirs :] = tail_directories(snapshot.tree.directories, scope)
        kept = inside[directory] & (files.tombstoned[rows] > snapshot.revision)
        if len(self._allowed):
            kept &= self._allowed.astype(bool)
        named = ((snapshot.file_uri(row), row) for row in rows[kept].tolist())
        page = heapq.nsmallest(limit + 1, (one for one in named if one[0] > after))
        shown, room = Include.TEXT in self.query.include, Room(self.most_bytes)
        items: list[RetrievedItem] = []
        for uri, row in page[:limit]:
            text = snapshot.abstract(encode_file(row)) if shown else ""
            if not room.take(ITEM + size_of(uri) + size_of(text)) and items:
                break
            items.append(RetrievedItem(uri, 0, "", text, 0, 0, 1.0))
        self._stages.append(Stage("score", started, perf_counter()))
        return RetrieveResult(
            tuple(items),
            Outcome.FOUND if items else Outcome.NO_MATCH,
            (),
            snapshot.revision,
            tuple(self._stages),
            (),
            items[-1].uri if len(page) > len(items) else "",
            is_cut=len(items) < min(limit, len(page)),
        )


def shown(snapshot: Snapshot, row: int, room: Room | None = None) -> tuple[str, str, int, int]:
    """(section, text, start, end) of a passage; of an abstract its text alone.

    Of the text only what there is room for.
    """
    if snapshot.text_ordinal[row]:
        return snapshot.contents.passage(row, room)
    text = snapshot.abstract(encode_file(snapshot.tree.texts.file.item(row)))
    return "", text if room is None else room.text(text), 0, 0


def key_of(text: str) -> str | bytes:
    """What stands for a text among others: equal for equal ones, and never long."""
    if len(text) <= _SHORT:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class _Candidate(NamedTuple):
    """A text that may be returned; `at` is its place in the list that answers."""

    score: float
    uri: str
    passage: int
    row: int
    at: int
    boost: float


def _fused(sides: Sequence[Ranked], weights: tuple[float, float], k: float) -> Ranked:
    rows, scores = rrf(
        np.concatenate([side.rows for side in sides]),
        np.cumsum([len(side.rows) for side in sides]),
        np.array(weights),
        k,
    )
    return Ranked(rows, scores, any(side.is_full for side in sides))


_Places = dict[int, tuple[int | None, float]]


def _places(side: Ranked | None) -> _Places:
    """(place from 0, score) of each row of a side."""
    if side is None:
        return {}
    listed = zip(side.rows.tolist(), side.scores.tolist(), strict=True)
    return {row: (rank, score) for rank, (row, score) in enumerate(listed)}
