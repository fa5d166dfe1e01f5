"""Inner loops of decoding attention for CPUs with AVX-512 VNNI, as compiler intrinsics for Numba.

VPDPBUSD multiplies unsigned by signed bytes and adds groups of four products to int32 lanes. It wants its operands in
an order that neither the cache nor a plain loop has, so rows are rearranged in registers:

- `dots`: 16 keys are turned into 16 vectors of (16 keys x 4 channels), and each meets four channels of the query.
  Keys are made unsigned by adding 128 (flipping the top bit), which the start value -128 * sum(query) takes back.
- `mix`: 4 values are interleaved into 4 vectors of (16 channels x 4 keys), and each meets four coefficients.

All heads that share keys and values (1 to 3) are handled in one sweep. Sums are those of `fusedattention`: at most
8192 * 127 * 127 < 2**31. Arguments are addresses, because Numba has no vector types.
"""

import functools
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

WIDTH = 64
"""The head width that these loops are written for."""

KEY_STEP = 16
"""`dots` reads and writes whole multiples of this many keys."""

_PREFETCH = 2048
"""Bytes that keys are asked for ahead. Values are asked for while the keys are read: they come next."""

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
VECTOR = ir.VectorType(_I32, 16)
"""16 lanes of int32."""

_BYTES = ir.VectorType(_I8, 64)
_WORDS = ir.VectorType(ir.IntType(16), 32)


llvmlite.binding.initialize_native_asmparser()


@functools.cache
def available() -> bool:
    """Whether this CPU has the instructions, and Numba compiles for this CPU and no other.

    Asked once: to list the features takes longer than the attention of a short row.
    """
    pinned = ("CPU_NAME", "CPU_FEATURES", "DISABLE_JIT")
    if any(getattr(numba.config, name, None) for name in pinned):
        return False
    try:
        features = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:
        return False
    return all(features.get(name, False) for name in ("avx512f", "avx512bw", "avx512vnni"))


def load(builder: Any, address: Any, kind: Any) -> Any:
    """Read a value of a kind at an address, aligned or not."""
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1)


def splat(builder: Any, value: Any) -> Any:
    """A VECTOR of one int32."""
    first = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(VECTOR, [0] * 16))


def _shuffle(builder: Any, a: Any, b: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(order)), order))


def multiply_add(builder: Any, total: Any, unsigned: Any, signed: Any) -> Any:
    """VPDPBUSD total += unsigned bytes * signed bytes."""
    kind = ir.FunctionType(VECTOR, [VECTOR, VECTOR, VECTOR])
    return builder.asm(kind, "vpdpbusd $3, $2, $0", "=v,0,v,v", [total, unsigned, signed], side_effect=False)


def _prefetch(builder: Any, address: Any) -> None:
    """Ask for a cache line early. Any address is allowed, also beyond the array."""
    kind = ir.FunctionType(ir.VoidType(), [_I64])
    builder.asm(kind, "prefetcht0 ($0)", "r", [address], side_effect=True)


def _transpose(builder: Any, rows: list[Any]) -> list[Any]:
    """16 vectors of 16 lanes, mirrored at the diagonal, by exchanging ever larger squares."""
    for distance in (1, 2, 4, 8):
        upper = [lane if not lane & distance else 16 + lane - distance for lane in range(16)]
        lower = [lane + distance if not lane & distance else 16 + lane for lane in range(16)]
        for i in (i for i in range(16) if not i & distance):
            a, b = rows[i], rows[i + distance]
            rows[i], rows[i + distance] = _shuffle(builder, a, b, upper), _shuffle(builder, a, b, lower)
    return rows


