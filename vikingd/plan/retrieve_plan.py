"""The plan of a retrieval: the scopes whose texts it ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from time import perf_counter

from viking_kernels.arrays import U8

from vikingd.domain import uri as uris
from vikingd.domain.errors import InvalidField
from vikingd.domain.retrieve_query import Boost, Mode, RetrieveQuery, Rrf
from vikingd.domain.rights import Caller
from vikingd.engine import Engine
from vikingd.index.metadata import metadata_filters as filters
from vikingd.index.snapshot import Snapshot
from vikingd.plan.find_plan import FIRST
from vikingd.plan.query_scope import QueryScope, parts_of

POSTINGS_OF_A_TEXT = 4
"""The number of postings that a search by words reads in the time of scoring one text."""

LEAST_DEPTH = 100
"""The least texts in each list of a fusion. Without fusion, lists have twice the wanted number."""

_Boost = tuple[float, Callable[[str, int], bool]]
"""A boost: (factor, function that returns True for the URI and row of a boosted file)."""


class TextScope(QueryScope):
    """A scope whose texts are ranked; arguments and errors are those of QueryScope.

    Attributes:
        orders_ties: order all ties by name, because ranks are fused or shown.
        depth: the number of best texts that each ranked list has at first.
    """

    def __init__(self, snapshot: Snapshot, query: RetrieveQuery, exhaustive_texts: int) -> None:
        super().__init__(snapshot, query, exhaustive_texts)
        self.query = query
        self.orders_ties = query.trace or query.mode is Mode.HYBRID
        self.depth = max(FIRST, 2 * query.top_k)
        if self.has_two_sides:
            self.depth = max(LEAST_DEPTH, self.depth)

    def _scored(self) -> int:
        if self.by_meaning or self.query.listing:
            return super()._scored()
        return self.snapshot.count_postings(self.terms.hashes) // POSTINGS_OF_A_TEXT

    @property
    def by_meaning(self) -> bool:
        """True if the query's vector is needed. Identifiers are searched by words alone."""
        mode = self.query.mode
        return not self.query.listing and (
            mode is Mode.VECTOR or (mode is Mode.HYBRID and not self.identifiers)
        )

    @property
    def has_two_sides(self) -> bool:
        """True if a list by words and a list by meaning are fused by rank."""
        return (
            self.by_meaning
            and isinstance(self.query.fusion, Rrf)
            and self.query.mode is Mode.HYBRID
        )

    @cached_property
    def allowed_files(self) -> U8:
        """The files that the filters allow; see QueryScope.allowed."""
        return self.allowed(files=True)

    @cached_property
    def boosts(self) -> list[_Boost]:
        """The boosts of the query for the files of its snapshot.

        Raises:
            InvalidField: the filter of a boost is malformed.
        """
        return [self._boost(boost, i) for i, boost in enumerate(self.query.boosts)]

    @property
    def most_boost(self) -> float:
        """The largest factor that a file can get from all boosts together."""
        return prod(max(1.0, factor) for factor, _ in self.boosts)

    def boost_of(self, uri: str, file: int) -> float:
        """Return the factor of a file by its URI and row."""
        return prod(factor for factor, holds in self.boosts if holds(uri, file))

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


@dataclass(frozen=True, slots=True)
class RetrievePlan:
    """A retrieval that is ready to run; the fields are those of FindPlan."""

    query: RetrieveQuery
    snapshot: Snapshot
    scopes: Sequence[TextScope]
    started: float
    compiled: float
    model: str

    @property
    def by_meaning(self) -> bool:
        """True if a vector is needed."""
        return any(scope.by_meaning for scope in self.scopes)

    @property
    def two_sides(self) -> TextScope | None:
        """The scope, if it is the only one and `has_two_sides` is True for it; else None.

        Two threads can make its two lists at the same time.
        """
        is_one = len(self.scopes) == 1 and self.scopes[0].has_two_sides
        return self.scopes[0] if is_one else None

    def relaxed(self) -> RetrievePlan:
        """Return the plan without the optional clauses of the query, on the same snapshot."""
        dropped, started = self.query.optional_clauses, perf_counter()
        where = {k: v for k, v in (self.query.where or {}).items() if k not in dropped}
        scopes = [
            TextScope(
                self.snapshot,
                replace(scope.query, where=where, optional_clauses=()),
                scope.exhaustive_texts,
            )
            for scope in self.scopes
        ]
        query = replace(self.query, where=where, optional_clauses=())
        return RetrievePlan(query, self.snapshot, scopes, started, perf_counter(), self.model)


def compile_retrieve(
    engine: Engine, query: RetrieveQuery, caller: Caller, snapshot: Snapshot | None = None
) -> RetrievePlan:
    """Compile a retrieval over what the caller may read of its target.

    The newest snapshot answers unless another one is given.

    Raises:
        NotFound: nothing readable exists below the target.
        InvalidField: the target is a file, or `where` is malformed.
    """
    started, snapshot = perf_counter(), snapshot or engine.snapshot
    most = engine.settings.exhaustive_texts
    scopes = [TextScope(snapshot, part, most) for part in parts_of(query, caller, snapshot)]
    model = engine.embedding.model
    return RetrievePlan(query, snapshot, scopes, started, perf_counter(), model)
