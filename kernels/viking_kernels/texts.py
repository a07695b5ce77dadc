"""Own scores of texts and files: own = w * dense + (1 - w) * lexical, a file's that of its best.

A part that is missing leaves all to the other: dense when the query has no vector, lexical when
it has no terms or the text is in another script. A text that has no vector yet has dense 0.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import ieee, inlined, njit
from viking_kernels.arrays import F32, I32, U8, Query, Scope, Scratch, Tree, Vectors
from viking_kernels.dense import (
    against,
    bounded_cosine,
    coded_parts,
    multiply_codes,
    parts_of_code,
    raw_cosine,
)
from viking_kernels.scope import place

DENSE_WEIGHT = 0.5

CODES_TELL = 0.1
"""Where the code of a text leaves its own score open by more, its vector is looked at instead.

int8 codes of ordinary vectors leave .01 to .03 open. Of a vector that is near the mean of its
language they tell nothing.
"""


@inlined
def foreign(script: int, query_script: int) -> bool:
    """Whether a text's words can't be compared with the query's: another script."""
    return script != 0 and query_script != 0 and script != query_script


@inlined
def dense_weight(lexical_missing: bool, use_dense: bool, use_lexical: bool) -> float:
    """W of own = w * dense + (1 - w) * lexical."""
    if not use_dense:
        return 0.0
    if lexical_missing or not use_lexical:
        return 1.0
    return DENSE_WEIGHT


@inlined
def own_of_text(
    row: int, tree: Tree, vectors: Vectors, query: Query, lexical: F32, scope: Scope
) -> float:
    """Own score of a living text of the scope from its fp32 vector.

    `lexical` are the scope's, by position.
    """
    script = np.int64(tree.texts.script[row])
    missing = foreign(script, query.script)
    weight = dense_weight(missing, query.use_dense, query.use_lexical)
    score = 0.0
    if weight > 0 and vectors.vector_at[row] <= scope.revision:
        score = raw_cosine(vectors, row, query, script)
    words = 0.0
    if not missing:
        words = np.float64(lexical[place(row, scope.text_low, scope.text_high, scope.base_texts)])
    return weight * score + (1.0 - weight) * words


@inlined
def score_codes(
    low: int, high: int, tree: Tree, vectors: Vectors, query: Query, scope: Scope, scratch: Scratch
) -> None:
    """Fills scratch.coded, from its front, for the base texts [low, high), living or dead.

    It gets own scores, and how far each can be off, which is CODES_TELL at most.

    In passes over runs of texts of one script: the products, for which memory is waited, then the
    arithmetic, which LLVM does for several texts at a time as long as a pass has few arrays.
    """
    start = low
    while start < high:
        end = run_end(tree.texts.script, start, high, scratch.products.shape[1])
        script = np.int64(tree.texts.script[start])
        _score_run(start, end, start - low, script, tree, vectors, query, scope, scratch)
        start = end


@inlined
def run_end(scripts: U8, start: int, high: int, most: int) -> int:
    """Where the texts below `high` end that have the script of the first, `most` at most."""
    end = min(high, start + most)
    others = np.int32(0)
    for i in range(start, end):  # to the end, for SIMD: mostly there is one script
        others = np.int32(others + np.int32(scripts[i] != scripts[start]))
    if others > 0:
        end = start + 1
        while scripts[end] == scripts[start]:
            end += 1
    return end


@ieee
def _score_run(
    low: int,
    high: int,
    to: int,
    script: int,
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scope: Scope,
    scratch: Scratch,
) -> None:
    score, bound = scratch.coded[0, to:], scratch.coded[1, to:]
    lexical = scratch.lexical[low - scope.text_low :]
    count = high - low
    missing = foreign(script, query.script)
    share = np.float32(dense_weight(missing, query.use_dense, query.use_lexical))
    words = np.float32(0) if missing else np.float32(1) - share
    if share == 0:
        for i in range(count):
            score[i] = words * lexical[i]
            bound[i] = 0
        return
    multiply_codes(vectors.base_codes, low, high, query, script, scratch.products)
    other = against(query, script)
    along, across = scratch.products[0], scratch.products[1]
    scale, left, there = vectors.scale[low:], vectors.error[low:], vectors.vector_at[low:]
    for i in range(count):
        parts = coded_parts(along[i], across[i], scale[i], left[i], other)
        score[i], bound[i] = bounded_cosine(*parts)
    open_ = np.int32(0)
    for i in range(count):
        weight = share if there[i] <= scope.revision else np.float32(0)
        score[i] = weight * score[i] + words * lexical[i]
        bound[i] = weight * bound[i]
        open_ = np.int32(open_ + np.int32(bound[i] > np.float32(CODES_TELL)))
    if open_ > 0:
        _score_vectors(low, high, to, tree, vectors, query, scope, scratch)


@njit
def _score_vectors(
    low: int,
    high: int,
    to: int,
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scope: Scope,
    scratch: Scratch,
) -> None:
    """Scores the base texts [low, high) whose codes tell too little from their vectors."""
    for row in range(low, high):
        at = to + row - low
        if scratch.coded[1, at] > np.float32(CODES_TELL):
            own = own_of_text(row, tree, vectors, query, scratch.lexical, scope)
            scratch.coded[0, at] = own
            scratch.coded[1, at] = 0


