"""Scalar products of coded rows with the vector instructions of the machine.

numba widens every sum of small integers to 64 bits, which excludes these instructions. So the loops
are written in LLVM IR here. With AVX-512 and VNNI, `vpdpbusd` makes 64 products at a time.
With AVX2, `vpmaddwd` makes 16. On arm64 with the dot product extension, `sdot` makes 16. Other
machines use plain loops (`dense`, `int4`). int32 sums are exact in any order, so all of them give
the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from viking_kernels import host

LANES = 64
"""Rows of int8 codes are padded with zeros to a multiple of this number of components."""

NIBBLES = 128
"""Rows of int4 codes are padded to a multiple of this number, with two components a byte."""

TOGETHER = 4
"""Rows of int4 codes whose products are summed at a time."""

CACHE_LINE = 64
"""Bytes of a cache line."""

_PATHS = {
    "vnni": ("avx512f", "avx512bw", "avx512vl", "avx512vnni"),
    "avx2": ("avx2",),
    "dotprod": ("dotprod",),
    "plain": (),
}


def padded(dimension: int) -> int:
    """Return the number of components of a row of int8 codes: dimension rounded up to LANES."""
    return -(-dimension // LANES) * LANES


def paths() -> list[str]:
    """Return the paths (vnni, avx2, dotprod, plain) that the processor has, the fastest first."""
    features = host.features()
    return [path for path, needs in _PATHS.items() if all(features.get(need) for need in needs)]


def _path() -> str:
    here = paths()
    wanted = os.environ.get("VIKING_KERNELS_SIMD") or here[0]
    if wanted not in here:
        raise ValueError(f"VIKING_KERNELS_SIMD is {wanted!r}, this machine has {', '.join(here)}")
    return wanted


if numba.config.CPU_FEATURES is None and "dotprod" in paths():  # type: ignore[attr-defined]
    # LLVM refuses `sdot` without the feature, and may not know the processor.
    numba.config.CPU_FEATURES = host.features().flatten()  # type: ignore[attr-defined]

PATH = _path()
"""The first of `paths`, or the one that VIKING_KERNELS_SIMD names."""

BIAS = 128 if PATH == "vnni" else 0
"""Added to every component of an int8 code before a product, because `vpdpbusd` takes unsigned
ones."""

intrinsic: Any = extending.intrinsic  # callers pass no typing context, which mypy does not know

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))


def vector(element: Any, lanes: int) -> Any:
    """Return LLVM's type of a vector of so many elements."""
    return ir.VectorType(element, lanes)


def _every(kind: Any, value: int) -> Any:
    """Return a constant LLVM vector with the same value in all lanes."""
    return ir.Constant(kind, [value] * kind.count)


def _load(builder: Any, pointer: Any, index: Any, lanes: int) -> Any:
    """Emit a load of <lanes x i8> from pointer + index; no alignment is needed."""
    at = builder.gep(pointer, [index])
    return builder.load(builder.bitcast(at, vector(_I8, lanes).as_pointer()), align=1)


def call(builder: Any, name: str, result: Any, *operands: Any) -> Any:
    """Emit a call of an LLVM function by its name, and return the result."""
    kind = ir.FunctionType(result, [operand.type for operand in operands])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), operands)


def _dot_bytes(builder: Any, total: Any, unsigned: Any, signed: Any) -> Any:
    """Emit: total <16 x i32> += sums of four adjacent products of two <64 x i8>."""
    operands = [builder.bitcast(value, total.type) for value in (unsigned, signed)]
    return call(builder, "llvm.x86.avx512.vpdpbusd.512", total.type, total, *operands)


def _dot_words(builder: Any, total: Any, one: Any, other: Any) -> Any:
    """Emit: total <8 x i32> += sums of two adjacent products of two <16 x i16>."""
    return builder.add(total, call(builder, "llvm.x86.avx2.pmadd.wd", total.type, one, other))


def _dot_signed(builder: Any, total: Any, one: Any, other: Any) -> Any:
    """Emit: total <4 x i32> += sums of four adjacent products of two <16 x i8>."""
    name = "llvm.aarch64.neon.sdot.v4i32.v16i8"
    return call(builder, name, total.type, total, one, other)


class _Instructions(NamedTuple):
    """The code generators of one path, for products of int8 codes and of int4 codes."""

    lanes: int  # components of int8 codes at a time
    sums: int  # int32 sums of products of a row
    code: Callable[..., Any]  # (builder, <lanes x i8>): the operand of a product
    factor: Callable[..., Any]
    add: Callable[..., Any]  # (builder, sums, code, factor): the new sums
    bytes_: int  # of int4 codes at a time: 32 with the low nibbles' components, then 32 ...
    add_nibbles: Callable[..., Any]  # (builder, sums, low, high, factors of low, of high)


def _biased(builder: Any, code: Any) -> Any:
    return builder.xor(code, _every(code.type, BIAS))


def _as_it_is(_: Any, value: Any) -> Any:
    return value


def _widened(builder: Any, value: Any) -> Any:
    return builder.sext(value, vector(_I16, value.type.count))


