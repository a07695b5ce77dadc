"""Relations of results: the linked contexts in the scope that score best for the query."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
from viking_kernels import find as kernel
from viking_kernels.arrays import F64, I32, Scope, Scratch, decode_file, is_file
from viking_kernels.scope import tail_directories

from vikingd.answer.find_hits import Hit, Relations
from vikingd.answer.scored_scope import Scored
from vikingd.domain.contexts import MAX_RELATIONS, Relation
from vikingd.index.snapshot import Snapshot
from vikingd.plan.find_plan import FindScope


def relations(
    find: FindScope, scored: Scored, chosen: Sequence[Hit], scratch: Scratch
) -> Relations:
    """Return the best relations of each hit, at most MAX_RELATIONS, by score, then by URI.

    Both ends are in the scope of the find. `scratch` must still have the lexical scores of the
    find; this function clears them, so call it last.
    """
    snapshot, scope = find.snapshot, find.scope
    found: Relations = {}
    if not snapshot.links:
        return found
    rows = (hit.row for hit in chosen)
    links = {row: reasons for row in rows if (reasons := snapshot.links.get(row)) is not None}
    if links:
        ends: I32 = np.fromiter(chain.from_iterable(links.values()), np.int32)
        owner = np.repeat(np.arange(len(links)), [len(reasons) for reasons in links.values()])
        shown = _in_scope(snapshot, scope, ends)
        ends, owner = ends[shown], owner[shown]
        once: I32
        once, place = np.unique(ends, return_inverse=True)
        weights = scored.found.weights
        scores = kernel.score_nodes(once, *find.arrays, find.raw_query, scope, weights, scratch)[
            place
        ]
        bounds = np.searchsorted(owner, np.arange(len(links) + 1)).tolist()
        found = {
            row: tuple(
                Relation(uri, snapshot.abstract(end), links[row][end])
                for uri, end in _best(snapshot, ends[low:high], scores[low:high])
            )
            for row, (low, high) in zip(links, pairwise(bounds), strict=True)
        }
    kernel.forget(snapshot.tree.texts, scope, scored.terms, scratch)
    return found


def _in_scope(snapshot: Snapshot, scope: Scope, ends: I32) -> npt.NDArray[np.bool_]:
    """Return which rows [n] are alive and in the scope. A move makes a new row."""
    directories, files = snapshot.tree.directories, snapshot.tree.files
    of_files = is_file(ends)
    file = decode_file(ends[of_files])
    directory = ends.copy()
    directory[of_files] = files.directory[file]
    inside = (directory >= scope.dir_low) & (directory < scope.dir_high)
    in_tail = directory >= scope.base_dirs
    if in_tail.any():
        tail = tail_directories(directories, scope)
        inside[in_tail] = tail[directory[in_tail] - scope.base_dirs]
    alive = directories.tombstoned[directory] > snapshot.revision
    alive[of_files] = files.tombstoned[file] > snapshot.revision
    return inside & alive


def _best(snapshot: Snapshot, ends: I32, scores: F64) -> list[tuple[str, int]]:
    """Return (URI, row) of the relations to show, in their order."""
    if len(ends) > MAX_RELATIONS:
        kept = scores >= -np.partition(-scores, MAX_RELATIONS - 1)[MAX_RELATIONS - 1]
        ends, scores = ends[kept], scores[kept]
    named = (
        (-score, snapshot.uri(end), end)
        for end, score in zip(ends.tolist(), scores.tolist(), strict=True)
    )
    return [(uri, end) for _, uri, end in heapq.nsmallest(MAX_RELATIONS, named)]
