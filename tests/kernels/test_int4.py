"""The rotation, int4 codes and their bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viking_kernels import bounds, dense, find, int4, simd
from viking_kernels.arrays import SCRIPTS, RawQuery, Search
from viking_kernels.quantize import from_int4, int4_axis
from viking_kernels.rotation import rotated_size

from benchmarks.flat import one_directory
from tests.kernels import naive
from tests.kernels.flat_helpers import (
    base_of,
    rotated,
    seeds,
    some,
    unit_rows,
    unpacked,
)
from tests.tiers import examples


@some
@given(seeds, st.sampled_from([0, 1, 3, 64, 100, 128, 384, 1025]))
def test_a_rotation_keeps_products(seed, dimension):
    """A rotation keeps products of vectors, and equals that of the plain twin."""
    rng = np.random.default_rng(seed)
    raw = rng.normal(size=(3, dimension)) / max(dimension, 1) ** 0.5
    turned = np.stack([rotated(row) for row in raw])
    np.testing.assert_allclose(turned @ turned.T, raw @ raw.T, atol=4e-6, rtol=2e-6)
    for row, got in zip(raw, turned, strict=True):
        np.testing.assert_allclose(got, naive.rotate(row, len(got)), atol=1e-6)


@pytest.mark.parametrize("dimension", [1, 128, 200, 384, 512, 768, 1024])
def test_a_rotation_spreads_every_component(dimension):
    """A rotation spreads every component like a random direction."""
    size = rotated_size(dimension)
    parts = np.stack([rotated(row) for row in np.eye(dimension)]) * size**0.5
    assert np.abs(parts).max() < 5.5
    assert np.mean(parts**4) < 4  # 3 for a normal distribution


@some
@given(seeds, st.sampled_from([1, 5, 64, 100, 384]), st.sampled_from([0.0, 3.0]), st.booleans())
def test_int4_codes_are_those_of_the_formula(seed, dimension, crowd, plain_axis):
    """int4 codes equal the twin's; residuals have their norms and are orthogonal to the rows."""
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
    # Rounding may decide which of two nearly equal steps leaves less.
    np.testing.assert_allclose(coded.residual, error, rtol=2e-2, atol=1e-5)
    across = turned - coded.along[:, None].astype(float) * axis
    left = turned - [from_int4(coded, row) for row in range(len(raw))]
    np.testing.assert_allclose(np.linalg.norm(left, axis=1), coded.residual, atol=2e-6)
    np.testing.assert_allclose((left * across).sum(axis=1), 0, atol=2e-6)


def test_an_axis_without_rows_is_zeros():
    """The axis is the direction of the mean, or zeros without rows."""
    assert not int4_axis(np.zeros((0, 3), np.float32)).any()
    raw = np.array([[1, 0], [0, 1]], np.float32)
    assert int4_axis(raw) == pytest.approx(rotated([0.5**0.5] * 2), abs=1e-6)


def sparse(rng, n, dimension):
    """Return unit rows of few positive components, like counted words."""
    raw = rng.exponential(size=(n, dimension)) * (rng.random((n, dimension)) < 0.03)
    raw[:, 0] += 0.01
    return raw / np.linalg.norm(raw, axis=1)[:, None]


def low_rank(rng, n, dimension):
    """Return unit rows within eight dimensions."""
    raw = rng.normal(size=(n, 8)) @ rng.normal(size=(8, dimension))
    return raw / np.linalg.norm(raw, axis=1)[:, None]


