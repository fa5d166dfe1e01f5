"""Inner loop of the block drafter for CPUs with AVX-512 VNNI, as compiler intrinsics for Numba.

`tile1` and `tile8` multiply a few rows with 16 outputs of a weight: VPDPBUSD takes four inputs of 16 outputs at once,
against four inputs of a row, broadcast. Inputs of rows are unsigned, 128 above what they mean; the caller takes that
out again. Sums fit int32: at most 2**16 inputs of magnitude 255 * 127, which `blockfile.wrong_size` sees to. Arguments
are addresses, because Numba has no vector types.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from speccompact.exact.vectors import VECTOR, load, multiply_add, splat

LANES = 16
"""Outputs of a tile."""

GROUP = 4
"""Inputs that one instruction takes of each output."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _make_tile(rows: int) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        inputs, stride, weight, groups, out = args
        totals = [cgutils.alloca_once(builder, VECTOR) for _ in range(rows)]  # type: ignore[no-untyped-call]
        for total in totals:
            builder.store(ir.Constant(VECTOR, [0] * LANES), total)
        with cgutils.for_range_slice(builder, _I64(0), groups, _I64(1), intp=_I64) as (group, _):
            signed = load(builder, builder.add(weight, builder.mul(group, _I64(GROUP * LANES))), VECTOR)
            at = builder.add(inputs, builder.mul(group, _I64(GROUP)))
            for row, total in enumerate(totals):
                four = load(builder, builder.add(at, builder.mul(stride, _I64(row))), _I32)
                builder.store(multiply_add(builder, builder.load(total), splat(builder, four), signed), total)
        for row, total in enumerate(totals):
            place = builder.inttoptr(builder.add(out, _I64(4 * LANES * row)), VECTOR.as_pointer())
            builder.store(builder.load(total), place, align=1)
        return context.get_dummy_value()

    def declare(typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return types.none(*[types.int64] * 5), emit

    declare.__name__ = f"tile{rows}"
    return intrinsic(declare)


tile1, tile8 = _make_tile(1), _make_tile(8)
