"""The fused CPU kernels: the functions of `reference`, compiled by Numba.

Same names, arguments and bits as `reference`. One thread runs one call, and several threads may run calls on rows of
different slots at once. Products of values that fit 32 bits are written with int32 operands, so that they compile to
one vector multiplication.
"""

import numpy as np
import torch
from torch import Tensor

from speccompact.exact import fixedpoint, fusedattention
from speccompact.exact.cache import Cache, Rows
from speccompact.exact.fusedscalar import Array, Integer, bit_length, isqrt, jit, reciprocal_of, requantise
from speccompact.exact.weights import Linear, Weights

_INT8_MAX = fixedpoint.INT8_MAX
_PLANES_MAX = fixedpoint.PLANES_MAX
_RESIDUAL_LIMIT = fixedpoint.RESIDUAL_LIMIT
_PROJECTION_LIMIT = fixedpoint.PROJECTION_LIMIT
_SCORE_LIMIT = fixedpoint.SCORE_LIMIT


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
    mixed = fusedattention.attend(weights, acc, row, layer, rows, cache)
    out, largest = torch.empty(mixed.shape, dtype=torch.int8), torch.empty(mixed.shape[0], dtype=torch.int64)
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


@jit
def _embed(table: Array, tokens: Array, shift: Integer, out: Array) -> None:
    for r in range(tokens.shape[0]):
        for c in range(out.shape[1]):
            out[r, c] = np.int32(table[tokens[r], c]) << shift


@jit
def _norm(x: Array, gain: Integer, epsilon: Integer, out: Array, scale: Array) -> None:
    for r in range(x.shape[0]):
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


@jit
def _quantise(x: Array, out: Array, scale: Array) -> None:
    for r in range(x.shape[0]):
        largest = np.int64(1)
        for c in range(x.shape[1]):
            largest = max(largest, abs(np.int64(x[r, c])))
        reciprocal, exponent = reciprocal_of(largest, _INT8_MAX)
        half = np.int64(1) << (exponent - 1)
        for c in range(x.shape[1]):
            out[r, c] = (np.int64(x[r, c]) * np.int64(np.int32(reciprocal)) + half) >> exponent
        scale[r] = largest


@jit
def _add(x: Array, acc: Array, channel: Array, row: Array, k1: Integer, k2: Integer) -> None:
    half1, half2 = (np.int64(1) << k1) >> 1, (np.int64(1) << k2) >> 1
    planes, limit = acc.shape[0], np.int64(_RESIDUAL_LIMIT)
    for r in range(x.shape[0]):
        for c in range(x.shape[1]):
            value = np.int64(acc[0, r, c])
            if planes == 2:
                value = (value << 7) + np.int64(acc[1, r, c])
            delta = requantise(value, channel[c], row[r], k1, half1, k2, half2)
            total = np.int64(x[r, c]) + min(max(delta, -limit), limit)
            x[r, c] = np.int32(min(max(total, -limit), limit))


@jit
def _gate(
    acc: Array, channel: Array, row: Array, k1: Integer, k2: Integer, sigmoid: Array, planes: Array, scale: Array
) -> None:
    ffn, table_half = planes.shape[2], np.int32(sigmoid.shape[0] // 2)
    half1, half2 = (np.int64(1) << k1) >> 1, (np.int64(1) << k2) >> 1
    limit, limit32 = np.int64(_PROJECTION_LIMIT), np.int64(_RESIDUAL_LIMIT)
    projected = np.empty(2 * ffn, np.int32)
    product = np.empty(ffn, np.int32)
    for r in range(acc.shape[0]):
        for c in range(projected.shape[0]):
            value = requantise(np.int32(acc[r, c]), channel[c], row[r], k1, half1, k2, half2)
            projected[c] = np.int32(min(max(value, -limit), limit))
        gates, ups = projected[:ffn], projected[ffn:]
        for c in range(product.shape[0]):
            index = np.int32((gates[c] + 2) >> 2)
            product[c] = sigmoid[min(max(index, -table_half), np.int32(table_half - 1)) + table_half]
        largest = np.int64(1)
        for c in range(product.shape[0]):
            silu = (np.int64(gates[c]) * np.int64(product[c]) + (1 << 11)) >> 12
            both = (np.int64(np.int32(silu)) * np.int64(ups[c]) + (1 << 11)) >> 12
            both = min(max(both, -limit32), limit32)
            largest = max(largest, abs(both))
            product[c] = np.int32(both)
        reciprocal, exponent = reciprocal_of(largest, _PLANES_MAX)
        half = np.int64(1) << (exponent - 1)
        high, low = planes[0, r], planes[1, r]
        for c in range(product.shape[0]):
            quantised = np.int32((np.int64(product[c]) * np.int64(np.int32(reciprocal)) + half) >> exponent)
            upper = np.int32((quantised + 64) >> 7)
            high[c] = np.int8(upper)
            low[c] = np.int8(quantised - (upper << 7))
        scale[r] = largest


@jit
def _scores(acc: Array, channel: Array, row: Array, k1: Integer, k2: Integer, out: Array) -> None:
    half1, half2 = (np.int64(1) << k1) >> 1, (np.int64(1) << k2) >> 1
    for r in range(acc.shape[0]):
        for c in range(acc.shape[1]):
            value = requantise(np.int32(acc[r, c]), channel[c], row[r], k1, half1, k2, half2)
            out[r, c] = min(max(value, -_SCORE_LIMIT), _SCORE_LIMIT)
