"""The trace of a find: the reasons for its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from math import isfinite

import numpy as np
from viking_kernels import find as kernel
from viking_kernels import walk
from viking_kernels.arrays import DIRECTORIES, FILES, TEXTS
from viking_kernels.scope import row_at

from vikingd.answer.scored_scope import DirectoryScores, Scored, directory_parts
from vikingd.domain.find_query import (
    FindTrace,
    Method,
    StopReason,
    TracedDirectory,
    TracedMean,
)
from vikingd.domain.text import SCRIPTS
from vikingd.plan.find_plan import FindScope

MAX_TRACED = 512
_STOPPED = {
    walk.CONVERGED: StopReason.CONVERGED,
    walk.EXHAUSTED: StopReason.EXHAUSTED,
    walk.LIMIT: StopReason.DIRECTORY_LIMIT,
    walk.OUT_OF_REACH: StopReason.OUT_OF_REACH,
}


def explain(scope: FindScope, scored: Scored) -> FindTrace:
    """Return the trace: scope, centroids, gate, directories, and the reason to stop."""
    found, plan, snapshot = scored.found, scored.plan, scope.snapshot
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
        row = row_at(position, *scope.ends(files=False))
        directories.append(
            TracedDirectory(
                snapshot.directory_uri(row),
                directory_parts(scope, found, row),
                i // plan.in_round + 1 if walked else 0,
                position in starts,
                int(files[row]),
            )
        )
    if not walked:
        directories.sort(key=_by_score)  # rows have another order after a compaction
    means = tuple(
        TracedMean(SCRIPTS[m.script], m.vectors, snapshot.directory_uri(m.directory), m.with_prior)
        for m in scope.means
    )
    return FindTrace(
        Method(plan.method),
        int(scope.counts[DIRECTORIES]),
        int(scope.counts[FILES]),
        int(scope.counts[TEXTS]),
        found.scored_texts,
        found.rescored,
        scope.terms.terms,
        SCRIPTS[scope.query_script],
        means,
        found.icc,
        found.gate,
        found.sample_files,
        tuple(directories),
        len(found.opened),
        found.rounds,
        _STOPPED[found.stop] if walked else StopReason.SCOPE_SCORED,
        scope.identifiers,
        found.floor_factor,
        found.other_script if isfinite(found.other_script) else 0.0,
        found.files_per_directory,
        tuple(_interval(*days) for days in scope.named_days),
    )


def _interval(first: date, last: date) -> str:
    """Return a span of days as ISO 8601, such as "2026-05-01/2026-05-31"."""
    return first.isoformat() if first == last else f"{first.isoformat()}/{last.isoformat()}"


def merged_trace(traces: Sequence[tuple[float, FindTrace | None]]) -> FindTrace | None:
    """Return one trace for several parts of an answer; each part has (its best score, its trace).

    Counts are summed. The directories are the best of all. All else, such as the script, the gate
    and the reason to stop, is taken from the part with the best score.
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
