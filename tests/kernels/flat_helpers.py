"""Rows, codes and plain scores for the tests of flat searches."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import strategies as st
from viking_kernels import dense, find, int4, simd
from viking_kernels.arrays import (
    SCRIPTS,
    RawQuery,
    Terms,
    Vectors,
)
from viking_kernels.quantize import (
    int4_axis,
    int4_room,
    quantize_int4,
    quantize_rows,
)
from viking_kernels.rotation import rotate, rotated_size
from viking_kernels.weighted_search import WeightedPlan, weighted_top

from benchmarks.flat import one_directory
from tests.kernels import naive
from tests.tiers import examples

some = examples(40)
seeds = st.integers(0, 2**32 - 1)
ALL = np.zeros(0, np.uint8)


def unpacked(codes):
    """Return one code per component from bytes that have two."""
    parts = codes.reshape(len(codes), -1, 32)
    return np.stack([parts & 15, parts >> 4], axis=2).reshape(len(codes), -1).astype(int)


def rotated(x):
    """Return a rotated vector."""
    out = np.empty(rotated_size(len(x)), np.float32)
    rotate(np.asarray(x, np.float32), out)
    return out


def base_of(raw, axis=None):
    """Return the vectors of a base without a tail; `axis` is not rotated yet."""
    raw = np.ascontiguousarray(raw, np.float32)
    coded = int4_room(len(raw), int4_axis(raw) if axis is None else rotated(axis))
    quantize_int4(raw, coded)
    codes = np.zeros((len(raw), simd.padded(raw.shape[1])), np.int8)
    scale, error = np.zeros((2, len(raw)), np.float32)
    quantize_rows(raw, codes, scale, error)
    at = np.zeros(len(raw), np.int64)
    return Vectors(codes, scale, error, raw, codes[:0], scale[:0], error[:0], raw[:0], at, coded)


def rows_of(length, low=0, high=None):
    """Return (texts, scope) of one base directory with a file for each text, of these lengths."""
    tree, _, scope = one_directory(np.array(length, np.int32), 1)
    high = len(length) if high is None else high
    return tree.texts, scope._replace(file_low=low, file_high=high, text_low=low, text_high=high)


def by_meaning(query, vectors, texts, scope, allowed, k, terms=None, weights=(1.0, 0.0), script=0):
    """Return (rows, scores) of a search of `rows_of` without centring."""
    dimension = vectors.base_raw.shape[1]
    tree, stats, _ = one_directory(texts.length, dimension)
    nothing = np.zeros(0, np.int32)
    if terms is None:
        terms = postings_of(np.random.default_rng(0), len(texts.length), [], texts.length)
    n = len(vectors.base_raw)
    no_centroids = np.zeros((SCRIPTS, dimension), np.float32)
    centroids = dense.code_centroids(no_centroids, vectors.base_int4.axis)
    rows, scores, _ = weighted_top(
        tree._replace(texts=texts),
        vectors,
        stats,
        RawQuery(query, script, True, False, centroids),
        scope,
        terms,
        WeightedPlan(*weights, k, nothing, allowed),
        find.scratch(1, n, n),
    )
    return rows, scores


def best(values, k, rows=None):
    """Return the k best of some rows by value, ties by row."""
    rows = range(len(values)) if rows is None else rows
    return sorted(rows, key=lambda row: (-values[row], row))[:k]


def unit_rows(rng, shape, crowd=0.0):
    """Return random unit vectors, crowded around one direction."""
    raw = rng.normal(size=shape) + crowd * rng.normal(size=shape[1])
    return raw / np.linalg.norm(raw, axis=1)[:, None]


def postings_of(rng, n, dfs, length):
    """Return terms with base postings; term i is in about dfs[i] texts."""
    parts = [np.sort(rng.choice(n, min(df, n), replace=False)) for df in dfs]
    at = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    text = np.concatenate([*parts, []]).astype(np.int32)
    tf = np.minimum(rng.geometric(0.5, len(text)), length[text]).astype(np.uint16)
    keys = np.arange(len(dfs), dtype=np.uint64)
    weight = rng.choice([1.0, 2.0], len(dfs)).astype(np.float32)
    return Terms(
        keys, weight, keys, at, text, tf, np.zeros(len(dfs) + 1, np.int64), text[:0], tf[:0]
    )


def plain_scores(terms, length, low, high, died):
    """Return BM25 scores [high - low] divided by the ideal score, in float64."""
    alive = died[low:high] > 1
    documents, average = int(alive.sum()), max(1.0, length[low:high][alive].mean())
    scores, ideal = np.zeros(high - low), 0.0
    for i, weight in enumerate(terms.weight.tolist()):
        span = slice(terms.base_at[i], terms.base_at[i + 1])
        inside = (terms.base_text[span] >= low) & (terms.base_text[span] < high)
        at, tf = terms.base_text[span][inside] - low, terms.base_tf[span][inside].astype(float)
        gain = weight * naive.idf(documents, int(alive[at].sum()))
        scores[at] += (
            gain * tf / (tf + naive.K1 * (1 - naive.B + naive.B * length[at + low] / average))
        )
        ideal += gain
    return scores / ideal


def found_by_hash() -> str:
    """Return a hash of the results of searches and of the largest products."""
    rng = np.random.default_rng(8)
    seen = hashlib.sha256()
    raw = unit_rows(rng, (2000, 200), 1.0)
    vectors = base_of(raw)
    texts, scope = rows_of([1] * 2000)
    for i in range(20):
        query = (raw[i] + rng.normal(size=200) * 0.05).astype(np.float32)
        rows, scores = by_meaning(query, vectors, texts, scope, ALL, 20)
        seen.update(rows.tobytes() + scores.tobytes())
    codes = rng.integers(0, 256, (5, 2048)).astype(np.uint8)
    codes[0] = 255
    for factor in (127, -128):
        out = np.zeros(simd.TOGETHER, np.int32)
        int4.products_int4(codes, 0, 4, np.full(4096, factor, np.int8), out, 0)
        seen.update(out.tobytes())
    return seen.hexdigest()
