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
    signature = pair(codes, types.int64, a, types.int64, b, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def start(kind: Any, value: Any, number: Any) -> Any:
            array = context.make_array(kind)(context, builder, value)
            dimension = cgutils.unpack_tuple(builder, array.shape)[1]
            return builder.gep(array.data, [builder.mul(number, dimension)]), dimension

        kinds = sig.args
        row_at, dimension = start(kinds[0], args[0], args[1])
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
        sums = [builder.phi(zero.type) for _ in factors]
        wide = builder.sext(_load(builder, row_at, index, _I8), ir.VectorType(_I16, LANES))
        added = []
        for total, factor in zip(sums, factors, strict=True):
            step = _multiply_add(builder, wide, _load(builder, factor, index, _I16))
            added.append(builder.add(total, step))
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

    return signature, codegen


@intrinsic
def _prefetch(typingctx: Any, matrix: Any, row: Any) -> Any:
    """Asks for the cache lines of matrix[row]; a row beyond the end does no harm.

    Args:
        matrix: [n, dim] of any numbers.
        row: which of them.
    """
    signature = types.void(matrix, types.int64)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        width = builder.mul(cgutils.unpack_tuple(builder, array.shape)[1], array.itemsize)
        first = builder.bitcast(array.data, _I8.as_pointer())
        start = builder.gep(first, [builder.mul(args[1], width)])
        kind = ir.FunctionType(ir.VoidType(), [start.type, _I32, _I32, _I32])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        flags = [ir.Constant(_I32, flag) for flag in (0, 3, 1)]  # to read, into all caches, data
        step = ir.Constant(_I64, CACHE_LINE)
        zero = ir.Constant(_I64, 0)
        with cgutils.for_range_slice(builder, zero, width, step, intp=_I64) as (offset, _):
            builder.call(fetch, [builder.gep(start, [offset]), *flags])
        return context.get_dummy_value()

    return signature, codegen


prefetch: Any = _prefetch  # mypy takes it for what numba calls to compile it
