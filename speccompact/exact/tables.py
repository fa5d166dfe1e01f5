"""Tables of the exact zone, computed in Python integers: the same on every machine, for ever.

Everything is evaluated in binary fixed point with GUARD fractional bits and rounded once, half up. The error before
rounding is below 2**-100, so a table entry is the correctly rounded value unless that value lies within 2**-80 of a
rounding border, which no entry does (a test pins the digests).
"""

import decimal
from decimal import Decimal

import numpy as np

GUARD = 160
_ONE = 1 << GUARD


def _round(value: int, bits: int) -> int:
    """Fixed point with GUARD bits to fixed point with `bits` bits, half up."""
    shift = GUARD - bits
    return (value + (1 << (shift - 1))) >> shift


def _exp(x: int) -> int:
    """e**x in fixed point, by Taylor series after halving the argument 16 times; |x| < 2**6."""
    if x < 0:
        return _ONE * _ONE // _exp(-x)
    small, term, total, n = x >> 16, _ONE, _ONE, 1
    while term:
        term = (term * small >> GUARD) // n
        total += term
        n += 1
    for _ in range(16):
        total = total * total >> GUARD
    return total


def _ln2() -> int:
    """ln 2 = sum of 1 / (n * 2**n)."""
    total, n = 0, 1
    while _ONE >> n:
        total += (_ONE >> n) // n
        n += 1
    return total


def log2_e() -> int:
    """log2(e) in fixed point with GUARD fractional bits."""
    return _ONE * _ONE // _ln2()


def exp2_table(index_bits: int, value_bits: int) -> np.ndarray:
    """round(2**value_bits * 2**(-i / 2**index_bits)) for i in [0, 2**index_bits).

    Returns:
        (2**index_bits,) int32, falling from 2**value_bits.
    """
    step = _exp(-(_ln2() >> index_bits))
    value, out = _ONE, []
    for _ in range(1 << index_bits):
        out.append(_round(value, value_bits))
        value = value * step >> GUARD
    return np.array(out, dtype=np.int32)


def sigmoid_table(step_bits: int, half: int, value_bits: int) -> np.ndarray:
    """round(2**value_bits / (1 + e**-x)) at x = (i - half) / 2**step_bits, i in [0, 2 * half).

    Returns:
        (2 * half,) int32, rising.
    """
    growth = _exp(_ONE >> step_bits)
    exponential = _exp(-half * (_ONE >> step_bits))
    out = []
    for _ in range(2 * half):
        out.append(_round(exponential * _ONE // (_ONE + exponential), value_bits))
        exponential = exponential * growth >> GUARD
    return np.array(out, dtype=np.int32)


def _sin_cos(x: int) -> tuple[int, int]:
    """Sine and cosine in fixed point by Taylor series; 0 <= x <= 1 (radian)."""
    cos, sin, term, n = 0, 0, _ONE, 0
    while term:
        sign = -1 if n % 4 >= 2 else 1
        if n % 2:
            sin += sign * term
        else:
            cos += sign * term
        n += 1
        term = (term * x >> GUARD) // n
    return sin, cos


def rotary_table(base: float, head_dim: int, positions: int, bits: int) -> np.ndarray:
    """Cosine and sine of position * base**(-2 i / head_dim), i in [0, head_dim / 2).

    Each position is the previous one turned by one more step: a product of complex numbers in fixed point, whose
    error grows by less than 2**-158 a step.

    Args:
        base: an exactly given float, such as 10000.0.
        head_dim: even.
        positions: number of positions.
        bits: fractional bits of the entries.

    Returns:
        (positions, head_dim) int32: cosines in the first half of a row, sines in the second.
    """
    half = head_dim // 2
    out = np.empty((positions, head_dim), dtype=np.int32)
    context = decimal.Context(prec=80)
    log_base = context.ln(Decimal(base))
    for i in range(half):
        exponent = context.divide(context.multiply(log_base, Decimal(-2 * i)), Decimal(head_dim))
        angle = int(context.multiply(context.exp(exponent), Decimal(_ONE)))
        step_sin, step_cos = _sin_cos(angle)
        sin, cos = 0, _ONE
        for position in range(positions):
            out[position, i] = _round(cos, bits)
            out[position, half + i] = _round(sin, bits)
            sin, cos = (sin * step_cos + cos * step_sin) >> GUARD, (cos * step_cos - sin * step_sin) >> GUARD
    return out
