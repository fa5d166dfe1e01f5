"""Attention of the fused CPU kernels.

Two ways to the same integers. Spans of many rows go through int8 matrix products, head by head; spans of few rows, as
in decoding, are read along the cache with vector instructions, because there a matrix product would cost more to call
than to compute.
"""

import numpy as np
import torch
from torch import Tensor

from speccompact.exact import fixedpoint
from speccompact.exact.cache import Cache, Rows, Span
from speccompact.exact.fusedscalar import Array, Integer, bit_length, jit, reciprocal_of, requantise
from speccompact.exact.matmul import int_matmul
from speccompact.exact.weights import Weights

_INT8_MAX = fixedpoint.INT8_MAX
_PROJECTION_LIMIT = fixedpoint.PROJECTION_LIMIT
_SCORE_LIMIT = fixedpoint.SCORE_LIMIT
_LIFT = fixedpoint.FRAC_RESIDUAL - fixedpoint.FRAC_PROJECTION
_COEFFICIENT_MAX = (1 << fixedpoint.MIX_BITS) - 1
_MATRIX_ROWS = 8
"""Rows of a span from which matrix products pay."""

_KEY_BLOCK = 1024
"""Keys whose products int32 can sum: 1024 * 16383 * 127 < 2**31."""


def attend(weights: Weights, acc: Tensor, row: Tensor, layer: int, rows: Rows, cache: Cache) -> Tensor:
    """Attention outputs before quantisation; see `reference.attention`.

    Returns:
        (rows, heads * head_dim) int32, FRAC_RESIDUAL fractional bits.
    """
    linear = weights.layers[layer].qkv
    query = torch.empty(acc.shape[0], weights.heads, weights.head_dim, dtype=torch.int8)
    factor = torch.empty(acc.shape[0], weights.heads, dtype=torch.int32)
    keys, values = cache.keys[layer], cache.values[layer]
    key_scales, value_scales = cache.key_scales[layer], cache.value_scales[layer]
    _project(
        acc.numpy(), linear.channel.numpy(), row.numpy(), linear.shifts[0], linear.shifts[1], weights.rotary.numpy(),
        weights.score_factor, rows.place.numpy(), rows.position.numpy(), query.numpy(), factor.numpy(),
        keys.numpy(), values.numpy(), key_scales.numpy(), value_scales.numpy(),
    )  # fmt: skip
    mixed = torch.empty(acc.shape[0], weights.heads * weights.head_dim, dtype=torch.int32)
    short = np.ones(acc.shape[0], dtype=np.bool_)
    for span, offset in zip(rows.spans, rows.offsets, strict=True):
        if span.count >= _MATRIX_ROWS:
            part = slice(offset, offset + span.count)
            short[part] = False
            cached = (keys[span.place], values[span.place], key_scales[span.place], value_scales[span.place])
            _attend_matrix(query[part], factor[part], weights.exp2, span, cached, mixed[part])
    _attend_vector(
        np.flatnonzero(short), query.numpy(), factor.numpy(), weights.exp2.numpy(), rows.place.numpy(),
        rows.position.numpy(), keys.numpy(), values.numpy(), key_scales.numpy(), value_scales.numpy(), mixed.numpy(),
    )  # fmt: skip
    return mixed