def _dot_nibbles(builder: Any, total: Any, low: Any, high: Any, first: Any, second: Any) -> Any:
    return _dot_bytes(builder, _dot_bytes(builder, total, low, first), high, second)


def _dot_nibble_words(
    builder: Any, total: Any, low: Any, high: Any, first: Any, second: Any
) -> Any:
    # Four products of a nibble and a factor, 4 * 15 * 128 at most, fit into int16.
    words = vector(_I16, 16)
    pairs = [
        call(builder, "llvm.x86.avx2.pmadd.ub.sw", words, nibbles, factors)
        for nibbles, factors in ((low, first), (high, second))
    ]
    return _dot_words(builder, total, builder.add(*pairs), _every(words, 1))


def _dot_nibbles_signed(
    builder: Any, total: Any, low: Any, high: Any, first: Any, second: Any
) -> Any:
    for nibbles, factors in ((low, first), (high, second)):
        for half in (range(16), range(16, 32)):
            numbers = ir.Constant(vector(_I32, 16), list(half))
            parts = [builder.shuffle_vector(one, one, numbers) for one in (nibbles, factors)]
            total = _dot_signed(builder, total, *parts)
    return total


_INSTRUCTIONS = {
    "vnni": _Instructions(64, 16, _biased, _as_it_is, _dot_bytes, 64, _dot_nibbles),
    "avx2": _Instructions(16, 8, _widened, _widened, _dot_words, 32, _dot_nibble_words),
    "dotprod": _Instructions(16, 4, _as_it_is, _as_it_is, _dot_signed, 32, _dot_nibbles_signed),
}


def _sums_over(
    builder: Any,
    name: str,
    length: Any,
    step: int,
    kind: Any,
    count: int,
    body: Callable[[Any, Sequence[Any]], Sequence[Any]],
) -> Sequence[Any]:
    """Emit a loop with index 0, step, ... below `length`, and return the final sums.

    `body` gets (index, sums so far) and returns the new sums.
    """
    zero = _every(kind, 0)
    before = builder.block
    loop = builder.append_basic_block(name)
    after = builder.append_basic_block(f"{name}.done")
    empty = builder.icmp_signed("<", length, ir.Constant(_I64, step))
    builder.cbranch(empty, after, loop)
    builder.position_at_end(loop)
    index = builder.phi(_I64)
    totals = [builder.phi(kind) for _ in range(count)]
    added = body(index, totals)
    following = builder.add(index, ir.Constant(_I64, step))
    index.add_incoming(ir.Constant(_I64, 0), before)
    index.add_incoming(following, loop)
    for total, result in zip(totals, added, strict=True):
        total.add_incoming(zero, before)
        total.add_incoming(result, loop)
    builder.cbranch(builder.icmp_signed("<", following, length), loop, after)
    builder.position_at_end(after)
    sums = []
    for result in added:
        sums.append(builder.phi(kind))
        sums[-1].add_incoming(zero, before)
        sums[-1].add_incoming(result, loop)
    return sums


@intrinsic
def products(typingctx: Any, codes: Any, row: Any, a: Any, a_row: Any, b: Any, b_row: Any) -> Any:
    """Return ((codes[row] + BIAS) . a[a_row], (codes[row] + BIAS) . b[b_row]) as int32.

    Args:
        codes: int8 [n, dim], dim a multiple of LANES.
        row: the row of `codes`.
        a, b: int8 [m, dim] with the rows a_row and b_row.
    """
    pair = types.UniTuple(types.int32, 2)
    return pair(codes, types.int64, a, types.int64, b, types.int64), _products_of(1)


@intrinsic
def products_of_two(
    typingctx: Any, codes: Any, row: Any, a: Any, a_row: Any, b: Any, b_row: Any
) -> Any:
    """Return the `products` of codes[row], then those of codes[row + 1]; a and b are read once."""
    four = types.UniTuple(types.int32, 4)
    return four(codes, types.int64, a, types.int64, b, types.int64), _products_of(2)


def _products_of(count: int) -> Any:
    """Return the function that emits the products of `count` adjacent rows."""
    isa = _INSTRUCTIONS[PATH]

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def start(at: int) -> Any:
            array = context.make_array(sig.args[at])(context, builder, args[at])
            dimension = cgutils.unpack_tuple(builder, array.shape)[1]
            return builder.gep(array.data, [builder.mul(args[at + 1], dimension)]), dimension

        first, dimension = start(0)
        rows = [first]
        while len(rows) < count:
            rows.append(builder.gep(rows[-1], [dimension]))
        multiplied = [start(at)[0] for at in (2, 4)]
        kind = vector(_I32, isa.sums)

        def body(index: Any, totals: Sequence[Any]) -> Sequence[Any]:
            factors = [
                isa.factor(builder, _load(builder, at, index, isa.lanes)) for at in multiplied
            ]
            added: list[Any] = []
            for row in rows:
                code = isa.code(builder, _load(builder, row, index, isa.lanes))
                for factor in factors:
                    added.append(isa.add(builder, totals[len(added)], code, factor))
            return added

        sums = _sums_over(builder, "products", dimension, isa.lanes, kind, 2 * count, body)
        name = f"llvm.vector.reduce.add.v{isa.sums}i32"
        out = [call(builder, name, _I32, total) for total in sums]
        return context.make_tuple(builder, sig.return_type, out)

    return codegen


