"""Operations on many scores or postings at once, by vector instructions.

LLVM does not find these instructions in numba's loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from viking_kernels.simd import call, intrinsic, vector

GROUP = 64
"""Scores that are compared at a time."""

POSTINGS = 16
"""Postings whose gains are computed at a time."""

TERMS = 32
"""Lanes of a sum of products of vectors."""

_BIT, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (1, 16, 32, 64))
_F32, _F64 = ir.FloatType(), ir.DoubleType()


def _splat(builder: Any, value: Any, lanes: int) -> Any:
    """Emit a vector with the same value in all lanes."""
    one = ir.Constant(vector(value.type, lanes), ir.Undefined)
    one = builder.insert_element(one, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(vector(_I32, lanes), [0] * lanes))


@intrinsic
def which_above(typingctx: Any, scores: Any, first: Any, limit: Any) -> Any:
    """Return a bit mask: bit i is 1 if scores[first + i] > limit, for i < GROUP.

    All GROUP scores must be within the array.
    """
    signature = types.int64(scores, types.int64, types.float32)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        kind = vector(_F32, GROUP)
        start = builder.bitcast(builder.gep(data, [args[1]]), kind.as_pointer())
        limits = _splat(builder, args[2], GROUP)
        higher = builder.fcmp_ordered(">", builder.load(start, align=4), limits)
        return builder.bitcast(higher, _I64)

    return signature, codegen


@intrinsic
def trailing_zeros(typingctx: Any, mask: Any) -> Any:
    """Return the index of the lowest bit that is 1; 64 for a mask of 0."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return call(builder, "llvm.cttz.i64", _I64, args[0], ir.Constant(_BIT, 0))

    return types.int64(types.int64), codegen


@intrinsic
def gains(
    typingctx: Any, text: Any, tf: Any, length: Any, at: Any, count: Any, factors: Any, out: Any
) -> Any:
    """Compute the BM25 gains of `count` postings from `at` on.

    out[i] = weight * tf / (tf + level + slope * length) of posting at + i. All callers share one
    function that is not inlined. So equal postings have equal gains to the last bit, however many
    are computed at a time.

    Args:
        text: int32, rows of texts.
        tf: uint16.
        length: int32, by text.
        at, count: int64; 0 <= count <= POSTINGS.
        factors: (weight, level, slope), float32.
        out: float32 [POSTINGS]; entries from `count` on are undefined.
    """
    three = types.UniTuple(types.float32, 3)
    signature = types.void(text, tf, length, types.int64, types.int64, three, out)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        arrays = [context.make_array(sig.args[i])(context, builder, args[i]) for i in (0, 1, 2, 6)]
        rows, often, lengths, told = (array.data for array in arrays)
        operands = [
            builder.gep(rows, [args[3]]),
            builder.gep(often, [args[3]]),
            lengths,
            args[4],
            *cgutils.unpack_tuple(builder, args[5]),
            told,
        ]
        kind = ir.FunctionType(ir.VoidType(), [operand.type for operand in operands])
        function = cgutils.get_or_insert_function(builder.module, kind, "viking_gains")
        if function.is_declaration:
            function.linkage = "linkonce_odr"
            function.attributes.add("noinline")
            _write_gains(function)
        builder.call(function, operands)
        return context.get_dummy_value()

    return signature, codegen


def _write_gains(function: Any) -> None:
    """Emit the body of the function that `gains` calls; it computes POSTINGS gains at a time."""
    builder = ir.IRBuilder(function.append_basic_block())
    rows, often, lengths, count, weight, level, slope, out = function.args
    whole, real = vector(_I32, POSTINGS), vector(_F32, POSTINGS)
    number = ir.Constant(vector(_I64, POSTINGS), list(range(POSTINGS)))
    there = builder.icmp_signed("<", number, _splat(builder, count, POSTINGS))

    def load(start: Any, kind: Any, size: int) -> Any:
        name = f"llvm.masked.load.v{POSTINGS}i{8 * size}.p0"
        start = builder.bitcast(start, kind.as_pointer())
        nothing = ir.Constant(kind, [0] * POSTINGS)
        return call(builder, name, kind, start, ir.Constant(_I32, size), there, nothing)

    step = ir.Constant(number.type, [4] * POSTINGS)
    offsets = builder.mul(builder.sext(load(rows, whole, 4), number.type), step)
    start = _splat(builder, builder.ptrtoint(lengths, _I64), POSTINGS)
    places = builder.inttoptr(builder.add(start, offsets), vector(_I32.as_pointer(), POSTINGS))
    name = f"llvm.masked.gather.v{POSTINGS}i32.v{POSTINGS}p0"
    nothing = ir.Constant(whole, [0] * POSTINGS)
    long = call(builder, name, whole, places, ir.Constant(_I32, 4), there, nothing)
    tf = builder.uitofp(load(often, vector(_I16, POSTINGS), 2), real)
    weights, levels, slopes = (_splat(builder, one, POSTINGS) for one in (weight, level, slope))
    norm = builder.fadd(levels, builder.fmul(slopes, builder.sitofp(long, real)))
    gain = builder.fdiv(builder.fmul(weights, tf), builder.fadd(tf, norm))
    builder.store(gain, builder.bitcast(out, real.as_pointer()), align=4)
    builder.ret_void()


