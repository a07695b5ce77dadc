"""A scope scored for a find by the kernels, and the scratch memory of scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from viking_kernels import find as kernel
from viking_kernels.arrays import F32, U8, Scratch, Terms
from viking_kernels.scope import place

from vikingd.domain.find_query import ScoreParts
from vikingd.index.snapshot import Snapshot
from vikingd.plan.find_plan import FindScope


class DirectoryScores(NamedTuple):
    """The scores of the directories of a scope, by position; each array is [d]."""

    dense: F32
    lexical: F32
    dense_weight: F32
    node_score: F32  # -1 outside the scope
    final: F32


class Scored(NamedTuple):
    """The scores of a scope, with the plan and the terms of the scoring."""

    plan: kernel.Plan
    terms: Terms
    found: kernel.Found


def score(
    scope: FindScope,
    scratch: Scratch,
    *,
    whole: bool = False,
    only: U8 | None = None,
    keeps_words: bool = True,
) -> Scored:
    """Score a scope; `whole` and `only` as in `FindScope.kernel_plan`.

    The scores of directories stay in `scratch`. If the snapshot has links, the lexical scores stay,
    too, until `relations` clears them; with `keeps_words` False nothing else need clear them.
    """
    terms = scope.snapshot.terms(scope.terms.hashes, scope.terms.weights)
    plan = scope.kernel_plan(terms, only, whole=whole)
    if not keeps_words:
        plan = plan._replace(keeps_words=False)
    if plan.adjusted and scope.named_days:
        plan = _with_named_days(scope, terms, plan, scratch)
    found = kernel.find(*scope.arrays, scope.raw_query, scope.scope, terms, plan, scratch)
    return Scored(plan, terms, found)


def _with_named_days(
    scope: FindScope, terms: Terms, plan: kernel.Plan, scratch: Scratch
) -> kernel.Plan:
    """Return the plan with the files of the days that the query names, and the best of these."""
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
    found = kernel.find(*scope.arrays, scope.raw_query, scope.scope, terms, of_days, scratch)
    ends = scope.ends(files=True)
    more = np.array([place(row, *ends) for row in found.rows.tolist()], np.int32)
    return plan._replace(named=named, more=more)


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
        reply=0.0,
        date=0.0,
        kind=0.0,
        final=scores.final.item(at),
    )


_spare: list[Scratch] = []
"""Scratch that no query uses. The last one is the most likely to be in a processor cache."""


def take_scratch(snapshot: Snapshot) -> Scratch:
    """Return scratch for the scores of one query; `keep_scratch` takes it back at the end."""
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
    """Keep scratch for the next query. After a failure it is dropped."""
    _spare.append(scratch)
