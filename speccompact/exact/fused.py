"""The fused CPU kernels: the functions of `reference`, compiled by Numba, row by row in parallel.

Same names, arguments and bits as `reference`; the differences are in how the work is cut. Products of values that fit
32 bits are written with int32 operands, so that they compile to one vector multiplication.
"""

import numba
import numpy as np
import torch
from torch import Tensor

from speccompact.exact import fixedpoint
from speccompact.exact.cache import Cache, Rows
from speccompact.exact.fusedscalar import Array, Integer, bit_length, isqrt, jit, reciprocal_of
from speccompact.exact.weights import Linear, Weights

_INT8_MAX = fixedpoint.INT8_MAX
_PLANES_MAX = fixedpoint.PLANES_MAX
_RESIDUAL_LIMIT = fixedpoint.RESIDUAL_LIMIT
_PROJECTION_LIMIT = fixedpoint.PROJECTION_LIMIT
_SCORE_LIMIT = fixedpoint.SCORE_LIMIT
_LIFT = fixedpoint.FRAC_RESIDUAL - fixedpoint.FRAC_PROJECTION
_COEFFICIENT_MAX = (1 << fixedpoint.MIX_BITS) - 1
_KEY_BLOCK = 1024
"""Keys whose products int32 can sum: 1024 * 16383 * 127 < 2**31."""


def embed(weights: Weights, tokens: Tensor) -> Tensor:
    """See `reference.embed`."""
    out = torch.empty(tokens.shape[0], weights.hidden, dtype=torch.int32)
    _embed(weights.embed.numpy(), tokens.numpy(), weights.embed_shift, out.numpy())
    return out


