"""Vector operations on postings and scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels import simd_scores as lanes
from viking_kernels._jit import njit

from tests.kernels import naive
from tests.tiers import examples
from vikingd.domain.vector_products import product, products

some = examples(50)


@njit
def gained(text, tf, length, at, count, weight, norm):
    """Return the gains of postings; elements without a gain are -1."""
    out = np.full(lanes.POSTINGS, -1, np.float32)
    lanes.gains(text, tf, length, at, count, (weight, norm[0], norm[1]), out)
    return out


@some
@given(st.integers(0, 2**32 - 1), st.integers(0, 20), st.integers(1, 16))
def test_gains_are_the_plain_ones_however_many_are_asked_for(seed, at, count):
    """The gain of a posting equals the twin's, and has the same bits alone and among others."""
    rng = np.random.default_rng(seed)
    n = at + count
    text = np.sort(rng.choice(100, n, replace=False)).astype(np.int32)
    tf = rng.choice([1, 2, 7, 300, 65535], n).astype(np.uint16)
    length = rng.choice([0, 1, 20, 10**9], 100).astype(np.int32)
    weight, norm = np.float32(rng.random()), np.float32(rng.random(2))
    got = gained(text, tf, length, at, count, weight, tuple(norm))
    for i in range(count):
        alone = gained(text, tf, length, at + i, 1, weight, tuple(norm))
        assert got[i] == alone[0]
        often, long = int(tf[at + i]), int(length[text[at + i]])
        plain = naive.gain(often, long, float(weight), *norm.tolist())
        np.testing.assert_allclose(got[i], plain, rtol=1e-6)


@njit
def centred(x, centre, direction):
    """Return the sums of one row."""
    return lanes.centred_products(x, centre, direction)


@njit
def multiplied(x, y):
    """Return the product of two rows."""
    return lanes.product(x, y)


@some
@given(st.integers(0, 2**32 - 1), st.integers(0, 100))
def test_sums_have_the_bits_of_the_twin_on_every_processor(seed, dimension):
    """Sums over vectors of any length equal the twin's bit for bit, so no processor differs."""
    rng = np.random.default_rng(seed)
    beyond = rng.normal(size=(3, dimension + 40)).astype(np.float32)
    x, centre, direction = beyond[:, :dimension]
    assert centred(x, centre, direction) == naive.centred_products(x, centre, direction)
    assert multiplied(x, centre) == naive.product(x, centre)


def test_a_sum_with_what_is_not_finite_is_not_finite():
    """NaN and inf are not lost in a sum, also in its last lanes."""
    for bad in (np.nan, np.inf):
        for at in (0, 31, 32, 34):
            x = np.ones(35, np.float32)
            x[at] = bad
            assert not np.isfinite(multiplied(x, np.ones(35, np.float32)))


def test_products_of_rows_are_those_of_the_twin_in_any_memory():
    """Read-only, strided and single rows give the same bits, and bad shapes are refused."""
    rng = np.random.default_rng(29)
    x, y = rng.normal(size=(2, 5, 77)).astype(np.float32)
    wanted = naive.products(x, y[2:3])
    fixed = np.frombuffer(x.tobytes(), "<f4").reshape(x.shape)
    for form in (x, fixed, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        assert products(form, y[2]).tolist() == wanted
        assert [product(row, y[2]) for row in form] == wanted
    assert products(x, y).tolist() == naive.products(x, y)
    assert products(x[:0], y[2]).tolist() == []
    for bad in (y[2, 1:], y[:2], y[:0]):
        with pytest.raises(ValueError, match="shapes"):
            products(x, bad)
    with pytest.raises(ValueError, match="shapes"):
        product(x[0], y[0, 1:])
