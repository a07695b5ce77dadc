"""THINKING: a walk over the tree by the scores of a reranker, several directories in a round.

    final(child) = (1 - b) * rerank(abstract of the child) + b * final(parent)

b is the weight that QUICK gives to the parent. A parent that was left out because a round was full
is replaced by its nearest ancestor that was reranked.

A walk makes no calls. Its caller sends `documents()` to a reranker and passes the scores to `take`,
until there are no more documents.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from viking_kernels.arrays import Scratch, decode_file, encode_file, is_file

from vikingd.answer.find_answer import hits_at, hits_of
from vikingd.answer.find_hits import FindHits, Hit
from vikingd.answer.scored_scope import (
    DirectoryScores,
    Scored,
    directory_parts,
    keep_scratch,
    score,
    take_scratch,
)
from vikingd.domain.answers import Degradation, DegradationReason, Degraded, Stage
from vikingd.domain.find_query import (
    MAX_THINKING_LIMIT,
    FindTrace,
    Levels,
    Rerank,
    RerankRound,
    RerankStatus,
    ScoreParts,
    StopReason,
    TracedDirectory,
)
from vikingd.models.rerank.rerankers import Reranked
from vikingd.plan.find_plan import FindScope

GLOBAL_SEARCH_TOPK = 3
"""The number of start points besides the scope's root and the directories of QUICK's results."""

IN_ROUND = 8  # directories; the first round opens all start points
MAX_ROUNDS = 3

MAX_DOCUMENTS = MAX_THINKING_LIMIT
"""The most contexts that are scored in one round, with one exception.

