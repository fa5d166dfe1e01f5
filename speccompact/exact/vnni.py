"""Inner loops of attention for CPUs with AVX-512 VNNI, as compiler intrinsics for Numba: products with keys and values.

VPDPBUSD multiplies unsigned by signed bytes and adds groups of four products to int32 lanes. So that its operands are
read as they lie in memory, the cache of such a CPU is packed, by `write_key` and `write_value`:

- keys: blocks of 16 keys are 16 vectors of (16 keys x 4 channels); each meets four channels of a query in `dots`. Keys
  are unsigned, 128 above what they mean, which the start value -128 * sum(query) takes back.
- values: blocks of 4 values are 4 vectors of (16 channels x 4 values); each meets four coefficients in `mix`.

All heads that share keys and values (1 to 3) are handled in one sweep. Sums are those of `fusedattention`: at most
8192 * 127 * 127 < 2**31. Arguments are addresses, because Numba has no vector types.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from speccompact.exact.fusedscalar import Array, Integer, jit
from speccompact.exact.vectors import LANES, VECTOR, intrinsic_of, load, multiply_add, splat, store

WIDTH: Final = 64
"""The head width that these loops are written for."""

KEY_STEP = 32
"""`dots` reads and writes whole multiples of this many keys."""

_BLOCK: Final = LANES * WIDTH
"""Bytes of a block of keys."""

_I32, _I64 = ir.IntType(32), ir.IntType(64)


@jit
def write_key(keys: Array, position: Integer, key: Array) -> None:
    """Put a key into the packed cache.

    Args:
        keys: (capacity, width) int8, one head of one slot.
        position: which key it is.
        key: (width,) integers in [-127, 127].
    """
    packed = keys.reshape(-1)
    base = position // LANES * _BLOCK + position % LANES * 4
    for c in range(WIDTH):
        packed[base + c // 4 * 4 * LANES + c % 4] = np.int8(key[c] ^ -128)


@jit
def write_value(values: Array, position: Integer, value: Array) -> None:
    """Put a value into the packed cache; see `write_key`."""
    packed = values.reshape(-1)
    base = position // 4 * 4 * WIDTH + position % 4
    for c in range(WIDTH):
        packed[base + 4 * c] = value[c]


def _make_dots(group: int) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        query, bias, keys, count, out, stride = args
        with cgutils.for_range_slice(builder, _I64(0), count, _I64(KEY_STEP), intp=_I64) as (key, _):
            base = builder.add(keys, builder.mul(key, _I64(WIDTH)))
            start = [splat(builder, load(builder, builder.add(bias, _I64(4 * head)), _I32)) for head in range(group)]
            totals = [[total] * (KEY_STEP // LANES) for total in start]
            for four in range(WIDTH // 4):
                heads = [
                    splat(builder, load(builder, builder.add(query, _I64(WIDTH * head + 4 * four)), _I32))
                    for head in range(group)
                ]
                for block in range(KEY_STEP // LANES):
                    column = load(builder, builder.add(base, _I64(_BLOCK * block + 4 * LANES * four)), VECTOR)
                    for head, channels in enumerate(heads):
                        totals[head][block] = multiply_add(builder, totals[head][block], column, channels)
            for head, blocks in enumerate(totals):
                row = builder.add(out, builder.mul(_I64(4 * head), stride))
                for block, total in enumerate(blocks):
                    place = builder.add(row, builder.mul(builder.add(key, _I64(LANES * block)), _I64(4)))
                    store(builder, total, place)
        return context.get_dummy_value()

    return intrinsic_of(f"dots{group}", 6, emit)


def _make_mix(group: int) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        coefficients, stride, values, count, out = args
        totals = [[cgutils.alloca_once(builder, VECTOR) for _ in range(4)] for _ in range(2 * group)]  # type: ignore[no-untyped-call]
        for total in (total for plane in totals for total in plane):
            builder.store(ir.Constant(VECTOR, [0] * LANES), total)
        with cgutils.for_range_slice(builder, _I64(0), count, _I64(4), intp=_I64) as (key, _):
            base = builder.add(values, builder.mul(key, _I64(WIDTH)))
            vectors = [load(builder, builder.add(base, _I64(4 * LANES * i)), VECTOR) for i in range(4)]
            for plane in range(2 * group):
                at = builder.add(builder.add(coefficients, builder.mul(_I64(plane), stride)), key)
                four = splat(builder, load(builder, at, _I32))
                for total, vector in zip(totals[plane], vectors, strict=True):
                    builder.store(multiply_add(builder, builder.load(total), four, vector), total)
        for i, total in enumerate(total for plane in totals for total in plane):
            store(builder, builder.load(total), builder.add(out, _I64(4 * LANES * i)))
        return context.get_dummy_value()

    return intrinsic_of(f"mix{group}", 5, emit)


dots1, dots2, dots3 = (_make_dots(group) for group in (1, 2, 3))
mix1, mix2, mix3 = (_make_mix(group) for group in (1, 2, 3))
