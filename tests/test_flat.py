"""Flat searches against the plain ones."""

from __future__ import annotations

import hashlib

import naive
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from trees import LARGE, build, shapes, terms_of
from viking_kernels import bm25, bounds, dense, find, flat, int4, simd
from viking_kernels import scope as scopes
from viking_kernels.arrays import (
    COUNTS,
    SCRIPTS,
    TEXT_LENGTH,
    TEXTS,
    Asked,
    Terms,
    Vectors,
)
from viking_kernels.quantize import (
    from_int4,
    int4_axis,
    int4_room,
    quantize_int4,
    quantize_rows,
)
from viking_kernels.rotation import rotate, rotated_size
from viking_kernels.weighted import weighted_top

from benchmarks.flat import one_directory

some = settings(max_examples=40, deadline=None, print_blob=True)
seeds = st.integers(0, 2**32 - 1)
ALL = np.zeros(0, np.uint8)


def unpacked(codes):
    """One number a component, from two in a byte."""
    parts = codes.reshape(len(codes), -1, 32)
    return np.stack([parts & 15, parts >> 4], axis=2).reshape(len(codes), -1).astype(int)


def rotated(x):
    """A vector as int4 codes are made of it."""
    out = np.empty(rotated_size(len(x)), np.float32)
    rotate(np.asarray(x, np.float32), out)
    return out


def base_of(raw, axis=None):
    """The vectors of a base without a tail, with an axis that is not rotated yet."""
    raw = np.ascontiguousarray(raw, np.float32)
    coded = int4_room(len(raw), int4_axis(raw) if axis is None else rotated(axis))
    quantize_int4(raw, coded)
    codes = np.zeros((len(raw), simd.padded(raw.shape[1])), np.int8)
    scale, error = np.zeros((2, len(raw)), np.float32)
    quantize_rows(raw, codes, scale, error)
    at = np.zeros(len(raw), np.int64)
    return Vectors(codes, scale, error, raw, codes[:0], scale[:0], error[:0], raw[:0], at, coded)


def rows_of(length, low=0, high=None):
    """(texts, scope) of one directory of the base with a file for each text, of these lengths."""
    tree, _, scope = one_directory(np.array(length, np.int32), 1)
    high = len(length) if high is None else high
    return tree.texts, scope._replace(file_low=low, file_high=high, text_low=low, text_high=high)


def by_meaning(query, vectors, texts, scope, allowed, k, terms=None, weights=(1.0, 0.0), script=0):
    """(rows, scores) of a search of `rows_of` without centring, by words too where there are."""
    dimension = vectors.base_raw.shape[1]
    tree, numbers, _ = one_directory(texts.length, dimension)
    nothing = np.zeros(0, np.int32)
    if terms is None:
        terms = postings_of(np.random.default_rng(0), len(texts.length), [], texts.length)
    asked, n = Asked(query, script, True, False), len(vectors.base_raw)
    no_means = np.zeros((SCRIPTS, dimension), np.float32)
    means = dense.code_means(no_means, vectors.base_int4.axis)
    rows, scores, _ = weighted_top(
        tree._replace(texts=texts),
        vectors,
        numbers,
        means,
        asked,
        scope,
        terms,
        allowed,
        nothing,
        weights,
        k,
        find.scratch(1, n, n),
    )
    return rows, scores


def best(values, k, rows=None):
    """The k best of some rows by value, ties by row."""
    rows = range(len(values)) if rows is None else rows
    return sorted(rows, key=lambda row: (-values[row], row))[:k]


def unit_rows(rng, shape, crowd=0.0):
    """Random unit vectors, crowded around one direction."""
    raw = rng.normal(size=shape) + crowd * rng.normal(size=shape[1])
    return raw / np.linalg.norm(raw, axis=1)[:, None]


# Codes


