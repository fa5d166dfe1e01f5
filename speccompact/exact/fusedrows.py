"""Attention row by row, for the fused CPU kernels: each row reads the cache from front to back.

Two ways to the same integers: through AVX-512 VNNI where the CPU has it and heads are as wide as the loops in `vnni`
expect, with a packed cache; and in plain Numba everywhere else. A cache is written and read in the same way.
"""

import numpy as np

from speccompact.exact import fixedpoint, vectors, vnni, vnnisoftmax
from speccompact.exact.fusedscalar import Array, Integer, bit_length, jit, largest_of
from speccompact.exact.fusedsoftmax import COEFFICIENT_MAX, divisor, weigh

_dots1, _dots2, _dots3 = vnni.dots1, vnni.dots2, vnni.dots3
_mix1, _mix2, _mix3 = vnni.mix1, vnni.mix2, vnni.mix3
_scale, _weigh, _split = vnnisoftmax.scale, vnnisoftmax.weigh, vnnisoftmax.split
_WIDTH, _KEY_STEP = vnni.WIDTH, vnni.KEY_STEP
_MIX_BITS = fixedpoint.MIX_BITS

_KEY_BLOCK = 1024
"""Keys whose products int32 can sum: 1024 * 16383 * 127 < 2**31."""


def packed(width: int) -> bool:
    """Whether a cache of heads of this width is packed here."""
    return vectors.available() and width == _WIDTH


def attend_rows(
    query: Array, factor: Array, exp2: Array, place: Array, position: Array,
    keys: Array, values: Array, key_scales: Array, value_scales: Array, out: Array,
) -> None:  # fmt: skip
    """Attention of rows whose keys and values are in the cache.

    Args:
        query: (rows, heads, width) int8.
        factor: (rows, heads) int32.
        place, position: (rows,) int64.
        keys, values: (places, kv_heads, capacity, width) int8; capacity is a multiple of `cache.CAPACITY_STEP`.
        key_scales, value_scales: (places, kv_heads, capacity) int32.

    Modifies:
        out: (rows, heads * width) int32 is filled.
    """
    kernel = _attend_vnni if packed(query.shape[2]) else _attend_plain
    kernel(query, factor, exp2, place, position, keys, values, key_scales, value_scales, out)


@jit
def _attend_vnni(
    query: Array, factor: Array, exp2: Array, place: Array, position: Array,
    keys: Array, values: Array, key_scales: Array, value_scales: Array, out: Array,
) -> None:  # fmt: skip
    heads, capacity = query.shape[1], keys.shape[2]
    repeat = heads // keys.shape[1]
    group = 3 if repeat % 3 == 0 else 2 if repeat % 2 == 0 else 1
    score = np.empty((group, capacity), np.int32)
    planes = np.empty((2 * group, capacity), np.int8)
    bias, sums = np.empty(group, np.int32), np.empty((group, 2, _WIDTH), np.int32)
    tops, totals = np.empty(16, np.int32), np.empty((2, 8), np.int64)
    total, shift = np.empty(group, np.int64), np.empty(group, np.int64)
    for first in range(0, heads, group):  # all rows of a head, so that keys and values of a slot are read from near
        kv = first // repeat
        for r in range(query.shape[0]):
            at, seen = place[r], position[r] + 1
            count = (seen + _KEY_STEP - 1) // _KEY_STEP * _KEY_STEP
            for h in range(group):
                own = np.int32(0)
                for c in range(_WIDTH):
                    own += query[r, first + h, c]
                bias[h] = -128 * own
            # Only views are passed by address: they stay alive until the arrays that they belong to go.
            queries, key, value = query[r, first].ctypes.data, keys[at, kv].ctypes.data, values[at, kv].ctypes.data
            key_scale, value_scale = key_scales[at, kv].ctypes.data, value_scales[at, kv].ctypes.data
            if group == 3:
                _dots3(queries, bias.ctypes.data, key, count, score.ctypes.data, capacity)
            elif group == 2:
                _dots2(queries, bias.ctypes.data, key, count, score.ctypes.data, capacity)
            else:
                _dots1(queries, bias.ctypes.data, key, count, score.ctypes.data, capacity)
            for h in range(group):
                weights = score[h].ctypes.data
                _scale(weights, count, seen, factor[r, first + h], key_scale, tops.ctypes.data)
                _weigh(weights, count, largest_of(tops), exp2.ctypes.data, value_scale, totals.ctypes.data)
                total[h], bits = np.int64(0), np.int64(0)
                for i in range(totals.shape[1]):
                    total[h] += totals[0, i]
                    bits |= totals[1, i]
                shift[h] = bit_length(bits) - _MIX_BITS
                high, low = planes[2 * h].ctypes.data, planes[2 * h + 1].ctypes.data
                _split(weights, count, value_scale, shift[h], high, low)
            if group == 3:
                _mix3(planes.ctypes.data, capacity, value, count, sums.ctypes.data)
            elif group == 2:
                _mix2(planes.ctypes.data, capacity, value, count, sums.ctypes.data)
            else:
                _mix1(planes.ctypes.data, capacity, value, count, sums.ctypes.data)
            for h in range(group):
                base = (first + h) * _WIDTH
                reciprocal, final = divisor(total[h], shift[h])
                half = np.int64(1) << (final - 1)
                for c in range(_WIDTH):
                    product = (np.int64(sums[h, 0, c]) << 7) + sums[h, 1, c]
                    out[r, base + c] = (product * reciprocal + half) >> final


