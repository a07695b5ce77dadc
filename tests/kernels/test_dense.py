"""Centred cosines."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import dense, find, node_scores, simd
from viking_kernels.arrays import RawQuery, Search, Vectors
from viking_kernels.quantize import int4_room, quantize_rows

from benchmarks.flat import one_directory
from tests.kernels import naive
from tests.kernels.flat_helpers import base_of
from tests.kernels.naive import texts_below, walk
from tests.kernels.trees import LARGE, World, build, compared, shapes
from tests.tiers import examples
from vikingd.domain.store_changes import Remove

NO_AXIS = np.zeros(128, np.float32)  # nothing is coded in int4
some = examples(50)
seeds = st.integers(0, 2**32 - 1)
small = st.floats(0, 0.1)


def unit(rng, dimension=16):
    """Return a random unit vector."""
    x = rng.normal(size=dimension)
    return x / np.linalg.norm(x)


def coded_cosine(vectors, row, query, script):
    """Return the dense score of a text from its code, and its error bound, in float32."""
    out = np.empty((2, 1), np.int32)
    dense.multiply_codes(vectors.base_codes, row, row + 1, query, script, out)
    parts = dense.coded_parts(
        *out[:, 0], vectors.scale[row], vectors.residual[row], dense.operands_of(query, script)
    )
    return dense.bounded_cosine(*map(np.float32, parts))


@some
@given(seeds, st.floats(0, 0.9))
def test_cosine_from_products_is_that_of_the_vectors(seed, length):
    """The cosine from products equals the cosine of the centred vectors."""
    rng = np.random.default_rng(seed)
    x, u, mean = unit(rng), unit(rng), unit(rng) * length
    raw = x.astype(np.float32)
    centres = np.stack([mean.astype(np.float32)] * 8)
    query = dense.prepare(
        RawQuery(x[:0].astype(np.float32), 2, True, True, dense.code_centroids(centres, NO_AXIS))
    )
    query.direction[:] = u
    above, square = dense.centred(raw, query, 2)
    assert (above, square) == pytest.approx(naive.centred(x, u, mean), abs=1e-6)
    score = dense.cosine(above, square)
    assert score == pytest.approx(naive.cosine(x, mean, u), abs=1e-5)
    assert 0 <= score <= 1


def test_cosine_of_what_is_all_mean_is_zero():
    """The cosine of a vector at the centroid is 0."""
    x = unit(np.random.default_rng(0))
    assert dense.cosine(0.0, 1e-9) == 0
    assert naive.cosine(x, x, x) == 0


@some
@given(seeds, st.floats(0, 0.99), small, small)
def test_the_bound_holds_wherever_the_products_are(seed, length, along_off, across_off):
    """The error bound of a cosine holds for all products within their own error bounds."""
    rng = np.random.default_rng(seed)
    x, u, mean = unit(rng), unit(rng), unit(rng) * length
    args = naive.centred(x, u, mean)
    score, bound = dense.bounded_cosine(*map(np.float32, (*args, along_off, across_off)))
    wanted, off = naive.bounded_cosine(*args, along_off, across_off)
    assert score == pytest.approx(wanted, abs=1e-6)
    assert bound >= off
    assert bound <= 1 + 1e-6
    upper_bound = dense.cosine_upper_bound(*map(np.float32, (*args, along_off, across_off)))
    assert upper_bound >= naive.cosine_upper_bound(*args, along_off, across_off)
    assert upper_bound <= min(1, score + bound) + 1e-6


@examples(25)
@given(shapes)
@example(LARGE)
def test_a_directory_is_the_sum_of_its_texts(shape):
    """The dense score of a directory is the score of the sum of its centred texts."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, _, mean = world.scope_of(top)
    plain = naive.scope_centroids(top, world.prior.astype(float))
    np.testing.assert_allclose(mean.raw, plain, atol=1e-6)
    direction = naive.direction_of(query, plain)
    prepared = compared(query, mean)
    np.testing.assert_allclose(prepared.direction, direction, atol=1e-5)
    np.testing.assert_allclose(prepared.centroid_dot, naive.prepare(query, plain)[1], atol=1e-5)
    left = prepared.direction - prepared.step * prepared.code[0, : len(direction)]
    assert prepared.residual == pytest.approx(np.linalg.norm(left), abs=1e-9)
    for directory in walk(top):
        row = snapshot.find(directory.uri)
        assert row is not None
        slot = int(snapshot.stats.slot[row])
        got = dense.directory_dense(slot, prepared, snapshot.stats)
        assert got == pytest.approx(naive.directory_dense(directory, direction, plain), abs=1e-5)
    world.close()


def test_a_directory_that_lost_its_vectors_is_near_nothing():
    """A directory that lost its vectors has the dense score 0."""
    world = World(2)
    vector = world.vector(1)
    world.commit(
        [
            world.put("viking://a", True, []),
            world.put("viking://a/x", False, [(1, "of", vector)]),
            world.put("viking://y", False, [(1, "of", world.vector(1))]),
        ]
    )
    world.commit([Remove("viking://a/x")])
    snapshot, _, means = world.scope_of(world.root)
    slot = int(snapshot.stats.slot[snapshot.find("viking://a")])
    for sign in (-1, 1):
        raw = sign * np.frombuffer(vector, "<f4").astype(np.float64)
        query = compared(naive.Query(raw, 1, {}), means)
        assert dense.directory_dense(slot, query, snapshot.stats) == 0
    world.close()


