"""Tables of the exact zone, computed in Python integers: the same on every machine, for ever.

Everything is evaluated in binary fixed point with GUARD fractional bits and rounded once, half up. The error before
rounding is below 2**-100 of the last place. No value lies nearer to a border between two roundings than 2**-22 of the
last place (exp2) or 2**-15 (sigmoid), so every entry is the correctly rounded value; tests pin the digests.
"""

import decimal
import hashlib
from decimal import Decimal

import numpy as np
import numpy.typing as npt

GUARD = 160
_ONE = 1 << GUARD

SIGMOID_STEP_BITS = 10
SIGMOID_HALF = 1 << 14
"""Steps of the sigmoid table on either side of 0."""

EXP2_DIGEST = "0d94419093c10cffe13757f71c1a03448da41931dd9ed421b9a5c5a496253cfc"
SIGMOID_DIGEST = "1ffdfecf5d406e67f752a829ed1928319283063dc2001025005fe0baf3a30a77"
"""Of the tables that every model has: see `digest`."""


def digest(table: npt.NDArray[np.int32]) -> str:
    """SHA-256 of a table's entries as signed 32-bit integers, little-endian, row after row, in hexadecimal."""
    return hashlib.sha256(np.ascontiguousarray(table, "<i4").tobytes()).hexdigest()


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


def exp2_table(index_bits: int, value_bits: int) -> npt.NDArray[np.int32]:
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


def log2_table(index_bits: int, value_bits: int) -> npt.NDArray[np.int32]:
    """round(2**value_bits * log2(1 + i / 2**index_bits)) for i in [0, 2**index_bits).

    Bits of a logarithm come out one by one: squaring doubles it, and what reaches 2 is halved and gives a 1.

    Returns:
        (2**index_bits,) int32, rising from 0.
    """
    out = []
    for i in range(1 << index_bits):
        value, logarithm = _ONE + (i << (GUARD - index_bits)), 0
        for _ in range(GUARD // 2):
            value = value * value >> GUARD
            logarithm <<= 1
            if value >= 2 * _ONE:
                value >>= 1
                logarithm += 1
        out.append(_round(logarithm << (GUARD - GUARD // 2), value_bits))
    return np.array(out, dtype=np.int32)


def sigmoid_table(step_bits: int, half: int, value_bits: int) -> npt.NDArray[np.int32]:
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


def rotary_table(base: float, head_dim: int, positions: int, bits: int) -> npt.NDArray[np.int32]:
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