@some
@given(seeds, st.sampled_from([0, 1, 3, 64, 100, 128, 384, 1025]))
def test_a_rotation_keeps_products(seed, dimension):
    """And is that of the formula."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(3, dimension)) / max(dimension, 1) ** 0.5
    turned = np.stack([rotated(row) for row in raw])
    np.testing.assert_allclose(turned @ turned.T, raw @ raw.T, atol=4e-6, rtol=2e-6)
    for row, got in zip(raw, turned, strict=True):
        np.testing.assert_allclose(got, naive.rotate(row, len(got)), atol=1e-6)


@pytest.mark.parametrize("dimension", [1, 128, 200, 384, 512, 768, 1024])
def test_a_rotation_spreads_every_component(dimension):
    """Over all others, in parts like those of a random direction."""
    size = rotated_size(dimension)
    parts = np.stack([rotated(row) for row in np.eye(dimension)]) * size**0.5
    assert np.abs(parts).max() < 5.5
    assert np.mean(parts**4) < 4  # 3 for a normal distribution


@some
@given(seeds, st.sampled_from([1, 5, 64, 100, 384]), st.sampled_from([0.0, 3.0]), st.booleans())
def test_int4_codes_are_those_of_the_formula(seed, dimension, crowd, plain_axis):
    """Of rows of any kind; what is left out is as long as told, and has nothing of the row."""
    rng = np.random.default_rng(seed)
    raw = unit_rows(rng, (12, dimension), crowd).astype(np.float32)
    raw[3] = 0
    raw[4] = np.eye(dimension, dtype=np.float32)[0]
    mean = raw.mean(axis=0) / np.linalg.norm(raw.mean(axis=0))
    coded = base_of(raw, 0 * mean if plain_axis else mean).base_int4
    if not plain_axis:
        np.testing.assert_allclose(int4_axis(raw), coded.axis, atol=1e-5)
    turned, axis = np.stack([rotated(row) for row in raw]).astype(float), coded.axis.astype(float)
    _, _, error, along = naive.quantize_int4(turned, axis)
    np.testing.assert_allclose(coded.along, along, atol=1e-6)
    # Which of two steps leaves less is, now and then, a matter of rounding.
    np.testing.assert_allclose(coded.error, error, rtol=2e-2, atol=1e-5)
    across = turned - coded.along[:, None].astype(float) * axis
    left = turned - [from_int4(coded, row) for row in range(len(raw))]
    np.testing.assert_allclose(np.linalg.norm(left, axis=1), coded.error, atol=2e-6)
    np.testing.assert_allclose((left * across).sum(axis=1), 0, atol=2e-6)


def test_an_axis_without_rows_is_zeros():
    """And of rows that are there, their mean's direction."""
    assert not int4_axis(np.zeros((0, 3), np.float32)).any()
    raw = np.array([[1, 0], [0, 1]], np.float32)
    assert int4_axis(raw) == pytest.approx(rotated([0.5**0.5] * 2), abs=1e-6)


def sparse(rng, n, dimension):
    """Unit rows of few components, all above 0, as of counted words."""
    raw = rng.exponential(size=(n, dimension)) * (rng.random((n, dimension)) < 0.03)
    raw[:, 0] += 0.01
    return raw / np.linalg.norm(raw, axis=1)[:, None]


def low_rank(rng, n, dimension):
    """Unit rows within eight dimensions."""
    raw = rng.normal(size=(n, 8)) @ rng.normal(size=(8, dimension))
    return raw / np.linalg.norm(raw, axis=1)[:, None]


def steps(rng, n, dimension):
    """Unit rows of a few levels only, some components far larger than the rest."""
    raw = rng.integers(-1, 2, (n, dimension)) + 20.0 * (np.arange(dimension) < 2)
    return raw / np.linalg.norm(raw, axis=1)[:, None]