@intrinsic
def centred_products(typingctx: Any, x: Any, centre: Any, direction: Any) -> Any:
    """Return ((x - centre) . direction, |x - centre|^2) of float32 [dim] as float32."""
    pair = types.UniTuple(types.float32, 2)

    def terms(builder: Any, values: Sequence[Any]) -> Sequence[Any]:
        rest = builder.fsub(values[0], values[1])
        return builder.fmul(rest, values[2]), builder.fmul(rest, rest)

    return pair(x, centre, direction), _sums_of("viking_centred_products", _F32, 2, terms)


@intrinsic
def product(typingctx: Any, x: Any, y: Any) -> Any:
    """Return x . y of float32 [dim] as float64."""

    def terms(builder: Any, values: Sequence[Any]) -> Sequence[Any]:
        return [builder.fmul(*(builder.fpext(value, vector(_F64, TERMS)) for value in values))]

    return types.float64(x, y), _sums_of("viking_product", _F64, 1, terms)


def _sums_of(
    name: str, element: Any, count: int, terms: Callable[[Any, Sequence[Any]], Sequence[Any]]
) -> Any:
    """Return the code generator of a function that sums `terms` over float32 arrays.

    All arrays have the length of the first one. Lane i of a sum is of the elements i, i + TERMS,
    ... in this order; at the end each half of the lanes is added to the other. The sums are the
    same on every processor: LLVM keeps the order of additions and splits the lanes into as many
    registers as they take.
    """

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        arrays = [
            context.make_array(of)(context, builder, value)
            for of, value in zip(sig.args, args, strict=True)
        ]
        length = cgutils.unpack_tuple(builder, arrays[0].shape)[0]
        operands = [length, *(array.data for array in arrays)]
        parameters = [operand.type for operand in operands]
        kind = ir.FunctionType(ir.LiteralStructType([element] * count), parameters)
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        if function.is_declaration:
            function.linkage = "linkonce_odr"
            function.attributes.add("noinline")  # for short compilation
            _write_sums(function, vector(element, TERMS), count, terms)
        made = builder.call(function, operands)
        out = [builder.extract_value(made, i) for i in range(count)]
        return out[0] if count == 1 else context.make_tuple(builder, sig.return_type, out)

    return codegen


def _write_sums(
    function: Any, kind: Any, count: int, terms: Callable[[Any, Sequence[Any]], Sequence[Any]]
) -> None:
    """Emit the body of a function for `_sums_of`; its first argument is the arrays' length."""
    builder = ir.IRBuilder(function.append_basic_block())
    length, *arrays = function.args
    loaded = vector(_F32, TERMS)
    zeros = ir.Constant(kind, [0.0] * TERMS)
    sums = [cgutils.alloca_once_value(builder, zeros) for _ in range(count)]
    rest = [cgutils.alloca_once(builder, loaded) for _ in arrays]

    def add(places: Sequence[Any]) -> None:
        values = [builder.load(place, align=4) for place in places]
        for total, term in zip(sums, terms(builder, values), strict=True):
            builder.store(builder.fadd(builder.load(total), term), total)

    whole = builder.and_(length, ir.Constant(_I64, -TERMS))
    starts = ir.Constant(_I64, 0), whole, ir.Constant(_I64, TERMS)
    with cgutils.for_range_slice(builder, *starts, inc=True) as (index, _):
        places = [builder.gep(array, [index]) for array in arrays]
        add([builder.bitcast(place, loaded.as_pointer()) for place in places])
    left = builder.sub(length, whole)
    with builder.if_then(builder.icmp_signed(">", left, ir.Constant(_I64, 0))):
        size = builder.mul(left, ir.Constant(_I64, 4))
        for array, room in zip(arrays, rest, strict=True):
            builder.store(ir.Constant(loaded, [0.0] * TERMS), room)
            cgutils.raw_memcpy(builder, room, builder.gep(array, [whole]), size, 1)
        add(rest)
    told = ir.Constant(function.function_type.return_type, ir.Undefined)
    for i, total in enumerate(sums):
        told = builder.insert_value(told, _folded(builder, builder.load(total)), i)
    builder.ret(told)


def _folded(builder: Any, lanes: Any) -> Any:
    """Emit the sum of all lanes: one half is added to the other until one lane is left."""
    while (count := lanes.type.count // 2) > 0:
        halves = [
            builder.shuffle_vector(
                lanes, lanes, ir.Constant(vector(_I32, count), list(range(first, first + count)))
            )
            for first in (0, count)
        ]
        lanes = builder.fadd(*halves)
    return builder.extract_element(lanes, ir.Constant(_I32, 0))
