"""EXACT.md section 11.2: logarithms and probabilities."""

from math import log2 as real_log2

ODDS_LIMIT = 20 << 12
CERTAIN = 1 << 22
"""The probability 1."""

LOG = [round(4096 * real_log2(1 + i / 4096)) for i in range(4096)]
EXP2 = [round(2 ** (23 - i / 4096)) for i in range(4096)]
"""Section 2.6; the same in every model file."""


def log2(x: int) -> int:
    k = x.bit_length() - 1
    m = x >> (k - 12) if k >= 12 else x << (12 - k)
    return (k << 12) + LOG[m & 4095]


def odds(a: int, b: int) -> int:
    if a <= 0:
        return -ODDS_LIMIT
    if b <= 0:
        return ODDS_LIMIT
    return max(-ODDS_LIMIT, min(ODDS_LIMIT, log2(a) - log2(b)))


def squash(z: int) -> int:
    if z < 0:
        return CERTAIN - squash(-z)
    return (1 << 45) // ((1 << 23) + (EXP2[z & 4095] >> (z >> 12)))
