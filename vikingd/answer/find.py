"""One query over the tree below one directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from time import perf_counter
from typing import NamedTuple

import numpy as np
from viking_kernels import dense
from viking_kernels import find as kernel
from viking_kernels.arrays import (
    DIRECTORIES,
    F32,
    FINAL,
    I32,
    NODE,
    TEXTS,
    U8,
    Scratch,
    Terms,
    decode_file,
    encode_file,
    is_file,
)
from viking_kernels.bm25 import postings
from viking_kernels.scope import place, row_at

from vikingd.answer.parts import parts_of
from vikingd.answer.query_scope import (
    LIGHT_LIMIT,
    QueryScope,
    are_light,
    keep_scratch,
    take_scratch,
)
from vikingd.answer.relations import Relations, relations
from vikingd.answer.trace import (
    DirectoryScores,
    Hit,
    Scored,
    directory_parts,
    explain,
    merged_trace,
)
from vikingd.domain import pace
from vikingd.domain.answers import MESSAGE_BYTES, UNBOUNDED, Degraded, ReplyBudget, Stage, size_of
from vikingd.domain.contexts import ABSTRACT, PASSAGE
from vikingd.domain.find import (
    MAX_PASSAGES_SHOWN,
    FindQuery,
    FindResult,
    FindTrace,
    Gathered,
    Levels,
    Match,
    MatchedPassage,
    Method,
    ScoreParts,
)
from vikingd.domain.rights import Caller
from vikingd.domain.text import NONE
from vikingd.engine import Engine
from vikingd.index.snapshot import Snapshot

START_POINTS = 64
"""Start points of a walk, at least. With 16 it misses one in fifteen of the ten best results."""

IN_ROUND = 8
MAX_CONVERGENCE_ROUNDS = 3
MAX_DIRECTORIES = 512
_TRACED = 160  # bytes of a directory in a trace without its URI
_UNMATCHED = ScoreParts(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

RESULT = MESSAGE_BYTES + 128
"""Bytes of a result without its texts."""

Gather = Callable[[Snapshot, Sequence[Hit], int], Gathered | None]
"""Encodes hits that have neither relations nor parts, within the bytes of the results.

