"""The scores of a scope for a find, by the kernels: its nodes, and the best relations of some."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from viking_kernels import find as kernel
from viking_kernels.arrays import F32, F64, I32, U8, Scope, Scratch, decode_file, is_file
from viking_kernels.scope import place, tail_directories

from vikingd.domain.contexts import MAX_RELATIONS, Relation
from vikingd.domain.find_query import ScoreParts
from vikingd.index.snapshot import Snapshot
from vikingd.plan.find_plan import FindScope

Relations = dict[int, tuple[Relation, ...]]
"""The best relations of nodes, by node."""


class DirectoryScores(NamedTuple):
    """The scores of the directories of a scope, by position; each array is [d]."""

    dense: F32
    lexical: F32
    dense_weight: F32
    node_score: F32  # -1 outside the scope
    final: F32


class Scored(NamedTuple):
    """The scores of a scope, with the plan that gave them."""

    plan: kernel.Plan
    found: kernel.Found


def score(
    scope: FindScope,
    scratch: Scratch,
    *,
    whole: bool = False,
    only: U8 | None = None,
    keeps_words: bool = True,
) -> Scored:
    """Score a scope for a find.

    Args:
        scope: the find and its scope.
        scratch: arrays of the kernels. The scores of directories stay in them for later steps. If
            the snapshot has links, the lexical scores stay, too, until `relations` clears them.
        whole: see `FindScope.kernel_plan`.
        only: see `FindScope.kernel_plan`.
        keeps_words: False: the lexical scores do not stay in `scratch`.
    """
    plan = scope.kernel_plan(only, whole=whole)
    if not keeps_words:
        plan = plan._replace(keeps_words=False)
    if plan.adjusted and scope.named_days:
        plan = _with_named_days(scope, plan, scratch)
    return Scored(plan, _found(scope, plan, scratch))


def _found(scope: FindScope, plan: kernel.Plan, scratch: Scratch) -> kernel.Found:
    return kernel.find(*scope.arrays, scope.raw_query, scope.scope, scope.postings, plan, scratch)


def _with_named_days(scope: FindScope, plan: kernel.Plan, scratch: Scratch) -> kernel.Plan:
    """Return the plan with the fields `named` and `more` set, which are about named days.

    A question such as "what did I do on 3 May?" names a day. `named` marks the files of this day.
    `more` has the best of them, which are found by a scoring of their own. If the scope has none,
    the plan is returned unchanged.
    """
    named = scope.of_named_days()
    allowed = named & plan.allowed if len(plan.allowed) else named
    if not allowed.any():
        return plan
    of_days = plan._replace(
        threshold=0.0,
        k=plan.adjusted,
        adjusted=0,
        allowed=allowed,
        all_directories=False,
        all_files=False,
        keeps_words=False,
    )
    found = _found(scope, of_days, scratch)
    ends = scope.ends(files=True)
    more = np.array([place(row, *ends) for row in found.rows.tolist()], np.int32)
    return plan._replace(named=named, more=more)


def relations(find: FindScope, scored: Scored, rows: Iterable[int], scratch: Scratch) -> Relations:
    """Return the best relations of each node, at most MAX_RELATIONS, by score, then by URI.

    The score of a relation is that of its other end, which is in the scope, too. `scratch` must
    still have the lexical scores of the find. This function clears them, so call it last.
    """
    snapshot, scope = find.snapshot, find.scope
    found: Relations = {}
    if not snapshot.links:
        return found
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
                for uri, end in _best_linked(snapshot, ends[low:high], scores[low:high])
            )
            for row, (low, high) in zip(links, pairwise(bounds), strict=True)
        }
    kernel.forget(snapshot.tree.texts, scope, find.postings, scratch)
    return found


def _in_scope(snapshot: Snapshot, scope: Scope, ends: I32) -> npt.NDArray[np.bool_]:
    """Return a mask [n] of the rows that are not removed and are in the scope."""
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


def _best_linked(snapshot: Snapshot, ends: I32, scores: F64) -> list[tuple[str, int]]:
    """Return (URI, row) of the relations to show, in their order."""
    if len(ends) > MAX_RELATIONS:
        kept = scores >= -np.partition(-scores, MAX_RELATIONS - 1)[MAX_RELATIONS - 1]
        ends, scores = ends[kept], scores[kept]
    named = (
        (-score, snapshot.uri(end), end)
        for end, score in zip(ends.tolist(), scores.tolist(), strict=True)
    )
    return [(uri, end) for _, uri, end in heapq.nsmallest(MAX_RELATIONS, named)]


def directory_parts(scope: FindScope, found: kernel.Found, row: int) -> ScoreParts:
    """Return the parts of a directory's score."""
    ends, scores = scope.ends(files=False), DirectoryScores(*found.directories)
    at = place(row, *ends)
    node_score = scores.node_score.item(at)
    parent_final, weight = 0.0, 0.0
    root = scope.scope.root
    if row != root:
        parent = int(scope.snapshot.tree.directories.parent[row])
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
        feedback=0.0,
        cover=0.0,
        agreement=0.0,
        reply=0.0,
        date=0.0,
        kind=0.0,
        final=scores.final.item(at),
    )


_spare: list[Scratch] = []
"""The scratch arrays that no query uses; the last ones were used last."""


def take_scratch(snapshot: Snapshot) -> Scratch:
    """Return scratch arrays for one query, reused if large enough; see `keep_scratch`."""
    try:
        kept = _spare.pop()
    except IndexError:
        kept = None
    tree = snapshot.tree
    directories, files = len(tree.directories.tombstoned), len(tree.files.tombstoned)
    texts = len(tree.texts.tombstoned)
    if (
        kept is None
        or len(kept.dir_tf) < directories
        or len(kept.best) < files
        or len(kept.lexical) < texts
    ):
        kept = kernel.scratch(*(n + n // 4 + 1024 for n in (directories, files, texts)))
    return kept


def keep_scratch(scratch: Scratch) -> None:
    """Keep scratch arrays for the next query. After a failed query, do not call this."""
    _spare.append(scratch)
