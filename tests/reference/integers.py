"""EXACT.md sections 1 and 2: constants and integer functions."""

from collections.abc import Sequence
from math import isqrt

RESIDUAL_LIMIT = 2**31 - 1
PROJECTION_LIMIT = 2**24
SCORE_LIMIT = 2**30 - 1
INT8_MAX = 127
PLANES_MAX = 16256


def clamp(x: int, limit: int) -> int:
    return max(-limit, min(limit, x))


def shift_round(x: int, n: int) -> int:
    """Section 2.1."""
    return (x + (1 << (n - 1))) >> n


def quantise(x: Sequence[int], limit: int) -> tuple[list[int], int]:
    """Section 2.2: q and a."""
    a = max(1, max(map(abs, x)))
    e = a.bit_length() + 30 - limit.bit_length()
    r = (limit << e) // a
    return [shift_round(entry * r, e) for entry in x], a


def norm_quantise(x: Sequence[int], gain: int, epsilon: int) -> tuple[list[int], int]:
    """Section 2.3: q and scale."""
    q, a = quantise(x, INT8_MAX)
    s = max(0, a.bit_length() - 15)
    t = sum((entry >> s) ** 2 for entry in x) + (epsilon >> 2 * s)
    root = max(1, isqrt(t << 18))
    divisor = root << s
    return q, (((a * gain) << 11) + (divisor >> 1)) // divisor


def requantise(acc: int, channel: int, row: int, k1: int, k2: int, limit: int) -> int:
    """Section 2.4."""
    inner = acc * channel if k1 == 0 else shift_round(acc * channel, k1)
    return clamp(shift_round(inner * row, k2), limit)


def exp2_weight(d: int, exp2: Sequence[int]) -> int:
    """Section 2.5."""
    return exp2[d >> 4 & 4095] >> min(31, d >> 16)