@pytest.mark.parametrize(
    "rows",
    [
        lambda rng, n, dim: unit_rows(rng, (n, dim)),
        lambda rng, n, dim: unit_rows(rng, (n, dim), 3.0),
        sparse,
        low_rank,
        steps,
    ],
)
@pytest.mark.parametrize("dimension", [100, 384])
def test_what_int4_codes_leave_out_points_nowhere(rows, dimension):
    """Whatever the vectors are like: a product with it is that of two random directions."""
    rng = np.random.default_rng(dimension)
    raw = rows(rng, 1500, dimension)
    coded = base_of(raw[:1000]).base_int4
    axis = coded.axis.astype(float)
    left = np.stack([rotated(row) for row in raw[:1000]]).astype(float)
    left -= [from_int4(coded, row) for row in range(1000)]
    asked = np.stack([rotated(row) for row in raw[500:]]).astype(float)  # some are rows
    asked -= np.outer(asked @ axis, axis)
    lengths = np.outer(np.linalg.norm(asked, axis=1), coded.error)
    spread = (asked @ left.T) / np.maximum(lengths, 1e-9) * (dimension - 1) ** 0.5
    assert np.abs(spread).max() < 6
    assert spread.std() < 1.05


@pytest.mark.parametrize("crowd", [0.0, 3.0])
@pytest.mark.parametrize(("centred", "plain_axis"), [(False, False), (True, False), (True, True)])
def test_bounds_leave_few(crowd, centred, plain_axis):
    """They are near the scores: within what a product with what codes leave out comes to."""
    rng = np.random.default_rng(3)
    raw = unit_rows(rng, (2000, 384), crowd)
    vectors = base_of(raw, np.zeros(384) if plain_axis else None)
    mean = np.tile(raw.mean(axis=0) * centred, (SCRIPTS, 1)).astype(np.float32)
    means = dense.code_means(mean, vectors.base_int4.axis)
    asked = Asked(vectors.base_raw[7].copy(), 0, True, False)
    query, scratch = dense.prepare(asked, means), find.scratch(1, 2000, 2000)
    texts, scope = rows_of([1] * 2000)
    bounds.bound_scores(texts, vectors, query, (1.0, 0.0), scope, scratch)
    own = [dense.raw_cosine(vectors, row, query, 0) for row in range(2000)]
    above = scratch.coded[0, :2000] - np.array(own)
    assert above.min() >= 0
    left = np.linalg.norm(raw - mean[0], axis=1)
    assert np.median(above) < 0.9 * np.median(vectors.base_int4.error / left)


