"""The reference kernels: plain torch integer operations, on any device. EXACT.md section 4, step by step.

Products come as int32, or as float32 that carries integers (see `matmul`).
"""

import torch
from torch import Tensor

from speccompact.exact import fixedpoint
from speccompact.exact.cache import Cache, Rows
from speccompact.exact.weights import Linear, Weights


def embed(weights: Weights, tokens: Tensor) -> Tensor:
    """Residual rows of tokens.

    Args:
        tokens: (rows,) int64.

    Returns:
        (rows, hidden) int32, FRAC_RESIDUAL fractional bits.
    """
    return weights.embed[tokens].to(torch.int32) << weights.embed_shift


def norm(weights: Weights, x: Tensor) -> tuple[Tensor, Tensor]:
    """RMSNorm and int8 quantisation of (rows, hidden) int32; the scale is (rows,) int64."""
    return fixedpoint.norm_quantise(x.to(torch.int64), weights.norm_gain, weights.norm_epsilon)


def attention(
    weights: Weights, acc: Tensor, row: Tensor, layer: int, rows: Rows, cache: Cache
) -> tuple[Tensor, Tensor]:
    """From query, key and value products to quantised attention outputs.

    Args:
        acc: (rows, (heads + 2 * kv_heads) * head_dim) integers, products of the qkv matrix.
        row: (rows,) int64, scale of `norm`.
        layer: index of the layer.

    Modifies:
        cache: the positions of `rows` are written.

    Returns:
        (rows, heads * head_dim) int8 and its row scale, (rows,) int64.
    """
    linear = weights.layers[layer].qkv
    width, heads, kv_heads = weights.head_dim, weights.heads, weights.kv_heads
    projected = fixedpoint.requantise(
        acc.to(torch.int64), linear.channel.to(torch.int64), row, linear.shifts, fixedpoint.PROJECTION_LIMIT
    ).view(-1, heads + 2 * kv_heads, width)
    place, position = rows.place.to(acc.device), rows.position.to(acc.device)
    turned = _turn(projected[:, : heads + kv_heads], weights.rotary[position].to(torch.int64))
    query, query_scale = fixedpoint.quantise(turned[:, :heads], fixedpoint.INT8_MAX)
    key, key_scale = fixedpoint.quantise(turned[:, heads:], fixedpoint.INT8_MAX)
    value, value_scale = fixedpoint.quantise(projected[:, heads + kv_heads :], fixedpoint.INT8_MAX)
    cache.keys[layer][place, :, position] = key.to(torch.int8)
    cache.key_scales[layer][place, :, position] = key_scale.to(torch.int32)
    cache.values[layer][place, :, position] = value.to(torch.int8)
    cache.value_scales[layer][place, :, position] = value_scale.to(torch.int32)
    factor = fixedpoint.shift_round(query_scale * weights.score_factor, 24).clamp_max(fixedpoint.FACTOR_LIMIT)
    out = torch.empty(acc.shape[0], heads, width, dtype=torch.int64, device=acc.device)
    for span, offset in zip(rows.spans, rows.offsets, strict=True):
        part = slice(offset, offset + span.count)
        out[part] = _attend(weights, query[part], factor[part], layer, span.place, span.start, cache)
    quantised, largest = fixedpoint.quantise(out.view(-1, heads * width), fixedpoint.INT8_MAX)
    return quantised.to(torch.int8), largest


def _turn(x: Tensor, table: Tensor) -> Tensor:
    """Rotary positions: pairs (j, j + head_dim / 2) turn by the angle of the row's position.

    Args:
        x: (rows, heads, head_dim) int64, |x| <= PROJECTION_LIMIT.
        table: (rows, head_dim) int64.
    """
    half = x.shape[-1] // 2
    cos, sin = table[:, None, :half], table[:, None, half:]
    low, high = x[..., :half], x[..., half:]
    turned = torch.cat([low * cos - high * sin, low * sin + high * cos], -1)
    return fixedpoint.shift_round(turned, fixedpoint.FRAC_ROTARY)