@ieee
def own_from_code(
    row: int, tree: Tree, vectors: Vectors, query: Query, lexical: F32, scope: Scope
) -> tuple[float, float]:
    """(own score of a living text of the tail from its code, how far it can be off).

    From its vector where the code leaves more than CODES_TELL open. `lexical` are the scope's, by
    position. The arithmetic is that of `_score_run`: the gate must not change with a compaction.
    """
    at = row - scope.base_texts
    position = place(row, scope.text_low, scope.text_high, scope.base_texts)
    script = np.int64(tree.texts.script[row])
    missing = foreign(script, query.script)
    share = np.float32(dense_weight(missing, query.use_dense, query.use_lexical))
    words = np.float32(0) if missing else np.float32(1) - share
    cosine = off = np.float32(0)
    if share > 0 and vectors.vector_at[row] <= scope.revision:
        parts = parts_of_code(
            vectors.tail_codes, at, vectors.tail_scale[at], vectors.tail_error[at], query, script
        )
        cosine, off = bounded_cosine(*parts)
    score = share * cosine + words * lexical[position]
    bound = share * off
    if bound > np.float32(CODES_TELL):
        own = _own_from_vector(row, tree, vectors, query, lexical, scope)
        return np.float64(np.float32(own)), 0.0
    return np.float64(score), np.float64(bound)


@njit
def _own_from_vector(
    row: int, tree: Tree, vectors: Vectors, query: Query, lexical: F32, scope: Scope
) -> float:
    """`own_of_text`, called so rarely that it is not compiled into its callers."""
    return own_of_text(row, tree, vectors, query, lexical, scope)


@inlined
def own_of_file(
    file: int,
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scope: Scope,
    coded: bool,
    scratch: Scratch,
) -> tuple[float, float, int, int]:
    """(best own score of a file's texts, largest bound, row of the best text, texts).

    From fp32 vectors, which are off by nothing, or from codes: those of the base's texts right in
    the file's directory stand in scratch.coded. Of equal ones the first is the best; -1 where the
    file has no living text.
    """
    texts = tree.texts
    own = 0.0
    bound = 0.0
    best = -1
    count = 0
    if file < scope.base_files:
        low = np.int64(tree.directories.texts[tree.files.directory[file]])
        for row in range(np.int64(tree.files.texts[file, 0]), np.int64(tree.files.texts[file, 1])):
            if texts.died[row] > scope.revision:
                if coded:
                    score = np.float64(scratch.coded[0, row - low])
                    bound = max(bound, np.float64(scratch.coded[1, row - low]))
                else:
                    score = own_of_text(row, tree, vectors, query, scratch.lexical, scope)
                count += 1
                if best < 0 or score > own:
                    own = score
                    best = row
    row = tree.files.newest[file]
    while row >= 0:
        if row < texts.died.shape[0] and texts.died[row] > scope.revision:
            if coded:
                score, off = own_from_code(row, tree, vectors, query, scratch.lexical, scope)
                bound = max(bound, off)
            else:
                score = own_of_text(row, tree, vectors, query, scratch.lexical, scope)
            count += 1
            # The chain leads from the last text to the first.
            if best < 0 or score > own or (score == own and best >= scope.base_texts):
                own = score
                best = row
        row = texts.older[row - scope.base_texts]
    return own, bound, best, count


@inlined
def best_passages(
    file: int,
    tree: Tree,
    vectors: Vectors,
    query: Query,
    scratch: Scratch,
    scope: Scope,
    rows: I32,
    scores: F32,
) -> None:
    """Fills `rows` and `scores` ([n]) with a file's best passages, best first, -1 for none.

    Only own scores above 0 count, of equal ones the first. That of the best text stands in
    `scratch` already, from its vector.
    """
    texts, lexical = tree.texts, scratch.lexical
    at = place(file, scope.file_low, scope.file_high, scope.base_files)
    best, known = np.int64(scratch.best[at]), np.float64(scratch.own[0, at])
    rows[:] = -1
    scores[:] = 0
    if file < scope.base_files:
        for row in range(np.int64(tree.files.texts[file, 0]), np.int64(tree.files.texts[file, 1])):
            if texts.died[row] > scope.revision and texts.ordinal[row] > 0:
                own = known
                if row != best:
                    own = own_of_text(row, tree, vectors, query, lexical, scope)
                _insert(rows, scores, row, own)
    row = tree.files.newest[file]
    while row >= 0:
        alive = row < texts.died.shape[0] and texts.died[row] > scope.revision
        if alive and texts.ordinal[row] > 0:
            own = known
            if row != best:
                own = own_of_text(row, tree, vectors, query, lexical, scope)
            _insert(rows, scores, row, own)
        row = texts.older[row - scope.base_texts]


@inlined
def _insert(rows: I32, scores: F32, row: int, score: float) -> None:
    """Takes a passage in if it is one of the best: by score, then by row."""
    value = np.float32(score)
    at = rows.shape[0]
    while at > 0 and (
        value > scores[at - 1] or (value == scores[at - 1] and 0 <= row < rows[at - 1])
    ):
        if at < rows.shape[0]:
            rows[at] = rows[at - 1]
            scores[at] = scores[at - 1]
        at -= 1
    if value > 0 and at < rows.shape[0]:
        rows[at] = row
        scores[at] = value
