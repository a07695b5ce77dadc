"""int8 codes of vectors."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from viking_kernels import dense, simd
from viking_kernels.arrays import SCRIPTS, Centroids, PreparedQuery
from viking_kernels.quantize import quantize_rows

from tests.kernels import naive
from tests.tiers import examples

rows = st.lists(
    st.lists(st.floats(-1, 1, width=32), min_size=5, max_size=5), min_size=1, max_size=6
)


def quantized(raw):
    """Return (codes, scales, residual norms), and check that the padding is unchanged."""
    dimension = raw.shape[1]
    codes = np.full((len(raw), simd.padded(dimension)), 99, np.int8)
    codes[:, dimension:] = 0
    scale, error = np.empty(len(raw), np.float32), np.empty(len(raw), np.float32)
    quantize_rows(raw, codes, scale, error)
    assert not codes[:, dimension:].any()
    return codes[:, :dimension], scale, error


def coded(x):
    """Return (padded code, bias, step, residual norm) of a float32 vector."""
    code = np.full((1, simd.padded(len(x))), 99, np.int8)
    bias, step, error = dense.to_int8(x, code[0])
    assert not code[0, len(x) :].any()
    assert bias == simd.BIAS * code.sum(dtype=int)
    return code, bias, step, error


@examples(50)
@given(rows)
def test_codes_are_those_of_the_formula(vectors):
    """Each row is coded by its largest component, with its residual norm."""
    raw = np.array(vectors, np.float32)
    codes, scale, error = quantized(raw)
    wanted = naive.quantize_rows(raw.astype(np.float64))
    np.testing.assert_allclose(scale, wanted[1], rtol=1e-6, atol=1e-44)
    tiny = np.abs(raw).max(axis=1) < 1e-30  # denormal scales
    assert (np.abs(codes - wanted[0])[~tiny] <= 1).all()
    assert (np.abs(codes.astype(int)) <= 127).all()
    left = raw - scale[:, None].astype(np.float64) * codes
    np.testing.assert_allclose(error, np.linalg.norm(left, axis=1), rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(error, wanted[2], rtol=1e-3, atol=1e-6)


def test_a_row_of_zeros_has_no_scale():
    """Rows of zeros have no scale and no residual."""
    codes, scale, error = quantized(np.zeros((2, 4), np.float32))
    assert not codes.any()
    assert not scale.any()
    assert not error.any()


def test_a_huge_component_does_not_hide_the_error():
    """The residual norm counts components that a huge one rounds away."""
    raw = np.full((1, 64), 1e-3, np.float32)
    raw[0, 3] = 1.0
    codes, _, error = quantized(raw)
    assert codes[0, 3] == 127
    assert np.count_nonzero(codes) == 1
    assert abs(error[0] - np.sqrt(63) * 1e-3) < 1e-7


@examples(50)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 16, 384, 1025, 1536]), st.booleans())
def test_a_product_of_codes_is_within_the_errors(seed, dimension, flat):
    """A product of codes is within its error bound, by Cauchy and Schwarz."""
    rng = np.random.default_rng(seed)
    pair = np.ones((2, dimension)) if flat else rng.normal(size=(2, dimension))
    pair[1] *= rng.choice([-1, 1])
    x, u = (pair / np.linalg.norm(pair, axis=1)[:, None]).astype(np.float32)
    codes, scale, error = quantized(x[None])
    padded = np.pad(codes, ((0, 0), (0, simd.padded(dimension) - dimension)))
    code, bias, step, off = coded(u)
    along, across = dense.products_int8(padded, 0, code, 0, np.vstack([0 * code, -code]), 1)
    along, across = along - bias, across + bias
    assert (along, across) == naive.products_int8(padded[0], code[0], -code[0])
    true = float(x.astype(np.float64) @ u.astype(np.float64))
    assert abs(scale[0] * along * step - true) <= error[0] + off * (1 + error[0]) + 1e-6


@examples(50)
@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=40), st.integers(1, 40))
@example([1.0, -1.0] * 20, 40)
def test_codes_of_a_query(values, times):
    """A direction is coded by its largest component, with its residual norm."""
    x = np.array(values * times, np.float32)
    x[np.abs(x) < 1e-20] = 0
    code, _, step, error = coded(x)
    wanted, wanted_step, wanted_error = naive.to_int8(x.astype(np.float64))
    assert step == pytest.approx(wanted_step, rel=1e-9)
    assert np.abs(code[0, : len(x)] - np.array(wanted)).max() <= 1
    assert error == pytest.approx(wanted_error, rel=1e-6, abs=1e-9)


def query_of(factors, bias):
    """Return a query with the first of these codes and centroids with all of them."""
    zeros, none = np.zeros(SCRIPTS), np.zeros((SCRIPTS, 1), np.float32)
    means = Centroids(none, factors, bias, zeros, zeros, zeros, factors, zeros[None])
    return PreparedQuery(
        True, True, 1, none[0], factors[:1], int(bias[0]), 0.0, 0.0, means, zeros, none[0]
    )


def products_by_hash() -> str:
    """Compare many products, also the largest ones, with the twins', and return their hash."""
    rng = np.random.default_rng(4)
    seen = hashlib.sha256()
    for dimension in (0, 64, 192, 384, 1536, 32_768):
        codes = rng.integers(-128, 128, (8, dimension), np.int8)
        codes[0], codes[1], codes[2] = 127, -127, -128
        factors = rng.integers(-128, 128, (3, dimension), np.int8)
        factors[0], factors[1] = 127, -128
        bias = simd.BIAS * factors.sum(axis=1, dtype=int)
        for row in range(8):
            for pair in ((0, 1), (2, 0), (1, 1)):
                got = dense.products_int8(codes, row, factors, pair[0], factors, pair[1])
                got = (got[0] - bias[pair[0]], got[1] - bias[pair[1]])
                assert got == naive.products_int8(codes[row], *(factors[at] for at in pair))
                seen.update(repr([int(product) for product in got]).encode())
        query = query_of(factors, bias)
        for low, high in ((0, 8), (1, 4), (2, 2), (7, 8)):
            out = np.full((2, 9), 7, np.int32)
            dense.multiply_codes(codes, low, high, query, 2, out)
            pairs = naive.multiply_codes(codes[low:high], factors[0], factors[2])
            assert [*zip(*out[:, : high - low].tolist(), strict=True)] == pairs
            assert (out[:, high - low :] == 7).all()
            seen.update(out.tobytes())
    return seen.hexdigest()


@pytest.mark.deep
@pytest.mark.timeout(1200)  # the kernels are compiled, on a busy machine for minutes
def test_machines_with_fewer_instructions_have_the_same_products(printed_by_another):
    """All instruction sets give the same products, bit for bit."""
    code = "from tests.kernels import test_quantize as t; print(t.products_by_hash())"
    assert printed_by_another(code) == products_by_hash()
