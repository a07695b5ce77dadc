"""One query by a strategy of the caller, answered by a list of passages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count, groupby, repeat
from math import prod
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np
from viking_kernels.arrays import F32

from vikingd.answer.fusion import Places, RankedList, diverse, fused, places_in
from vikingd.answer.listing import ITEM, list_files
from vikingd.answer.passages import key_of, name_of, shown, vector_of
from vikingd.answer.query_scope import LIGHT_LIMIT, QueryScope
from vikingd.answer.ranking import DEEPER, MOST_DEPTH, Ranking
from vikingd.domain import pace
from vikingd.domain import uri as uris
from vikingd.domain.answers import UNBOUNDED, Degraded, ReplyBudget, Stage, size_of
from vikingd.domain.errors import InvalidField
from vikingd.domain.find import Gathered
from vikingd.domain.retrieve import (
    Boost,
    Include,
    ItemTrace,
    Mode,
    Outcome,
    RetrievedItem,
    RetrieveQuery,
    RetrieveResult,
    Rrf,
)
from vikingd.engine import Engine
from vikingd.index.metadata import where as filters
from vikingd.index.snapshot import Snapshot

LEAST_DEPTH = 100
"""Texts of each list of a fusion, at least. Without a fusion, twice as many as are wanted do."""

POSTINGS_OF_A_TEXT = 4
"""Postings that a search by words alone reads in the time of scoring one text."""

_MMR_POOL = 4  # times top_k: the candidates of diversity
_TEXT = frozenset((Include.TEXT,))

_Boost = tuple[float, Callable[[str, int], bool]]
"""(factor, test of a file by its URI and row)."""


class GatherItems(Protocol):
    """Encodes items that have only their text."""

    def __call__(
        self, snapshot: Snapshot, chosen: Sequence[tuple[int, float]], most_bytes: int
    ) -> Gathered | None:
        """Return the items of (row of a text, score); None if not all of them fit whole."""


class Retrieval(QueryScope):
    """A retrieval on one snapshot.

    Attributes:
        most_bytes: of the items in the reply, about; set before the answer is made.

    Raises:
        NotFound: the target does not exist.
        InvalidField: the target is a file, or `where` is malformed.
    """

    def __init__(
        self, engine: Engine, query: RetrieveQuery, snapshot: Snapshot | None = None
    ) -> None:
        started = perf_counter()
        super().__init__(engine, query, snapshot)
        self._engine = engine
        self.query = query
        self.most_bytes = UNBOUNDED
        self._ranking = Ranking(self, orders_ties=query.trace or query.mode is Mode.HYBRID)
        self._depth = 2 * query.top_k
        if self.has_two_sides:
            self._depth = max(LEAST_DEPTH, self._depth)
        self._ready: dict[str, RankedList] = {}
        self._stages = [Stage("plan", started, perf_counter())]

    @property
    def is_light(self) -> bool:
        """See QueryScope; boosts by metadata and a long answer take time, too."""
        query = self.query
        if query.top_k > LIGHT_LIMIT or any(boost.where is not None for boost in query.boosts):
            return False
        return super().is_light

    def _scored(self) -> int:
        if self.by_meaning or self.query.listing:
            return super()._scored()
        return self.snapshot.count_postings(self.terms.hashes) // POSTINGS_OF_A_TEXT

    @property
    def by_meaning(self) -> bool:
        """True if a vector is needed. Identifiers are found by words alone."""
        mode = self.query.mode
        return not self.query.listing and (
            mode is Mode.VECTOR or (mode is Mode.HYBRID and not self.identifiers)
        )

    @property
    def has_two_sides(self) -> bool:
        """True if `words` and `meaning` can run side by side."""
        return (
            self.by_meaning
            and isinstance(self.query.fusion, Rrf)
            and self.query.mode is Mode.HYBRID
        )

    def words(self) -> None:
        """Rank by words, for `answer` to use."""
        self._ready["keyword"] = self._timed("keyword", lambda: self._ranking.by_words(self._depth))

    def meaning(self, vector: F32) -> None:
        """Rank by meaning, for `answer` to use."""
        self._ready["vector"] = self._timed(
            "vector", lambda: self._ranking.by_meaning(vector, self._depth)
        )

    def lists(self, vector: F32 | None, depth: int) -> tuple[RankedList, ...]:
        """Return the lists to fuse, each of at most `depth` texts.

        A fusion by rank has two: by meaning and by words. Else there is one list. Without a vector
        it is the list by words.
        """
        fusion = self.query.fusion
        if vector is None or not self.by_meaning:
            return (self._ranking.by_words(depth),)
        if isinstance(fusion, Rrf):
            return self._ranking.by_meaning(vector, depth), self._ranking.by_words(depth)
        weights = (fusion.vector_weight, fusion.keyword_weight)
        return (self._ranking.by_both(vector, weights, depth),)

    def answer(
        self, vector: F32 | None, degraded: Degraded = (), gather: GatherItems | None = None
    ) -> RetrieveResult:
        """Return the items, or the reason for their absence.

        Args:
            vector: [dim] the query's embedding, of any length; None: words alone count.
            degraded: notes for the reply.
            gather: encodes the items, where it can.
        """
        _ = self._boosts  # raises if one is malformed
        result = self._listing() if self.query.listing else self._search(vector, degraded, gather)
        dropped = self.query.optional_clauses
        if result.outcome is Outcome.FOUND or not dropped:
            return result
        where = {k: v for k, v in (self.query.where or {}).items() if k not in dropped}
        relaxed = replace(self.query, where=where, optional_clauses=())
        other = self.again(relaxed, self.most_bytes)
        return replace(other.answer(vector, degraded, gather), relaxed_clauses=dropped)

    def again(self, query: RetrieveQuery, most_bytes: int) -> Retrieval:
        """Return a retrieval on the same snapshot, for an answer of this size."""
        other = Retrieval(self._engine, query, self.snapshot)
        other.most_bytes = most_bytes
        return other

    def _search(
        self, vector: F32 | None, degraded: Degraded, gather: GatherItems | None
    ) -> RetrieveResult:
        found, sides, chosen = self._found(vector)
        started = perf_counter()
        budget, gathered, items = ReplyBudget(self.most_bytes), None, tuple[RetrievedItem, ...]()
        if gather is not None and self.query.include == _TEXT and not self.query.trace:
            named = [(hit.row, hit.score) for hit in chosen]
            gathered = gather(self.snapshot, named, self.most_bytes)
        if gathered is None:
            named_sides = ("vector", "keyword") if self.query.trace else ()
            places = [places_in(sides.get(name)) for name in named_sides]
            items = self._items(chosen, found, places, budget)
        outcome = Outcome.FOUND
        if not items and not (gathered and gathered.total):
            outcome = Outcome.BELOW_THRESHOLD if len(found.rows) else Outcome.NO_MATCH
        self._stages.append(Stage("reply", started, perf_counter()))
        return RetrieveResult(
            items,
            outcome,
            (),
            self.snapshot.revision,
            tuple(self._stages),
            (*degraded, *budget.notes()),
            is_cut=bool(budget.left_out or budget.shortened),
            gathered=gathered,
        )

    def _found(self, vector: F32 | None) -> tuple[RankedList, dict[str, RankedList], list[TextHit]]:
        """Return the list that answers, the lists that it is made of, and the hits to show."""
        depth = self._depth
        while True:
            found, sides = self._ranked(vector, depth)
            chosen = self._chosen(found)
            if not found.is_full or depth >= MOST_DEPTH or self._is_settled(found, chosen):
                return found, sides, chosen
            depth = min(depth * DEEPER, MOST_DEPTH)
            self._ready.clear()

    def _is_settled(self, found: RankedList, chosen: Sequence[TextHit]) -> bool:
        """Return whether all later texts rank behind the chosen ones, or miss the threshold."""
        threshold = self.query.score_threshold
        most = found.scores.item(-1) * prod(max(1.0, factor) for factor, _ in self._boosts)
        if threshold is not None and most <= threshold:
            return True
        if len(chosen) < self.query.top_k:
            return False
        return not self._boosts or most < min(hit.score for hit in chosen)

    # Ranking

    def _ranked(self, vector: F32 | None, depth: int) -> tuple[RankedList, dict[str, RankedList]]:
        """Return the list that answers, and the lists that it is made of."""
        fusion, ranking = self.query.fusion, self._ranking
        if vector is None or not self.by_meaning:
            words = self._side("keyword", lambda: ranking.by_words(depth))
            return words, {"keyword": words}
        weights = (fusion.vector_weight, fusion.keyword_weight)
        if not self.has_two_sides and self.query.mode is Mode.HYBRID:
            return self._timed("score", lambda: ranking.by_both(vector, weights, depth)), {}
        meaning = self._side("vector", lambda: ranking.by_meaning(vector, depth))
        if not isinstance(fusion, Rrf) or self.query.mode is Mode.VECTOR:
            return meaning, {"vector": meaning}
        words = self._side("keyword", lambda: ranking.by_words(depth))
        both = self._timed("fuse", lambda: fused((meaning, words), weights, float(fusion.k)))
        return both, {"vector": meaning, "keyword": words}

    def _side(self, name: str, look: Callable[[], RankedList]) -> RankedList:
        return self._ready.get(name) or self._timed(name, look)

    def _timed(self, stage: str, work: Callable[[], RankedList]) -> RankedList:
        started = perf_counter()
        found = work()
        self._stages.append(Stage(stage, started, perf_counter()))
        return found

    # Choosing

    @cached_property
    def _boosts(self) -> list[_Boost]:
        return [self._boost(boost, i) for i, boost in enumerate(self.query.boosts)]

    def _boost(self, boost: Boost, number: int) -> _Boost:
        if boost.where is None:
            return boost.factor, lambda uri, _: uris.is_within(uri, boost.uri_prefix)
        try:
            clause = filters.parse(boost.where)
        except InvalidField as error:
            raise error.below(f"boosts[{number}]") from None
        rows = len(self.snapshot.file_id)
        holds = self.snapshot.file_columns.mask(clause, rows, self.snapshot.revision)
        return boost.factor, lambda _, file: bool(holds[file])

    def _chosen(self, found: RankedList) -> list[TextHit]:
        """Return the hits above the threshold, in order, each text once."""
        query, threshold = self.query, self.query.score_threshold
        wanted = query.top_k * (_MMR_POOL if query.diversity else 1)
        chosen: list[TextHit] = []
        seen: set[object] = set()
        for hit in self._in_order(found):
            pace.step()
            if len(chosen) == wanted or (threshold is not None and hit.score <= threshold):
                break
            keys: list[object] = [key_of(self.snapshot, hit.row)]
            if query.group_by_context:
                keys.append(self.snapshot.tree.texts.file.item(hit.row))
            if seen.isdisjoint(keys):
                seen.update(keys)
                chosen.append(hit)
        return self._diverse(chosen) if query.diversity else chosen

    def _in_order(self, found: RankedList) -> Iterator[TextHit]:
        """Yield the hits with their boosts by falling score, ties by URI and passage."""
        rows, scores = found.rows.tolist(), found.scores.tolist()
        listed: Iterable[TextHit] = map(TextHit, scores, rows, count(), repeat(1.0))
        if self._boosts:
            listed = sorted(map(self._boosted, listed), key=_score_of, reverse=True)
        for _, tied in groupby(listed, _score_of):
            hits = list(tied)
            if len(hits) > 1:
                hits.sort(key=lambda hit: name_of(self.snapshot, hit.row))
            yield from hits

    def _boosted(self, hit: TextHit) -> TextHit:
        uri, _ = name_of(self.snapshot, hit.row)
        file = self.snapshot.tree.texts.file.item(hit.row)
        boost = prod(factor for factor, holds in self._boosts if holds(uri, file))
        return hit._replace(score=hit.score * boost, boost=boost)

    def _diverse(self, pool: list[TextHit]) -> list[TextHit]:
        """Return the diverse ones of the hits, by their vectors less the centroids."""
        snapshot = self.snapshot
        vectors = np.zeros((len(pool), snapshot.dimension), np.float32)
        for i, hit in enumerate(pool):
            vector = vector_of(snapshot, self.scope, hit.row)
            if vector is not None:
                vectors[i] = vector - self.coded.raw[snapshot.tree.texts.script[hit.row]]
        scores = np.array([hit.score for hit in pool])
        chosen = diverse(scores, vectors, self.query.diversity, self.query.top_k)
        return [pool[i] for i in chosen]

    # Showing

    def _items(
        self,
        chosen: Sequence[TextHit],
        found: RankedList,
        places: Sequence[Places],
        budget: ReplyBudget,
    ) -> tuple[RetrievedItem, ...]:
        """Return the items that fit, then fill in their texts as far as these fit."""
        items: list[RetrievedItem] = []
        for hit in chosen:
            pace.step()
            item = self._item(hit, found, places)
            if not budget.take(ITEM + size_of(item.uri) + len(item.vector)):
                budget.left_out = len(chosen) - len(items)
                break
            items.append(item)
        for item, hit in zip(items, chosen, strict=False):
            pace.step()
            if Include.TEXT in self.query.include:
                item.section, item.text, item.start, item.end = shown(
                    self.snapshot, hit.row, budget
                )
            else:
                section, _, item.start, item.end = shown(self.snapshot, hit.row)
                item.section = section if budget.take(size_of(section)) else ""
        return tuple(items)

    def _item(self, hit: TextHit, found: RankedList, places: Sequence[Places]) -> RetrievedItem:
        item = RetrievedItem(*name_of(self.snapshot, hit.row), "", "", 0, 0, hit.score)
        if Include.VECTOR in self.query.include:
            vector = vector_of(self.snapshot, self.scope, hit.row)
            item.vector = b"" if vector is None else vector.astype("<f4").tobytes()
        if self.query.trace:
            (vector_rank, dense), (keyword_rank, lexical) = (
                side.get(hit.row, (None, 0.0)) for side in places
            )
            if found.parts is not None:
                dense, lexical = found.parts[hit.at].tolist()
            item.trace = ItemTrace(
                vector_rank, keyword_rank, dense, lexical, found.scores.item(hit.at), hit.boost
            )
        return item

    def _listing(self) -> RetrieveResult:
        """Return a page of all files that the filters allow, by URI."""
        query, started = self.query, perf_counter()
        page = list_files(
            self,
            self._ranking.allowed,
            query.after,
            query.top_k,
            with_text=Include.TEXT in query.include,
            budget=ReplyBudget(self.most_bytes),
        )
        self._stages.append(Stage("score", started, perf_counter()))
        return RetrieveResult(
            page.items,
            Outcome.FOUND if page.items else Outcome.NO_MATCH,
            (),
            self.snapshot.revision,
            tuple(self._stages),
            (),
            page.items[-1].uri if page.has_more else "",
            is_cut=page.is_cut,
        )


class TextHit(NamedTuple):
    """A text that may be returned."""

    score: float
    row: int
    at: int
    """Its place in the list that answers."""

    boost: float


_score_of = attrgetter("score")