It returns None if not all of them fit whole.
"""


class Find(QueryScope):
    """A find on one snapshot.

    The other arguments and the errors are those of QueryScope.

    Args:
        vector: [dim] the query's embedding, of any length; None: text alone counts.
        degraded: notes for the reply.
    """

    def __init__(
        self,
        engine: Engine,
        query: FindQuery,
        vector: F32 | None,
        degraded: Degraded = (),
        snapshot: Snapshot | None = None,
    ) -> None:
        self._started = perf_counter()
        self._degraded = degraded
        self.most_bytes = UNBOUNDED  # of the results in the reply, about
        super().__init__(engine, query, snapshot)
        self.query = query
        self._script = self.script(vector)
        self._asked = self.asked(
            vector,
            NONE if self.identifiers else self._script,
            dense=not self.identifiers,
            lexical=True,
        )

    def answer(self, most_bytes: int | None = None, gather: Gather | None = None) -> FindResult:
        """Return the best of the scope, at most about `most_bytes`.

        `gather` encodes the matches, where it can.
        """
        if most_bytes is not None:
            self.most_bytes = most_bytes
        scratch = take_scratch(self.snapshot)
        result, _ = self.scored_answer(scratch, gather=gather)
        keep_scratch(scratch)
        return result

    @property
    def parts(self) -> Sequence[Find]:
        """The finds that it consists of: itself."""
        return (self,)

    @property
    def is_light(self) -> bool:
        """See QueryScope; a long answer takes time, too."""
        return self.query.limit <= LIGHT_LIMIT and super().is_light

    def scored_answer(
        self, scratch: Scratch, *, whole: bool = False, gather: Gather | None = None
    ) -> tuple[FindResult, Scored]:
        """Return the answer and its scores. Those of directories stay in `scratch`.

        `whole` scores every file if the query leaves the method open, and keeps the node scores of
        all files in `scratch`.
        """
        planned = perf_counter()
        scored = self._run(scratch, whole=whole)
        done = perf_counter()
        part = self._part(scored, scratch)
        stages = Stage("plan", self._started, planned), Stage("score", planned, done)
        result = _result(self.snapshot, part, stages, self._degraded, self.most_bytes, gather)
        return result, scored

    def scored_part(self, scratch: Scratch) -> PartAnswer:
        """Return the answer without its texts. `scratch` is free then."""
        return self._part(self._run(scratch), scratch)

    def _part(self, scored: Scored, scratch: Scratch) -> PartAnswer:
        trace = explain(self, self._script, scored) if self.query.trace else None
        linked = relations(self, self._asked, scored, scored.chosen, scratch)
        return PartAnswer(scored.chosen, linked, Method(scored.plan.method), trace)

    def matches_of(self, rows: Sequence[int], budget: ReplyBudget) -> tuple[Match, ...]:
        """Return the matches of nodes of the scope, in this order.

        Their scores are the plain ones, by meaning and words. A file without either scores 0.
        """
        scratch = take_scratch(self.snapshot)
        only, ends = self._none(), self.ends(files=True)
        for row in rows:
            if is_file(row):
                only[place(decode_file(row), *ends)] = 1
        scored = self._run(scratch, only=only)
        files = {hit.row: hit for hit in self._files(scored.found)}
        unmatched = _UNMATCHED if self.query.trace else None
        chosen = [
            files.get(row) or Hit(0.0, row, ABSTRACT, [], unmatched)
            if is_file(row)
            else self._directory(scored.found, row)
            for row in rows
        ]
        linked = relations(self, self._asked, scored, chosen, scratch)
        matches = matches_of(self.snapshot, chosen, linked, budget)
        keep_scratch(scratch)
        return matches

    def _run(self, scratch: Scratch, *, whole: bool = False, only: U8 | None = None) -> Scored:
        """Score the scope and choose the hits; scores and `whole` as in `scored_answer`.

        `only` is 1 for each file to choose, whatever its score; None chooses as the query says.
        """
        snapshot, query = self.snapshot, self.query
        terms = snapshot.terms(self.terms.hashes, self.terms.weights)
        plan = self._plan(terms, only, whole=whole)
        wants_files = only is not None or query.levels != Levels.DIRECTORIES
        found = kernel.find(*self.arrays, self._asked, self.scope, terms, plan, scratch)
        chosen: list[Hit] = []
        if wants_files:
            chosen += self._files(found)
        if query.levels != Levels.FILES:
            chosen += self._best_directories(found, plan.threshold)
        return Scored(plan, terms, found, _best(snapshot, chosen, query.limit))

    def _plan(self, terms: Terms, only: U8 | None, *, whole: bool) -> kernel.Plan:
        """Return the plan for the kernel; `only` and `whole` are those of `_run`."""
        query, counts = self.query, self.counts
        method = query.method
        scores_all = whole or only is not None
        if method is Method.AUTO:
            is_small = counts[TEXTS] <= self.exhaustive_texts
            method = Method.EXHAUSTIVE if scores_all or is_small else Method.BEST_FIRST
        threshold, limit = query.score_threshold or 0.0, query.limit
        if only is not None:
            threshold, limit, allowed = 0.0, max(int(only.sum()), 1), only
        elif query.levels == Levels.DIRECTORIES:
            allowed = self._none()
        else:
            allowed = self.allowed(files=True)
        most = query.max_directories or MAX_DIRECTORIES
        alpha = query.alpha
        if alpha is None:  # Neighbours and directories say nothing about identifiers.
            alpha = 1.0 if self.identifiers else -1.0
        return kernel.Plan(
            method=int(method),
            threshold=float(threshold),
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
            near=self._near(int(method), terms),
            allowed=allowed,
        )

    def _none(self) -> U8:
        """Return the filter that allows no file of the scope."""
        low, high, base = self.ends(files=True)
        return np.zeros(high - low + len(self.snapshot.file_id) - base, np.uint8)

    def _near(self, method: int, terms: Terms) -> I32:
        """Return the rows that the inverted file proposes, for a walk without matching words."""
        inverted, scope = self.snapshot.inverted_file, self.scope
        if method != kernel.BEST_FIRST or inverted is None or not len(self._asked.vector):
            return kernel.NO_ROWS
        if not self.reads_all:  # its clusters tell of all vectors
            return kernel.NO_ROWS
        if any(first < last for first, last in (postings(terms, i) for i in range(len(terms.key)))):
            return kernel.NO_ROWS
        compared = dense.prepare(self._asked)
        return inverted.near(compared.direction, scope.text_low, scope.text_high)

    def _files(self, found: kernel.Found) -> list[Hit]:
        """Return the best files by score, and all that share the last place: URIs decide there."""
        ordinal_of, trace = self.snapshot.text_ordinal.item, self.query.trace
        return [
            Hit(
                final,
                encode_file(row),
                PASSAGE if best >= 0 and node > 0.0 and ordinal_of(best) > 0 else ABSTRACT,
                [(text, of_text) for text, of_text in zip(texts, scores, strict=True) if text >= 0],
                ScoreParts(*parts.tolist()) if trace else None,
            )
            for final, node, row, best, texts, scores, parts in zip(
                found.parts[:, FINAL].tolist(),
                found.parts[:, NODE].tolist(),
                found.rows.tolist(),
                found.best_text.tolist(),
                found.passages.tolist(),
                found.passage_scores.tolist(),
                found.parts,
                strict=True,
            )
        ]

    def _directory(self, found: kernel.Found, row: int) -> Hit:
        parts = directory_parts(self, found, row)
        return Hit(parts.final, row, ABSTRACT, [], parts if self.query.trace else None)

    def _best_directories(self, found: kernel.Found, threshold: float) -> list[Hit]:
        """Return the best directories below the scope's root, with all that tie with the last."""
        ends, scores = self.ends(files=False), DirectoryScores(*found.directories)
        final = scores.final
        # numpy would round a plain float to float32 before it compares.
        eligible = (scores.node_score >= 0) & (final > np.float64(threshold))
        allowed = self.allowed(files=False)
        if len(allowed):
            eligible &= allowed.astype(bool)
        positions = np.flatnonzero(eligible)
        limit = self.query.limit
        if len(positions) > limit:
            floor = np.partition(final[positions], len(positions) - limit)[len(positions) - limit]
            positions = positions[final[positions] >= floor]
        out = []
        for position in positions.tolist():
            row = row_at(position, *ends)
            if row != self.scope.root:
                out.append(self._directory(found, row))
        return out


