"""Own scores of texts: own = w * dense + (1 - w) * lexical.

A part that is missing leaves all to the other: dense when the query has no vector, lexical when
it has no terms or the text is in another script. A text that has no vector yet has dense 0.
"""

from __future__ import annotations

import numpy as np

from viking_kernels._jit import njit
from viking_kernels.arrays import F32, I32, Query, Scope, Texts, Vectors
from viking_kernels.dense import centred_fp32, cosine, cosine_bound, products_int8
from viking_kernels.scope import place

DENSE_WEIGHT = 0.5


@njit
def foreign(script: int, query_script: int) -> bool:
    """Whether a text's words can't be compared with the query's: another script."""
    return script != 0 and query_script != 0 and script != query_script


@njit
def dense_weight(lexical_missing: bool, use_dense: bool, use_lexical: bool) -> float:
    """W of own = w * dense + (1 - w) * lexical."""
    if not use_dense:
        return 0.0
    if lexical_missing or not use_lexical:
        return 1.0
    return DENSE_WEIGHT


@njit
def own_of_base(
    first: int, last: int, texts: Texts, vectors: Vectors, query: Query, lexical: F32, scope: Scope,
    out: F32,
) -> None:  # fmt: skip
    """Own scores of base texts [first, last) of the scope, from int8 codes.

    `lexical` [t] and `out` [2, t] are the scope's: out gets scores and how far each can be off,
    -1 for the dead. By Cauchy and Schwarz a product with a coded row is off by at most the length
    of what the code leaves out; the query's own coding adds its part.
    """
    codes = vectors.base_codes
    direction, mean = query.direction_code, query.mean_code
    for row in range(first, last):
        at = row - scope.text_low
        if texts.died[row] <= scope.revision:
            out[0, at] = -1.0
            out[1, at] = 0.0
            continue
        script = np.int64(texts.script[row])
        missing = foreign(script, query.script)
        weight = dense_weight(missing, query.use_dense, query.use_lexical)
        score = 0.0
        bound = 0.0
        if weight > 0 and vectors.vector_at[row] <= scope.revision:
            along, across = products_int8(codes, row, direction, mean, script)
            u_x = vectors.scale[row] * along / query.direction_scale
            m_x = vectors.scale[row] * across / query.mean_scale[script]
            above = u_x - query.mean_dot[script]
            square = 1.0 - 2.0 * m_x + query.mean_square[script]
            left = np.float64(vectors.error[row])
            u_off = left + query.direction_error * (1.0 + left)
            m_off = left * np.sqrt(query.mean_square[script])
            m_off += query.mean_error[script] * (1.0 + left)
            score = cosine(above, square)
            # fp32 sums of some hundred products, and |x| = 1, hold to about 1e-6.
            bound = cosine_bound(score, above, square, u_off + 1e-6, 2.0 * m_off + 2e-6)
        words = 0.0 if missing else np.float64(lexical[at])
        out[0, at] = weight * score + (1.0 - weight) * words
        out[1, at] = weight * bound


@njit
def own_of_rows(
    rows: I32, texts: Texts, vectors: Vectors, query: Query, lexical: F32, scope: Scope, out: F32
) -> None:
    """Own scores of any living texts of the scope, from fp32 vectors: out[0], and out[1] = 0."""
    base = scope.base_texts
    direction, mean = query.direction, query.mean
    for i in range(rows.shape[0]):
        row = rows[i]
        at = place(row, scope.text_low, scope.text_high, base)
        script = np.int64(texts.script[row])
        missing = foreign(script, query.script)
        weight = dense_weight(missing, query.use_dense, query.use_lexical)
        score = 0.0
        if weight > 0 and vectors.vector_at[row] <= scope.revision:
            if row < base:
                above, square = centred_fp32(vectors.base_raw, row, direction, mean, script)
            else:
                above, square = centred_fp32(vectors.tail_raw, row - base, direction, mean, script)
            score = cosine(above, square)
        words = 0.0 if missing else np.float64(lexical[at])
        out[0, at] = weight * score + (1.0 - weight) * words
        out[1, at] = 0.0
