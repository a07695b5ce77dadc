"""Scalar products of int8 rows with AVX2, where the machine has it.

Numba widens every sum of small integers to 64 bits and so leaves the instructions for it unused;
here the loop is given to LLVM as it should be: 16 products at a time by `vpmaddwd`, into which
LLVM puts the addition as well where there is VNNI. The sums are exact in int32 in any order, so
this and the plain loop give the same numbers.
"""

from __future__ import annotations

import os
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
"""Components that are taken at a time: rows of codes are padded with zeros to a multiple."""


def padded(dimension: int) -> int:
    """Components that a row of codes takes: the next multiple of LANES."""
    return -(-dimension // LANES) * LANES


def _path() -> str:
    wanted = os.environ.get("VIKINGD_SIMD") != "plain"
    features = llvmlite.binding.get_host_cpu_features()
    return "avx2" if wanted and features.get("avx2") else "plain"


PATH = _path()
"""avx2 or plain; VIKINGD_SIMD=plain takes the path of machines without AVX2."""

CACHE_LINE = 64
"""Bytes that come from memory at a time."""

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_HALF = LANES // 2


def _multiply_add(builder: Any, codes: Any, factors: Any) -> Any:
    """Sums of neighbouring products of two <16 x i16>: <8 x i32>."""
    kind = ir.FunctionType(ir.VectorType(_I32, _HALF), [codes.type, factors.type])
    madd = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.pmadd.wd")
    return builder.call(madd, [codes, factors])


def _load(builder: Any, pointer: Any, index: Any, element: Any) -> Any:
    """<16 x element> from a pointer to elements, wherever it stands in memory."""
    at = builder.gep(pointer, [index])
    vector = builder.bitcast(at, ir.VectorType(element, LANES).as_pointer())
    return builder.load(vector, align=1)


@intrinsic
def products(typingctx: Any, codes: Any, row: Any, a: Any, a_row: Any, b: Any, b_row: Any) -> Any:
    """(codes[row] . a[a_row], codes[row] . b[b_row]) as int32.

    Args:
        codes: int8 [n, dim], dim a multiple of LANES.
        row: which of them.
        a, b: int16 [m, dim], of which a_row and b_row are taken.
    """
    pair = types.UniTuple(types.int32, 2)
    return pair(codes, types.int64, a, types.int64, b, types.int64), _products_of(1)


@intrinsic
def products_of_two(
    typingctx: Any, codes: Any, row: Any, a: Any, a_row: Any, b: Any, b_row: Any
) -> Any:
    """`products` of codes[row], then those of codes[row + 1]: what is multiplied is read once."""
    four = types.UniTuple(types.int32, 4)
    return four(codes, types.int64, a, types.int64, b, types.int64), _products_of(2)


def _products_of(count: int) -> Any:
    """What generates the code for so many rows."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def start(kind: Any, value: Any, number: Any) -> Any:
            array = context.make_array(kind)(context, builder, value)
            dimension = cgutils.unpack_tuple(builder, array.shape)[1]
            return builder.gep(array.data, [builder.mul(number, dimension)]), dimension

        kinds = sig.args
        row_at, dimension = start(kinds[0], args[0], args[1])
        rows = [row_at]
        while len(rows) < count:
            rows.append(builder.gep(rows[-1], [dimension]))
        factors = [start(kinds[i], args[i], args[i + 1])[0] for i in (2, 4)]
        zero = ir.Constant(ir.VectorType(_I32, _HALF), [ir.Constant(_I32, 0)] * _HALF)
        before = builder.block
        loop = builder.append_basic_block("products")
        after = builder.append_basic_block("products.done")
        empty = builder.icmp_signed("<", dimension, ir.Constant(_I64, LANES))
        builder.cbranch(empty, after, loop)
        builder.position_at_end(loop)
        index = builder.phi(_I64)
        index.add_incoming(ir.Constant(_I64, 0), before)
        sums = [builder.phi(zero.type) for _ in range(count * len(factors))]
        read = [_load(builder, factor, index, _I16) for factor in factors]
        steps = []
        for row in rows:
            wide = builder.sext(_load(builder, row, index, _I8), ir.VectorType(_I16, LANES))
            steps += [_multiply_add(builder, wide, factor) for factor in read]
        added = [builder.add(total, step) for total, step in zip(sums, steps, strict=True)]
        following = builder.add(index, ir.Constant(_I64, LANES))
        index.add_incoming(following, loop)
        for total, result in zip(sums, added, strict=True):
            total.add_incoming(zero, before)
            total.add_incoming(result, loop)
        more = builder.icmp_signed("<", following, dimension)
        builder.cbranch(more, loop, after)
        builder.position_at_end(after)
        finals = []
        for result in added:
            finals.append(builder.phi(zero.type))
            finals[-1].add_incoming(zero, before)
            finals[-1].add_incoming(result, loop)
        kind = ir.FunctionType(_I32, [zero.type])
        reduce = cgutils.get_or_insert_function(
            builder.module, kind, f"llvm.vector.reduce.add.v{_HALF}i32"
        )
        out = [builder.call(reduce, [final]) for final in finals]
        return context.make_tuple(builder, sig.return_type, out)

    return codegen


NIBBLES = 64
"""Components of two nibbles a byte that are taken at a time: rows are padded to a multiple."""

TOGETHER = 4
"""Rows whose products are summed at a time."""

_AHEAD = 4096


@intrinsic
def products_int4(
    typingctx: Any, codes: Any, row: Any, last: Any, factors: Any, out: Any, at: Any
) -> Any:
    """out[at + i] = sum over j of nibble j of codes[min(row + i, last)] * factors[j], i < TOGETHER.

    Byte 32 b + i of a row holds component 64 b + i in its low nibble, 64 b + 32 + i in its high
    one. Four products of a nibble and a factor, 4 * 15 * 128 at most, fit into int16.

    Args:
        codes: uint8 [n, dim / 2], dim a multiple of NIBBLES.
        row, last: int64.
        factors: int8 [dim].
        out: int32.
        at: int64.
    """
    signature = types.void(codes, types.int64, types.int64, factors, out, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        arrays = [context.make_array(sig.args[i])(context, builder, args[i]) for i in (0, 3, 4)]
        width = cgutils.unpack_tuple(builder, arrays[0].shape)[1]
        rows = []
        for i in range(TOGETHER):
            number = builder.add(args[1], ir.Constant(_I64, i))
            number = builder.select(builder.icmp_signed("<", number, args[2]), number, args[2])
            rows.append(builder.gep(arrays[0].data, [builder.mul(number, width)]))
        octets = ir.VectorType(_I8, 32)
        words = ir.VectorType(_I16, LANES)
        sums = ir.VectorType(_I32, _HALF)
        low, ones = ir.Constant(octets, [15] * 32), ir.Constant(words, [1] * LANES)
        four, zero = ir.Constant(words, [4] * LANES), ir.Constant(sums, [0] * _HALF)
        add_products = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(words, [octets, octets]), "llvm.x86.avx2.pmadd.ub.sw"
        )

        def load(pointer: Any, index: Any) -> Any:
            where = builder.bitcast(builder.gep(pointer, [index]), octets.as_pointer())
            return builder.load(where, align=1)

        before = builder.block
        loop = builder.append_basic_block("nibbles")
        after = builder.append_basic_block("nibbles.done")
        empty = builder.icmp_signed("<", width, ir.Constant(_I64, 32))
        builder.cbranch(empty, after, loop)
        builder.position_at_end(loop)
        index = builder.phi(_I64)
        totals = [builder.phi(sums) for _ in rows]
        first = builder.shl(index, ir.Constant(_I64, 1))
        second = builder.add(first, ir.Constant(_I64, 32))
        factor, other = load(arrays[1].data, first), load(arrays[1].data, second)
        # Of rows that follow each other, as many bytes of later ones as are read of these.
        ahead = builder.add(builder.shl(index, ir.Constant(_I64, 2)), ir.Constant(_I64, _AHEAD))
        for line in (0, CACHE_LINE):
            where = builder.gep(rows[0], [builder.add(ahead, ir.Constant(_I64, line))])
            _prefetch(builder, where)
        added = []
        for start, total in zip(rows, totals, strict=True):
            both = load(start, index)
            high = builder.bitcast(builder.lshr(builder.bitcast(both, words), four), octets)
            pairs = builder.add(
                builder.call(add_products, [builder.and_(both, low), factor]),
                builder.call(add_products, [builder.and_(high, low), other]),
            )
            added.append(builder.add(total, _multiply_add(builder, pairs, ones)))
        following = builder.add(index, ir.Constant(_I64, 32))
        index.add_incoming(ir.Constant(_I64, 0), before)
        index.add_incoming(following, loop)
        more = builder.icmp_signed("<", following, width)
        builder.cbranch(more, loop, after)
        for total, result in zip(totals, added, strict=True):
            total.add_incoming(zero, before)
            total.add_incoming(result, loop)
        builder.position_at_end(after)
        finals = []
        for result in added:
            finals.append(builder.phi(sums))
            finals[-1].add_incoming(zero, before)
            finals[-1].add_incoming(result, loop)
        kind = ir.FunctionType(sums, [sums, sums])
        hadd = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.phadd.d")
        one, two = (builder.call(hadd, finals[i : i + 2]) for i in (0, 2))
        halves = builder.call(hadd, [one, two])
        parts = [
            builder.shuffle_vector(halves, halves, ir.Constant(ir.VectorType(_I32, 4), lanes))
            for lanes in ([0, 1, 2, 3], [4, 5, 6, 7])
        ]
        whole = builder.add(*parts)
        there = builder.gep(arrays[2].data, [args[5]])
        builder.store(whole, builder.bitcast(there, whole.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _prefetch_row(typingctx: Any, array: Any, row: Any) -> Any:
    """Fetches array[row] of a two-dimensional array into the cache; any row number is harmless."""
    signature = types.void(array, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        made = context.make_array(sig.args[0])(context, builder, args[0])
        stride = cgutils.unpack_tuple(builder, made.strides)[0]
        start = builder.gep(
            builder.bitcast(made.data, _I8.as_pointer()), [builder.mul(args[1], stride)]
        )
        with cgutils.for_range_slice(
            builder, ir.Constant(_I64, 0), stride, ir.Constant(_I64, CACHE_LINE), inc=True
        ) as (offset, _):
            _prefetch(builder, builder.gep(start, [offset]))
        return context.get_dummy_value()

    return signature, codegen


prefetch: Any = _prefetch_row  # mypy takes it for what numba calls to compile it


def _prefetch(builder: Any, where: Any) -> None:
    """Fetches the line of the cache at a pointer to bytes, for reading."""
    kind = ir.FunctionType(ir.VoidType(), [where.type, _I32, _I32, _I32])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(fetch, [where, *(ir.Constant(_I32, value) for value in (0, 3, 1))])
