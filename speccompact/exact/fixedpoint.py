"""Integer functions of the exact zone, in plain torch integer operations (the reference).

Numbers are fixed point: an integer n with f fractional bits stands for n / 2**f. Every function is defined
mathematically (EXACT.md section 2), so that any implementation that computes the definition gives the same bits.

Invariants:
1. One rounding rule: `shift_round` rounds half up, that is floor(x / 2**n + 1/2). (enforced)
2. No intermediate leaves int64; the bound stands beside each function. (assumed of callers, proven at conversion)
"""

import torch
from torch import Tensor

FRAC_RESIDUAL = 16
"""Fractional bits of the residual stream, of attention outputs and of gated products."""

FRAC_PROJECTION = 12
"""Fractional bits of query, key, value, gate and up projections."""

FRAC_NORM = 22
"""Fractional bits of the row scale that `norm_quantise` returns."""

FRAC_SCORE = 16
"""Fractional bits of scores in log2 units, in attention and in the output distribution."""

FRAC_ROTARY = 15
FRAC_SIGMOID = 16

RESIDUAL_LIMIT = (1 << 31) - 1
PROJECTION_LIMIT = 1 << 24
SCORE_LIMIT = (1 << 30) - 1
"""Scores differ by less than 2**31."""

FACTOR_LIMIT = (1 << 31) - 1

INT8_MAX = 127
PLANES_MAX = 127 * 128
"""Largest magnitude of an activation that two int8 planes carry: 128 * high + low."""

EXP2_INDEX_BITS = 12
EXP2_BITS = 23
"""exp2 weights are at most 2**EXP2_BITS, reached at distance 0 alone."""

MIX_BITS = 14
"""Attention coefficients lie in [0, 2**MIX_BITS): two int8 planes of 7 bits."""


def shift_round(x: Tensor, n: int | Tensor) -> Tensor:
    """floor(x / 2**n + 1/2) for n >= 1.

    Args:
        x: int64, |x| < 2**62.
        n: shift in bits, 1 to 62; a tensor broadcasts.
    """
    if isinstance(n, int):
        return (x + (1 << (n - 1))) >> n
    return (x + (torch.ones_like(n) << (n - 1))) >> n


def bit_length(x: Tensor) -> Tensor:
    """Number of bits of each x >= 0: 0 for 0, else floor(log2 x) + 1.

    Args:
        x: int64.
    """
    rest, bits = x.clone(), torch.zeros_like(x)
    for step in (32, 16, 8, 4, 2, 1):
        high = (rest >> step) > 0
        bits += torch.where(high, step, 0)
        rest = torch.where(high, rest >> step, rest)
    return bits + (rest > 0)


def isqrt(x: Tensor) -> Tensor:
    """Largest r with r * r <= x, bit by bit.

    Args:
        x: int64, 0 <= x < 2**62.
    """
    root = torch.zeros_like(x)
    for bit in range(30, -1, -1):
        trial = root + (1 << bit)
        root = torch.where(trial * trial <= x, trial, root)
    return root


def floor_div(x: Tensor, y: Tensor) -> Tensor:
    """floor(x / y) for int64 x and y > 0."""
    return torch.div(x, y, rounding_mode="floor")


def quantise(x: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """Scale each row so that its largest magnitude becomes `limit`.

    With a = max(1, max|x|) over the last axis, e = bit_length(a) + 30 - bit_length(limit) and
    r = floor(limit * 2**e / a), the result is floor(x * r / 2**e + 1/2). r < 2**31, |x * r| < 2**62.

    Args:
        x: (..., n) int64, |x| < 2**31.
        limit: INT8_MAX or PLANES_MAX.

    Returns:
        (..., n) int64 in [-limit, limit], and a as (...) int64.
    """
    largest = x.abs().amax(-1).clamp_min(1)
    exponent = bit_length(largest) + (30 - limit.bit_length())
    reciprocal = floor_div(torch.full_like(largest, limit) << exponent, largest)
    return shift_round(x * reciprocal[..., None], exponent[..., None]), largest


def norm_quantise(x: Tensor, gain: int, epsilon: int) -> tuple[Tensor, Tensor]:
    """RMSNorm and quantisation at once: x / rms(x) ~ q * scale / 2**FRAC_NORM.

    The gain vector of the norm is folded into the weights that follow. With a and q as in `quantise`,
    s = max(0, bit_length(a) - 15), y = floor(x / 2**s):
    t = sum(y * y) + floor(epsilon / 4**s), root = isqrt(t * 2**18),
    scale = floor((a * gain * 2**11 + h) / d), d = max(1, root) * 2**s, h = floor(d / 2).

    Args:
        x: (rows, hidden) int64, |x| < 2**31.
        gain: sqrt(hidden) * 2**20 / 127, rounded.
        epsilon: the norm's epsilon times hidden * 2**32, rounded.

    Returns:
        (rows, hidden) int8, and the scale as (rows,) int64.
    """
    quantised, largest = quantise(x, INT8_MAX)
    shift = (bit_length(largest) - 15).clamp_min(0)
    y = x >> shift[:, None]
    total = (y * y).sum(-1) + (torch.full_like(shift, epsilon) >> (2 * shift))
    divisor = isqrt(total << 18).clamp_min(1) << shift
    scale = floor_div(((largest * gain) << 11) + (divisor >> 1), divisor)
    return quantised.to(torch.int8), scale


def requantise(acc: Tensor, channel: Tensor, row: Tensor, shifts: tuple[int, int], limit: int) -> Tensor:
    """Integer products to fixed point: round(round(acc * channel / 2**k1) * row / 2**k2), clamped to +-limit.

    The converter chooses k1 so that the inner value stays below 2**31 for every possible input.

    Args:
        acc: (rows, n) int64.
        channel: (n,) int64, at most 2**20: weight scale of each output.
        row: (rows,) int64, below 2**31: scale of each input row.
        shifts: (k1, k2); k1 may be 0.
        limit: bound of the result.
    """
    inner = acc * channel
    if shifts[0]:
        inner = shift_round(inner, shifts[0])
    return shift_round(inner * row[:, None], shifts[1]).clamp(-limit, limit)


def exp2_weights(distance: Tensor, table: Tensor) -> Tensor:
    """floor(table[f] / 2**n): about 2**EXP2_BITS * 2**-d for d = distance / 2**FRAC_SCORE; 0 beyond 31.

    Args:
        distance: int64, >= 0, below 2**32.
        table: (4096,) int64, `tables.exp2_table()`.
    """
    index = (distance >> (FRAC_SCORE - EXP2_INDEX_BITS)) & ((1 << EXP2_INDEX_BITS) - 1)
    return table[index] >> (distance >> FRAC_SCORE).clamp_max(31)
