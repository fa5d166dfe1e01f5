"""`fusedsoftmax` for CPUs with AVX-512, 16 keys at a time: three sweeps over the keys that one query of a head sees.

Products of 64 bits are made for the even and the odd lanes apart: each pair of lanes is one lane of int64, of which an
instruction multiplies the lower halves. Results are those of `fusedsoftmax`, integer for integer. Arguments are
addresses and integers; all sweeps go over whole vectors, and what they read beyond the visible keys changes nothing.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from speccompact.exact import fixedpoint
from speccompact.exact.vectors import LANES, VECTOR, intrinsic_of, load, splat, store

UNSEEN = -(1 << 31) + 1
"""Score of what is not visible: so far below any other that its weight is 0."""

_COEFFICIENT_MAX = (1 << fixedpoint.MIX_BITS) - 1
_HALF_LANES = LANES // 2
_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_WIDE = ir.VectorType(_I64, _HALF_LANES)
_BYTES = ir.VectorType(_I8, LANES)


def _all(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _halves(builder: Any, vector: Any) -> list[Any]:
    """The even and the odd lanes, as int64."""
    wide = builder.bitcast(vector, _WIDE)
    return [_lower(builder, wide), builder.ashr(wide, _all(_WIDE, 32))]


def _lower(builder: Any, wide: Any) -> Any:
    """The lower 32 bits of each lane, with their sign: what the compiler needs to see for one multiplication."""
    return builder.ashr(builder.shl(wide, _all(_WIDE, 32)), _all(_WIDE, 32))


def _joined(builder: Any, halves: list[Any]) -> Any:
    """Inverse of `_halves` for numbers that fit int32."""
    even = builder.and_(halves[0], _all(_WIDE, (1 << 32) - 1))
    return builder.bitcast(builder.or_(even, builder.shl(halves[1], _all(_WIDE, 32))), VECTOR)


def _least(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _most(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def _state(builder: Any, start: Any) -> Any:
    """A variable that goes on from turn to turn."""
    place = cgutils.alloca_once(builder, start.type)  # type: ignore[no-untyped-call]
    builder.store(start, place)
    return place


def _emit_scale(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    score, count, seen, factor, key_scale, tops = args
    limit = fixedpoint.SCORE_LIMIT
    top = _state(builder, _all(VECTOR, -limit))
    factors = splat(builder, factor, _HALF_LANES)
    seen_lanes = splat(builder, builder.trunc(seen, _I32))
    lanes = ir.Constant(VECTOR, list(range(LANES)))
    with cgutils.for_range_slice(builder, _I64(0), count, _I64(LANES), intp=_I64) as (key, _):
        at = builder.mul(key, _I64(4))
        place = builder.add(score, at)
        dots = _halves(builder, load(builder, place, VECTOR))
        scales = _halves(builder, load(builder, builder.add(key_scale, at), VECTOR))
        scaled = []
        for dot, scale in zip(dots, scales, strict=True):
            product = builder.add(builder.mul(_lower(builder, factors), scale), _all(_WIDE, 1 << 15))
            gain = _least(builder, builder.ashr(product, _all(_WIDE, 16)), _all(_WIDE, fixedpoint.FACTOR_LIMIT))
            product = builder.add(builder.mul(dot, _lower(builder, gain)), _all(_WIDE, 1 << 13))
            low = _most(builder, builder.ashr(product, _all(_WIDE, 14)), _all(_WIDE, -limit))
            scaled.append(_least(builder, low, _all(_WIDE, limit)))
        visible = builder.icmp_signed("<", builder.add(splat(builder, builder.trunc(key, _I32)), lanes), seen_lanes)
        result = builder.select(visible, _joined(builder, scaled), _all(VECTOR, UNSEEN))
        store(builder, result, place)
        builder.store(_most(builder, builder.load(top), result), top)
    store(builder, builder.load(top), tops)
    return context.get_dummy_value()


def _emit_weigh(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    score, count, top, exp2, value_scale, totals = args
    total, bits = (_state(builder, _all(_WIDE, 0)) for _ in range(2))
    tops = splat(builder, builder.trunc(top, _I32))
    mask = _all(VECTOR, (1 << fixedpoint.EXP2_INDEX_BITS) - 1)
    gather = ir.FunctionType(VECTOR, [_I64, VECTOR])
    with cgutils.for_range_slice(builder, _I64(0), count, _I64(LANES), intp=_I64) as (key, _):
        at = builder.mul(key, _I64(4))
        place = builder.add(score, at)
        distance = builder.sub(tops, load(builder, place, VECTOR))
        index = builder.and_(builder.lshr(distance, _all(VECTOR, 4)), mask)
        code = "kxnorw %k1, %k1, %k1\n\tvpgatherdd ($1,$2,4), $0 {%k1}"
        found = builder.asm(gather, code, "=&v,r,v,~{k1},~{memory}", [exp2, index], side_effect=True)
        octaves = builder.lshr(distance, _all(VECTOR, 16))
        weight = builder.lshr(found, _least(builder, octaves, _all(VECTOR, 31)))
        store(builder, weight, place)
        weights = _halves(builder, weight)
        scales = _halves(builder, load(builder, builder.add(value_scale, at), VECTOR))
        for half, scale in zip(weights, scales, strict=True):
            builder.store(builder.add(builder.load(total), half), total)
            builder.store(builder.or_(builder.load(bits), builder.mul(half, scale)), bits)
    store(builder, builder.load(total), totals)
    store(builder, builder.load(bits), builder.add(totals, _I64(8 * _HALF_LANES)))
    return context.get_dummy_value()


def _emit_split(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    weight, count, value_scale, shift, high, low = args
    shifts = splat(builder, shift, _HALF_LANES)
    rounding = splat(builder, builder.shl(_I64(1), builder.sub(shift, _I64(1))), _HALF_LANES)
    with cgutils.for_range_slice(builder, _I64(0), count, _I64(LANES), intp=_I64) as (key, _):
        at = builder.mul(key, _I64(4))
        weights = _halves(builder, load(builder, builder.add(weight, at), VECTOR))
        scales = _halves(builder, load(builder, builder.add(value_scale, at), VECTOR))
        mixed = []
        for half, scale in zip(weights, scales, strict=True):
            mixed.append(builder.ashr(builder.add(builder.mul(half, scale), rounding), shifts))
        coefficient = _least(builder, _joined(builder, mixed), _all(VECTOR, _COEFFICIENT_MAX))
        for plane, value in (
            (high, builder.lshr(coefficient, _all(VECTOR, 7))),
            (low, builder.and_(coefficient, _all(VECTOR, 127))),
        ):
            store(builder, builder.trunc(value, _BYTES), builder.add(plane, key))
    return context.get_dummy_value()


scale = intrinsic_of("scale", 6, _emit_scale)
"""scale(score, count, seen, factor, key_scale, tops): dot products (count,) int32 to scores, in place.

Those from `seen` on become UNSEEN. tops (16,) int32 is written; its largest is the largest score.
"""

weigh = intrinsic_of("weigh", 6, _emit_weigh)
"""weigh(score, count, top, exp2, value_scale, totals): scores to exp2 weights, in place.

totals (2, 8) int64 is written: parts of the sum of the weights, and numbers whose bits together are those of all
weight * value scale, so that they are as long as the largest.
"""

split = intrinsic_of("split", 6, _emit_split)
"""split(weight, count, value_scale, shift, high, low): coefficients in two planes (count,) int8: 128 * high + low."""
