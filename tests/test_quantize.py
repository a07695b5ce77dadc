"""int8 codes of vectors."""

from __future__ import annotations

import naive
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from viking_kernels import dense
from viking_kernels.quantize import quantize_rows

rows = st.lists(
    st.lists(st.floats(-1, 1, width=32), min_size=5, max_size=5), min_size=1, max_size=6
)


def quantized(raw):
    """(codes, scales, errors)."""
    codes = np.full(raw.shape, 99, np.int8)
    scale, error = np.empty(len(raw), np.float32), np.empty(len(raw), np.float32)
    quantize_rows(raw, codes, scale, error)
    return codes, scale, error


@settings(max_examples=50, deadline=None, print_blob=True)
@given(rows)
def test_codes_are_those_of_the_formula(vectors):
    """Each row by its own largest component; the error is the length of what is left out."""
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
    """And no error."""
    codes, scale, error = quantized(np.zeros((2, 4), np.float32))
    assert not codes.any()
    assert not scale.any()
    assert not error.any()


def test_a_huge_component_does_not_hide_the_error():
    """What is rounded away beside it counts."""
    raw = np.full((1, 64), 1e-3, np.float32)
    raw[0, 3] = 1.0
    codes, _, error = quantized(raw)
    assert codes[0, 3] == 127
    assert np.count_nonzero(codes) == 1
    assert abs(error[0] - np.sqrt(63) * 1e-3) < 1e-7


@settings(max_examples=50, deadline=None, print_blob=True)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3, 16, 384, 1025, 1536]), st.booleans())
def test_a_product_of_codes_is_within_the_errors(seed, dimension, flat):
    """By Cauchy and Schwarz, also for vectors whose every code is the largest."""
    rng = np.random.default_rng(seed)
    pair = np.ones((2, dimension)) if flat else rng.normal(size=(2, dimension))
    pair[1] *= rng.choice([-1, 1])
    x, u = (pair / np.linalg.norm(pair, axis=1)[:, None]).astype(np.float32)
    codes, scale, error = quantized(x[None])
    code, by, off = dense.to_int16(u)
    along, across = dense.products_int8(codes, 0, code, np.stack([code] * 8), 3)
    assert (along, across) == naive.products_int8(codes[0], code, code)
    true = float(x.astype(np.float64) @ u.astype(np.float64))
    assert abs(scale[0] * along / by - true) <= error[0] + off * (1 + error[0]) + 1e-6