class PartAnswer(NamedTuple):
    """The answer of one part of a target, or of several together, without its texts."""

    chosen: tuple[Hit, ...]
    linked: Relations
    method: Method
    trace: FindTrace | None


class Finds:
    """A find over several parts of its target, or over none: each is scored alone, then merged.

    Args:
        snapshot: of the parts.
        query: the find of the whole target.
        parts: its finds below each part, in the order of URIs.
        degraded: notes for the reply.

    Attributes:
        most_bytes: of the results in the reply, about.
    """

    def __init__(
        self, snapshot: Snapshot, query: FindQuery, parts: Sequence[Find], degraded: Degraded
    ) -> None:
        self._started = perf_counter()
        self._snapshot = snapshot
        self._degraded = degraded
        self.query = query
        self.parts = parts
        self.most_bytes = UNBOUNDED

    @property
    def is_light(self) -> bool:
        """See Find."""
        return self.query.limit <= LIGHT_LIMIT and are_light(self.parts)

    def answer(self, most_bytes: int | None = None, gather: Gather | None = None) -> FindResult:
        """Return the best of all parts; see Find."""
        if most_bytes is not None:
            self.most_bytes = most_bytes
        planned = perf_counter()
        scratch = take_scratch(self._snapshot)
        parts = [find.scored_part(scratch) for find in self.parts]
        keep_scratch(scratch)
        linked: Relations = {}
        for part in parts:
            linked |= part.linked
        hits = [hit for part in parts for hit in part.chosen]
        whole = PartAnswer(
            _best(self._snapshot, hits, self.query.limit),
            linked,
            max((part.method for part in parts), default=Method.EXHAUSTIVE),
            merged_trace([(_top_score(part.chosen), part.trace) for part in parts]),
        )
        stages = Stage("plan", self._started, planned), Stage("score", planned, perf_counter())
        return _result(self._snapshot, whole, stages, self._degraded, self.most_bytes, gather)

    def merged(self, results: Sequence[FindResult]) -> FindResult:
        """Return one result of those of the parts, one or more, which have the same scale."""
        matches = [match for result in results for match in result.matches]
        matches.sort(key=lambda match: (-match.score, match.uri))
        first = results[0]
        rounds = tuple(
            one for result in results if result.rerank is not None for one in result.rerank.rounds
        )
        return replace(
            first,
            matches=tuple(matches[: self.query.limit]),
            method=max(result.method for result in results),
            stages=tuple(stage for result in results for stage in result.stages),
            degraded=tuple(dict.fromkeys(note for one in results for note in one.degraded)),
            trace=merged_trace([(_top_score(one.matches), one.trace) for one in results]),
            rerank=first.rerank and replace(first.rerank, rounds=rounds),
            left_out=sum(result.left_out for result in results),
            shortened=sum(result.shortened for result in results),
        )