@intrinsic
def products_int4(
    typingctx: Any, codes: Any, row: Any, last: Any, factors: Any, out: Any, at: Any
) -> Any:
    """Compute the products of int4 codes with `factors`, for TOGETHER rows from `row` on.

    out[at + i] is the product of row min(row + i, last). Byte 32 b + j of a row holds component 64
    b + j in its low nibble, 64 b + 32 + j in its high one.

    Args:
        codes: uint8 [n, dim / 2], dim a multiple of NIBBLES.
        row, last: int64.
        factors: int8 [dim].
        out: int32.
        at: int64.
    """
    signature = types.void(codes, types.int64, types.int64, factors, out, types.int64)
    isa = _INSTRUCTIONS[PATH]

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        arrays = [context.make_array(sig.args[i])(context, builder, args[i]) for i in (0, 3, 4)]
        width = cgutils.unpack_tuple(builder, arrays[0].shape)[1]
        rows = []
        for i in range(TOGETHER):
            number = builder.add(args[1], ir.Constant(_I64, i))
            number = builder.select(builder.icmp_signed("<", number, args[2]), number, args[2])
            rows.append(builder.gep(arrays[0].data, [builder.mul(number, width)]))
        words = vector(_I16, isa.bytes_ // 2)
        nibble = _every(vector(_I8, isa.bytes_), 15)

        def body(index: Any, totals: Sequence[Any]) -> Sequence[Any]:
            low_factors, high_factors = _by_nibbles(builder, arrays[1].data, index, isa.bytes_)
            _fetch_ahead(builder, rows[0], index, isa.bytes_)
            added: list[Any] = []
            for row, total in zip(rows, totals, strict=True):
                both = _load(builder, row, index, isa.bytes_)
                shifted = builder.lshr(builder.bitcast(both, words), _every(words, 4))
                low = builder.and_(both, nibble)
                high = builder.and_(builder.bitcast(shifted, both.type), nibble)
                added.append(isa.add_nibbles(builder, total, low, high, low_factors, high_factors))
            return added

        kind = vector(_I32, isa.sums)
        sums = _sums_over(builder, "nibbles", width, isa.bytes_, kind, TOGETHER, body)
        whole = _added_up(builder, sums)
        there = builder.gep(arrays[2].data, [args[5]])
        builder.store(whole, builder.bitcast(there, whole.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature, codegen


def _by_nibbles(builder: Any, factors: Any, index: Any, size: int) -> tuple[Any, Any]:
    """Emit loads of the factors for the nibbles of bytes [index, index + size): (low, high)."""
    start = builder.shl(index, ir.Constant(_I64, 1))
    parts = [
        _load(builder, factors, builder.add(start, ir.Constant(_I64, offset)), 32)
        for offset in range(0, 2 * size, 32)
    ]
    low, high = parts[::2], parts[1::2]
    if size == 32:
        return low[0], high[0]
    joined = ir.Constant(vector(_I32, 64), list(range(64)))
    return builder.shuffle_vector(*low, joined), builder.shuffle_vector(*high, joined)


def _fetch_ahead(builder: Any, row: Any, index: Any, size: int) -> None:
    """Emit prefetches of rows that are read later: of as many bytes as one step reads."""
    ahead = builder.add(builder.mul(index, ir.Constant(_I64, TOGETHER)), ir.Constant(_I64, _AHEAD))
    for line in range(0, TOGETHER * size, CACHE_LINE):
        _prefetch(builder, builder.gep(row, [builder.add(ahead, ir.Constant(_I64, line))]))


_AHEAD = 8192


def _added_up(builder: Any, sums: Sequence[Any]) -> Any:
    """Emit, as <4 x i32>, the sum of the lanes of each of four vectors."""

    def lanes(one: Any, other: Any, numbers: Sequence[int]) -> Any:
        chosen = ir.Constant(vector(_I32, len(numbers)), list(numbers))
        return builder.shuffle_vector(one, other, chosen)

    def folded(one: Any) -> Any:
        while (count := one.type.count) > 4:
            halves = (range(count // 2), range(count // 2, count))
            one = builder.add(*(lanes(one, one, half) for half in halves))
        return one

    def in_pairs(one: Any, other: Any) -> Any:
        return builder.add(lanes(one, other, (0, 2, 4, 6)), lanes(one, other, (1, 3, 5, 7)))

    a, b, c, d = map(folded, sums)
    return in_pairs(in_pairs(a, b), in_pairs(c, d))


@intrinsic
def prefetch(typingctx: Any, array: Any, row: Any) -> Any:
    """Prefetch array[row] of a two-dimensional array into the cache; any row number is safe."""
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


def _prefetch(builder: Any, where: Any) -> None:
    """Emit a prefetch of the cache line at a pointer, for reading."""
    kind = ir.FunctionType(ir.VoidType(), [where.type, _I32, _I32, _I32])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(fetch, [where, *(ir.Constant(_I32, value) for value in (0, 3, 1))])
