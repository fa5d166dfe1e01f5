"""Attention row by row, for the fused CPU kernels: each row reads the cache from front to back.

Two ways to the same integers: through VNNI instructions where the CPU has them and heads are as wide as the loops in
`vnni` expect, and in plain Numba everywhere else.
"""

import numpy as np

from speccompact.exact import vnni
from speccompact.exact.fusedscalar import Array, Integer, jit
from speccompact.exact.fusedsoftmax import COEFFICIENT_MAX, divisor, split_coefficients, weigh

_dots1, _dots2, _dots3 = vnni.dots1, vnni.dots2, vnni.dots3
_mix1, _mix2, _mix3 = vnni.mix1, vnni.mix2, vnni.mix3
_WIDTH, _KEY_STEP = vnni.WIDTH, vnni.KEY_STEP

_KEY_BLOCK = 1024
"""Keys whose products int32 can sum: 1024 * 16383 * 127 < 2**31."""


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
    suits = vnni.available() and query.shape[2] == _WIDTH
    kernel = _attend_vnni if suits else _attend_plain
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
    bias, sums = np.empty(group, np.int32), np.empty((group, 2, 4, 16), np.int32)
    totals, shifts = np.empty(group, np.int64), np.empty(group, np.int64)
    for r in range(query.shape[0]):
        at, seen = place[r], position[r] + 1
        count = (seen + _KEY_STEP - 1) // _KEY_STEP * _KEY_STEP
        for first in range(0, heads, group):
            kv = first // repeat
            key_scale, value_scale = key_scales[at, kv], value_scales[at, kv]
            for h in range(group):
                total = np.int32(0)
                for c in range(_WIDTH):
                    total += query[r, first + h, c]
                bias[h] = -128 * total
            # Only views are passed by address: they stay alive until the arrays that they belong to go.
            queries, key, value = query[r, first].ctypes.data, keys[at, kv].ctypes.data, values[at, kv].ctypes.data
            if group == 3:
                _dots3(queries, bias.ctypes.data, key, value, count, score.ctypes.data, capacity)
            elif group == 2:
                _dots2(queries, bias.ctypes.data, key, value, count, score.ctypes.data, capacity)
            else:
                _dots1(queries, bias.ctypes.data, key, value, count, score.ctypes.data, capacity)
            for h in range(group):
                weights = score[h, :seen]
                totals[h], shifts[h] = weigh(weights, factor[r, first + h], key_scale, value_scale, exp2)
                split_coefficients(weights, value_scale, shifts[h], planes[2 * h, :count], planes[2 * h + 1, :count])
            if group == 3:
                _mix3(planes.ctypes.data, capacity, value, count, sums.ctypes.data)
            elif group == 2:
                _mix2(planes.ctypes.data, capacity, value, count, sums.ctypes.data)
            else:
                _mix1(planes.ctypes.data, capacity, value, count, sums.ctypes.data)
            for h in range(group):
                base = (first + h) * _WIDTH
                reciprocal, final = divisor(totals[h], shifts[h])
                half = np.int64(1) << (final - 1)
                for m in range(4):
                    for e in range(16):
                        product = (np.int64(sums[h, 0, m, e]) << 7) + sums[h, 1, m, e]
                        channel = 16 * (e // 4) + 4 * m + e % 4
                        out[r, base + channel] = (product * reciprocal + half) >> final


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