def bound(
    engine: Engine,
    query: FindQuery,
    vector: F32 | None,
    degraded: Degraded,
    caller: Caller,
    snapshot: Snapshot | None = None,
) -> Find | Finds:
    """Return a find over what the caller may read of its target; see Find for the arguments.

    Raises:
        NotFound: nothing readable exists below the target.
        InvalidField: the target is a file, or `where` is malformed.
    """
    snapshot = snapshot or engine.snapshot
    parts = [
        Find(engine, part, vector, degraded, snapshot) for part in parts_of(query, caller, snapshot)
    ]
    return parts[0] if len(parts) == 1 else Finds(snapshot, query, parts, degraded)


def _top_score(matches: Sequence[Hit | Match]) -> float:
    return matches[0].score if matches else 0.0


def _best(snapshot: Snapshot, hits: list[Hit], limit: int) -> tuple[Hit, ...]:
    """Return the best hits by score, ties by URI."""
    if any(hit.score <= later.score for hit, later in pairwise(hits)):
        hits.sort(key=lambda hit: (-hit.score, snapshot.uri(hit.row)))
    return tuple(hits[:limit])


def _result(
    snapshot: Snapshot,
    answer: PartAnswer,
    stages: tuple[Stage, ...],
    degraded: Degraded,
    most_bytes: int,
    gather: Gather | None,
) -> FindResult:
    """Return the result of an answer with its texts, in about `most_bytes`."""
    budget, trace = ReplyBudget(most_bytes), answer.trace
    if trace is not None:
        budget.take(sum(_TRACED + size_of(one.uri) for one in trace.directories))
    gathered, matches = None, tuple[Match, ...]()
    if gather is not None and not answer.linked and trace is None:
        gathered = gather(snapshot, answer.chosen, most_bytes)
    if gathered is None:
        matches = matches_of(snapshot, answer.chosen, answer.linked, budget)
    return FindResult(
        matches,
        snapshot.revision,
        answer.method,
        (*stages, Stage("reply", stages[-1].ended, perf_counter())),
        degraded,
        trace,
        left_out=budget.left_out,
        shortened=budget.shortened,
        gathered=gathered,
    )


def matches_of(
    snapshot: Snapshot, chosen: Sequence[Hit], linked: Relations, budget: ReplyBudget
) -> tuple[Match, ...]:
    """Return the hits that fit, best first, with their passages as far as these fit.

    A text that does not fit is not read.
    """
    matches: list[Match] = []
    left = budget.left
    for score, row, level, _, parts in chosen:
        uri, abstract, related = snapshot.uri(row), snapshot.abstract(row), linked.get(row, ())
        left -= RESULT + size_of(uri + abstract)
        for relation in related:
            left -= MESSAGE_BYTES + size_of(relation.uri + relation.abstract + relation.reason)
        if left < 0:
            budget.left_out = len(chosen) - len(matches)
            break
        budget.left = left
        kind = snapshot.type_of(row)
        matches.append(Match(uri, kind, is_file(row), level, abstract, score, related, (), parts))
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
