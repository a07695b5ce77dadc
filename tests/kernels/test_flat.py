"""Flat searches by dense and lexical score, compared with plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels import bm25, flat, select

from tests.kernels import naive
from tests.kernels.flat_helpers import (
    ALL,
    base_of,
    best,
    by_meaning,
    found_by_hash,
    plain_scores,
    postings_of,
    rows_of,
    seeds,
    some,
    unit_rows,
)

# Texts that count


@some
@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from([0.25, 0.5, 0.75]))), st.integers(1, 9)
)
def test_the_best_are_kept_in_order(offered, k):
    """The best are kept by score, then by row, in any order of arrival."""
    rows, scores = np.empty(k, np.int32), np.empty(k, np.float32)
    count, kept = 0, []
    for row, score in dict(offered).items():
        count = select.keep_best(rows, scores, count, row, score)
        kept = naive.keep_best(kept, row, score, k)
        assert list(zip(rows[:count].tolist(), scores[:count].tolist(), strict=True)) == kept


def test_a_text_counts_if_it_lives_in_the_scope_and_its_file_is_allowed():
    """A text counts if it is alive, in the scope and of an allowed file."""
    texts, scope = rows_of([1] * 4)
    scope = scope._replace(base_texts=2, base_files=2, text_high=2, file_high=2)
    texts.tombstoned[0] = 1
    texts.directory[3] = 1  # the tail's first directory
    texts.file[1] = -1
    for below in (0, 1):
        inside = np.array([below], np.uint8)
        for row in range(4):
            in_base, directory = row < 2, int(texts.directory[row])
            below_root = directory < 1 or below == 1
            assert flat.is_inside(row, texts, scope, inside) == naive.is_inside(
                int(texts.tombstoned[row]), 1, in_base=in_base, below_root=below_root
            )
    for allowed in (None, {2}, {0, 3}):
        given_ = ALL if allowed is None else np.isin(np.arange(4), list(allowed)).astype(np.uint8)
        for row in range(4):
            file = int(texts.file[row])
            assert flat.is_allowed(row, texts, given_, scope) == naive.is_allowed(file, allowed)


# By meaning


@some
@given(
    seeds,
    st.sampled_from([3, 64, 384]),
    st.sampled_from([0, 1, 5, 300, 1000]),
    st.sampled_from([1, 3, 10, 2000]),
    st.sampled_from([0.0, 3.0]),
)
def test_the_best_by_meaning_are_those_of_fp32(seed, dimension, n, k, crowd):
    """The best by dense score are those of fp32 among tombstoned, filtered and equal vectors."""
    rng = np.random.default_rng(seed)
    raw = unit_rows(rng, (n, dimension), crowd).astype(np.float32)
    raw[rng.random(n) < 0.1] = 0
    if n > 4:
        raw[rng.integers(n, size=n // 4)] = raw[rng.integers(n, size=n // 4)]
    vectors = base_of(raw)
    low, high = sorted(rng.integers(0, n + 1, 2).tolist())
    texts, scope = rows_of([1] * n, low, high)
    texts.tombstoned[rng.random(n) < 0.2] = 1  # at the scope's revision
    texts.tombstoned[rng.random(n) < 0.1] = 2  # after the scope's revision
    vectors.vector_at[rng.random(n) < 0.2] = 2
    allowed = (rng.random(high - low) < 0.6).astype(np.uint8) if rng.random() < 0.5 else ALL
    query = unit_rows(rng, (1, dimension), crowd)[0].astype(np.float32)
    rows, scores = by_meaning(query, vectors, texts, scope, allowed, k)
    exact = raw.astype(float) @ query.astype(float)
    able = [
        row
        for row in range(low, high)
        if texts.tombstoned[row] > 1
        and vectors.vector_at[row] <= 1
        and exact[row] > 0
        and (len(allowed) == 0 or allowed[row - low])
    ]
    assert len(rows) == min(k, len(able))
    assert set(rows.tolist()) <= set(able)
    np.testing.assert_allclose(scores, exact[rows], atol=1e-6)
    # Rounding of fp32 sums may reorder nearly equal rows; equal rows keep their order.
    np.testing.assert_allclose(scores, exact[best(exact, k, able)], atol=1e-6)
    assert rows.tolist() == [r for _, r in sorted(zip((-scores).tolist(), rows.tolist()))]  # noqa: B905
    kept = set(rows.tolist())
    for row in rows.tolist():
        twins = [r for r in able if r < row and (raw[r] == raw[row]).all()]
        assert kept.issuperset(twins)


def test_the_best_by_meaning_may_be_the_worst_coded():
    """Rows with useless codes are found because their upper bounds are high."""
    rng = np.random.default_rng(5)
    raw = unit_rows(rng, (3000, 48))
    query = unit_rows(rng, (1, 48))[0].astype(np.float32)
    hidden = np.arange(100, 112)
    raw[hidden] = query + unit_rows(rng, (12, 48)) * 0.1
    raw /= np.linalg.norm(raw, axis=1)[:, None]
    vectors = base_of(raw, np.zeros(48))
    coded = vectors.base_int4
    texts, scope = rows_of([1] * 3000)
    coded.codes[hidden] = 0x88
    coded.scale[hidden] = 0
    coded.residual[hidden] = 1
    rows, _ = by_meaning(query, vectors, texts, scope, ALL, 10)
    exact = vectors.base_raw.astype(float) @ query
    assert rows.tolist() == best(exact, 10)
    assert set(rows.tolist()) <= set(hidden.tolist())


def test_bounds_of_crowded_vectors_hold():
    """The exact best are found among vectors that differ less than their codes do."""
    rng = np.random.default_rng(11)
    raw = unit_rows(rng, (4000, 96), 12.0)
    vectors = base_of(raw)
    texts, scope = rows_of([1] * 4000)
    exact_rows = vectors.base_raw.astype(float)
    for i in range(20):
        query = (raw[i] * 10.0 ** rng.integers(-3, 4)).astype(np.float32)
        rows, scores = by_meaning(query, vectors, texts, scope, ALL, 10)
        exact = exact_rows @ (query.astype(float) / np.linalg.norm(query.astype(float)))
        np.testing.assert_allclose(scores, np.sort(exact)[::-1][:10], rtol=1e-6)
        assert len(set(rows.tolist())) == 10


@some
@given(
    seeds,
    st.sampled_from([1, 10, 2000]),
    st.sampled_from([(1.0, 0.0), (0.5, 0.5), (0.0, 1.0), (0.2, 3.0)]),
)
def test_the_best_by_meaning_and_words_are_those_of_all(seed, k, weights):
    """The best by dense and lexical score are found though most rows are skipped.

    On a script mismatch, the dense score has the weight of both.
    """
    rng = np.random.default_rng(seed)
    n = 3000
    vectors = base_of(unit_rows(rng, (n, 48)))
    coded, (four, eight) = vectors.base_int4, rng.random((2, n)) < 0.2
    coded.scale[four] = 0
    coded.residual[four] = np.sqrt(1 - coded.along[four] ** 2) + 1e-6
    vectors.scale[eight] = 0
    vectors.residual[eight] = 1
    length = rng.integers(5, 60, n).astype(np.int32)
    terms = postings_of(rng, n, [5, 60, 700, 2500], length)
    texts, scope = rows_of(length)
    texts.script[:] = np.sort(rng.integers(0, 3, n))
    query = unit_rows(rng, (1, 48))[0].astype(np.float32)
    rows, scores = by_meaning(query, vectors, texts, scope, ALL, k, terms, weights, script=1)
    cosine = np.clip(vectors.base_raw.astype(float) @ query.astype(float), 0, 1)
    words = plain_scores(terms, length, 0, n, texts.tombstoned)
    exact = weights[0] * cosine + weights[1] * words
    exact[texts.script == 2] = sum(weights) * cosine[texts.script == 2]
    assert len(rows) == min(k, (exact > 0).sum())
    np.testing.assert_allclose(scores, exact[rows], atol=2e-6)
    np.testing.assert_allclose(scores, exact[best(exact, len(rows))], atol=2e-6)


def test_what_is_coded_best_is_not_lost_behind_what_is_coded_worse():
    """A text with an exact code is not lost behind texts with poor codes."""
    turns = np.radians(np.concatenate([np.full(60, 42.0), np.linspace(41.9, 41.8, 5)]))
    vectors = base_of(
        np.stack([np.cos(turns), np.sin(turns)], axis=1), np.array([1, 0], np.float32)
    )
    vectors.base_int4.residual[:60] += 0.05
    texts, scope = rows_of([1] * len(turns))
    query = np.array([np.cos(0.3), np.sin(0.3)], np.float32)
    assert by_meaning(query, vectors, texts, scope, ALL, 5)[0].tolist() == [64, 63, 62, 61, 60]


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_vector_without_a_direction_finds_nothing(bad):
    """A vector without a direction finds nothing."""
    vectors = base_of(unit_rows(np.random.default_rng(1), (50, 16)))
    texts, scope = rows_of([1] * 50)
    query = np.zeros(16, np.float32)
    query[3] = bad
    assert len(by_meaning(query, vectors, texts, scope, ALL, 3)[0]) == 0


@pytest.mark.deep
@pytest.mark.timeout(1200)  # the kernels are compiled, on a busy machine for minutes
def test_machines_with_fewer_instructions_find_the_same(printed_by_another):
    """All instruction sets give the same results, bit for bit."""
    code = "from tests.kernels import flat_helpers as h; print(h.found_by_hash())"
    assert printed_by_another(code) == found_by_hash()


def test_constants_agree():
    """The constants of the twins equal those of the kernels."""
    ours = (bm25.K1, bm25.B, bm25.SCORE_FLOOR)
    assert ours == (naive.K1, naive.B, naive.SCORE_FLOOR)