@pytest.mark.parametrize("dimension", [128, 384, 4096])
def test_products_of_int4_codes_do_not_overflow(dimension):
    """Of the largest codes and factors there are, in any order of rows, the last one repeated."""
    rng = np.random.default_rng(dimension)
    codes = rng.integers(0, 256, (6, dimension // 2)).astype(np.uint8)
    codes[0] = 255
    factors = rng.integers(-128, 128, (3, dimension)).astype(np.int8)
    factors[0], factors[1] = 127, -128
    for factor in factors:
        wanted = naive.products_int4(unpacked(codes).tolist(), factor.tolist())
        for row in range(6):
            out = np.full(simd.TOGETHER + 2, 7, np.int32)
            int4.products_int4(codes, row, 5, factor, out, 1)
            rows = [min(row + i, 5) for i in range(simd.TOGETHER)]
            assert out.tolist() == [7, *(wanted[r] for r in rows), 7]


@some
@given(seeds, st.sampled_from([5, 64, 384]), st.floats(0, 2), st.booleans())
def test_a_direction_against_int4_codes(seed, dimension, length, plain_axis):
    """Its factors stand for what it has across the axis, but for what it says they leave out."""
    rng = np.random.default_rng(seed)
    axis, x = np.stack([rotated(row) for row in unit_rows(rng, (2, dimension))])
    axis, x = 0 * axis if plain_axis else axis, x * np.float32(length)
    factors = np.empty(rotated_size(dimension), np.int8)
    coded = int4.code_direction(x, axis, dimension, factors)
    along, across = naive.code_direction(x.astype(float), axis.astype(float))
    assert coded.along == pytest.approx(along, abs=1e-5)
    np.testing.assert_allclose(coded.step * factors, across, atol=0.02 * length + 1e-6)
    assert coded.offset == 15 * factors.sum(dtype=int)
    rest = x - coded.along * axis
    assert coded.off >= np.linalg.norm(rest - coded.step * factors) - 1e-6
    assert coded.across == pytest.approx(np.linalg.norm(rest), abs=1e-6)
    spread = min(1, 7 / (dimension - 1) ** 0.5)
    assert coded.length >= spread * np.linalg.norm(rest) - 1e-6
    assert coded.length <= spread * np.linalg.norm(rest) + coded.off + 1e-6


@settings(max_examples=100, deadline=None, print_blob=True)
@given(seeds, st.sampled_from([0.005, 0.019, 0.3]))
def test_bounds_hold_where_nothing_is_to_spare(seed, across):
    """In a plane all that lies across the axis is parallel, as bounds suppose it there."""
    rng = np.random.default_rng(seed)
    raw = unit_rows(rng, (40, 2))
    raw[0] = (0, 1)
    vectors = base_of(raw, np.array([1, 0], np.float32))
    coded = vectors.base_int4
    coded.scale[:] = 0
    coded.error[:] = np.abs(vectors.base_raw[:, 1])
    mean = np.tile(np.array([[0.4, across * rng.choice([-1, 1])]], np.float32), (SCRIPTS, 1))
    query = dense.prepare(
        Asked(unit_rows(rng, (1, 2))[0].astype(np.float32), 0, True, False),
        dense.code_means(mean, coded.axis),
    )
    texts, scope = rows_of([1] * len(raw))
    scratch = find.scratch(1, len(raw), len(raw))
    bounds.bound_scores(texts, vectors, query, (1.0, 0.0), scope, scratch)
    own = [dense.raw_cosine(vectors, row, query, 0) for row in range(len(raw))]
    assert (scratch.coded[0] >= np.array(own) - 1e-6).all()


# Which texts count


@some
@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from([0.25, 0.5, 0.75]))), st.integers(1, 9)
)
def test_the_best_are_kept_in_order(offered, k):
    """By score, then by row, whatever order they come in."""
    rows, scores = np.empty(k, np.int32), np.empty(k, np.float32)
    count, kept = 0, []
    for row, score in dict(offered).items():
        count = flat.keep_best(rows, scores, count, row, score)
        kept = naive.keep_best(kept, row, score, k)
        assert list(zip(rows[:count].tolist(), scores[:count].tolist(), strict=True)) == kept


