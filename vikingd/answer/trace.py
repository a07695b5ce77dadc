"""Why a find answered as it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from viking_kernels import find as kernel
from viking_kernels import walk
from viking_kernels.arrays import (
    DIRECTORY_FINAL,
    FINAL,
    NODE,
    PARENT,
    PARENT_SHARE,
    PARTS,
    SMOOTHED,
    Scope,
    Terms,
)
from viking_kernels.scope import place, row_at

from vikingd.domain.model import (
    FindTrace,
    Method,
    ScoreParts,
    TracedDirectory,
    TracedMean,
)
from vikingd.domain.text import SCRIPTS
from vikingd.index.snapshot import Mean, Snapshot

MAX_TRACED = 512
_STOPPED = {
    walk.CONVERGED: "the best results did not change for three rounds",
    walk.EXHAUSTED: "every directory was opened",
    walk.LIMIT: "the most directories allowed were opened",
    walk.OUT_OF_REACH: "no directory left could hold anything better",
}


class Chosen(NamedTuple):
    """A result of which nothing is read yet; `parts` is a row of Found.parts."""

    score: float
    row: int  # a node
    level: int
    passages: list[tuple[int, float]]  # (row of a text, its own score), best first
    parts: npt.NDArray[np.float64]


@dataclass(slots=True)
class Scored:
    """A scope scored for a query, with the results chosen from it."""

    method: Method
    scope: Scope
    terms: tuple[str, ...]
    script: int
    identifiers: bool
    means: tuple[Mean, ...]
    found: kernel.Found
    chosen: tuple[Chosen, ...]
    directories: int
    files: int
    texts: int
    in_round: int
    postings: Terms


def directory_parts(
    snapshot: Snapshot, scope: Scope, found: kernel.Found, row: int
) -> npt.NDArray[np.float64]:
    """Return the parts [PARTS] of a directory's score, as hierarchy.parts_of_files for files."""
    scores = found.directories[:, _position(row, scope)].astype(np.float64)
    parts = np.zeros(PARTS)
    parts[: NODE + 1] = scores[: NODE + 1]
    parts[SMOOTHED] = scores[NODE]
    parts[FINAL] = scores[DIRECTORY_FINAL]
    if row != scope.root:
        parent = int(snapshot.tree.directories.parent[row])
        parts[PARENT] = found.directories[DIRECTORY_FINAL, _position(parent, scope)]
        parts[PARENT_SHARE] = found.weights.parent
        if parent == scope.root:
            parts[PARENT_SHARE] = found.weights.below_root
    return parts


def explain(snapshot: Snapshot, scored: Scored) -> FindTrace:
    """The trace of a find: its scope, its means, its gate, its directories, why it stopped."""
    found, scope = scored.found, scored.scope
    walked = scored.method is Method.BEST_FIRST
    if walked:
        shown = found.opened[:MAX_TRACED].tolist()
    else:
        eligible = np.flatnonzero(found.directories[NODE] >= 0)
        order = np.argsort(-found.directories[DIRECTORY_FINAL][eligible], kind="stable")
        shown = eligible[order][:MAX_TRACED].tolist()
    starts = set(found.start_points.tolist())
    files = snapshot.files_by_directory()
    directories = []
    for i, position in enumerate(shown):
        row = row_at(position, scope.dir_low, scope.dir_high, scope.base_dirs)
        parts = directory_parts(snapshot, scope, found, row)
        directories.append(
            TracedDirectory(
                snapshot.directory_uri(row),
                ScoreParts(*parts.tolist()),
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
        _STOPPED[found.stop] if walked else "every file of the scope was scored",
        scored.identifiers,
        found.floor_factor,
    )


def _position(row: int, scope: Scope) -> int:
    return place(row, scope.dir_low, scope.dir_high, scope.base_dirs)