def norm(weights: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
    """See `reference.norm`."""
    out, scale = torch.empty(x.shape, dtype=torch.int8), torch.empty(x.shape[0], dtype=torch.int64)
    _norm(x.numpy(), weights.norm_gain, weights.norm_epsilon, out.numpy(), scale.numpy())
    return out, scale


def attention(
    weights: Weights, acc: Tensor, row: Tensor, layer: int, rows: Rows, cache: Cache
) -> tuple[Tensor, Tensor]:
    """See `reference.attention`."""
    linear = weights.layers[layer].qkv
    count, heads, width = acc.shape[0], weights.heads, weights.head_dim
    query = torch.empty(count, heads, width, dtype=torch.int16)
    factor = torch.empty(count, heads, dtype=torch.int32)
    keys, values = cache.keys[layer].numpy(), cache.values[layer].numpy()
    key_scales, value_scales = cache.key_scales[layer].numpy(), cache.value_scales[layer].numpy()
    place, position = rows.place.numpy(), rows.position.numpy()
    _project(
        acc.numpy(), linear.channel.numpy(), row.numpy(), linear.shifts[0], linear.shifts[1], weights.rotary.numpy(),
        weights.score_factor, place, position, query.numpy(), factor.numpy(), keys, values, key_scales, value_scales,
    )  # fmt: skip
    mixed = torch.empty(count, heads * width, dtype=torch.int32)
    _attend(
        query.numpy(), factor.numpy(), weights.exp2.numpy(), place, position, keys, values, key_scales, value_scales,
        mixed.numpy(),
    )  # fmt: skip
    out, largest = torch.empty(mixed.shape, dtype=torch.int8), torch.empty(count, dtype=torch.int64)
    _quantise(mixed.numpy(), out.numpy(), largest.numpy())
    return out, largest


def add(x: Tensor, acc: Tensor, linear: Linear, row: Tensor) -> None:
    """See `reference.add`."""
    _add(x.numpy(), acc.numpy(), linear.channel.numpy(), row.numpy(), linear.shifts[0], linear.shifts[1])


def gate(weights: Weights, acc: Tensor, row: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """See `reference.gate`."""
    linear = weights.layers[layer].gate_up
    planes = torch.empty(2, acc.shape[0], weights.ffn, dtype=torch.int8)
    largest = torch.empty(acc.shape[0], dtype=torch.int64)
    _gate(
        acc.numpy(), linear.channel.numpy(), row.numpy(), linear.shifts[0], linear.shifts[1], weights.sigmoid.numpy(),
        planes.numpy(), largest.numpy(),
    )  # fmt: skip
    return planes, largest


def scores(weights: Weights, acc: Tensor, row: Tensor) -> Tensor:
    """See `reference.scores`."""
    head = weights.head
    out = torch.empty(acc.shape, dtype=torch.int32)
    _scores(acc.numpy(), head.channel.numpy(), row.numpy(), head.shifts[0], head.shifts[1], out.numpy())
    return out


@jit(parallel=True)
def _embed(table: Array, tokens: Array, shift: Integer, out: Array) -> None:
    for r in numba.prange(tokens.shape[0]):
        for c in range(out.shape[1]):
            out[r, c] = np.int32(table[tokens[r], c]) << shift


@jit()
def _requantise(
    acc: Integer, channel: Integer, row: Integer, k1: Integer, half1: Integer, k2: Integer, half2: Integer
) -> Integer:
    inner = (np.int64(acc) * np.int64(channel) + half1) >> k1
    return (np.int64(np.int32(inner)) * np.int64(np.int32(row)) + half2) >> k2


@jit(parallel=True)
def _norm(x: Array, gain: Integer, epsilon: Integer, out: Array, scale: Array) -> None:
    for r in numba.prange(x.shape[0]):
        largest = np.int64(1)
        for c in range(x.shape[1]):
            largest = max(largest, abs(np.int64(x[r, c])))
        reciprocal, exponent = reciprocal_of(largest, _INT8_MAX)
        half = np.int64(1) << (exponent - 1)
        shift = max(bit_length(largest) - 15, 0)
        total = np.int64(0)
        for c in range(x.shape[1]):
            out[r, c] = (np.int64(x[r, c]) * np.int64(np.int32(reciprocal)) + half) >> exponent
            y = np.int64(np.int32(x[r, c] >> shift))
            total += y * y
        total += epsilon >> (2 * shift)
        divisor = max(isqrt(total << 18), 1) << shift
        scale[r] = (((largest * gain) << 11) + (divisor >> 1)) // divisor


@jit(parallel=True)
def _project(
    acc: Array, channel: Array, row: Array, k1: Integer, k2: Integer, rotary: Array, score_factor: Integer,
    place: Array, position: Array, query: Array, factor: Array,
    keys: Array, values: Array, key_scales: Array, value_scales: Array,
) -> None:  # fmt: skip
    """Requantise, turn and quantise queries, keys and values; keys and values go to the cache."""
    heads, width, kv_heads = query.shape[1], query.shape[2], keys.shape[1]
    half_width = width // 2
    half1, half2 = (np.int64(1) << k1) >> 1, (np.int64(1) << k2) >> 1
    for r in numba.prange(acc.shape[0]):
        at, pos = place[r], position[r]
        head = np.empty(width, np.int32)
        turned = np.empty(width, np.int32)
        for h in range(heads + 2 * kv_heads):
            base = h * width
            for c in range(width):
                value = _requantise(acc[r, base + c], channel[base + c], row[r], k1, half1, k2, half2)
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
                for c in range(width):
                    query[r, h, c] = head[c]
                factor[r, h] = (largest * score_factor + (1 << 23)) >> 24
            elif h < heads + kv_heads:
                for c in range(width):
                    keys[at, h - heads, pos, c] = head[c]
                key_scales[at, h - heads, pos] = largest
            else:
                for c in range(width):
                    values[at, h - heads - kv_heads, c, pos] = head[c]
                value_scales[at, h - heads - kv_heads, pos] = largest


@jit(parallel=True)
def _attend(
    query: Array, factor: Array, exp2: Array, place: Array, position: Array,
    keys: Array, values: Array, key_scales: Array, value_scales: Array, out: Array,
) -> None:  # fmt: skip
    """Attention, one task for each row and key head; out is (rows, heads * width) int32."""
    kv_heads, width = keys.shape[1], query.shape[2]
    repeat = query.shape[1] // kv_heads
    for task in numba.prange(query.shape[0] * kv_heads):
        r, kv = task // kv_heads, task % kv_heads
        seen = position[r] + 1
        score = np.empty(seen, np.int32)
        coefficient = np.empty(seen, np.int16)
        key, value = keys[place[r], kv], values[place[r], kv]
        key_scale, value_scale = key_scales[place[r], kv], value_scales[place[r], kv]
        for h in range(kv * repeat, (kv + 1) * repeat):
            _dots(query[r, h], key, seen, score)
            top = _score(score, np.int32(factor[r, h]), key_scale, seen)
            total, shift = _weigh(score, top, exp2, value_scale, seen, coefficient)
            divisor = total * _INT8_MAX
            exponent = bit_length(divisor) + 19
            reciprocal = (np.int64(1) << exponent) // divisor
            final = exponent - shift - _LIFT
            half = np.int64(1) << (final - 1)
            for c in range(width):
                product = np.int64(0)
                for start in range(0, seen, _KEY_BLOCK):
                    product += _product(coefficient, value[c], start, min(start + _KEY_BLOCK, seen))
                out[r, h * width + c] = (product * reciprocal + half) >> final


@jit()
def _dots(query: Array, key: Array, seen: Integer, score: Array) -> None:
    for j in range(seen):
        dot = np.int32(0)
        for c in range(query.shape[0]):
            dot = np.int32(dot + np.int32(np.int32(query[c]) * np.int32(key[j, c])))
        score[j] = dot


@jit()
def _score(score: Array, factor: Integer, key_scale: Array, seen: Integer) -> Integer:
    """Dot products to scores in place; returns the largest."""
    top = np.int32(-_SCORE_LIMIT)
    for j in range(seen):
        gain = min((np.int64(factor) * np.int64(key_scale[j]) + (1 << 15)) >> 16, (1 << 31) - 1)
        scaled = (np.int64(score[j]) * np.int64(np.int32(gain)) + (1 << 13)) >> 14
        score[j] = np.int32(min(max(scaled, -_SCORE_LIMIT), _SCORE_LIMIT))
        top = max(top, score[j])
    return top


@jit()
def _weigh(
    score: Array, top: Integer, exp2: Array, value_scale: Array, seen: Integer, coefficient: Array
) -> tuple[Integer, Integer]:
    """Scores to coefficients; returns the sum of the weights and the shift of the coefficients."""
    total, largest = np.int64(0), np.int64(0)
    for j in range(seen):
        distance = np.int32(top - score[j])
        weight = np.int32(exp2[(distance >> 4) & 4095] >> min(distance >> 16, 31))
        score[j] = weight
        total += weight
        largest = max(largest, np.int64(weight) * np.int64(value_scale[j]))
    shift = max(bit_length(largest) - fixedpoint.MIX_BITS, 0)
    half = (np.int64(1) << shift) >> 1
    for j in range(seen):
        mixed = (np.int64(score[j]) * np.int64(value_scale[j]) + half) >> shift
        coefficient[j] = np.int16(min(mixed, _COEFFICIENT_MAX))
    return total, shift


@jit()
def _product(coefficient: Array, value: Array, start: Integer, stop: Integer) -> Integer:
    product = np.int32(0)
    for j in range(start, stop):
        product = np.int32(product + np.int32(np.int32(coefficient[j]) * np.int32(value[j])))
    return product


@jit(parallel=True)
def _quantise(x: Array, out: Array, scale: Array) -> None:
    for r in numba.prange(x.shape[0]):
        largest = np.int64(1)
        for c in range(x.shape[1]):
            largest = max(largest, abs(np.int64(x[r, c])))
        reciprocal, exponent = reciprocal_of(largest, _INT8_MAX)
        half = np.int64(1) << (exponent - 1)
        for c in range(x.shape[1]):
            out[r, c] = (np.int64(x[r, c]) * np.int64(np.int32(reciprocal)) + half) >> exponent
        scale[r] = largest


@jit(parallel=True)
def _add(x: Array, acc: Array, channel: Array, row: Array, k1: Integer, k2: Integer) -> None:
    half1, half2 = (np.int64(1) << k1) >> 1, (np.int64(1) << k2) >> 1
    planes = acc.shape[0]
    for r in numba.prange(x.shape[0]):
        for c in range(x.shape[1]):
            value = np.int64(acc[0, r, c])
            if planes == 2:
                value = (value << 7) + acc[1, r, c]
            delta = _requantise(value, channel[c], row[r], k1, half1, k2, half2)
            x[r, c] = min(max(x[r, c] + delta, -_RESIDUAL_LIMIT), _RESIDUAL_LIMIT)


@jit(parallel=True)
def _gate(
    acc: Array, channel: Array, row: Array, k1: Integer, k2: Integer, sigmoid: Array, planes: Array, scale: Array
) -> None:
    ffn, table_half = planes.shape[2], sigmoid.shape[0] // 2
    half1, half2 = (np.int64(1) << k1) >> 1, (np.int64(1) << k2) >> 1
    limit = np.int64(_PROJECTION_LIMIT)
    for r in numba.prange(acc.shape[0]):
        product = np.empty(ffn, np.int32)
        largest = np.int64(1)
        for c in range(ffn):
            gated = _requantise(acc[r, c], channel[c], row[r], k1, half1, k2, half2)
            up = _requantise(acc[r, ffn + c], channel[ffn + c], row[r], k1, half1, k2, half2)
            gated, up = min(max(gated, -limit), limit), min(max(up, -limit), limit)
            index = min(max((gated + 2) >> 2, -table_half), table_half - 1) + table_half
            silu = (np.int64(np.int32(gated)) * np.int64(sigmoid[index]) + (1 << 11)) >> 12
            both = (np.int64(np.int32(silu)) * np.int64(np.int32(up)) + (1 << 11)) >> 12
            product[c] = min(max(both, -_RESIDUAL_LIMIT), _RESIDUAL_LIMIT)
            largest = max(largest, abs(np.int64(product[c])))
        reciprocal, exponent = reciprocal_of(largest, _PLANES_MAX)
        half = np.int64(1) << (exponent - 1)
        for c in range(ffn):
            quantised = np.int32((np.int64(product[c]) * np.int64(np.int32(reciprocal)) + half) >> exponent)
            high = np.int32((quantised + 64) >> 7)
            planes[0, r, c] = high
            planes[1, r, c] = quantised - (high << 7)
        scale[r] = largest


@jit(parallel=True)
def _scores(acc: Array, channel: Array, row: Array, k1: Integer, k2: Integer, out: Array) -> None:
    half1, half2 = (np.int64(1) << k1) >> 1, (np.int64(1) << k2) >> 1
    for r in numba.prange(acc.shape[0]):
        for c in range(acc.shape[1]):
            value = _requantise(acc[r, c], channel[c], row[r], k1, half1, k2, half2)
            out[r, c] = min(max(value, -_SCORE_LIMIT), _SCORE_LIMIT)
