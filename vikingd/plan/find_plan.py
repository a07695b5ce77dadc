"""The plan of a find: its scopes, with the vector, the filters and the terms of the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import perf_counter

import numpy as np
from viking_kernels import answer_features, dense, second_stage
from viking_kernels import find as kernel
from viking_kernels.arrays import DIRECTORIES, F32, I32, TEXTS, U8
from viking_kernels.bm25 import postings

from vikingd.domain.answers import Degraded
from vikingd.domain.find_query import MAX_PASSAGES_SHOWN, FindQuery, Levels, Method, Preference
from vikingd.domain.rights import Caller
from vikingd.domain.text import NONE
from vikingd.engine import Engine
from vikingd.index.metadata import days
from vikingd.index.snapshot import Snapshot
from vikingd.plan.preferences import factors_of_files
from vikingd.plan.query_scope import QueryScope, note_on_waiting, parts_of
from vikingd.times.calendar_spans import Days
from vikingd.times.time_phrases import spans

START_POINTS = 64
"""The least start points of a walk. With 16 it misses one in fifteen of the ten best results."""

FIRST = answer_features.FIRST
"""The least number of files whose exact scores a find computes; its confidence uses them."""

IN_ROUND = 8
MAX_CONVERGENCE_ROUNDS = 3
MAX_DIRECTORIES = 512

_PREFERRED = 60  # best files with a second stage where a find prefers some kinds
_LONGEST_DATED = 4000  # characters of a query whose days are looked for; more is a document
_MOST_DAYS = 16  # phrases of time that count


class FindScope(QueryScope):
    """The scope of a find; further arguments and errors are those of QueryScope.

    `named_days` are the days that the query names, as pairs of a first and a last day.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        query: FindQuery,
        exhaustive_texts: int,
        named_days: Sequence[Days] = (),
    ) -> None:
        super().__init__(snapshot, query, exhaustive_texts)
        self.query = query
        # Alpha 1 is the plain node score, and an identifier is the same in all files that have it.
        plain = query.alpha is not None or self.identifiers or query.levels == Levels.DIRECTORIES
        self.adjusted = 0 if plain else second_stage.BEST
        if query.prefer:
            self.adjusted = _PREFERRED
        self.named_days = () if plain else named_days
        self.query_script = self.script(query.vector)
        self.raw_query = self.asked(
            query.vector,
            NONE if self.identifiers else self.query_script,
            dense=not self.identifiers,
            lexical=True,
        )

    def kernel_plan(self, only: U8 | None = None, *, whole: bool) -> kernel.Plan:
        """Return the plan for the kernel.

        Args:
            only: uint8 [files of the scope], 1 for each file to return, whatever its score; None
                returns what the query asks for.
            whole: score every file if the query leaves the method open, and keep the node scores of
                all files in the scratch.
        """
        query, counts = self.query, self.counts
        method = query.method
        scores_all = whole or only is not None
        if method is Method.AUTO:
            is_small = counts[TEXTS] <= self.exhaustive_texts
            method = Method.EXHAUSTIVE if scores_all or is_small else Method.BEST_FIRST
        if only is not None:
            limit, allowed = max(int(only.sum()), 1), only
        else:  # the confidence needs the FIRST best files, even if the query asks for fewer
            limit, allowed = max(query.limit, FIRST), self.allowed(files=True)
        most = query.max_directories or MAX_DIRECTORIES
        alpha = query.alpha
        if alpha is None:  # Neighbours and directories say nothing about identifiers and code.
            plain = self.identifiers or query.prefer is Preference.CODE
            alpha = 1.0 if plain else -1.0
        return kernel.Plan(
            method=int(method),
            threshold=0.0,
            alpha=float(alpha),
            start_points=min(max(START_POINTS, int(counts[DIRECTORIES]) // 64), most),
            passages=MAX_PASSAGES_SHOWN,
            all_directories=query.levels != Levels.FILES or query.trace or scores_all,
            k=limit,
            in_round=IN_ROUND,
            patience=MAX_CONVERGENCE_ROUNDS,
            max_directories=most,
            keeps_words=bool(self.snapshot.links),
            all_files=whole,
            near=self._near(int(method)),
            allowed=allowed,
            adjusted=self.adjusted if only is None else 0,
            factors=self._factors() if only is None else kernel.NO_FACTORS,
        )

    def of_named_days(self) -> U8:
        """Return uint8 [files of the scope], 1 for each file of a day that the query names."""
        snapshot, (low, high, base) = self.snapshot, self.ends(files=True)
        where, rows = days.within(self.named_days), len(snapshot.file_id)
        named = snapshot.file_columns.mask(where, rows, snapshot.revision)
        return np.concatenate([named[low:high], named[base:]]).astype(np.uint8)

    def _factors(self) -> F32:
        """Return float32 [files of the scope]: the factor for the score of a file of its kind.

        It is empty if the query prefers no kind.
        """
        if not self.query.prefer:
            return kernel.NO_FACTORS
        low, high, base = self.ends(files=True)
        factors = factors_of_files(self.snapshot, self.query.prefer)
        return np.concatenate([factors[low:high], factors[base:]])

    def no_files(self) -> U8:
        """Return a filter that allows none of the files of the scope."""
        low, high, base = self.ends(files=True)
        return np.zeros(high - low + len(self.snapshot.file_id) - base, np.uint8)

    def _near(self, method: int) -> I32:
        """Return the rows of texts at which a BEST_FIRST search starts, by the inverted file.

        Their vectors are near the query's. Return `NO_ROWS` for other methods, if a term of the
        query occurs in a text, or if the caller may not read all texts.
        """
        inverted, scope = self.snapshot.inverted_file, self.scope
        if method != kernel.BEST_FIRST or inverted is None or not len(self.raw_query.vector):
            return kernel.NO_ROWS
        if not self.reads_all:  # its clusters depend on vectors that the caller may not read
            return kernel.NO_ROWS
        terms = self.postings
        if any(first < last for first, last in (postings(terms, i) for i in range(len(terms.key)))):
            return kernel.NO_ROWS
        compared = dense.prepare(self.raw_query)
        return inverted.near(compared.direction, scope.text_low, scope.text_high)


@dataclass(frozen=True, slots=True)
class FindPlan:
    """A find that is ready to run.

    Attributes:
        scopes: one for each readable part of the target, in the order of URIs.
        degraded: notes for the reply.
        started: the time at which the compilation began, by `time.perf_counter`.
        model: the name of the embedder.
    """

    query: FindQuery
    snapshot: Snapshot
    scopes: Sequence[FindScope]
    degraded: Degraded
    started: float
    model: str


def named_days(query: FindQuery) -> tuple[Days, ...]:
    """Return the days (UTC) that a query names, as pairs of a first and a last day."""
    if len(query.text) > _LONGEST_DATED:
        return ()
    now = query.now or datetime.now(UTC)
    named = dict.fromkeys((span.first, span.last) for span in spans(query.text, now))
    return tuple(named)[:_MOST_DAYS]


def compile_find(
    engine: Engine,
    query: FindQuery,
    caller: Caller,
    degraded: Degraded = (),
    snapshot: Snapshot | None = None,
) -> FindPlan:
    """Compile a find over what the caller may read of its target.

    Without a vector of the query, words alone count. Without a given snapshot, the newest snapshot
    answers.

    Raises:
        NotFound: nothing readable exists below the target.
        InvalidField: the target is a file, or `where` is malformed.
    """
    started, snapshot = perf_counter(), snapshot or engine.snapshot
    most = engine.settings.exhaustive_texts
    named = named_days(query)
    scopes = [FindScope(snapshot, part, most, named) for part in parts_of(query, caller, snapshot)]
    if query.vector is not None:
        degraded += note_on_waiting(engine, snapshot, scopes)
    return FindPlan(query, snapshot, scopes, degraded, started, engine.embedding.model)


def compile_finds(
    engine: Engine,
    finds: Sequence[FindQuery],
    made: Mapping[str, tuple[F32 | None, Degraded]],
    caller: Caller,
    snapshot: Snapshot,
) -> tuple[FindPlan, ...]:
    """Compile the finds of one request; errors as in `compile_find`.

    `made` maps the text of each find without a vector to the vector of the text, None if it could
    not be made, and to notes for the reply.
    """
    plans = []
    for find in finds:
        degraded: Degraded = ()
        if find.vector is None:
            find.vector, degraded = made[find.text]
        plans.append(compile_find(engine, find, caller, degraded, snapshot))
    return tuple(plans)
