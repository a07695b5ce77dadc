"""Products of codes and sums of vectors by the kernels of this machine, against the twins'."""

from __future__ import annotations

import sys

import numpy as np
from viking_kernels import dense, int4, simd
from viking_kernels import simd_scores as lanes
from viking_kernels._jit import njit

from tests.kernels import naive


@njit
def centred(x, centre, direction):
    """Return the sums of one row."""
    return lanes.centred_products(x, centre, direction)


def int8_products(dice: np.random.Generator) -> int:
    """Compare products of int8 codes, also of the extreme ones."""
    compared = 0
    for dimension in (0, 64, 192, 384, 32_768):
        codes = dice.integers(-128, 128, (6, dimension), np.int8)
        factors = dice.integers(-128, 128, (3, dimension), np.int8)
        codes[:3] = np.array([[-128], [127], [-127]])
        factors[:2] = np.array([[-128], [127]])
        bias = (simd.BIAS * factors.sum(axis=1, dtype=int)).tolist()
        for row in range(6):
            for a, b in ((0, 1), (2, 0)):
                along, across = dense.products_int8(codes, row, factors, a, factors, b)
                got = along - bias[a], across - bias[b]
                wanted = naive.products_int8(codes[row], factors[a], factors[b])
                assert got == wanted, (dimension, row, got, wanted)
                compared += 2
    return compared


def int4_products(dice: np.random.Generator) -> int:
    """Compare products of int4 codes, also of the extreme ones."""
    compared = 0
    for dimension in (128, 384, 4096):
        codes = dice.integers(0, 256, (5, dimension // 2)).astype(np.uint8)
        codes[0] = 255
        nibbles = codes.reshape(5, -1, 32)
        unpacked = np.stack([nibbles & 15, nibbles >> 4], axis=2).reshape(5, -1).astype(int)
        for factors in (dice.integers(-128, 128, dimension), np.full(dimension, -128)):
            out = np.full(simd.TOGETHER + 2, 7, np.int32)
            int4.products_int4(codes, 0, 4, factors.astype(np.int8), out, 1)
            wanted = naive.products_int4(unpacked.tolist(), factors.tolist())
            assert out.tolist() == [7, *wanted[: simd.TOGETHER], 7], (dimension, out, wanted)
            compared += simd.TOGETHER
    return compared


def sums(dice: np.random.Generator) -> int:
    """Compare the bits of sums over vectors of all lengths around the number of lanes."""
    for dimension in range(100):
        x, centre, direction = dice.normal(size=(3, dimension)).astype(np.float32)
        got, wanted = centred(x, centre, direction), naive.centred_products(x, centre, direction)
        assert got == wanted, (dimension, got, wanted)
    return 100


def main() -> None:
    """Compare everything, and print the path and the numbers of what was compared."""
    dice = np.random.default_rng(29)
    eight, four, rows = int8_products(dice), int4_products(dice), sums(dice)
    sys.stdout.write(f"{simd.PATH}: {eight} int8 products, {four} int4 products, {rows} sums\n")


if __name__ == "__main__":
    main()