def _interleave(builder: Any, rows: list[Any]) -> list[Any]:
    """4 vectors of 64 bytes to 4 vectors of 16 groups of 4: group e of vector m is channel 16 (e / 4) + 4 m + e % 4."""

    def unpack(a: Any, b: Any, lane: int, high: int) -> Any:
        count = 4 * lane
        order = [
            side * count + base + high * lane // 2 + i
            for base in range(0, count, lane)
            for i in range(lane // 2)
            for side in (0, 1)
        ]
        return _shuffle(builder, a, b, order)

    out = []
    for high in (0, 1):
        pairs = [unpack(a, b, 16, high) for a, b in ((rows[0], rows[1]), (rows[2], rows[3]))]
        first, second = (builder.bitcast(pair, _WORDS) for pair in pairs)
        out += [builder.bitcast(unpack(first, second, 8, half), VECTOR) for half in (0, 1)]
    return out


def _make_dots(group: int) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        query, bias, keys, values, count, out, stride = args
        offset = ir.Constant(VECTOR, [-0x7F7F7F80] * 16)
        with cgutils.for_range_slice(builder, _I64(0), count, _I64(KEY_STEP), intp=_I64) as (key, _):
            base = builder.add(keys, builder.mul(key, _I64(WIDTH)))
            ahead = builder.add(values, builder.mul(key, _I64(WIDTH)))
            for i in range(KEY_STEP):
                _prefetch(builder, builder.add(base, _I64(_PREFETCH + WIDTH * i)))
                _prefetch(builder, builder.add(ahead, _I64(WIDTH * i)))
            rows = [load(builder, builder.add(base, _I64(WIDTH * i)), VECTOR) for i in range(KEY_STEP)]
            columns = [builder.xor(column, offset) for column in _transpose(builder, rows)]
            for head in range(group):
                total = splat(builder, load(builder, builder.add(bias, _I64(4 * head)), _I32))
                for four, column in enumerate(columns):
                    at = builder.add(query, _I64(WIDTH * head + 4 * four))
                    total = multiply_add(builder, total, column, splat(builder, load(builder, at, _I32)))
                row = builder.add(out, builder.mul(_I64(4 * head), stride))
                place = builder.add(row, builder.mul(key, _I64(4)))
                builder.store(total, builder.inttoptr(place, VECTOR.as_pointer()), align=1)
        return context.get_dummy_value()

    return _intrinsic(f"dots{group}", emit)


def _make_mix(group: int) -> Callable[..., Any]:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        coefficients, stride, values, count, out = args
        totals = [[cgutils.alloca_once(builder, VECTOR) for _ in range(4)] for _ in range(2 * group)]  # type: ignore[no-untyped-call]
        for total in (total for plane in totals for total in plane):
            builder.store(ir.Constant(VECTOR, [0] * 16), total)
        with cgutils.for_range_slice(builder, _I64(0), count, _I64(4), intp=_I64) as (key, _):
            base = builder.add(values, builder.mul(key, _I64(WIDTH)))
            rows = [load(builder, builder.add(base, _I64(WIDTH * i)), _BYTES) for i in range(4)]
            vectors = _interleave(builder, rows)
            for plane in range(2 * group):
                at = builder.add(builder.add(coefficients, builder.mul(_I64(plane), stride)), key)
                four = splat(builder, load(builder, at, _I32))
                for total, vector in zip(totals[plane], vectors, strict=True):
                    builder.store(multiply_add(builder, builder.load(total), four, vector), total)
        for i, total in enumerate(total for plane in totals for total in plane):
            place = builder.inttoptr(builder.add(out, _I64(64 * i)), VECTOR.as_pointer())
            builder.store(builder.load(total), place, align=1)
        return context.get_dummy_value()

    return _intrinsic(f"mix{group}", emit)


def _intrinsic(name: str, emit: Callable[..., Any]) -> Callable[..., Any]:
    if name.startswith("dots"):

        def declare(typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any) -> Any:
            return types.none(*[types.int64] * 7), emit
    else:

        def declare(typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:  # type: ignore[misc]
            return types.none(*[types.int64] * 5), emit

    declare.__name__ = name
    return intrinsic(declare)


dots1, dots2, dots3 = (_make_dots(group) for group in (1, 2, 3))
mix1, mix2, mix3 = (_make_mix(group) for group in (1, 2, 3))