def test_a_text_counts_if_it_lives_in_the_scope_and_its_file_is_allowed():
    """In the base by its range, in the tail by its directory; a directory's own text never does."""
    texts, scope = rows_of([1] * 4)
    scope = scope._replace(base_texts=2, base_files=2, text_high=2, file_high=2)
    texts.died[0] = 1
    texts.directory[3] = 1  # the tail's first directory
    texts.file[1] = -1
    for below in (0, 1):
        inside = np.array([below], np.uint8)
        for row in range(4):
            in_base, directory = row < 2, int(texts.directory[row])
            below_root = directory < 1 or below == 1
            assert flat.is_inside(row, texts, scope, inside) == naive.is_inside(
                int(texts.died[row]), 1, in_base=in_base, below_root=below_root
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
    """In any range, some of them dead, forbidden, without vectors, zeros or alike."""
    rng = np.random.default_rng(seed)
    raw = unit_rows(rng, (n, dimension), crowd).astype(np.float32)
    raw[rng.random(n) < 0.1] = 0
    if n > 4:
        raw[rng.integers(n, size=n // 4)] = raw[rng.integers(n, size=n // 4)]
    vectors = base_of(raw)
    low, high = sorted(rng.integers(0, n + 1, 2).tolist())
    texts, scope = rows_of([1] * n, low, high)
    texts.died[rng.random(n) < 0.2] = 1  # at the scope's revision
    texts.died[rng.random(n) < 0.1] = 2  # after it
    vectors.vector_at[rng.random(n) < 0.2] = 2
    allowed = (rng.random(high - low) < 0.6).astype(np.uint8) if rng.random() < 0.5 else ALL
    query = unit_rows(rng, (1, dimension), crowd)[0].astype(np.float32)
    rows, scores = by_meaning(query, vectors, texts, scope, allowed, k)
    exact = raw.astype(float) @ query.astype(float)
    able = [
        row
        for row in range(low, high)
        if texts.died[row] > 1
        and vectors.vector_at[row] <= 1
        and exact[row] > 0
        and (len(allowed) == 0 or allowed[row - low])
    ]
    assert len(rows) == min(k, len(able))
    assert set(rows.tolist()) <= set(able)
    np.testing.assert_allclose(scores, exact[rows], atol=1e-6)
    # fp32 sums may change places of what is all but equal; of equal rows the first comes first.
    np.testing.assert_allclose(scores, exact[best(exact, k, able)], atol=1e-6)
    assert rows.tolist() == [r for _, r in sorted(zip((-scores).tolist(), rows.tolist()))]  # noqa: B905
    kept = set(rows.tolist())
    for row in rows.tolist():
        twins = [r for r in able if r < row and (raw[r] == raw[row]).all()]
        assert kept.issuperset(twins)


def test_the_best_by_meaning_may_be_the_worst_coded():
    """Rows of which codes say nothing are found by their bound."""
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
    coded.error[hidden] = 1
    rows, _ = by_meaning(query, vectors, texts, scope, ALL, 10)
    exact = vectors.base_raw.astype(float) @ query
    assert rows.tolist() == best(exact, 10)
    assert set(rows.tolist()) <= set(hidden.tolist())


def test_bounds_of_crowded_vectors_hold():
    """Thousands that differ less than codes can tell, by queries of any length."""
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
    """Of so many that most are passed over; of some, one code or the other says nothing.

    Where words can't be compared, their weight is that of meaning.
    """
    rng = np.random.default_rng(seed)
    n = 3000
    vectors = base_of(unit_rows(rng, (n, 48)))
    coded, (four, eight) = vectors.base_int4, rng.random((2, n)) < 0.2
    coded.scale[four] = 0
    coded.error[four] = np.sqrt(1 - coded.along[four] ** 2) + 1e-6
    vectors.scale[eight] = 0
    vectors.error[eight] = 1
    length = rng.integers(5, 60, n).astype(np.int32)
    terms = postings_of(rng, n, [5, 60, 700, 2500], length)
    texts, scope = rows_of(length)
    texts.script[:] = np.sort(rng.integers(0, 3, n))
    query = unit_rows(rng, (1, 48))[0].astype(np.float32)
    rows, scores = by_meaning(query, vectors, texts, scope, ALL, k, terms, weights, script=1)
    cosine = np.clip(vectors.base_raw.astype(float) @ query.astype(float), 0, 1)
    words = plain_scores(terms, length, 0, n, texts.died)
    exact = weights[0] * cosine + weights[1] * words
    exact[texts.script == 2] = sum(weights) * cosine[texts.script == 2]
    assert len(rows) == min(k, (exact > 0).sum())
    np.testing.assert_allclose(scores, exact[rows], atol=2e-6)
    np.testing.assert_allclose(scores, exact[best(exact, len(rows))], atol=2e-6)


def test_what_is_coded_best_is_not_lost_behind_what_is_coded_worse():
    """In a plane codes leave nothing out: such a bound is the score, just above the others'."""
    turns = np.radians(np.concatenate([np.full(60, 42.0), np.linspace(41.9, 41.8, 5)]))
    vectors = base_of(
        np.stack([np.cos(turns), np.sin(turns)], axis=1), np.array([1, 0], np.float32)
    )
    vectors.base_int4.error[:60] += 0.05
    texts, scope = rows_of([1] * len(turns))
    query = np.array([np.cos(0.3), np.sin(0.3)], np.float32)
    assert by_meaning(query, vectors, texts, scope, ALL, 5)[0].tolist() == [64, 63, 62, 61, 60]


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_a_vector_without_a_direction_finds_nothing(bad):
    """By meaning; it counts as one that is like no text."""
    vectors = base_of(unit_rows(np.random.default_rng(1), (50, 16)))
    texts, scope = rows_of([1] * 50)
    query = np.zeros(16, np.float32)
    query[3] = bad
    assert len(by_meaning(query, vectors, texts, scope, ALL, 3)[0]) == 0


@settings(max_examples=25, deadline=None, print_blob=True)
@given(shapes, st.sampled_from([1, 4, 1000]), st.booleans())
@example(LARGE, 5, True)
def test_searches_by_words_are_the_plain_ones(shape, k, filtered):
    """Base and tail, dead texts, below any directory."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, scope, _ = world.scope_of(top)
    tree = snapshot.tree
    inside = scopes.tail_directories(tree.directories, scope)
    ids = snapshot.text_id.tolist()
    size = scope.file_high - scope.file_low + len(tree.files.directory) - scope.base_files
    allowed = (world.rng.random(size) < 0.6).astype(np.uint8) if filtered else ALL
    files = {
        scopes.row_at(at, scope.file_low, scope.file_high, scope.base_files)
        for at in range(size)
        if not filtered or allowed[at]
    }
    able = {
        ids[row] for row, file in enumerate(tree.texts.file.tolist()[: len(ids)]) if file in files
    }

    terms = terms_of(snapshot, query)
    counts = snapshot.counts(scope.root)
    rows, scores = flat.keyword_top(tree.texts, counts, scope, inside, terms, allowed, k)
    same_as_plain(ids, rows, scores, naive.keyword_top(top, query.terms, able, k))
    world.close()


def same_as_plain(ids, rows, scores, plain):
    """The same scores in their order; the same texts, but for those as good as the last one."""
    np.testing.assert_allclose(scores, [score for _, score in plain], atol=2e-6)
    assert len(set(rows.tolist())) == len(rows)
    assert rows.tolist() == [r for _, r in sorted(zip((-scores).tolist(), rows.tolist()))]  # noqa: B905
    if plain:
        better = {key for key, score in plain if score > plain[-1][1] + 4e-6}
        assert better <= {ids[row] for row in rows.tolist()}


# By words


def postings_of(rng, n, dfs, length):
    """Terms whose postings are all in the base: number i is in about dfs[i] texts."""
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
    """[high - low] BM25 over the ideal, in float64."""
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


@some
@given(
    seeds,
    st.lists(st.sampled_from([0, 1, 30, 900, 9000, 19000]), min_size=1, max_size=8),
    st.sampled_from([1, 10, 200]),
    st.booleans(),
    st.booleans(),
)
@example(3, [5, 60, 700, 8000, 19000], 10, False, False)
def test_the_best_by_words_are_those_of_all(seed, dfs, k, some_dead, filtered):
    """Over several windows, in any range, with common and rare terms."""
    rng = np.random.default_rng(seed)
    n = 40000
    length = rng.integers(5, 60, n).astype(np.int32)
    terms = postings_of(rng, n, dfs, length)
    low, high = sorted(rng.integers(0, n + 1, 2).tolist()) if rng.random() < 0.7 else (0, n)
    high = max(high, low + 1)
    texts, scope = rows_of(length, low, high)
    if some_dead:
        texts.died[low + 1 : high][rng.random(high - low - 1) < 0.3] = 1
    alive = texts.died[low:high] > 1
    counts = np.zeros(COUNTS, np.int64)
    counts[TEXTS], counts[TEXT_LENGTH] = alive.sum(), length[low:high][alive].sum()
    allowed = (rng.random(high - low) < 0.3).astype(np.uint8) if filtered else ALL
    rows, scores = flat.keyword_top(texts, counts, scope, ALL, terms, allowed, k)
    exact = plain_scores(terms, length, low, high, texts.died)
    able = alive & (exact > 0)
    if filtered:
        able &= allowed == 1
    wanted = best(exact, k, np.flatnonzero(able).tolist())
    assert len(rows) == len(wanted)
    assert able[rows - low].all()
    np.testing.assert_allclose(scores, exact[wanted], atol=1e-6)
    np.testing.assert_allclose(scores, exact[rows - low], atol=1e-6)
    assert rows.tolist() == [r for _, r in sorted(zip((-scores).tolist(), rows.tolist()))]  # noqa: B905


def test_texts_with_the_same_words_are_in_order_of_rows():
    """To the last bit, whether a term was added up or looked up; in windows far from each other."""
    rng = np.random.default_rng(2)
    n = 60000
    length = np.full(n, 20, np.int32)
    alike = np.sort(rng.choice(n, 40, replace=False))
    parts = [alike, np.union1d(alike, rng.choice(n, 3000)), np.arange(n), np.arange(n)]
    text = np.concatenate(parts).astype(np.int32)
    at = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    keys = np.arange(4, dtype=np.uint64)
    terms = Terms(
        keys,
        np.array([1, 1.1, 1.3, 1.7], np.float32),
        keys,
        at,
        text,
        np.full(len(text), 3, np.uint16),
        np.zeros(5, np.int64),
        text[:0],
        np.zeros(0, np.uint16),
    )
    texts, scope = rows_of(length)
    counts = np.zeros(COUNTS, np.int64)
    counts[TEXTS], counts[TEXT_LENGTH] = n, length.sum()
    rows, scores = flat.keyword_top(texts, counts, scope, ALL, terms, ALL, 10)
    assert len(set(scores.tolist())) == 1
    assert rows.tolist() == alike[:10].tolist()


def test_a_term_that_was_passed_over_counts_again_later():
    """The common one is left out where the rare one is nowhere, and added up where it is again."""
    rng = np.random.default_rng(4)
    n = 60000
    length = rng.integers(5, 60, n).astype(np.int32)
    rare = np.concatenate([np.arange(0, 4000), np.arange(40000, 44000)])
    text = np.concatenate([rare, np.arange(n)]).astype(np.int32)
    tf = np.minimum(rng.geometric(0.5, len(text)), 9).astype(np.uint16)
    keys, none = np.arange(2, dtype=np.uint64), np.zeros(3, np.int64)
    at = np.array([0, len(rare), len(text)])
    terms = Terms(keys, np.ones(2, np.float32), keys, at, text, tf, none, text[:0], tf[:0])
    texts, scope = rows_of(length)
    counts = np.zeros(COUNTS, np.int64)
    counts[TEXTS], counts[TEXT_LENGTH] = n, length.sum()
    exact = plain_scores(terms, length, 0, n, texts.died)
    for k in (1, 30):
        rows, scores = flat.keyword_top(texts, counts, scope, ALL, terms, ALL, k)
        np.testing.assert_allclose(scores, exact[best(exact, k, range(n))], atol=1e-6)
        np.testing.assert_allclose(scores, exact[rows], atol=1e-6)


def test_without_terms_nothing_is_found():
    """Nor where no text has one."""
    texts, scope = rows_of([3, 4])
    counts = np.zeros(COUNTS, np.int64)
    counts[TEXTS], counts[TEXT_LENGTH] = 2, 7
    none = postings_of(np.random.default_rng(0), 2, [], texts.length)
    empty = postings_of(np.random.default_rng(0), 2, [0, 0], texts.length)
    for terms in (none, empty):
        assert len(flat.keyword_top(texts, counts, scope, ALL, terms, ALL, 5)[0]) == 0


def found_by_hash() -> str:
    """What a search by meaning finds, and products as large as they come."""
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


def test_machines_with_fewer_instructions_find_the_same(printed_by_another):
    """Bit for bit."""
    code = "import test_flat; print(test_flat.found_by_hash())"
    assert printed_by_another(code) == found_by_hash()


def test_constants_agree():
    """The plain twins have their own."""
    ours = (bm25.K1, bm25.B, bm25.LEAST_BEST)
    assert ours == (naive.K1, naive.B, naive.LEAST_BEST)
