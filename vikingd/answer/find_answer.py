"""The answer to a plan of a find: its scopes scored, the best hits of each, all merged."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np
from viking_kernels import find as kernel
from viking_kernels.arrays import (
    FINAL,
    NODE,
    PARTS,
    Scratch,
    decode_file,
    encode_file,
    is_file,
)
from viking_kernels.scope import place, row_at

from vikingd.answer.confidence import features_of_find
from vikingd.answer.find_hits import FindHits, Hit, answered, best, merged
from vikingd.answer.find_trace import explain
from vikingd.answer.scored_scope import (
    DirectoryScores,
    Scored,
    directory_parts,
    keep_scratch,
    relations,
    score,
    take_scratch,
)
from vikingd.answer.translated_twins import with_twins
from vikingd.domain.answers import Stage
from vikingd.domain.contexts import ABSTRACT, PASSAGE
from vikingd.domain.find_query import Levels, Method, ScoreParts
from vikingd.plan.find_plan import FIRST, FindPlan, FindScope

_UNMATCHED = ScoreParts(*[0.0] * PARTS)


def find_all(plans: Sequence[FindPlan]) -> FindHits:
    """Return the hits of a request without a reranker, given the plan of each of its questions."""
    return answered(plans, [find(plan) for plan in plans])


def find(plan: FindPlan) -> FindHits:
    """Return the best hits of all scopes of a plan."""
    planned = perf_counter()
    scratch = take_scratch(plan.snapshot)
    parts = [hits_of(scope, score(scope, scratch), scratch) for scope in plan.scopes]
    keep_scratch(scratch)
    found = with_twins(plan, merged(plan, parts))
    found.stages = Stage("plan", plan.started, planned), Stage("score", planned, perf_counter())
    found.degraded = plan.degraded
    return found


def hits_of(scope: FindScope, scored: Scored, scratch: Scratch) -> FindHits:
    """Return the hits of a scored scope. They do not refer to `scratch`, which can be reused."""
    query, found, snapshot = scope.query, scored.found, scope.snapshot
    chosen: list[Hit] = []
    if query.levels != Levels.DIRECTORIES:
        threshold = query.score_threshold or 0.0
        chosen += [hit for hit in _files(scope, found) if hit.score > threshold]
    if query.levels != Levels.FILES:
        chosen += _best_directories(scope, found, query.score_threshold or 0.0)
    hits = best(snapshot, chosen, max(query.limit, FIRST))  # `with_twins` cuts them
    trace = explain(scope, scored) if query.trace else None
    linked = relations(scope, scored, (hit.row for hit in hits), scratch)
    features = features_of_find(scope, scored)
    return FindHits(
        snapshot, hits, linked, Method(scored.plan.method), (), trace=trace, features=features
    )


def hits_at(scope: FindScope, rows: Sequence[int]) -> FindHits:
    """Return the hits for given nodes of a scope, in their order.

    Scores are by meaning and words, without a reranker. A file that matches by neither scores 0.

    Args:
        scope: the find and its scope.
        rows: nodes of the scope, see `viking_kernels.arrays.encode_file`.
    """
    scratch = take_scratch(scope.snapshot)
    only, ends = scope.no_files(), scope.ends(files=True)
    for row in rows:
        if is_file(row):
            only[place(decode_file(row), *ends)] = 1
    scored = score(scope, scratch, only=only)
    files = {hit.row: hit for hit in _files(scope, scored.found)}
    unmatched = _UNMATCHED if scope.query.trace else None
    hits = [
        files.get(row) or Hit(0.0, row, ABSTRACT, (), unmatched)
        if is_file(row)
        else _directory(scope, scored.found, row)
        for row in rows
    ]
    linked = relations(scope, scored, rows, scratch)
    keep_scratch(scratch)
    return FindHits(scope.snapshot, hits, linked, Method(scored.plan.method), ())


def _files(scope: FindScope, found: kernel.Found) -> list[Hit]:
    """Return the best files by score, and all files that tie with the last one.

    URIs decide later which of the tied files are shown.
    """
    ordinal_of, trace = scope.snapshot.text_ordinal.item, scope.query.trace
    return [
        Hit(
            parts[FINAL],
            encode_file(row),
            PASSAGE if best >= 0 and parts[NODE] > 0.0 and ordinal_of(best) > 0 else ABSTRACT,
            [(text, of_text) for text, of_text in zip(texts, scores, strict=True) if text >= 0],
            ScoreParts(*parts) if trace else None,
        )
        for row, best, texts, scores, parts in zip(
            found.rows.tolist(),
            found.best_text.tolist(),
            found.passages.tolist(),
            found.passage_scores.tolist(),
            found.parts.tolist(),
            strict=True,
        )
    ]


def _directory(scope: FindScope, found: kernel.Found, row: int) -> Hit:
    parts = directory_parts(scope, found, row)
    return Hit(parts.final, row, ABSTRACT, (), parts if scope.query.trace else None)


def _best_directories(scope: FindScope, found: kernel.Found, threshold: float) -> list[Hit]:
    """Return the best directories below the scope's root, with all that tie with the last."""
    ends, scores = scope.ends(files=False), DirectoryScores(*found.directories)
    final = scores.final
    # numpy would round a plain float to float32 before it compares.
    eligible = (scores.node_score >= 0) & (final > np.float64(threshold))
    allowed = scope.allowed(files=False)
    if len(allowed):
        eligible &= allowed.astype(bool)
    positions = np.flatnonzero(eligible)
    limit = scope.query.limit
    if len(positions) > limit:
        floor = np.partition(final[positions], len(positions) - limit)[len(positions) - limit]
        positions = positions[final[positions] >= floor]
    rows = [row_at(position, *ends) for position in positions.tolist()]
    return [_directory(scope, found, row) for row in rows if row != scope.scope.root]
