"""Centred cosines."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import walk
from trees import build, compared, shapes
from viking_kernels import dense, texts

some = settings(max_examples=50, deadline=None, print_blob=True)
seeds = st.integers(0, 2**32 - 1)
small = st.floats(0, 0.1)


def unit(rng, dimension=16):
    """A random unit vector."""
    x = rng.normal(size=dimension)
    return x / np.linalg.norm(x)


@some
@given(seeds, st.floats(0, 0.9))
def test_cosine_from_products_is_that_of_the_vectors(seed, length):
    """Nothing centred is stored: the mean is subtracted as the row is read."""
    rng = np.random.default_rng(seed)
    x, u, mean = unit(rng), unit(rng), unit(rng) * length
    raw = x.astype(np.float32)[None]
    centres = np.stack([mean.astype(np.float32)] * 8)
    above, square = dense.centred_fp32(raw, 0, u.astype(np.float32), centres, 2)
    assert (above, square) == pytest.approx(naive.centred_fp32(x, u, mean), abs=1e-6)
    score = dense.cosine(above, square)
    assert score == pytest.approx(naive.cosine(x, mean, u), abs=1e-5)
    assert 0 <= score <= 1


def test_cosine_of_what_is_all_mean_is_zero():
    """Where next to nothing is left there is nothing to compare."""
    x = unit(np.random.default_rng(0))
    assert dense.cosine(0.0, 1e-9) == 0
    assert naive.cosine(x, x, x) == 0


@some
@given(seeds, st.floats(0, 0.99), small, small)
def test_the_bound_holds_wherever_the_products_are(seed, length, along_off, across_off):
    """No product within reach gives a score that is further off."""
    rng = np.random.default_rng(seed)
    x, u, mean = unit(rng), unit(rng), unit(rng) * length
    args = naive.centred_fp32(x, u, mean)
    bound = dense.cosine_bound(dense.cosine(*args), *args, along_off, across_off)
    assert bound >= naive.cosine_bound(*args, along_off, across_off)
    assert bound <= 1 + 1e-6


@settings(max_examples=25, deadline=None, print_blob=True)
@given(shapes)
def test_a_directory_is_the_sum_of_its_texts(shape):
    """Each less the mean of its language; every directory of a tree."""
    world = build(shape)
    top, query = world.random_directory(), world.query()
    snapshot, _, mean = world.scope_of(top)
    plain = naive.scope_means(top, world.prior.astype(float))
    np.testing.assert_allclose(mean.mean, plain, atol=1e-6)
    direction = naive.direction_of(query, plain)
    prepared = compared(query, mean)
    np.testing.assert_allclose(prepared.direction, direction, atol=1e-5)
    for directory in walk(top):
        row = snapshot.find(directory.uri)
        assert row is not None
        slot = int(snapshot.numbers.slot[row])
        got = dense.directory_dense(slot, prepared, snapshot.numbers)
        assert got == pytest.approx(naive.directory_dense(directory, direction, plain), abs=1e-5)
    world.close()


@pytest.mark.parametrize(
    "vector", [None, np.zeros(16, np.float32), np.full(16, np.nan, np.float32)]
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_query_without_direction(vector):
    """No vector, no length or no number: dense is 0, never NaN."""
    mean = np.zeros((8, 16), np.float32)
    query = dense.prepare(vector, 1, dense.code_means(mean), use_dense=True, use_lexical=True)
    assert query.use_dense == (vector is not None)
    assert not query.direction.any()
    assert not query.direction_code.any()
    assert math.isfinite(query.direction_error)


def test_a_query_that_is_the_mean_has_no_direction():
    """What is left of it is rounding noise."""
    mean = np.zeros((8, 16), np.float32)
    mean[1, 3] = 1
    query = dense.prepare(mean[1] * 7, 1, dense.code_means(mean), use_dense=True, use_lexical=False)
    assert not query.direction.any()


def test_scripts_that_differ_are_foreign():
    """None is foreign to nothing; what is foreign has no words in common."""
    for script in range(8):
        for other in range(8):
            assert texts.foreign(script, other) == naive.foreign(script, other)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("use_dense", [False, True])
@pytest.mark.parametrize("use_lexical", [False, True])
def test_what_is_missing_leaves_all_to_the_other(missing, use_dense, use_lexical):
    """All ways in which a part can be missing."""
    got = texts.dense_weight(missing, use_dense, use_lexical)
    assert got == naive.dense_weight(missing, use_dense, use_lexical)