@jit
def _attend_plain(
    query: Array, factor: Array, exp2: Array, place: Array, position: Array,
    keys: Array, values: Array, key_scales: Array, value_scales: Array, out: Array,
) -> None:  # fmt: skip
    heads, width = query.shape[1], query.shape[2]
    repeat = heads // keys.shape[1]
    score = np.empty(keys.shape[2], np.int32)
    wide = np.empty(width, np.int16)
    sums = np.empty(width, np.int64)
    for r in range(query.shape[0]):
        at, seen = place[r], position[r] + 1
        weights = score[:seen]
        for h in range(heads):
            kv = h // repeat
            wide[:] = query[r, h]
            _dots(wide, keys[at, kv, :seen], weights)
            value_scale = value_scales[at, kv]
            total, shift = weigh(weights, factor[r, h], key_scales[at, kv], value_scale, exp2)
            sums[:] = 0
            for start in range(0, seen, _KEY_BLOCK):
                stop = min(start + _KEY_BLOCK, seen)
                _mix(weights[start:stop], value_scale[start:stop], shift, values[at, kv, start:stop], sums)
            reciprocal, final = divisor(total, shift)
            half = np.int64(1) << (final - 1)
            for c in range(width):
                out[r, h * width + c] = (sums[c] * reciprocal + half) >> final


@jit
def _dots(query: Array, key: Array, score: Array) -> None:
    for j in range(key.shape[0]):
        dot = np.int32(0)
        for c in range(query.shape[0]):
            dot = np.int32(dot + np.int32(np.int32(query[c]) * np.int32(key[j, c])))
        score[j] = dot


@jit
def _mix(weight: Array, value_scale: Array, shift: Integer, value: Array, sums: Array) -> None:
    """Add coefficient * value of at most _KEY_BLOCK keys to sums."""
    half, most = np.int64(1) << (shift - 1), np.int64(COEFFICIENT_MAX)
    part = np.zeros(value.shape[1], np.int32)
    for j in range(weight.shape[0]):
        coefficient = np.int32(min((np.int64(weight[j]) * np.int64(value_scale[j]) + half) >> shift, most))
        for c in range(part.shape[0]):
            part[c] = np.int32(part[c] + np.int32(coefficient * np.int32(value[j, c])))
    for c in range(part.shape[0]):
        sums[c] += part[c]
