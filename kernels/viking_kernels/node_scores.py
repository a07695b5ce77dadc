"""Node scores of texts and files.

    node score of a text = w * dense + (1 - w) * lexical
    node score of a file = the best node score of its texts

A missing part leaves all weight to the other one. Dense is missing if the query has no vector.
Lexical is missing if the query has no terms or if the scripts of text and query mismatch. A text
in another script than the query's has `capped` instead of dense. A text whose vector is not known
yet has dense 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from viking_kernels._jit import called, inlined
from viking_kernels.arrays import F32, I32, U8, Search
from viking_kernels.dense import (
    bounded_cosine,
    coded_parts,
    multiply_codes,
    operands_of,
    parts_of_code,
    raw_cosine,
)
from viking_kernels.scope import place
from viking_kernels.select import keep_best

DENSE_WEIGHT = 0.5

OTHER_SCRIPT = 0.8
"""The share of dense that a text in another script keeps above the cap. See `capped`."""

_CAP_SLOPE = 1e-3
"""Rise of the scores at the cap, so that the order by dense stays."""

CODES_TELL = 0.1
"""The largest error bound of a score from a code. Above it the text's vector is used instead.

int8 codes of ordinary vectors have error bounds of .01 to .03. The code of a vector near the
centroid of its language says nothing.
"""


@inlined
def script_mismatch(script: int, query_script: int) -> bool:
    """Return True if text and query are in different scripts, so that words cannot match.

    Script 0, that of a text without letters, matches every script.
    """
    return script != 0 and query_script != 0 and script != query_script


@inlined
def dense_weight(lexical_missing: bool, use_dense: bool, use_lexical: bool) -> float:
    """Return w, the weight of dense in a node score: 0, DENSE_WEIGHT or 1."""
    if not use_dense:
        return 0.0
    if lexical_missing or not use_lexical:
        return 1.0
    return DENSE_WEIGHT


@inlined
def capped(dense: float, cap: float) -> float:
    """Return the node score of a text in another script than the query's.

    The cap is the best node score in the query's own script, see other_script.py. A text whose
    dense score is above the cap gets OTHER_SCRIPT * dense, or about the cap if that is more. The
    score rises with dense, and at most as fast. So an error bound of dense is also one of the
    score.
    """
    return max(OTHER_SCRIPT * dense, min(dense, cap - _CAP_SLOPE * (1.0 - dense)))


@inlined
def dense_score(row: int, search: Search) -> float:
    """Return the dense score of a living text of the scope, from its fp32 vector; 0 without one."""
    if search.vectors.vector_at[row] > search.scope.revision:
        return 0.0
    script = np.int64(search.tree.texts.script[row])
    return raw_cosine(search.vectors, row, search.query, script)


@inlined
def text_score(row: int, search: Search) -> float:
    """Return the exact node score of a living text of the scope, from its fp32 vector."""
    query, scope = search.query, search.scope
    missing = script_mismatch(np.int64(search.tree.texts.script[row]), query.script)
    weight = dense_weight(missing, query.use_dense, query.use_lexical)
    score = dense_score(row, search) if weight > 0 else 0.0
    words = 0.0
    if missing:
        score = capped(score, search.other_script)
    else:
        at = place(row, scope.text_low, scope.text_high, scope.base_texts)
        words = np.float64(search.scratch.lexical[at])
    return weight * score + (1.0 - weight) * words


class Run(NamedTuple):
    """A run of texts: the base rows [low, high), which all have the same script."""

    low: int
    high: int
    script: int


@inlined
def next_run(scripts: U8, start: int, high: int, limit: int) -> Run:
    """Return the longest run of texts of one script that begins at row `start`.

    Args:
        scripts: [texts], the script of each text.
        start: the first row.
        high: the row where the run must end, exclusive; above `start`.
        limit: the most texts of a run.
    """
    end = min(high, start + limit)
    others = np.int32(0)
    for i in range(start, end):  # without a break, for SIMD: mostly there is one script
        others = np.int32(others + np.int32(scripts[i] != scripts[start]))
    if others > 0:
        end = start + 1
        while scripts[end] == scripts[start]:
            end += 1
    return Run(start, end, np.int64(scripts[start]))


@inlined
def score_codes(low: int, high: int, search: Search) -> None:
    """Compute the node scores of the texts in rows [low, high) of the base, from int8 codes.

    search.scratch.code_scores and .code_errors get the scores and their error bounds, from index 0
    on. All texts get a score, tombstoned or not. A text whose error bound is above CODES_TELL is
    scored by its fp32 vector, so that all bounds are at most CODES_TELL.

    The texts are scored in runs of one script. Each run takes two passes: the products, which wait
    for memory, then the arithmetic. LLVM vectorizes the arithmetic as long as a pass has few
    arrays.
    """
    start = low
    while start < high:
        run = next_run(search.tree.texts.script, start, high, search.scratch.products.shape[1])
        _score_run(run, start - low, search)
        start = run.high


@inlined
def _score_run(run: Run, to: int, search: Search) -> None:
    """Compute the node scores of a run of texts; the results begin at index `to`."""
    vectors, query, scope, scratch = search.vectors, search.query, search.scope, search.scratch
    low, high = run.low, run.high
    score, error = scratch.code_scores[to:], scratch.code_errors[to:]
    lexical = scratch.lexical[low - scope.text_low :]
    count = high - low
    missing = script_mismatch(run.script, query.script)
    share = np.float32(dense_weight(missing, query.use_dense, query.use_lexical))
    words = np.float32(0) if missing else np.float32(1) - share
    if share == 0:
        for i in range(count):
            score[i] = words * lexical[i]
            error[i] = 0
        return
    multiply_codes(vectors.base_codes, low, high, query, run.script, scratch.products)
    operands = operands_of(query, run.script)
    along, across = scratch.products[0], scratch.products[1]
    scale, residual, known_at = vectors.scale[low:], vectors.residual[low:], vectors.vector_at[low:]
    for i in range(count):
        parts = coded_parts(along[i], across[i], scale[i], residual[i], operands)
        score[i], error[i] = bounded_cosine(*parts)
    if missing:
        for i in range(count):
            score[i] = np.float32(capped(np.float64(score[i]), search.other_script))
    open_ = np.int32(0)
    for i in range(count):
        weight = share if known_at[i] <= scope.revision else np.float32(0)
        score[i] = weight * score[i] + words * lexical[i]
        error[i] = weight * error[i]
        open_ = np.int32(open_ + np.int32(error[i] > np.float32(CODES_TELL)))
    if open_ > 0:
        _score_vectors(run, to, search)


@called
def _score_vectors(run: Run, to: int, search: Search) -> None:
    """Score the texts of a run whose error bound is above CODES_TELL again, by fp32 vectors."""
    scratch = search.scratch
    for row in range(run.low, run.high):
        at = to + row - run.low
        if scratch.code_errors[at] > np.float32(CODES_TELL):
            scratch.code_scores[at] = text_score(row, search)
            scratch.code_errors[at] = 0


@inlined
def text_score_from_code(row: int, search: Search) -> tuple[float, float]:
    """Return (node score, error bound) of a living text of the tail, from its int8 code.

    If the bound would exceed CODES_TELL, the score is from the vector. The arithmetic is that of
    `_score_run`, because a compaction must not change the gate.
    """
    vectors, query, scope = search.vectors, search.query, search.scope
    at = row - scope.base_texts
    position = place(row, scope.text_low, scope.text_high, scope.base_texts)
    script = np.int64(search.tree.texts.script[row])
    missing = script_mismatch(script, query.script)
    share = np.float32(dense_weight(missing, query.use_dense, query.use_lexical))
    words = np.float32(0) if missing else np.float32(1) - share
    cosine = cosine_error = np.float32(0)
    if share > 0 and vectors.vector_at[row] <= scope.revision:
        parts = parts_of_code(
            vectors.tail_codes, at, vectors.tail_scale[at], vectors.tail_residual[at], query, script
        )
        cosine, cosine_error = bounded_cosine(*parts)
        if missing:
            cosine = np.float32(capped(np.float64(cosine), search.other_script))
    score = share * cosine + words * search.scratch.lexical[position]
    error = share * cosine_error
    if error > np.float32(CODES_TELL):
        exact = _text_score_from_vector(row, search)
        return np.float64(np.float32(exact)), 0.0
    return np.float64(score), np.float64(error)


@called
def _text_score_from_vector(row: int, search: Search) -> float:
    """Return `text_score`. This function is not inlined, because it is called rarely."""
    return text_score(row, search)


@inlined
def file_score(file: int, coded: bool, search: Search) -> tuple[float, float, int, int]:
    """Return (node score, error bound, row of the best text, number of texts) of a file.

    The error bound is the largest of the texts' bounds; it is 0 for fp32 vectors. With `coded`,
    scratch.code_scores holds the scores of the base texts of the file's directory. Of equal texts
    the first is the best; the row is -1 if the file has no living text.
    """
    tree, scope, scratch = search.tree, search.scope, search.scratch
    texts = tree.texts
    best_score = 0.0
    error = 0.0
    best = -1
    count = 0
    if file < scope.base_files:
        low = np.int64(tree.directories.texts[tree.files.directory[file]])
        for row in range(np.int64(tree.files.texts[file, 0]), np.int64(tree.files.texts[file, 1])):
            if texts.tombstoned[row] > scope.revision:
                if coded:
                    score = np.float64(scratch.code_scores[row - low])
                    error = max(error, np.float64(scratch.code_errors[row - low]))
                else:
                    score = text_score(row, search)
                count += 1
                if best < 0 or score > best_score:
                    best_score = score
                    best = row
    row = tree.files.newest[file]
    while row >= 0:
        if row < texts.tombstoned.shape[0] and texts.tombstoned[row] > scope.revision:
            if coded:
                score, of_text = text_score_from_code(row, search)
                error = max(error, of_text)
            else:
                score = text_score(row, search)
            count += 1
            # The chain leads from the last text to the first.
            if best < 0 or score > best_score or (score == best_score and best >= scope.base_texts):
                best_score = score
                best = row
        row = texts.older[row - scope.base_texts]
    return best_score, error, best, count


@inlined
def best_passages(file: int, search: Search, rows: I32, scores: F32) -> None:
    """Fill `rows` and `scores` [n] with a file's best passages, best first; -1 for none.

    Only passages with a node score above 0 count. Of equal passages the first comes first.
    `scratch` holds the exact score of the file's best text.
    """
    tree, scope = search.tree, search.scope
    count = np.int64(0)
    rows[:] = -1
    scores[:] = 0
    if file < scope.base_files:
        for row in range(np.int64(tree.files.texts[file, 0]), np.int64(tree.files.texts[file, 1])):
            count = _add_passage(row, file, search, rows, scores, count)
    row = tree.files.newest[file]
    while row >= 0:
        if row < tree.texts.tombstoned.shape[0]:
            count = _add_passage(row, file, search, rows, scores, count)
        row = tree.texts.older[row - scope.base_texts]


@inlined
def _add_passage(row: int, file: int, search: Search, rows: I32, scores: F32, count: int) -> int:
    """Insert a text if it is a living passage and one of the best; return their number."""
    texts, scope, scratch = search.tree.texts, search.scope, search.scratch
    if texts.tombstoned[row] <= scope.revision or texts.ordinal[row] <= 0:
        return count
    at = place(file, scope.file_low, scope.file_high, scope.base_files)
    score = np.float64(scratch.file_scores[at])
    if row != scratch.best[at]:
        score = text_score(row, search)
    return keep_best(rows, scores, count, row, score) if np.float32(score) > 0 else count
