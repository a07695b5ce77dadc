"""Find: one query over the tree below one directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
from viking_kernels import dense, walk
from viking_kernels import find as kernel
from viking_kernels.arrays import (
    DIRECTORIES,
    F32,
    F64,
    FILES,
    I32,
    TEXTS,
    U8,
    Scratch,
    Terms,
)
from viking_kernels.bm25 import postings
from viking_kernels.scope import place, row_at

from vikingd import pace
from vikingd.engine import Engine
from vikingd.index import ivf
from vikingd.index.snapshot import Snapshot
from vikingd.model import (
    MAX_PASSAGES_SHOWN,
    ContextType,
    FindQuery,
    FindResult,
    Levels,
    Match,
    MatchedPassage,
    Method,
    ScoreParts,
    Stage,
)
from vikingd.retrieve.bound import LIGHT_LIMIT, Bound, keep_scratch, take_scratch
from vikingd.retrieve.relations import Relations, relations
from vikingd.retrieve.trace import Chosen, Scored, directory_parts, explain
from vikingd.room import MESSAGE, UNBOUNDED, Room, size_of
from vikingd.text import NONE

START_POINTS = 64
"""At least: with 16, a walk over real embeddings misses one in fifteen of the ten best."""

IN_ROUND = 8
MAX_CONVERGENCE_ROUNDS = 3
MAX_DIRECTORIES = 512
_RESULT = MESSAGE + 128  # bytes of a result without its texts
_TRACED = 160  # bytes of a directory in a trace without its name
_NONE: I32 = np.zeros(0, np.int32)
_TYPE = tuple(ContextType)  # by number


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
            vector, NONE if self.identifiers else self._script, dense=not self.identifiers,
            lexical=True,
        )  # fmt: skip

    def answer(self, most_bytes: int | None = None) -> FindResult:
        """Scores the scope and says what is best in it; see `most_bytes`."""
        if most_bytes is not None:
            self.most_bytes = most_bytes
        scratch = take_scratch(self.snapshot)
        result, _ = self.scored_answer(scratch)
        keep_scratch(scratch)
        return result

    @property
    def is_light(self) -> bool:
        """See Bound; a long answer takes its time too."""
        return self.query.limit <= LIGHT_LIMIT and super().is_light

    def scored_answer(self, scratch: Scratch, *, whole: bool = False) -> tuple[FindResult, Scored]:
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
        matches = _matches(self, scored, self._relations(scored, scratch), room)
        stages = (
            Stage("plan", self._started, planned),
            Stage("score", planned, done),
            Stage("reply", done, perf_counter()),
        )
        result = FindResult(
            matches, self.snapshot.revision, scored.method, stages, self._degraded, trace,
            left_out=room.left_out, shortened=room.shortened,
        )  # fmt: skip
        return result, scored

    def matches_of(self, rows: Sequence[int], room: Room) -> tuple[Match, ...]:
        """What is shown of directories d and files -1 - f of the scope, in their order.

        Their scores are those by meaning and words; a file that has none of either scores 0.
        """
        scratch = take_scratch(self.snapshot)
        scope, snapshot = self.scope, self.snapshot
        only = self._none()
        for row in rows:
            if row < 0:
                only[place(-1 - row, scope.file_low, scope.file_high, scope.base_files)] = 1
        scored = self._run(scratch, whole=True, only=only)
        by_row = {-1 - file: i for i, file in enumerate(scored.found.rows.tolist())}
        chosen = []
        for row in rows:
            parts, best = np.zeros(9), -1
            if row >= 0:
                parts = directory_parts(snapshot, scope, scored.found, row)
            elif (at := by_row.get(row)) is not None:
                parts, best = scored.found.parts[at], int(scored.found.best_text[at])
            chosen.append((float(parts[8]), snapshot.uri(row), row, parts, best))
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
        plan = kernel.Plan(
            int(method), float(threshold), self._alpha(), starts, MAX_PASSAGES_SHOWN,
            query.levels != Levels.FILES or query.trace or all_files or only is not None,
            walk.Limits(limit, IN_ROUND, MAX_CONVERGENCE_ROUNDS, most),
            bool(snapshot.links), all_files,
        )  # fmt: skip
        wants_files = only is not None or query.levels != Levels.DIRECTORIES
        if only is None:
            only = self.allowed(files=True) if wants_files else self._none()
        terms = snapshot.terms(self.terms.hashes, self.terms.weights)
        found = kernel.find(
            snapshot.tree, snapshot.vectors, snapshot.numbers, self.coded, self._asked, scope,
            terms, only, self._near(method, terms), plan, scratch,
        )  # fmt: skip
        chosen: list[Chosen] = []
        if wants_files:
            chosen += self._best_files(found)
        if query.levels != Levels.FILES:
            chosen += self._best_directories(found, threshold)
        chosen.sort(key=lambda c: (-c[0], c[1]))
        return Scored(
            method, scope, self.terms.terms, self._script, self.identifiers, self.means, found,
            tuple(chosen[: query.limit]), int(counts[DIRECTORIES]), int(counts[FILES]),
            int(counts[TEXTS]), IN_ROUND, terms,
        )  # fmt: skip

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
            scores: F64 = kernel.score_rows(
                rows, snapshot.tree, snapshot.vectors, snapshot.numbers, self.coded, self._asked,
                scope, scored.found.weights, scratch,
            )  # fmt: skip
            return scores

        found = relations(snapshot, scope, [row for _, _, row, _, _ in scored.chosen], score)
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

    def _best_files(self, found: kernel.Found) -> list[Chosen]:
        """The best by score, and all that share the last place: they are weighed by name."""
        uri, scores = self.snapshot.file_uri, found.parts[:, 8].tolist()
        return [
            (score, uri(row), -1 - row, parts, best)
            for score, row, parts, best in zip(
                scores, found.rows.tolist(), found.parts, found.best_text.tolist(), strict=True
            )
        ]

    def _best_directories(self, found: kernel.Found, threshold: float) -> list[Chosen]:
        """The same for directories below the scope's root."""
        scope, final = self.scope, found.directories[4]
        own = found.directories[3]
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
                parts = directory_parts(self.snapshot, scope, found, row)
                uri = self.snapshot.directory_uri(row)
                out.append((float(parts[8]), uri, row, parts, -1))
        return out