def _attend_matrix(
    query: Tensor, factor: Tensor, exp2: Tensor, span: Span, cached: tuple[Tensor, ...], out: Tensor
) -> None:
    """Attention of one span, all rows at once.

    Args:
        query: (count, heads, width) int8.
        factor: (count, heads) int32.
        cached: keys, values, key scales and value scales of the slot.

    Modifies:
        out: (count, heads * width) int32 is filled.
    """
    keys, values, key_scales, value_scales = cached
    count, heads, width = query.shape
    kv_heads, seen = keys.shape[0], span.start + count
    dots = torch.stack(
        [int_matmul(part.reshape(-1, width), keys[kv, :seen]) for kv, part in enumerate(query.chunk(kv_heads, 1))]
    )
    planes = torch.empty(kv_heads, 2, count * heads // kv_heads, seen, dtype=torch.int8)
    totals, shifts = torch.empty(2, kv_heads, planes.shape[2], dtype=torch.int64).numpy()
    _soften(
        dots.numpy(), factor.numpy(), span.start, exp2.numpy(), key_scales.numpy(), value_scales.numpy(),
        planes.numpy(), totals, shifts,
    )  # fmt: skip
    products = torch.stack(
        [int_matmul(plane.view(-1, seen), values[kv, :, :seen]) for kv, plane in enumerate(planes.unbind())]
    )
    _normalise(products.view(kv_heads, 2, -1, width).numpy(), totals, shifts, out.numpy())


@jit
def _project(
    acc: Array, channel: Array, row: Array, k1: Integer, k2: Integer, rotary: Array, score_factor: Integer,
    place: Array, position: Array, query: Array, factor: Array,
    keys: Array, values: Array, key_scales: Array, value_scales: Array,
) -> None:  # fmt: skip
    """Requantise, turn and quantise queries, keys and values; keys and values go to the cache."""
    heads, width, kv_heads = query.shape[1], query.shape[2], keys.shape[1]
    half_width = width // 2
    half1, half2 = (np.int64(1) << k1) >> 1, (np.int64(1) << k2) >> 1
    for r in range(acc.shape[0]):
        at, pos = place[r], position[r]
        head = np.empty(width, np.int32)
        turned = np.empty(width, np.int32)
        for h in range(heads + 2 * kv_heads):
            base = h * width
            for c in range(width):
                value = requantise(acc[r, base + c], channel[base + c], row[r], k1, half1, k2, half2)
                head[c] = min(max(value, -_PROJECTION_LIMIT), _PROJECTION_LIMIT)
            largest = np.int64(1)
            if h < heads + kv_heads:
                for c in range(half_width):
                    cos, sin = np.int64(rotary[pos, c]), np.int64(rotary[pos, half_width + c])
                    low, high = np.int64(head[c]), np.int64(head[half_width + c])
                    turned[c] = (low * cos - high * sin + (1 << 14)) >> 15
                    turned[half_width + c] = (low * sin + high * cos + (1 << 14)) >> 15
            else:
                turned[:] = head
            for c in range(width):
                largest = max(largest, abs(np.int64(turned[c])))
            reciprocal, exponent = reciprocal_of(largest, _INT8_MAX)
            half = np.int64(1) << (exponent - 1)
            for c in range(width):
                head[c] = (np.int64(turned[c]) * np.int64(np.int32(reciprocal)) + half) >> exponent
            if h < heads:
                query[r, h] = head
                factor[r, h] = (largest * score_factor + (1 << 23)) >> 24
            elif h < heads + kv_heads:
                for c in range(width):
                    keys[at, h - heads, pos, c] = head[c]
                key_scales[at, h - heads, pos] = largest
            else:
                for c in range(width):
                    values[at, h - heads - kv_heads, c, pos] = head[c]
                value_scales[at, h - heads - kv_heads, pos] = largest


@jit
def _attend_vector(
    wanted: Array, query: Array, factor: Array, exp2: Array, place: Array, position: Array,
    keys: Array, values: Array, key_scales: Array, value_scales: Array, out: Array,
) -> None:  # fmt: skip
    """Attention of some rows, one by one; out is (rows, heads * width) int32."""
    heads, width = query.shape[1], query.shape[2]
    repeat = heads // keys.shape[1]
    score = np.empty(keys.shape[2], np.int32)
    coefficient = np.empty(keys.shape[2], np.int16)
    wide = np.empty(width, np.int16)
    for i in range(wanted.shape[0]):
        r = wanted[i]
        at, seen = place[r], position[r] + 1
        for h in range(heads):
            kv = h // repeat
            key_scale, value_scale = key_scales[at, kv], value_scales[at, kv]
            wide[:] = query[r, h]
            _dots(wide, keys[at, kv, :seen], score)
            top = _score(score[:seen], np.int32(factor[r, h]), key_scale)
            total, largest = _weigh(score[:seen], top, exp2, value_scale)
            shift = max(bit_length(largest) - fixedpoint.MIX_BITS, 0)
            _coefficients(score[:seen], value_scale, shift, coefficient)
            reciprocal, final = _divisor(total, shift)
            half = np.int64(1) << (final - 1)
            for c in range(width):
                product = np.int64(0)
                for start in range(0, seen, _KEY_BLOCK):
                    stop = min(start + _KEY_BLOCK, seen)
                    product += _product(coefficient[start:stop], values[at, kv, c, start:stop])
                out[r, h * width + c] = (product * reciprocal + half) >> final


@jit
def _soften(
    dots: Array, factor: Array, first: Integer, exp2: Array, key_scales: Array, value_scales: Array,
    planes: Array, totals: Array, shifts: Array,
) -> None:  # fmt: skip
    """Dot products of a span with all keys to coefficients in two planes, zero beyond a row's own position.

    Rows of a key head are in the order (position, query head of the group).
    """
    kv_heads, rows = dots.shape[0], dots.shape[1]
    repeat = factor.shape[1] // kv_heads
    for kv in range(kv_heads):
        value_scale = value_scales[kv]
        for i in range(rows):
            seen = first + i // repeat + 1
            score = dots[kv, i, :seen]
            top = _score(score, np.int32(factor[i // repeat, kv * repeat + i % repeat]), key_scales[kv])
            total, largest = _weigh(score, top, exp2, value_scale)
            shift = max(bit_length(largest) - fixedpoint.MIX_BITS, 0)
            totals[kv, i], shifts[kv, i] = total, shift
            half = (np.int64(1) << shift) >> 1
            high, low = planes[kv, 0, i], planes[kv, 1, i]
            for j in range(score.shape[0]):
                mixed = (np.int64(score[j]) * np.int64(value_scale[j]) + half) >> shift
                coefficient = np.int32(min(mixed, _COEFFICIENT_MAX))
                high[j] = np.int8(coefficient >> 7)
                low[j] = np.int8(coefficient & 127)
            high[seen:] = 0
            low[seen:] = 0


@jit
def _normalise(products: Array, totals: Array, shifts: Array, out: Array) -> None:
    """Sums of coefficient * value in two planes to means, into (count, heads * width)."""
    kv_heads, _, rows, width = products.shape
    repeat = out.shape[1] // (width * kv_heads)
    for kv in range(kv_heads):
        for i in range(rows):
            base = (kv * repeat + i % repeat) * width
            reciprocal, final = _divisor(totals[kv, i], shifts[kv, i])
            half = np.int64(1) << (final - 1)
            for c in range(width):
                product = (np.int64(products[kv, 0, i, c]) << 7) + products[kv, 1, i, c]
                out[i // repeat, base + c] = (product * reciprocal + half) >> final


@jit
def _divisor(total: Integer, shift: Integer) -> tuple[Integer, Integer]:
    """Reciprocal and final shift that turn a sum of coefficient * value into a weighted mean."""
    divisor = total * _INT8_MAX
    exponent = bit_length(divisor) + 19
    return (np.int64(1) << exponent) // divisor, exponent - shift - _LIFT


@jit
def _dots(query: Array, key: Array, score: Array) -> None:
    for j in range(key.shape[0]):
        dot = np.int32(0)
        for c in range(query.shape[0]):
            dot = np.int32(dot + np.int32(np.int32(query[c]) * np.int32(key[j, c])))
        score[j] = dot


@jit
def _score(score: Array, factor: Integer, key_scale: Array) -> Integer:
    """Dot products to scores in place; returns the largest."""
    top = np.int32(-_SCORE_LIMIT)
    limit, gain_limit = np.int64(_SCORE_LIMIT), np.int64((1 << 31) - 1)
    for j in range(score.shape[0]):
        gain = min((np.int64(factor) * np.int64(key_scale[j]) + (1 << 15)) >> 16, gain_limit)
        scaled = (np.int64(score[j]) * np.int64(np.int32(gain)) + (1 << 13)) >> 14
        score[j] = np.int32(min(max(scaled, -limit), limit))
        top = max(top, score[j])
    return top


@jit
def _weigh(score: Array, top: Integer, exp2: Array, value_scale: Array) -> tuple[Integer, Integer]:
    """Scores to weights in place; returns their sum and the largest weight * value scale."""
    total, largest = np.int64(0), np.int64(0)
    for j in range(score.shape[0]):
        distance = np.int32(top - score[j])
        weight = np.int32(exp2[(distance >> 4) & 4095] >> min(distance >> 16, 31))
        score[j] = weight
        total += weight
        largest = max(largest, np.int64(weight) * np.int64(value_scale[j]))
    return total, largest


@jit
def _coefficients(weight: Array, value_scale: Array, shift: Integer, coefficient: Array) -> None:
    half = (np.int64(1) << shift) >> 1
    for j in range(weight.shape[0]):
        mixed = (np.int64(weight[j]) * np.int64(value_scale[j]) + half) >> shift
        coefficient[j] = np.int16(min(mixed, _COEFFICIENT_MAX))


@jit
def _product(coefficient: Array, value: Array) -> Integer:
    """Sum of products of two slices. Loops that start at 0 vectorise; others are checked for negative indices."""
    product = np.int32(0)
    for j in range(coefficient.shape[0]):
        product = np.int32(product + np.int32(np.int32(coefficient[j]) * np.int32(value[j])))
    return product
