"""Find: one query over the tree below one directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from time import perf_counter
from typing import Protocol

import numpy as np
from viking_kernels import dense, walk
from viking_kernels import find as kernel
from viking_kernels.arrays import (
    DIRECTORIES,
    DIRECTORY_FINAL,
    F32,
    F64,
    FILES,
    FINAL,
    I32,
    NODE,
    PARTS,
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

from vikingd.answer.query_scope import LIGHT_LIMIT, Bound, keep_scratch, take_scratch
from vikingd.answer.relations import Relations, relations
from vikingd.answer.trace import Chosen, Scored, directory_parts, explain
from vikingd.domain import pace
from vikingd.domain.model import (
    ABSTRACT,
    MAX_PASSAGES_SHOWN,
    PASSAGE,
    FindQuery,
    FindResult,
    Gathered,
    Levels,
    Match,
    MatchedPassage,
    Method,
    ScoreParts,
    Stage,
)
from vikingd.domain.reply_budget import MESSAGE, UNBOUNDED, Room, size_of
from vikingd.domain.text import NONE
from vikingd.engine import Engine
from vikingd.index import ivf
from vikingd.index.snapshot import Snapshot

START_POINTS = 64
"""At least: with 16, a walk over real embeddings misses one in fifteen of the ten best."""

IN_ROUND = 8
MAX_CONVERGENCE_ROUNDS = 3
MAX_DIRECTORIES = 512
RESULT = MESSAGE + 128
"""Bytes of a result without its texts."""

_TRACED = 160  # bytes of a directory in a trace without its name
_NONE: I32 = np.zeros(0, np.int32)


class Gather(Protocol):
    """Makes the bytes of results that have neither relations nor parts."""

    def __call__(
        self, snapshot: Snapshot, chosen: Sequence[Chosen], most_bytes: int
    ) -> Gathered | None:
        """The results; None where there is no room for the whole of all of them."""


def find(
    engine: Engine, query: FindQuery, vector: F32 | None, degraded: tuple[str, ...] = ()
) -> FindResult:
    """Answers a query on the newest snapshot; see Search."""
    return Search(engine, query, vector, degraded).answer()


class Search(Bound):
    """A find on one snapshot.

    Args:
        engine: holds the snapshot, which is all that the answer is made of.
        query: checked; its revision has been reached.
        vector: [dim] the query's embedding, of any length; None: text alone counts.
        degraded: what the answer has to do without, for the reply.
        snapshot: the one to answer from; None is the newest.

    Attributes:
        most_bytes: of the results in a reply, about; set before the answer is made.

    Raises:
        NotFound: the target is not there.
        InvalidField: the target is a file, or `where` is malformed.
    """

    def __init__(
        self,
        engine: Engine,
        query: FindQuery,
        vector: F32 | None,
        degraded: tuple[str, ...] = (),
        snapshot: Snapshot | None = None,
    ) -> None:
        self._started = perf_counter()
        self._degraded = degraded
        self.most_bytes = UNBOUNDED
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
        """Scores the scope and says what is best in it; see `most_bytes`.

        `gather` makes the matches where it can.
        """
        if most_bytes is not None:
            self.most_bytes = most_bytes
        scratch = take_scratch(self.snapshot)
        result, _ = self.scored_answer(scratch, gather=gather)
        keep_scratch(scratch)
        return result

    @property
    def is_light(self) -> bool:
        """See Bound; a long answer takes its time too."""
        return self.query.limit <= LIGHT_LIMIT and super().is_light

    def scored_answer(
        self, scratch: Scratch, *, whole: bool = False, gather: Gather | None = None
    ) -> tuple[FindResult, Scored]:
        """The answer, and the scores that it is from; those of directories stand in `scratch`.

        `whole` scores the whole scope, however large, where the query leaves the method open, and
        leaves the own scores of all its files in `scratch`.
        """
        planned = perf_counter()
        scored = self._run(scratch, whole=whole, all_files=whole)
        done = perf_counter()
        room = Room(self.most_bytes)
        trace = explain(self.snapshot, scored) if self.query.trace else None
        if trace is not None:
            room.take(sum(_TRACED + size_of(one.uri) for one in trace.directories))
        linked = self._relations(scored, scratch)
        gathered, matches = None, tuple[Match, ...]()
        if gather is not None and not linked and trace is None:
            gathered = gather(self.snapshot, scored.chosen, self.most_bytes)
        if gathered is None:
            matches = _matches(self, scored, linked, room)
        stages = (
            Stage("plan", self._started, planned),
            Stage("score", planned, done),
            Stage("reply", done, perf_counter()),
        )
        result = FindResult(
            matches,
            self.snapshot.revision,
            scored.method,
            stages,
            self._degraded,
            trace,
            left_out=room.left_out,
            shortened=room.shortened,
            gathered=gathered,
        )
        return result, scored

    def matches_of(self, rows: Sequence[int], room: Room) -> tuple[Match, ...]:
        """What is shown of nodes of the scope, in their order.

        Their scores are those by meaning and words; a file that has none of either scores 0.
        """
        scratch = take_scratch(self.snapshot)
        scope = self.scope
        only = self._none()
        for row in rows:
            if is_file(row):
                only[place(decode_file(row), scope.file_low, scope.file_high, scope.base_files)] = 1
        scored = self._run(scratch, whole=True, only=only)
        files = {one.row: one for one in self._files(scored.found)}
        unmatched = np.zeros(PARTS)
        chosen = [
            files.get(row) or Chosen(0.0, row, ABSTRACT, [], unmatched)
            if is_file(row)
            else self._directory(scored.found, row)
            for row in rows
        ]
        scored = replace(scored, chosen=tuple(chosen))
        matches = _matches(self, scored, self._relations(scored, scratch), room)
        keep_scratch(scratch)
        return matches

    def _run(
        self, scratch: Scratch, *, whole: bool, all_files: bool = False, only: U8 | None = None
    ) -> Scored:
        """What is scored and chosen; its directories stand in `scratch`.

        `only` is 1 for the files to choose, all of them; None chooses as the query says.
        """
        snapshot, query, scope = self.snapshot, self.query, self.scope
        method, counts = query.method, self.counts
        if method is Method.AUTO:
            whole = whole or counts[TEXTS] <= self.exhaustive_texts
            method = Method.EXHAUSTIVE if whole else Method.BEST_FIRST
        threshold, limit = query.score_threshold or 0.0, query.limit
        if only is not None:
            threshold, limit = 0.0, max(int(only.sum()), 1)
        most = query.max_directories or MAX_DIRECTORIES
        starts = min(max(START_POINTS, int(counts[DIRECTORIES]) // 64), most)
        terms = snapshot.terms(self.terms.hashes, self.terms.weights)
        plan = kernel.Plan(
            int(method),
            float(threshold),
            self._alpha(),
            starts,
            MAX_PASSAGES_SHOWN,
            query.levels != Levels.FILES or query.trace or all_files or only is not None,
            walk.Limits(limit, IN_ROUND, MAX_CONVERGENCE_ROUNDS, most),
            bool(snapshot.links),
            all_files,
            self._near(method, terms),
        )
        wants_files = only is not None or query.levels != Levels.DIRECTORIES
        if only is None:
            only = self.allowed(files=True) if wants_files else self._none()
        found = kernel.find(
            snapshot.arrays,
            self.coded,
            self._asked,
            scope,
            terms,
            only,
            plan,
            scratch,
        )
        chosen: list[Chosen] = []
        if wants_files:
            chosen += self._files(found)
        if query.levels != Levels.FILES:
            chosen += self._best_directories(found, threshold)
        if any(one.score <= next_.score for one, next_ in pairwise(chosen)):
            chosen.sort(key=lambda one: (-one.score, snapshot.uri(one.row)))
        return Scored(
            method,
            scope,
            self.terms.terms,
            self._script,
            self.identifiers,
            self.means,
            found,
            tuple(chosen[: query.limit]),
            int(counts[DIRECTORIES]),
            int(counts[FILES]),
            int(counts[TEXTS]),
            IN_ROUND,
            terms,
        )

    def _none(self) -> U8:
        """No file of the scope is allowed."""
        scope = self.scope
        tail = len(self.snapshot.tree.files.directory) - scope.base_files
        return np.zeros(scope.file_high - scope.file_low + tail, np.uint8)

    def _relations(self, scored: Scored, scratch: Scratch) -> Relations:
        """Those of the results; ends the use of the words that the find left in `scratch`."""
        snapshot, scope = self.snapshot, self.scope
        if not snapshot.links:
            return {}

        def score(rows: I32) -> F64:
            scores: F64 = kernel.score_nodes(
                rows,
                snapshot.arrays,
                self.coded,
                self._asked,
                scope,
                scored.found.weights,
                scratch,
            )
            return scores

        found = relations(snapshot, scope, [one.row for one in scored.chosen], score)
        kernel.forget(snapshot.tree.texts, scope, scored.postings, scratch)
        return found

    def _near(self, method: Method, terms: Terms) -> I32:
        """What a large base's inverted file proposes, for a walk that no words point the way."""
        inverted, scope = self.snapshot.inverted_file, self.scope
        if method is not Method.BEST_FIRST or inverted is None or not len(self._asked.vector):
            return _NONE
        if any(first < last for first, last in (postings(terms, i) for i in range(len(terms.key)))):
            return _NONE
        compared = dense.prepare(self._asked, self.coded)
        return ivf.near(inverted, compared.direction, scope.text_low, scope.text_high)

    def _alpha(self) -> float:
        """The weight of the own score; below 0: adaptive.

        An identifier stands where it stands: what is beside it or above it says nothing.
        """
        if self.query.alpha is not None:
            return float(self.query.alpha)
        return 1.0 if self.identifiers else -1.0

    def _files(self, found: kernel.Found) -> list[Chosen]:
        """The best by score, and all that share the last place: they are weighed by name."""
        ordinal_of = self.snapshot.text_ordinal.item
        return [
            Chosen(
                final,
                encode_file(row),
                PASSAGE if best >= 0 and own > 0.0 and ordinal_of(best) > 0 else ABSTRACT,
                [(text, of_text) for text, of_text in zip(texts, scores, strict=True) if text >= 0],
                parts,
            )
            for final, own, row, best, texts, scores, parts in zip(
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

    def _directory(self, found: kernel.Found, row: int) -> Chosen:
        parts = directory_parts(self.snapshot, self.scope, found, row)
        return Chosen(float(parts[FINAL]), row, ABSTRACT, [], parts)

    def _best_directories(self, found: kernel.Found, threshold: float) -> list[Chosen]:
        """The same for directories below the scope's root."""
        scope, final = self.scope, found.directories[DIRECTORY_FINAL]
        own = found.directories[NODE]
        # A plain float would be rounded to the scores' float32 before it is compared.
        eligible = (own >= 0) & (final > np.float64(threshold))
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
            row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
            if row != scope.root:
                out.append(self._directory(found, row))
        return out


def _matches(search: Search, scored: Scored, linked: Relations, room: Room) -> tuple[Match, ...]:
    """The results with what is shown of them.

    As many as there is room for, best first; then their passages' texts, as far as there is room
    for these. No text is read that does not fit.
    """
    snapshot = search.snapshot
    matches: list[Match] = []
    left = room.left
    for score, row, level, _, parts in scored.chosen:
        uri, abstract, relations = snapshot.uri(row), snapshot.abstract(row), linked.get(row, ())
        left -= RESULT + size_of(uri + abstract)
        for relation in relations:
            left -= MESSAGE + size_of(relation.uri + relation.abstract + relation.reason)
        if left < 0:
            room.left_out = len(scored.chosen) - len(matches)
            break
        room.left = left
        matches.append(
            Match(
                uri,
                snapshot.type_of(row),
                is_file(row),
                level,
                abstract,
                score,
                relations,
                (),
                ScoreParts(*parts.tolist()) if search.query.trace else None,
            )
        )
    passage_of = snapshot.contents.passage
    for match, one in zip(matches, scored.chosen, strict=False):
        if one.passages:
            pace.step()
            match.passages = tuple(
                [
                    MatchedPassage(*passage_of(text, room), own)
                    for text, own in one.passages
                    if room.left
                ]
            )
            room.shortened += len(one.passages) - len(match.passages)
    return tuple(matches)
