"""The trace of a find: the reasons for its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from viking_kernels import find as kernel
from viking_kernels import walk
from viking_kernels.arrays import DIRECTORIES, F32, FILES, TEXTS, Terms
from viking_kernels.scope import place, row_at

from vikingd.answer.query_scope import QueryScope
from vikingd.domain.find import (
    FindTrace,
    Method,
    ScoreParts,
    StopReason,
    TracedDirectory,
    TracedMean,
)
from vikingd.domain.text import SCRIPTS

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
    node_score: F32  # -1 outside the scope
    final: F32


class Scored(NamedTuple):
    """A scope scored for a query, with the hits chosen from it."""

    plan: kernel.Plan
    terms: Terms
    found: kernel.Found
    chosen: tuple[Hit, ...]


def directory_parts(bound: QueryScope, found: kernel.Found, row: int) -> ScoreParts:
    """Return the parts of a directory's score."""
    ends, scores = bound.ends(files=False), DirectoryScores(*found.directories)
    at = place(row, *ends)
    node_score = scores.node_score.item(at)
    parent_final, weight = 0.0, 0.0
    root = bound.scope.root
    if row != root:
        parent = int(bound.snapshot.tree.directories.parent[row])
        parent_final = scores.final.item(place(parent, *ends))
        weight = found.weights.below_root if parent == root else found.weights.parent
    return ScoreParts(
        scores.dense.item(at),
        scores.lexical.item(at),
        scores.dense_weight.item(at),
        node_score=node_score,
        smoothed=node_score,
        parent=parent_final,
        parent_weight=weight,
        title=0.0,
        final=scores.final.item(at),
    )


def explain(bound: QueryScope, script: int, scored: Scored) -> FindTrace:
    """Return the trace: scope, centroids, gate, directories, and the reason to stop.

    `script` is that of the query.
    """
    found, plan, snapshot = scored.found, scored.plan, bound.snapshot
    walked = plan.method == kernel.BEST_FIRST
    if walked:
        shown = found.opened[:MAX_TRACED].tolist()
    else:
        scores = DirectoryScores(*found.directories)
        eligible = np.flatnonzero(scores.node_score >= 0)
        order = np.argsort(-scores.final[eligible], kind="stable")
        shown = eligible[order][:MAX_TRACED].tolist()
    starts = set(found.start_points.tolist())
    files = snapshot.files_by_directory()
    directories = []
    for i, position in enumerate(shown):
        row = row_at(position, *bound.ends(files=False))
        directories.append(
            TracedDirectory(
                snapshot.directory_uri(row),
                directory_parts(bound, found, row),
                i // plan.in_round + 1 if walked else 0,
                position in starts,
                int(files[row]),
            )
        )
    if not walked:
        directories.sort(key=_by_score)  # rows have another order after a compaction
    means = tuple(
        TracedMean(SCRIPTS[m.script], m.vectors, snapshot.directory_uri(m.directory), m.with_prior)
        for m in bound.means
    )
    return FindTrace(
        Method(plan.method),
        int(bound.counts[DIRECTORIES]),
        int(bound.counts[FILES]),
        int(bound.counts[TEXTS]),
        found.scored_texts,
        found.rescored,
        bound.terms.terms,
        SCRIPTS[script],
        means,
        found.icc,
        found.gate,
        found.sample_files,
        tuple(directories),
        len(found.opened),
        found.rounds,
        _STOPPED[found.stop] if walked else StopReason.SCOPE_SCORED,
        bound.identifiers,
        found.floor_factor,
    )


def merged_trace(traces: Sequence[tuple[float, FindTrace | None]]) -> FindTrace | None:
    """Return one trace of those of several parts, each with the score of its best result.

    Counts are summed. The directories are the best of all. The script, the gate and what led to it,
    and the reason to stop are those of the part with the best result.
    """
    known = [(score, trace) for score, trace in traces if trace is not None]
    if not known:
        return None
    _, best = max(known, key=lambda one: one[0])
    all_of = [trace for _, trace in known]
    directories = [directory for trace in all_of for directory in trace.directories]
    directories.sort(key=_by_score)
    return replace(
        best,
        scope_directories=sum(trace.scope_directories for trace in all_of),
        scope_files=sum(trace.scope_files for trace in all_of),
        scope_texts=sum(trace.scope_texts for trace in all_of),
        scored_texts=sum(trace.scored_texts for trace in all_of),
        rescored=sum(trace.rescored for trace in all_of),
        means=tuple(mean for trace in all_of for mean in trace.means),
        directories=tuple(directories[:MAX_TRACED]),
        opened=sum(trace.opened for trace in all_of),
        rounds=max(trace.rounds for trace in all_of),
    )


def _by_score(directory: TracedDirectory) -> tuple[float, str]:
    return -directory.parts.final, directory.uri