@examples(25)
@given(shapes)
@example(LARGE)
def test_a_directory_from_the_code_of_its_mean(shape):
    """The code of a base centroid gives the dense score of its directory within the error bound."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, _, mean = world.scope_of(top)
    plain, stats = naive.scope_centroids(top, world.prior.astype(float)), snapshot.stats
    prepared = compared(query, mean)
    for directory in walk(top):
        slot = int(stats.slot[snapshot.find(directory.uri)])
        rows = stats.centroid_slot[slot].tolist()
        counts = {i: int(stats.centroid_count[row]) for i, row in enumerate(rows) if row >= 0}
        only = dense.only_language(slot, stats)
        assert only == naive.only_language(counts)
        got, off = dense.directory_coded(slot, prepared, stats)
        if only < 0 or rows[only] >= len(stats.base_centroid):
            assert got == -1
        elif got >= 0:
            row, dimension = rows[only], stats.base_centroid.shape[1]
            told = naive.directory_coded(
                stats.base_centroid_codes[row, :dimension].tolist(),
                float(stats.base_centroid_scale[row]),
                float(stats.base_centroid_square[row]),
                query,
                plain,
                only,
            )
            assert got == pytest.approx(told, abs=1e-3)
            exact = dense.directory_dense(slot, prepared, stats)
            assert abs(got - exact) <= off + 1e-6
            assert got == pytest.approx(exact, abs=0.1)
        else:
            assert np.linalg.norm(stats.base_centroid[rows[only]] - plain[only]) < 0.12
    world.close()


@examples(40)
@given(shapes)
@example(LARGE)
@example(replace(LARGE, hard=True))
def test_scores_from_codes_are_within_their_bound(shape):
    """Scores from codes are within their error bounds, which are tight for ordinary vectors."""
    world = build(shape)
    world.compact()
    top, query = world.random_directory(), world.query()
    snapshot, _, mean = world.scope_of(top)
    plain = naive.scope_centroids(top, world.prior.astype(float))
    prepared, vectors = compared(query, mean), snapshot.vectors
    texts_of = {text.id: text for text in texts_below(top)}
    for row, key in enumerate(snapshot.text_id.tolist()):
        text = texts_of.get(key)
        if text is None or text.vector is None:
            continue
        exact = naive.raw_cosine(text, query, plain)
        left = float(np.linalg.norm(text.vector - plain[text.script]))
        if left > 1e-3:  # below, the rounding of float32 changes the direction
            raw = dense.raw_cosine(vectors, row, prepared, text.script)
            assert raw == pytest.approx(exact, abs=1e-4)
        other = dense.operands_of(prepared, text.script)
        wanted = naive.operands_of(query, plain, text.script)
        assert (other.dot, other.square) == pytest.approx(wanted, abs=1e-5)
        score, bound = coded_cosine(vectors, row, prepared, text.script)
        assert abs(score - exact) <= bound
        scale, code = float(vectors.scale[row]), vectors.base_codes[row, : len(text.vector)]
        if left > 0.5:
            off = vectors.residual[row] + prepared.residual + mean.residual[text.script]
            assert bound <= 4 * (float(off) + 1e-4) / left
            told = naive.coded_parts(code.tolist(), scale, query, plain, text.script)
            assert score == pytest.approx(naive.clipped(*told), abs=1e-3)
            residual = float(vectors.residual[row])
            got = dense.parts_of_code(
                vectors.base_codes, row, scale, residual, prepared, text.script
            )
            wanted = naive.parts_of_code(code.tolist(), scale, query, plain, text.script)
            assert got[:2] == pytest.approx(wanted, abs=1e-3)
    world.close()


@examples(20)
@given(seeds, st.sampled_from([1e-3, 1e-2, 0.03, 0.1]), st.booleans())
def test_the_bound_holds_next_to_the_mean(seed, spread, huge):
    """The error bound of a code holds for vectors next to the centroid."""
    rng = np.random.default_rng(seed)
    centre = np.eye(16)[5] if huge else unit(rng)
    raw = (centre + rng.normal(size=(60, 16)) * spread).astype(np.float32)
    raw /= np.linalg.norm(raw, axis=1)[:, None]
    codes, (scale, error) = np.zeros((60, simd.padded(16)), np.int8), np.empty((2, 60), np.float32)
    quantize_rows(raw, codes, scale, error)
    none = np.zeros((0, 16), np.float32)
    vectors = Vectors(
        codes,
        scale,
        error,
        raw,
        codes[:0],
        scale[:0],
        error[:0],
        none,
        np.zeros(60, np.int64),
        int4_room(60, NO_AXIS),
    )
    mean = np.tile(raw.mean(axis=0), (8, 1))
    for near in (0.0, 0.1, 1.0):
        question = (raw[0] - near * mean[0] + rng.normal(size=16) * 0.01).astype(np.float32)
        centroids = dense.code_centroids(mean, NO_AXIS)
        query = dense.prepare(RawQuery(question, 1, True, False, centroids))
        wide = naive.Query(question.astype(float), 1, {})
        for row, x in enumerate(raw.astype(float)):
            exact = naive.raw_cosine(naive.Text(1, 1, [], x), wide, mean.astype(float))
            score, bound = coded_cosine(vectors, row, query, 1)
            assert abs(score - exact) <= bound
            assert abs(score - dense.raw_cosine(vectors, row, query, 1)) <= bound


@some
@given(seeds, st.sampled_from([1, 5, 16, 100]))
def test_means_are_coded_as_finely_as_fits(seed, dimension):
    """Centroids are coded with their step, length and residual norm."""
    rng = np.random.default_rng(seed)
    mean = (rng.normal(size=(8, dimension)) * rng.choice([0, 0.01, 1], (8, 1))).astype(np.float32)
    got = dense.code_centroids(mean, NO_AXIS)
    assert got.code.shape[1] == simd.padded(dimension)
    assert not got.code[:, dimension:].any()
    for i, (code, step, error, length) in enumerate(naive.code_centroids(mean.astype(np.float64))):
        assert np.abs(got.code[i, :dimension] - np.array(code)).max() <= 1
        assert (got.step[i], got.length[i]) == pytest.approx((step, length), rel=1e-9)
        assert got.residual[i] == pytest.approx(error, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(0, np.float32),
        np.zeros(16, np.float32),
        np.full(16, np.nan, np.float32),
        np.full(16, np.inf, np.float32),
        np.ones(8, np.float32),
    ],
)
def test_a_query_without_direction(vector):
    """A query vector that is missing, zero, not finite or of another length has no direction."""
    mean = np.zeros((8, 16), np.float32)
    centroids = dense.code_centroids(mean, NO_AXIS)
    query = dense.prepare(RawQuery(vector, 1, True, True, centroids))
    assert query.use_dense == (len(vector) == 16)
    assert not query.direction.any()
    assert not query.code.any()
    assert math.isfinite(query.residual)


def test_a_query_that_is_the_mean_has_no_direction():
    """A query at the centroid has no direction."""
    mean = np.zeros((8, 16), np.float32)
    mean[1, 3] = 1
    centroids = dense.code_centroids(mean, NO_AXIS)
    query = dense.prepare(RawQuery(mean[1] * 7, 1, True, False, centroids))
    assert not query.direction.any()


def test_scripts_that_differ_are_foreign():
    """Scripts mismatch if both are known and differ."""
    for script in range(8):
        for other in range(8):
            assert node_scores.script_mismatch(script, other) == naive.script_mismatch(
                script, other
            )


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("use_dense", [False, True])
@pytest.mark.parametrize("use_lexical", [False, True])
def test_what_is_missing_leaves_all_to_the_other(missing, use_dense, use_lexical):
    """A missing dense or lexical score leaves all weight to the other score."""
    got = node_scores.dense_weight(missing, use_dense, use_lexical)
    assert got == naive.dense_weight(missing, use_dense, use_lexical)


def test_a_text_whose_code_tells_too_little_is_scored_from_its_vector():
    """A text near the centroid is scored from its vector, because its code is too inexact."""
    rng = np.random.default_rng(7)
    centroid, step, vague = unit(rng, 64), unit(rng, 64), [2, 5]
    raw = np.stack([unit(rng, 64) + step for _ in range(8)])
    raw[vague] = centroid + 0.02 * (raw[vague] + step)
    raw = (raw / np.linalg.norm(raw, axis=1)[:, None]).astype(np.float32)
    vectors, (tree, stats, scope) = base_of(raw), one_directory(np.ones(8, np.int32), 64)
    centroids = dense.code_centroids(
        np.tile(centroid, (8, 1)).astype(np.float32), vectors.base_int4.axis
    )
    question = ((centroid + step) / np.linalg.norm(centroid + step)).astype(np.float32)
    query = dense.prepare(RawQuery(question, 0, True, False, centroids))
    scratch = find.scratch(1, 8, 8)
    search = Search(tree, vectors, stats, query, scope, scratch)
    node_scores.score_codes(0, 8, search)
    plain = naive.Query(question.astype(float), 0, {}, True, False)
    mean = centroids.raw.astype(float)
    for row, x in enumerate(raw.astype(float)):
        text = naive.Text(row, int(tree.texts.script[row]), [], x)
        score, error = scratch.code_scores[row], scratch.code_errors[row]
        told = naive.score_codes(text, naive.code_of(text), plain, mean, 0.0)
        exact = node_scores.text_score(row, search)
        assert score == pytest.approx(told, abs=2e-3)
        assert exact > 0.1
        assert (row in vague) == (error == 0) == (score == np.float32(exact))
        assert error <= naive.CODES_TELL
