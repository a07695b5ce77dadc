"""int8 and int4 codes of unit vectors, with their exact residual norms."""

from __future__ import annotations

import numpy as np

from viking_kernels import simd_scores as lanes
from viking_kernels._jit import inlined, njit
from viking_kernels.arrays import F32, I8, Int4
from viking_kernels.rotation import rotate, rotated_size


@njit
def quantize_rows(raw: F32, codes: I8, scale: F32, residual: F32) -> None:
    """Compute the int8 code, scale and residual norm of each row of `raw` [n, dim].

    code = round(x / scale), scale = max|x| / 127, residual = |x - scale * code| (Euclidean), so
    that |y . x - scale * (y . code)| <= |y| * residual for any y. Fills `scale` [n], `residual` [n]
    and the first dim columns of `codes`. A row of zeros has scale 0.
    """
    for i in range(raw.shape[0]):
        largest = np.float32(0)
        for j in range(raw.shape[1]):
            largest = max(largest, abs(raw[i, j]))
        step = largest / np.float32(127)
        square = 0.0
        for j in range(raw.shape[1]):
            code = np.int8(np.rint(raw[i, j] / step)) if step > 0 else np.int8(0)
            codes[i, j] = code
            rest = np.float64(raw[i, j]) - np.float64(step) * np.float64(code)
            square += rest * rest
        scale[i] = step
        residual[i] = np.sqrt(square)


def int4_axis(raw: F32) -> F32:
    """Return the axis for int4 codes: the rotated mean of `raw` [n, dim], scaled to length 1.

    It is zeros without rows.
    """
    total = raw.sum(axis=0, dtype=np.float64)
    axis = np.empty(rotated_size(raw.shape[1]), np.float32)
    rotate(np.asarray(total / max(float(np.linalg.norm(total)), 1e-30), np.float32), axis)
    return axis


def int4_room(rows: int, axis: F32) -> Int4:
    """Return an Int4 with space for the codes of so many vectors."""
    scale, residual, along = np.zeros((3, rows), np.float32)
    return Int4(axis, np.zeros((rows, len(axis) // 2), np.uint8), scale, residual, along)


@njit
def quantize_int4(raw: F32, coded: Int4) -> None:
    """Compute the int4 code of each row of `raw` [n, dim]; fill all of `coded` but the axis.

    Let x be a rotated row and y = x - along * axis. Then code = floor(y / step) + 8, in 0 to 15.
    The step is the one of several with the smallest error. scale = |y|^2 / (y . (code - 7.5)), so
    that e = y - scale * (code - 7.5) is orthogonal to y. The residual norm is |e|.

    For any v, v . x = v . axis * along + v' . scale * (code - 7.5) + v' . e, where v' is v without
    its part along the axis. v' . e lies between -|v'| |e| and |v'| |e|: see `int4.code_direction`.
    """
    dimension = len(coded.axis)
    rotated = np.empty(dimension, np.float32)
    rest, missing, centred = np.empty((3, dimension), np.float32)
    for i in range(raw.shape[0]):
        rotate(raw[i], rotated)
        along = lanes.product(rotated, coded.axis)
        largest = np.float32(0)
        for j in range(dimension):
            rest[j] = rotated[j] - np.float32(along) * coded.axis[j]
            largest = max(largest, abs(rest[j]))
        least = np.inf
        step = np.float32(0)
        for eighths in range(4, 9):
            tried = largest * np.float32(eighths / 60.0)
            for j in range(dimension):
                missing[j] = rest[j] - tried * (_nibble(rest[j], tried) - np.float32(7.5))
            square = lanes.product(missing, missing)
            if square < least:
                least = square
                step = tried
        coded.codes[i] = 0
        for j in range(dimension):
            code = _nibble(rest[j], step)
            at = j // 64 * 32 + j % 32
            coded.codes[i, at] |= np.uint8(code) << np.uint8(j % 64 // 32 * 4)
            centred[j] = code - np.float32(7.5)
        across, whole = lanes.product(rest, centred), lanes.product(rest, rest)
        scale = np.float32(whole / across if across > 0 else 0.0)
        square = 0.0
        for j in range(dimension):
            left = np.float64(rest[j]) - np.float64(scale) * np.float64(centred[j])
            square += left * left
        coded.scale[i] = scale
        coded.residual[i] = np.sqrt(square)
        coded.along[i] = along


def from_int4(coded: Int4, row: int) -> F32:
    """Return the vector [rotated dim] that an int4 code stands for."""
    blocks = coded.codes[row].reshape(-1, 32)
    nibbles = np.stack([blocks & 15, blocks >> 4], axis=1).reshape(-1)
    across = coded.scale[row] * (nibbles - np.float32(7.5))
    return np.asarray(coded.along[row] * coded.axis + across, np.float32)


@inlined
def _nibble(x: float, step: float) -> float:
    """Return the int4 code (0 to 15) of a component, as a float."""
    if step <= 0:
        return np.float32(8)
    return min(max(np.floor(x / step) + np.float32(8), np.float32(0)), np.float32(15))
