"""Plain twins of the kernels: codes of vectors and their products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.kernels.naive.dense import decoded
from tests.kernels.naive.tree import F64

F32 = npt.NDArray[np.float32]


def quantize_rows(raw: F64) -> tuple[npt.NDArray[np.int64], F64, F64]:
    """Return (codes, scales, residual norms)."""
    codes = np.zeros(raw.shape, np.int64)
    scale, error = np.zeros(len(raw)), np.zeros(len(raw))
    for i, row in enumerate(raw):
        scale[i] = max((abs(x) for x in row), default=0.0) / 127
        if scale[i] > 0:
            codes[i] = [round(x / scale[i]) for x in row]
        error[i] = math.dist(row, scale[i] * codes[i])
    return codes, scale, error


def rotate(x: F64, size: int) -> F64:
    """Flip signs by a hash and apply butterflies until all components are mixed; do both twice."""
    values = [*x.tolist(), *([0.0] * (size - len(x)))]
    for turn in range(2):
        for j in range(size):
            hashed = (j + 1 + turn * size) * 2654435769 % 2**32
            hashed = (hashed ^ hashed >> 15) * 2246822507 % 2**32
            values[j] *= 1 - 2 * (hashed >> 31)
        reach = 1
        while reach < size:
            reach *= 4
            for _ in range(2):
                pairs = list(zip(values[::2], values[1::2], strict=True))
                values = [(a + b) / 2**0.5 for a, b in pairs] + [(a - b) / 2**0.5 for a, b in pairs]
    return np.array(values)


def quantize_int4(raw: F64, axis: F64) -> tuple[npt.NDArray[np.int64], F64, F64, F64]:
    """Return (codes, scales, residual norms, products with the axis) of rotated rows."""
    along = raw @ axis
    left = raw - along[:, None] * axis
    codes = np.full(raw.shape, 8)
    scale, error = np.zeros(len(raw)), np.zeros(len(raw))
    for i, row in enumerate(left):
        if row.any():
            steps = [max(abs(row)) * eighths / 60 for eighths in range(4, 9)]
            tried = [np.clip(np.floor(row / step) + 8, 0, 15) for step in steps]
            misses = [
                math.dist(row, step * (code - 7.5)) for step, code in zip(steps, tried, strict=True)
            ]
            codes[i] = tried[misses.index(min(misses))]
            scale[i] = row @ row / (row @ (codes[i] - 7.5))
        error[i] = math.dist(row, scale[i] * (codes[i] - 7.5))
    return codes, scale, error, along


def code_direction(direction: F64, axis: F64) -> tuple[float, F64]:
    """Return (the part along the axis, the decoded int8 code of the rest)."""
    along = float(direction @ axis)
    return along, decoded(direction - along * axis)


def products_int4(codes: Sequence[Sequence[int]], factors: Sequence[int]) -> list[int]:
    """Return the products of rows of codes, one code a component, with the factors."""
    return [sum(int(a) * int(b) for a, b in zip(row, factors, strict=True)) for row in codes]


def centred_products(x: F32, centre: F32, direction: F32) -> tuple[float, float]:
    """Return ((x - centre) . direction, |x - centre|^2), rounded to fp32 as the kernel does."""
    rest = x - centre
    return _in_lanes(rest * direction), _in_lanes(rest * rest)


def product(x: F32, y: F32) -> float:
    """Return x . y in fp64, rounded as the kernel does."""
    return _in_lanes(x.astype(np.float64) * y.astype(np.float64))


def products(x: F32, y: F32) -> list[float]:
    """Return the product of each row of x with the same row of y, or with the only one."""
    return [product(row, y[i % len(y)]) for i, row in enumerate(x)]


def _in_lanes(terms: npt.NDArray[Any]) -> float:
    """Return the sum of terms by 32 lanes, each in the order of the terms, halves added."""
    lanes = np.zeros(32, terms.dtype)
    for start in range(0, len(terms), 32):
        block = terms[start : start + 32]
        lanes += np.pad(block, (0, 32 - len(block)))
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return float(lanes[0])
