"""The trace of a find: the reasons for its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from viking_kernels import find as kernel
from viking_kernels import walk
from viking_kernels.arrays import F32, Scope, Terms
from viking_kernels.scope import place, row_at

from vikingd.domain.find import (
    FindTrace,
    Method,
    ScoreParts,
    StopReason,
    TracedDirectory,
    TracedMean,
)
from vikingd.domain.text import SCRIPTS
from vikingd.index.snapshot import Mean, Snapshot

MAX_TRACED = 512
_STOPPED = {
    walk.CONVERGED: StopReason.CONVERGED,
    walk.EXHAUSTED: StopReason.EXHAUSTED,
    walk.LIMIT: StopReason.DIRECTORY_LIMIT,
    walk.OUT_OF_REACH: StopReason.OUT_OF_REACH,
}


class Hit(NamedTuple):
    """A result by its row; its strings are not read yet."""

    score: float
    row: int  # a node
    level: int
    passages: list[tuple[int, float]]  # (row of a text, its node score), best first
    parts: ScoreParts | None = None  # for a trace


class DirectoryScores(NamedTuple):
    """The scores of the directories of a scope, by position; each array is [d]."""

    dense: F32
    lexical: F32
    dense_weight: F32
    own: F32  # -1 outside the scope
    final: F32


@dataclass(slots=True)
class Scored:
    """A scope scored for a query, with the hits chosen from it."""

    method: Method
    scope: Scope
    terms: tuple[str, ...]
    script: int
    identifiers: bool
    means: tuple[Mean, ...]
    found: kernel.Found
    chosen: tuple[Hit, ...]
    directories: int
    files: int
    texts: int
    in_round: int
    postings: Terms


def directory_scores(found: kernel.Found) -> DirectoryScores:
    """Return the scores of the directories by name."""
    return DirectoryScores(*found.directories)


def directory_parts(snapshot: Snapshot, scope: Scope, found: kernel.Found, row: int) -> ScoreParts:
    """Return the parts of a directory's score."""
    scores, at = directory_scores(found), _position(row, scope)
    own = scores.own.item(at)
    parent_final, weight = 0.0, 0.0
    if row != scope.root:
        parent = int(snapshot.tree.directories.parent[row])
        parent_final = scores.final.item(_position(parent, scope))
        weights = found.weights
        weight = weights.below_root if parent == scope.root else weights.parent
    return ScoreParts(
        scores.dense.item(at),
        scores.lexical.item(at),
        scores.dense_weight.item(at),
        node_score=own,
        smoothed=own,
        parent=parent_final,
        parent_weight=weight,
        title=0.0,
        final=scores.final.item(at),
    )


def explain(snapshot: Snapshot, scored: Scored) -> FindTrace:
    """Return the trace: scope, centroids, gate, directories, and the reason to stop."""
    found, scope = scored.found, scored.scope
    walked = scored.method is Method.BEST_FIRST
    if walked:
        shown = found.opened[:MAX_TRACED].tolist()
    else:
        scores = directory_scores(found)
        eligible = np.flatnonzero(scores.own >= 0)
        order = np.argsort(-scores.final[eligible], kind="stable")
        shown = eligible[order][:MAX_TRACED].tolist()
    starts = set(found.start_points.tolist())
    files = snapshot.files_by_directory()
    directories = []
    for i, position in enumerate(shown):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        directories.append(
            TracedDirectory(
                snapshot.directory_uri(row),
                directory_parts(snapshot, scope, found, row),
                i // scored.in_round + 1 if walked else 0,
                position in starts,
                int(files[row]),
            )
        )
    means = tuple(
        TracedMean(SCRIPTS[m.script], m.vectors, snapshot.directory_uri(m.directory), m.with_prior)
        for m in scored.means
    )
    return FindTrace(
        scored.method,
        scored.directories,
        scored.files,
        scored.texts,
        found.scored_texts,
        found.rescored,
        scored.terms,
        SCRIPTS[scored.script],
        means,
        found.icc,
        found.gate,
        found.sample_files,
        tuple(directories),
        len(found.opened),
        found.rounds,
        _STOPPED[found.stop] if walked else StopReason.SCOPE_SCORED,
        scored.identifiers,
        found.floor_factor,
    )


def _position(row: int, scope: Scope) -> int:
    return place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