def steps(rng, n, dimension):
    """Return unit rows of a few levels with some huge components."""
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
    """Products with residuals spread like those of random directions, for any kind of vectors."""
    rng = np.random.default_rng(dimension)
    raw = rows(rng, 1500, dimension)
    coded = base_of(raw[:1000]).base_int4
    axis = coded.axis.astype(float)
    left = np.stack([rotated(row) for row in raw[:1000]]).astype(float)
    left -= [from_int4(coded, row) for row in range(1000)]
    asked = np.stack([rotated(row) for row in raw[500:]]).astype(float)  # some are coded rows
    asked -= np.outer(asked @ axis, axis)
    lengths = np.outer(np.linalg.norm(asked, axis=1), coded.residual)
    spread = (asked @ left.T) / np.maximum(lengths, 1e-9) * (dimension - 1) ** 0.5
    assert np.abs(spread).max() < 6
    assert spread.std() < 1.05


@pytest.mark.parametrize("crowd", [0.0, 3.0])
@pytest.mark.parametrize(("centred", "plain_axis"), [(False, False), (True, False), (True, True)])
def test_bounds_leave_few(crowd, centred, plain_axis):
    """Upper bounds are near the scores, and never below them."""
    rng = np.random.default_rng(3)
    raw = unit_rows(rng, (2000, 384), crowd)
    vectors = base_of(raw, np.zeros(384) if plain_axis else None)
    mean = np.tile(raw.mean(axis=0) * centred, (SCRIPTS, 1)).astype(np.float32)
    centroids = dense.code_centroids(mean, vectors.base_int4.axis)
    asked = RawQuery(vectors.base_raw[7].copy(), 0, True, False, centroids)
    query, scratch = dense.prepare(asked), find.scratch(1, 2000, 2000)
    tree, stats, scope = one_directory(np.ones(2000, np.int32), 384)
    bounds.bound_scores((1.0, 0.0), Search(tree, vectors, stats, query, scope, scratch))
    own = [dense.raw_cosine(vectors, row, query, 0) for row in range(2000)]
    above = scratch.code_scores[:2000] - np.array(own)
    assert above.min() >= 0
    left = np.linalg.norm(raw - mean[0], axis=1)
    assert np.median(above) < 0.9 * np.median(vectors.base_int4.residual / left)


@pytest.mark.parametrize("dimension", [128, 384, 4096])
def test_products_of_int4_codes_do_not_overflow(dimension):
    """Products of the largest codes and factors do not overflow."""
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
    """The coded factors of a direction equal its part across the axis, within the stated error."""
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
    assert coded.error >= np.linalg.norm(rest - coded.step * factors) - 1e-6
    assert coded.across == pytest.approx(np.linalg.norm(rest), abs=1e-6)
    spread = min(1, 7 / (dimension - 1) ** 0.5)
    assert coded.error_slope >= spread * np.linalg.norm(rest) - 1e-6
    assert coded.error_slope <= spread * np.linalg.norm(rest) + coded.error + 1e-6


@examples(100)
@given(seeds, st.sampled_from([0.005, 0.019, 0.3]))
def test_bounds_hold_where_nothing_is_to_spare(seed, across):
    """Upper bounds hold in two dimensions, where residuals can be parallel."""
    rng = np.random.default_rng(seed)
    raw = unit_rows(rng, (40, 2))
    raw[0] = (0, 1)
    vectors = base_of(raw, np.array([1, 0], np.float32))
    coded = vectors.base_int4
    coded.scale[:] = 0
    coded.residual[:] = np.abs(vectors.base_raw[:, 1])
    mean = np.tile(np.array([[0.4, across * rng.choice([-1, 1])]], np.float32), (SCRIPTS, 1))
    query = dense.prepare(
        RawQuery(
            unit_rows(rng, (1, 2))[0].astype(np.float32),
            0,
            True,
            False,
            dense.code_centroids(mean, coded.axis),
        )
    )
    tree, stats, scope = one_directory(np.ones(len(raw), np.int32), 2)
    scratch = find.scratch(1, len(raw), len(raw))
    bounds.bound_scores((1.0, 0.0), Search(tree, vectors, stats, query, scope, scratch))
    own = [dense.raw_cosine(vectors, row, query, 0) for row in range(len(raw))]
    assert (scratch.code_scores >= np.array(own) - 1e-6).all()
