"""Inner loop of the block drafter for CPUs with AVX-512 VNNI, as compiler intrinsics for Numba.

`tile1` and `tile8` multiply a few rows with 16 outputs of a weight: VPDPBUSD takes four inputs of 16 outputs at once,
against four inputs of a row, broadcast. Inputs of rows are unsigned, 128 above what they mean; the caller takes that
out again. Sums fit int32: at most 2**16 inputs of magnitude 255 * 127. Arguments are addresses, because Numba has no
vector types.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LANES = 16
"""Outputs of a tile."""

GROUP = 4
"""Inputs that one instruction takes of each output."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_I32, LANES)


def _load(builder: Any, address: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def _broadcast(builder: Any, value: Any) -> Any:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(_VECTOR, [0] * LANES))


def _make_tile(rows: int) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        inputs, stride, weight, groups, out = args
        totals = [cgutils.alloca_once(builder, _VECTOR) for _ in range(rows)]  # type: ignore[no-untyped-call]
        for total in totals:
            builder.store(ir.Constant(_VECTOR, [0] * LANES), total)
        kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, _VECTOR])
        with cgutils.for_range_slice(builder, _I64(0), groups, _I64(1), intp=_I64) as (group, _):
            signed = _load(builder, builder.add(weight, builder.mul(group, _I64(GROUP * LANES))), _VECTOR)
            at = builder.add(inputs, builder.mul(group, _I64(GROUP)))
            for row, total in enumerate(totals):
                four = _load(builder, builder.add(at, builder.mul(stride, _I64(row))), _I32)
                operands = [builder.load(total), _broadcast(builder, four), signed]
                summed = builder.asm(kind, "vpdpbusd $3, $2, $0", "=v,0,v,v", operands, side_effect=False)
                builder.store(summed, total)
        for row, total in enumerate(totals):
            place = builder.inttoptr(builder.add(out, _I64(4 * LANES * row)), _VECTOR.as_pointer())
            builder.store(builder.load(total), place, align=1)
        return context.get_dummy_value()

    def declare(typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        return types.none(*[types.int64] * 5), emit

    declare.__name__ = f"tile{rows}"
    return intrinsic(declare)


tile1, tile8 = _make_tile(1), _make_tile(8)
