"""The answer of a retrieval: the passages of all readable parts of its target, as items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from time import perf_counter
from typing import Any, NamedTuple, Protocol

from viking_kernels.arrays import F32

from vikingd.answer.fusion import Places, RankedList, places_in
from vikingd.answer.listing import ITEM, list_files
from vikingd.answer.parts import parts_of
from vikingd.answer.passages import name_of, shown, vector_of
from vikingd.answer.query_scope import LIGHT_LIMIT, are_light
from vikingd.answer.retrieve import Pool, Retrieval, TextHit, chosen, distinct
from vikingd.domain import pace
from vikingd.domain.answers import UNBOUNDED, Degraded, ReplyBudget, Stage, size_of
from vikingd.domain.find import Gathered
from vikingd.domain.retrieve import (
    Include,
    ItemTrace,
    Outcome,
    RetrievedItem,
    RetrieveQuery,
    RetrieveResult,
)
from vikingd.domain.rights import Caller
from vikingd.engine import Engine
from vikingd.index.snapshot import Snapshot

_TEXT = frozenset((Include.TEXT,))


class GatherItems(Protocol):
    """Encodes items that have only their text."""

    def __call__(
        self, snapshot: Snapshot, chosen: Sequence[tuple[int, float]], most_bytes: int
    ) -> Gathered | None:
        """Return the items of (row of a text, score); None if not all of them fit whole."""


class Retrievals:
    """The retrievals below the parts of a target, one or more or none, whose items are merged.

    Args:
        engine, snapshot: of the parts.
        query: the retrieval of the whole target.
        parts: its retrievals below each part, in the order of URIs.

    Attributes:
        most_bytes: of the items in the reply, about; set before the answer is made.
    """

    def __init__(
        self,
        engine: Engine,
        snapshot: Snapshot,
        query: RetrieveQuery,
        parts: Sequence[Retrieval],
    ) -> None:
        self._engine = engine
        self._snapshot = snapshot
        self._parts = parts
        self.query = query
        self.most_bytes = UNBOUNDED

    @classmethod
    def bound(
        cls,
        engine: Engine,
        query: RetrieveQuery,
        caller: Caller,
        snapshot: Snapshot | None = None,
    ) -> Retrievals:
        """Return the retrievals over what the caller may read of the target.

        Raises:
            NotFound: nothing readable exists below the target.
            InvalidField: the target is a file, or `where` is malformed.
        """
        snapshot = snapshot or engine.snapshot
        parts = parts_of(query, caller, snapshot)
        return cls(engine, snapshot, query, [Retrieval(engine, part, snapshot) for part in parts])

    @property
    def is_light(self) -> bool:
        """See `are_light`; boosts by metadata and a long answer take time, too."""
        query = self.query
        if query.top_k > LIGHT_LIMIT or any(boost.where is not None for boost in query.boosts):
            return False
        return are_light(self._parts)

    @property
    def by_meaning(self) -> bool:
        """True if a vector is needed."""
        return any(part.by_meaning for part in self._parts)

    @property
    def has_two_sides(self) -> bool:
        """True if `words` and `meaning` can run side by side; several parts run in turn."""
        return len(self._parts) == 1 and self._parts[0].has_two_sides

    def words(self) -> None:
        """Rank by words, for `answer` to use."""
        self._parts[0].words()

    def meaning(self, vector: F32) -> None:
        """Rank by meaning, for `answer` to use."""
        self._parts[0].meaning(vector)

    def answer(
        self, vector: F32 | None, degraded: Degraded = (), gather: GatherItems | None = None
    ) -> RetrieveResult:
        """Return the items, or the reason for their absence.

        Args:
            vector: [dim] the query's embedding, of any length; None: words alone count.
            degraded: notes for the reply.
            gather: encodes the items, where it can.
        """
        for part in self._parts:
            _ = part.boosts  # raises if one is malformed
        result = self._listing() if self.query.listing else self._search(vector, degraded, gather)
        dropped = self.query.optional_clauses
        if result.outcome is Outcome.FOUND or not dropped:
            return result
        where = {k: v for k, v in (self.query.where or {}).items() if k not in dropped}
        other = self.again(self.most_bytes, where=where, optional_clauses=())
        return replace(other.answer(vector, degraded, gather), relaxed_clauses=dropped)

    def again(self, most_bytes: int, **changes: Any) -> Retrievals:
        """Return them on the same snapshot with a changed query, for an answer of this size."""
        parts = [
            Retrieval(self._engine, replace(part.query, **changes), self._snapshot)
            for part in self._parts
        ]
        query = replace(self.query, **changes)
        other = Retrievals(self._engine, self._snapshot, query, parts)
        other.most_bytes = most_bytes
        return other

    def _search(
        self, vector: F32 | None, degraded: Degraded, gather: GatherItems | None
    ) -> RetrieveResult:
        pools = {part: part.pool(vector) for part in self._parts}
        started = perf_counter()
        hits = chosen(self.query, self._merged(list(pools.values())))
        budget, gathered, items = ReplyBudget(self.most_bytes), None, tuple[RetrievedItem, ...]()
        if gather is not None and self.query.include == _TEXT and not self.query.trace:
            named = [(hit.row, hit.score) for hit in hits]
            gathered = gather(self._snapshot, named, self.most_bytes)
        if gathered is None:
            items = self._items(hits, pools, budget)
        outcome = Outcome.FOUND
        if not items and not (gathered and gathered.total):
            found = any(len(pool.found.rows) for pool in pools.values())
            outcome = Outcome.BELOW_THRESHOLD if found else Outcome.NO_MATCH
        return RetrieveResult(
            items,
            outcome,
            (),
            self._snapshot.revision,
            self._stages("reply", started),
            (*degraded, *budget.notes()),
            is_cut=bool(budget.left_out or budget.shortened),
            gathered=gathered,
        )

    def _merged(self, pools: Sequence[Pool]) -> list[TextHit]:
        """Return the hits of all pools by score, each text once, as many as one pool has."""
        if len(pools) == 1:
            return pools[0].hits
        hits = [hit for pool in pools for hit in pool.hits]
        hits.sort(key=attrgetter("score"), reverse=True)
        return distinct(self.query, self._snapshot, hits)

    def _stages(self, last: str, started: float) -> tuple[Stage, ...]:
        stages = [stage for part in self._parts for stage in part.stages]
        return (*stages, Stage(last, started, perf_counter()))

    def _items(
        self, hits: Sequence[TextHit], pools: Mapping[Retrieval, Pool], budget: ReplyBudget
    ) -> tuple[RetrievedItem, ...]:
        """Return the items that fit, then fill in their texts as far as these fit."""
        traced = pools if self.query.trace else {}
        sides = {part: Sides.of(pool) for part, pool in traced.items()}
        items: list[RetrievedItem] = []
        for hit in hits:
            pace.step()
            item = self._item(hit)
            if (of_part := sides.get(hit.part)) is not None:
                item.trace = of_part.trace_of(hit)
            if not budget.take(ITEM + size_of(item.uri) + len(item.vector)):
                budget.left_out = len(hits) - len(items)
                break
            items.append(item)
        for item, hit in zip(items, hits, strict=False):
            pace.step()
            if Include.TEXT in self.query.include:
                item.section, item.text, item.start, item.end = shown(
                    self._snapshot, hit.row, budget
                )
            else:
                section, _, item.start, item.end = shown(self._snapshot, hit.row)
                item.section = section if budget.take(size_of(section)) else ""
        return tuple(items)

    def _item(self, hit: TextHit) -> RetrievedItem:
        item = RetrievedItem(*name_of(self._snapshot, hit.row), "", "", 0, 0, hit.score)
        if Include.VECTOR in self.query.include:
            vector = vector_of(self._snapshot, hit.part.scope, hit.row)
            item.vector = b"" if vector is None else vector.astype("<f4").tobytes()
        return item

    def _listing(self) -> RetrieveResult:
        """Return a page of all files that the filters allow, by URI."""
        query, started = self.query, perf_counter()
        page = list_files(
            self._snapshot,
            [(part, part.allowed(files=True)) for part in self._parts],
            query.after,
            query.top_k,
            with_text=Include.TEXT in query.include,
            budget=ReplyBudget(self.most_bytes),
        )
        return RetrieveResult(
            page.items,
            Outcome.FOUND if page.items else Outcome.NO_MATCH,
            (),
            self._snapshot.revision,
            self._stages("score", started),
            (),
            page.items[-1].uri if page.has_more else "",
            is_cut=page.is_cut,
        )


class Sides(NamedTuple):
    """The places of the texts of one part in its lists, for a trace."""

    found: RankedList
    vector: Places
    keyword: Places

    @classmethod
    def of(cls, pool: Pool) -> Sides:
        """Return the places in the lists of a pool."""
        return cls(pool.found, *(places_in(pool.sides.get(name)) for name in ("vector", "keyword")))

    def trace_of(self, hit: TextHit) -> ItemTrace:
        """Return the trace of a hit of this part."""
        vector_rank, dense = self.vector.get(hit.row, (None, 0.0))
        keyword_rank, lexical = self.keyword.get(hit.row, (None, 0.0))
        if self.found.parts is not None:
            dense, lexical = self.found.parts[hit.at].tolist()
        fused_score = self.found.scores.item(hit.at)
        return ItemTrace(vector_rank, keyword_rank, dense, lexical, fused_score, hit.boost)