All of QUICK's results fit into a round, and most servers take as many documents in one request. If
each of 100 results has its own directory, the root is one start point more."""


Row = int
"""A directory or file as one number, see viking_kernels.arrays.encode_file."""


@dataclass(slots=True)
class _Node:
    """The scores of a context in a walk.

    `rerank` is None for a context without an abstract; then the node score is used instead.
    """

    node_score: float
    parent: float  # its final score
    weight: float  # b
    rerank: float | None

    @property
    def final(self) -> float:
        score = self.node_score if self.rerank is None else self.rerank
        return (1.0 - self.weight) * score + self.weight * self.parent


@dataclass(frozen=True, slots=True)
class _Round:
    """The contexts to score next, parents before their children."""

    number: int
    rows: tuple[Row, ...]
    abstracts: tuple[str, ...]
    opened: int
    left_out: int


class Walk:
    """The walk of one scope of a find.

    Start points are the scope's root, the best directories of the scope, the directories with
    QUICK's results, and all their ancestors. Of the children that a round opens, QUICK's results
    are scored first, then the others by their scores in QUICK, up to MAX_DOCUMENTS. `plain` is
    QUICK's answer, which is used if the reranker fails.

    Args:
        scope: the find and its scope.
        started: the time when the compilation of the plan began, by `perf_counter`.
        degraded: notes for the reply.
    """

    def __init__(self, scope: FindScope, started: float, degraded: Degraded) -> None:
        self._scope = scope
        self._snapshot = scope.snapshot
        planned = perf_counter()
        scratch = take_scratch(scope.snapshot)
        scored = score(scope, scratch, whole=True)
        plain = hits_of(scope, scored, scratch)
        stages = Stage("plan", started, planned), Stage("score", planned, perf_counter())
        self.plain = replace(plain, stages=stages, degraded=degraded)
        self._scores = Scores(scope, scored, scratch)
        keep_scratch(scratch)
        self._found = [hit.row for hit in plain.hits[: scope.query.limit]]
        self._root: Row = scope.scope.root
        self._nodes: dict[Row, _Node] = {}
        self._queue: list[Row] = []
        self._opened: dict[Row, int] = {}  # directory to round
        self._rounds: list[RerankRound] = []
        self._stages: list[Stage] = []
        self._stopped: StopReason | None = None
        self._starts = frozenset(self._start_points())
        # A parent has a lower row than its child.
        self._now: _Round | None = self._round(0, sorted(self._starts), 0, 0)

    def documents(self) -> list[str]:
        """Return the abstracts to score next, none of them empty; []: the walk is over."""
        while self._now is not None:
            if documents := [text for text in self._now.abstracts if text]:
                return documents
            self._score(self._now, ())
        return []

    def take(self, reranked: Reranked, stage: Stage) -> None:
        """Record the reranker's scores of `documents()`, and choose the contexts of the next round.

        `stage` is the time of the reranker's call.
        """
        now = self._now
        assert now is not None, "there were documents"
        empty, seconds = now.abstracts.count(""), stage.ended - stage.started
        asked, cached = reranked.asked, reranked.cached
        self._stages.append(stage)
        self._rounds.append(
            RerankRound(now.number, now.opened, asked, cached, empty, now.left_out, seconds)
        )
        self._score(now, reranked.scores)

    @property
    def text(self) -> str:
        """The text of the query."""
        return self._scope.query.text

    @property
    def was_read(self) -> bool:
        """True if the reranker has scored an abstract."""
        return bool(self._rounds)

    def failed(self, reason: str, model: str) -> FindHits:
        """Return the answer without a reranker, by meaning and words (SearchMode.QUICK).

        Args:
            reason: the failure of the reranker, for the reply.
            model: the name of the reranker's model.
        """
        detail = f"{reason}: scored by meaning and words"
        return replace(
            self.plain,
            stages=(*self.plain.stages, *self._stages),
            degraded=(*self.plain.degraded, Degradation(DegradationReason.RERANKER, detail)),
            rerank=Rerank(RerankStatus.FAILED, reason, model, tuple(self._rounds)),
        )

    def answer(self, model: str) -> FindHits:
        """Return the best contexts by the reranker."""
        query, nodes = self._scope.query, self._nodes
        threshold = query.score_threshold or 0.0
        rows = [row for row in nodes if self._is_wanted(row) and nodes[row].final > threshold]
        rows.sort(key=lambda row: (-nodes[row].final, self._snapshot.uri(row)))
        found = hits_at(self._scope, rows[: query.limit])
        return replace(
            self.plain,
            hits=tuple(map(self._rescored, found.hits)),
            linked=found.linked,
            stages=(*self.plain.stages, *self._stages),
            trace=self.plain.trace and self._trace(self.plain.trace),
            rerank=Rerank(RerankStatus.DONE, "", model, tuple(self._rounds)),
        )

    def _is_wanted(self, row: Row) -> bool:
        """Return True if the levels and filters of the query allow a row as a result."""
        levels = self._scope.query.levels
        if is_file(row):
            return levels != Levels.DIRECTORIES
        return levels != Levels.FILES and row != self._root and self._scores.allows(row)

    def _rescored(self, hit: Hit) -> Hit:
        parts = hit.parts and self._parts(hit.parts, hit.row)
        return hit._replace(score=self._nodes[hit.row].final, parts=parts)

    def _parts(self, plain: ScoreParts, row: Row) -> ScoreParts:
        node = self._nodes[row]
        return replace(
            plain,
            smoothed=plain.node_score,
            parent=node.parent,
            parent_weight=node.weight,
            title=0.0,
            feedback=0.0,
            cover=0.0,
            agreement=0.0,
            reply=0.0,
            date=0.0,
            kind=0.0,
            final=node.final,
            rerank=node.rerank,
        )

    def _start_points(self) -> set[Row]:
        """Return the start points and their ancestors, at most MAX_DOCUMENTS in all."""
        best = self._scores.best_directories(GLOBAL_SEARCH_TOPK)
        holding = [self._parent(row) for row in self._found]
        starts = {self._root, *holding}
        for start in dict.fromkeys((*best, *holding)):
            above = {start}
            while start != self._root:
                start = self._parent(start)
                above.add(start)
            if len(starts | above) <= MAX_DOCUMENTS:
                starts |= above
        return starts

    def _parent(self, row: Row) -> Row:
        tree = self._snapshot.tree
        if is_file(row):
            return int(tree.files.directory[decode_file(row)])
        return int(tree.directories.parent[row])

    def _round(self, number: int, rows: Sequence[Row], opened: int, left_out: int) -> _Round:
        abstracts = tuple(self._snapshot.abstract(row).strip() for row in rows)
        return _Round(number, tuple(rows), abstracts, opened, left_out)

    def _score(self, now: _Round, scores: Sequence[float]) -> None:
        """Compute the final scores of a round's contexts, and choose those of the next round.

        `scores` are the reranker's, of the contexts that have an abstract.
        """
        given = iter(scores)
        for row, abstract in zip(now.rows, now.abstracts, strict=True):
            above, weight = 0.0, 0.0
            if row != self._root:
                parent = self._parent(row)
                while parent not in self._nodes:
                    parent = self._parent(parent)
                above, weight = self._nodes[parent].final, self._scores.weight(parent)
            rerank = next(given) if abstract else None
            self._nodes[row] = _Node(self._scores.of(row), above, weight, rerank)
            if not is_file(row):
                self._queue.append(row)
        self._now = self._next(now.number + 1)

    def _next(self, number: int) -> _Round | None:
        """Open the best directories in the queue; return their children as the next round.

        `number` is the number of this round. The result is None if the walk is over.
        """
        before = len(self._opened)
        while not (stopped := self._reason_to_stop(number)):
            self._queue.sort(key=lambda row: (-self._nodes[row].final, row))
            count = len(self._queue) if number == 1 else IN_ROUND
            opened, self._queue = self._queue[:count], self._queue[count:]
            self._opened |= dict.fromkeys(opened, number)
            files = self._scope.query.levels != Levels.DIRECTORIES
            children, there_are = self._scores.children(
                opened, MAX_DOCUMENTS, files=files, known=self._nodes, first=self._found
            )
            if children:
                left_out = there_are - len(children)
                return self._round(number, children, len(self._opened) - before, left_out)
        self._stopped = stopped
        return None

    def _reason_to_stop(self, number: int) -> StopReason | None:
        if not self._queue:
            return StopReason.EXHAUSTED
        if number > MAX_ROUNDS:
            return StopReason.ROUND_LIMIT
        limit, weight = self._scope.query.limit, self._scores.found.weights.parent
        finals = [node.final for row, node in self._nodes.items() if self._is_wanted(row)]
        best = max(self._nodes[row].final for row in self._queue)
        # The last round opens contexts this many levels below the queue.
        reach = 1.0 - weight ** (MAX_ROUNDS + 1 - number) * (1.0 - best)
        if len(finals) >= limit and sorted(finals)[-limit] > reach:
            return StopReason.OUT_OF_REACH
        return None

    def _trace(self, plain: FindTrace) -> FindTrace:
        files = self._snapshot.files_by_directory()
        directories = tuple(
            TracedDirectory(
                self._snapshot.directory_uri(row),
                self._parts(directory_parts(self._scope, self._scores.found, row), row),
                number,
                row in self._starts,
                int(files[row]),
            )
            for row, number in self._opened.items()
        )
        return replace(
            plain,
            directories=directories,
            opened=len(directories),
            rounds=max(self._opened.values(), default=0),
            stop_reason=self._stopped or plain.stop_reason,
        )


class Scores:
    """The scores of a scope before reranking, for the rows in the scope that are not removed.

    The scores are copied out of `scratch`, the memory of the find, because the next find overwrites
    `scratch`.
    """

    def __init__(self, find: FindScope, scored: Scored, scratch: Scratch) -> None:
        tree, scope = find.snapshot.tree, find.scope
        self._root = scope.root
        self.found = scored.found._replace(directories=scored.found.directories.copy())

        scores = DirectoryScores(*self.found.directories)
        dirs = find.rows(files=False)
        inside = scores.node_score[: len(dirs)] >= 0
        self._dirs, self._dir_final = dirs[inside], scores.final[inside]
        allowed = find.allowed(files=False)
        self._dir_allowed = allowed[inside] if len(allowed) else np.ones(len(self._dirs), np.uint8)

        files = find.rows(files=True)
        wanted = tree.files.tombstoned[files] > scope.revision
        allowed = find.allowed(files=True)
        if len(allowed):
            wanted &= allowed.astype(bool)
        # All nodes in rising order. Files are negative numbers, so the last file comes first.
        files, file_scores = files[wanted][::-1], scratch.file_scores[: len(files)][wanted][::-1]
        self._rows = np.concatenate([encode_file(files), self._dirs])
        self._scores = np.concatenate([file_scores, scores.node_score[inside]])
        self._parents = np.concatenate(
            [tree.files.directory[files], tree.directories.parent[self._dirs]]
        )

    def of(self, row: Row) -> float:
        """Return the node score of a row that is in the scope and allowed."""
        return float(self._scores[np.searchsorted(self._rows, row)])

    def weight(self, parent: Row) -> float:
        """Return the weight b of the parent's final score in the scores of its children."""
        weights = self.found.weights
        return weights.below_root if parent == self._root else weights.parent

    def best_directories(self, count: int) -> list[Row]:
        """Return the best directories by final score, ties by row."""
        order = np.argsort(-self._dir_final, kind="stable")[:count]
        best: list[int] = self._dirs[order].tolist()
        return best

    def children(
        self,
        directories: Sequence[Row],
        count: int,
        *,
        files: bool,
        known: Collection[Row],
        first: Collection[Row],
    ) -> tuple[list[Row], int]:
        """Return the best `count` children of some directories, and the number of all.

        Rows in `first` come first, then higher node scores, then lower rows. Rows in `known` are
        left out. Files count only if `files` is set.
        """
        inside = np.isin(self._parents, directories) & (self._rows != self._root)
        if not files:
            inside &= self._rows >= 0
        rows, scores = self._rows[inside], self._scores[inside]
        new = np.isin(rows, list(known), invert=True)
        rows, scores = rows[new], scores[new]
        order = np.lexsort((rows, -scores, np.isin(rows, list(first), invert=True)))
        best: list[int] = rows[order[:count]].tolist()
        return best, len(rows)

    def allows(self, directory: Row) -> bool:
        """Return whether the filters allow a directory."""
        return bool(self._dir_allowed[np.searchsorted(self._dirs, directory)])