def _matches(search: Search, scored: Scored, linked: Relations, room: Room) -> tuple[Match, ...]:
    """The results with what is shown of them.

    As many as there is room for, best first; then their passages' texts, as far as there is room
    for these. No text is read that does not fit.
    """
    snapshot = search.snapshot
    directory_of, type_of = snapshot.tree.files.directory.item, snapshot.dir_type.item
    ordinal_of = snapshot.text_ordinal.item
    shown = _best_passages(scored.found)
    matches: list[Match] = []
    left, abstract_of = room.left, snapshot.abstract
    for score, uri, row, parts, best in scored.chosen:
        abstract, relations = abstract_of(row), linked.get(row, ())
        left -= _RESULT + size_of(uri + abstract)
        for relation in relations:
            left -= MESSAGE + size_of(relation.uri + relation.abstract + relation.reason)
        if left < 0:
            room.left_out = len(scored.chosen) - len(matches)
            break
        room.left = left
        matches.append(
            Match(
                uri,
                _TYPE[type_of(directory_of(-1 - row) if row < 0 else row)],
                row < 0,
                2 if best >= 0 and ordinal_of(best) > 0 and parts[3] > 0.0 else 0,
                abstract,
                score,
                relations,
                (),
                ScoreParts(*parts.tolist()) if search.query.trace else None,
            )
        )
    passage_of = snapshot.contents.passage
    for match, (_, _, row, _, _) in zip(matches, scored.chosen, strict=False):
        if passages := shown.get(row):
            pace.step()
            match.passages = tuple(
                [
                    MatchedPassage(*passage_of(text, room), own)
                    for text, own in passages
                    if room.left
                ]
            )
            room.shortened += len(passages) - len(match.passages)
    return tuple(matches)


def _best_passages(found: kernel.Found) -> dict[int, list[tuple[int, float]]]:
    """(row, own score) of each file's best passages, best first."""
    return {
        -1 - file: [(row, own) for row, own in zip(rows, scores, strict=True) if row >= 0]
        for file, rows, scores in zip(
            found.rows.tolist(), found.passages.tolist(), found.passage_own.tolist(), strict=True
        )
    }
