"""One query by a strategy of the caller: the passages below one directory, best first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import count, groupby, repeat
from math import prod
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple

import numpy as np
from viking_kernels.arrays import F32

from vikingd.answer.fusion import RankedList, diverse, fused
from vikingd.answer.passages import key_of, name_of, vector_of
from vikingd.answer.ranking import DEEPER, MOST_DEPTH, Ranking
from vikingd.domain import pace
from vikingd.domain import uri as uris
from vikingd.domain.answers import Stage
from vikingd.domain.errors import InvalidField
from vikingd.domain.retrieve import (
    Boost,
    Mode,
    RetrieveQuery,
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


_Boost = tuple[float, Callable[[str, int], bool]]
"""(factor, test of a file by its URI and row)."""


class Retrieval(Ranking):
    """A retrieval on one snapshot, below one directory.

    Raises:
        NotFound: the target does not exist.
        InvalidField: the target is a file, or `where` is malformed.
    """

    def __init__(
        self, engine: Engine, query: RetrieveQuery, snapshot: Snapshot | None = None
    ) -> None:
        started = perf_counter()
        super().__init__(engine, query, snapshot)
        self.query = query
        self.orders_ties = query.trace or query.mode is Mode.HYBRID
        self._depth = 2 * query.top_k
        if self.has_two_sides:
            self._depth = max(LEAST_DEPTH, self._depth)
        self._ready: dict[str, RankedList] = {}
        self.stages = [Stage("plan", started, perf_counter())]

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
        """Rank by words, for `pool` to use."""
        self._ready["keyword"] = self._timed("keyword", lambda: self.ranked_by_words(self._depth))

    def meaning(self, vector: F32) -> None:
        """Rank by meaning, for `pool` to use."""
        self._ready["vector"] = self._timed(
            "vector", lambda: self.ranked_by_meaning(vector, self._depth)
        )

    def lists(self, vector: F32 | None, depth: int) -> tuple[RankedList, ...]:
        """Return the lists to fuse, each of at most `depth` texts.

        A fusion by rank has two: by meaning and by words. Else there is one list. Without a vector
        it is the list by words.
        """
        fusion = self.query.fusion
        if vector is None or not self.by_meaning:
            return (self.ranked_by_words(depth),)
        if isinstance(fusion, Rrf):
            return self.ranked_by_meaning(vector, depth), self.ranked_by_words(depth)
        weights = (fusion.vector_weight, fusion.keyword_weight)
        return (self.ranked_by_both(vector, weights, depth),)

    def pool(self, vector: F32 | None) -> Pool:
        """Return the hits to choose from: all that are shown, or more if the query is diverse."""
        depth = self._depth
        while True:
            found, sides = self._ranked(vector, depth)
            hits = self._hits(found)
            if not found.is_full or depth >= MOST_DEPTH or self._is_settled(found, hits):
                return Pool(hits, found, sides)
            depth = min(depth * DEEPER, MOST_DEPTH)
            self._ready.clear()

    def _is_settled(self, found: RankedList, hits: Sequence[TextHit]) -> bool:
        """Return whether all later texts rank behind the hits, or miss the threshold."""
        threshold = self.query.score_threshold
        most = found.scores.item(-1) * prod(max(1.0, factor) for factor, _ in self.boosts)
        if threshold is not None and most <= threshold:
            return True
        if len(hits) < self.query.top_k:
            return False
        return not self.boosts or most < min(hit.score for hit in chosen(self.query, hits))

    # Ranking

    def _ranked(self, vector: F32 | None, depth: int) -> tuple[RankedList, dict[str, RankedList]]:
        """Return the list that answers, and the lists that it is made of."""
        fusion = self.query.fusion
        if vector is None or not self.by_meaning:
            words = self._side("keyword", lambda: self.ranked_by_words(depth))
            return words, {"keyword": words}
        weights = (fusion.vector_weight, fusion.keyword_weight)
        if not self.has_two_sides and self.query.mode is Mode.HYBRID:
            return self._timed("score", lambda: self.ranked_by_both(vector, weights, depth)), {}
        meaning = self._side("vector", lambda: self.ranked_by_meaning(vector, depth))
        if not isinstance(fusion, Rrf) or self.query.mode is Mode.VECTOR:
            return meaning, {"vector": meaning}
        words = self._side("keyword", lambda: self.ranked_by_words(depth))
        both = self._timed("fuse", lambda: fused((meaning, words), weights, float(fusion.k)))
        return both, {"vector": meaning, "keyword": words}

    def _side(self, name: str, look: Callable[[], RankedList]) -> RankedList:
        return self._ready.get(name) or self._timed(name, look)

    def _timed(self, stage: str, work: Callable[[], RankedList]) -> RankedList:
        started = perf_counter()
        found = work()
        self.stages.append(Stage(stage, started, perf_counter()))
        return found

    # Choosing

    @cached_property
    def boosts(self) -> list[_Boost]:
        """The boosts of the query for the files of its snapshot."""
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

    def _hits(self, found: RankedList) -> list[TextHit]:
        """Return the hits above the threshold, in order, each text once."""
        rows, scores = found.rows.tolist(), found.scores.tolist()
        listed: Iterable[TextHit] = map(TextHit, scores, rows, count(), repeat(1.0), repeat(self))
        if self.boosts:
            listed = sorted(map(self._boosted, listed), key=_score_of, reverse=True)
        return distinct(self.query, self.snapshot, listed)

    def _boosted(self, hit: TextHit) -> TextHit:
        uri, _ = name_of(self.snapshot, hit.row)
        file = self.snapshot.tree.texts.file.item(hit.row)
        boost = prod(factor for factor, holds in self.boosts if holds(uri, file))
        return hit._replace(score=hit.score * boost, boost=boost)


class TextHit(NamedTuple):
    """A text that may be returned."""

    score: float
    row: int
    at: int
    """Its place in the list that answers."""

    boost: float
    part: Retrieval


class Pool(NamedTuple):
    """The hits of one part."""

    hits: list[TextHit]
    found: RankedList
    """The list that answers."""

    sides: dict[str, RankedList]
    """The lists that it is made of."""


def distinct(query: RetrieveQuery, snapshot: Snapshot, listed: Iterable[TextHit]) -> list[TextHit]:
    """Return the hits above the threshold, each text once, ties by URI and passage.

    `listed` has them by falling score.
    """
    threshold = query.score_threshold
    wanted = query.top_k * (_MMR_POOL if query.diversity else 1)
    kept: list[TextHit] = []
    seen: set[object] = set()
    for hit in _in_order(snapshot, listed):
        pace.step()
        if len(kept) == wanted or (threshold is not None and hit.score <= threshold):
            break
        keys: list[object] = [key_of(snapshot, hit.row)]
        if query.group_by_context:
            keys.append(snapshot.tree.texts.file.item(hit.row))
        if seen.isdisjoint(keys):
            seen.update(keys)
            kept.append(hit)
    return kept


def _in_order(snapshot: Snapshot, listed: Iterable[TextHit]) -> Iterator[TextHit]:
    """Yield hits by falling score, ties by URI and passage."""
    for _, tied in groupby(listed, _score_of):
        hits = list(tied)
        if len(hits) > 1:
            hits.sort(key=lambda hit: name_of(snapshot, hit.row))
        yield from hits


def chosen(query: RetrieveQuery, hits: Sequence[TextHit]) -> Sequence[TextHit]:
    """Return the hits to show, the diverse ones of a pool.

    They are compared by their vectors, each less its centroid.
    """
    if not query.diversity or not hits:
        return hits
    snapshot = hits[0].part.snapshot
    vectors = np.zeros((len(hits), snapshot.dimension), np.float32)
    for i, (_, row, _, _, part) in enumerate(hits):
        vector = vector_of(snapshot, part.scope, row)
        if vector is not None:
            vectors[i] = vector - part.coded.raw[snapshot.tree.texts.script[row]]
    scores = np.array([hit.score for hit in hits])
    return [hits[i] for i in diverse(scores, vectors, query.diversity, query.top_k)]


_score_of = attrgetter("score")
