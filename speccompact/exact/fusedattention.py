"""Attention of the fused CPU kernels: projections to queries, keys and values, the cache, and the rows' outputs."""

import numpy as np
import torch
from torch import Tensor

from speccompact.exact import fixedpoint
from speccompact.exact.cache import Cache, Rows
from speccompact.exact.fusedrows import attend_rows, packed
from speccompact.exact.fusedscalar import Array, Integer, jit, reciprocal_of, requantise
from speccompact.exact.vnni import write_key, write_value
from speccompact.exact.weights import Weights

_INT8_MAX = fixedpoint.INT8_MAX
_PROJECTION_LIMIT = fixedpoint.PROJECTION_LIMIT
_FACTOR_LIMIT = fixedpoint.FACTOR_LIMIT


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
        weights.score_factor, packed(weights.head_dim), rows.place.numpy(), rows.position.numpy(),
        query.numpy(), factor.numpy(), keys.numpy(), values.numpy(), key_scales.numpy(), value_scales.numpy(),
    )  # fmt: skip
    mixed = torch.empty(acc.shape[0], weights.heads * weights.head_dim, dtype=torch.int32)
    attend_rows(
        query.numpy(), factor.numpy(), weights.exp2.numpy(), rows.place.numpy(), rows.position.numpy(),
        keys.numpy(), values.numpy(), key_scales.numpy(), value_scales.numpy(), mixed.numpy(),
    )  # fmt: skip
    return mixed


@jit
def _project(
    acc: Array, channel: Array, row: Array, k1: Integer, k2: Integer, rotary: Array, score_factor: Integer,
    packs: bool, place: Array, position: Array, query: Array, factor: Array,
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
                value = requantise(np.int32(acc[r, base + c]), channel[base + c], row[r], k1, half1, k2, half2)
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
                factor[r, h] = min((largest * score_factor + (1 << 23)) >> 24, _FACTOR_LIMIT)
            elif h < heads + kv_heads:
                if packs:
                    write_key(keys[at, h - heads], pos, head)
                else:
                    keys[at, h - heads, pos] = head
                key_scales[at, h - heads, pos] = largest
            else:
                if packs:
                    write_value(values[at, h - heads - kv_heads], pos, head)
                else:
                    values[at, h - heads - kv_heads, pos] = head
                value_scales[at, h - heads - kv_heads, pos] = largest