def _attend(
    weights: Weights, query: Tensor, factor: Tensor, layer: int, place: int, start: int, cache: Cache
) -> Tensor:
    """Attention of one span. float64 carries the sums of products: they stay below 2**34.

    Args:
        query: (count, heads, head_dim) int64, int8 range.
        factor: (count, heads) int64, scale of the query in score units.

    Returns:
        (count, heads, head_dim) int64, FRAC_RESIDUAL fractional bits.
    """
    keys_seen = start + query.shape[0]
    repeat = weights.heads // weights.kv_heads
    key = cache.keys[layer][place, :, :keys_seen].repeat_interleave(repeat, 0)  # (heads, keys, width)
    value = cache.values[layer][place, :, :keys_seen].repeat_interleave(repeat, 0)
    key_scale = cache.key_scales[layer][place, :, :keys_seen].repeat_interleave(repeat, 0).to(torch.int64)
    value_scale = cache.value_scales[layer][place, :, :keys_seen].repeat_interleave(repeat, 0).to(torch.int64)
    dots = torch.bmm(query.transpose(0, 1).to(torch.float64), key.transpose(1, 2).to(torch.float64)).to(torch.int64)
    gain = fixedpoint.shift_round(factor.t()[:, :, None] * key_scale[:, None, :], 16).clamp_max(fixedpoint.FACTOR_LIMIT)
    scores = fixedpoint.shift_round(dots * gain, 14).clamp(-fixedpoint.SCORE_LIMIT, fixedpoint.SCORE_LIMIT)
    position = torch.arange(start, keys_seen, device=query.device)
    hidden = torch.arange(keys_seen, device=query.device)[None, :] > position[:, None]
    scores = scores.masked_fill(hidden, -fixedpoint.SCORE_LIMIT)
    distance = scores.amax(-1, keepdim=True) - scores
    weight = fixedpoint.exp2_weights(distance, weights.exp2.to(torch.int64)).masked_fill(hidden, 0)
    mixed = weight * value_scale[:, None, :]
    shift = fixedpoint.bit_length(mixed.amax(-1)) - fixedpoint.MIX_BITS  # at least 10: the largest weight is 2**23
    coefficient = fixedpoint.shift_round(mixed, shift[..., None]).clamp_max((1 << fixedpoint.MIX_BITS) - 1)
    total = torch.bmm(coefficient.to(torch.float64), value.to(torch.float64)).to(torch.int64)
    divisor = weight.sum(-1) * fixedpoint.INT8_MAX
    exponent = fixedpoint.bit_length(divisor) + 19
    reciprocal = fixedpoint.floor_div(torch.ones_like(exponent) << exponent, divisor)
    lift = fixedpoint.FRAC_RESIDUAL - fixedpoint.FRAC_PROJECTION
    result = fixedpoint.shift_round(total * reciprocal[..., None], (exponent - shift - lift)[..., None])
    return result.transpose(0, 1)


def add(x: Tensor, acc: Tensor, linear: Linear, row: Tensor) -> None:
    """Add a projection to the residual.

    Args:
        acc: (planes, rows, hidden) integers, products of `linear` with the planes of its input: one plane, or two that
            stand for 128 * first + second.
        row: (rows,) int64.

    Modifies:
        x: (rows, hidden) int32, clamped to +-RESIDUAL_LIMIT.
    """
    limit = fixedpoint.RESIDUAL_LIMIT
    total = acc[0].to(torch.int64)
    if acc.shape[0] == 2:
        total = (total << 7) + acc[1].to(torch.int64)
    delta = fixedpoint.requantise(total, linear.channel.to(torch.int64), row, linear.shifts, limit)
    x.copy_((x.to(torch.int64) + delta).clamp(-limit, limit))


def gate(weights: Weights, acc: Tensor, row: Tensor, layer: int) -> tuple[Tensor, Tensor]:
    """Gated product of the feed-forward layer, silu(gate) * up, as two int8 planes.

    Args:
        acc: (rows, 2 * ffn) integers, products of the gate_up matrix.
        row: (rows,) int64.

    Returns:
        (2, rows, ffn) int8, planes of the value 128 * first + second; and their row scale, (rows,) int64.
    """
    linear = weights.layers[layer].gate_up
    projected = fixedpoint.requantise(
        acc.to(torch.int64), linear.channel.to(torch.int64), row, linear.shifts, fixedpoint.PROJECTION_LIMIT
    )
    gates, ups = projected[:, : weights.ffn], projected[:, weights.ffn :]
    half = weights.sigmoid.shape[0] // 2
    index = fixedpoint.shift_round(gates, 2).clamp(-half, half - 1) + half
    silu = fixedpoint.shift_round(gates * weights.sigmoid.to(torch.int64)[index], 12)
    limit = fixedpoint.RESIDUAL_LIMIT
    product = fixedpoint.shift_round(silu * ups, 12).clamp(-limit, limit)
    quantised, largest = fixedpoint.quantise(product, fixedpoint.PLANES_MAX)
    high = (quantised + 64) >> 7
    return torch.stack([high, quantised - (high << 7)]).to(torch.int8), largest


def scores(weights: Weights, acc: Tensor, row: Tensor) -> Tensor:
    """Output scores in log2 units with FRAC_SCORE fractional bits.

    Args:
        acc: (rows, vocab) integers, products of the head.
        row: (rows,) int64.

    Returns:
        (rows, vocab) int32, |score| <= SCORE_LIMIT.
    """
    head = weights.head
    return fixedpoint.requantise(
        acc.to(torch.int64), head.channel.to(torch.int64), row, head.shifts, fixedpoint.SCORE_LIMIT
    ).to(torch.int32)
